"""Indexing beyond ints and slices, and assignment to an index."""

import warnings

from flambeau.base.errors import fail
from flambeau.ops import overrides, plans
from flambeau.ops.chosen import as_mask, true_places
from flambeau.ops.elementwise import cast, full_like, where
from flambeau.ops.held import check_held
from flambeau.ops.index import _places, _rows, check_index, index_select
from flambeau.ops.shape import select
from flambeau.ops.spec import REGISTRY, Op, write_out
from flambeau.ops.view import expand, reshape, slice_
from flambeau.ops.wrapped import is_wrapped
from flambeau.ops.write import assign, check_write, write
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import bool_, int64, uint8
from flambeau.types.shape import broadcast_shapes


WHOLE = slice(None)


def normal_index(x, index):
    """Basic indices as the attribute of the op `slice_`: ints from 0, slices with all numbers, no Ellipsis."""
    index = index if isinstance(index, tuple) else (index,)
    plain = sum(1 for i in index if i is not None and i is not Ellipsis)
    found, axis = [], 0
    for i in index:
        if i is Ellipsis:
            behind = plain - sum(1 for j in found if j is not None)
            while axis < x.ndim - behind:
                found.append(("slice", 0, x.shape[axis], 1))
                axis += 1
            continue
        if i is None:
            found.append(None)
            continue
        size = x.shape[axis]
        if isinstance(i, slice) and i == slice(None):
            found.append(("slice", 0, size, 1))             # also of a symbolic size
        elif isinstance(i, slice):
            start, stop, step = i.indices(size)
            found.append(("slice", start, max(start, stop), step))
        else:
            found.append(i + size if i < 0 else i)
        axis += 1
    return tuple(found)


def record_index(x, out, index):
    """Put a view that the native path made on the tape."""
    plans.record_python(REGISTRY["slice_"], (x,), out, {"index": normal_index(x, index)})


def basic_view(x, items):
    """x[items] for ints, slices, None and Ellipsis, whatever x is: a subclass, a meta tensor."""
    out = _core.view_of(x, *_core.basic_view(x, items))
    if x.requires_grad and _core.grad_mode():
        record_index(x, out, items)
    return out


def get_item(x, index):
    """x[index] for what the native path does not take: index tensors, masks, lists, NumPy numbers."""
    claimed = overrides.claim((x, *index) if type(index) is tuple else (x, index), {})
    if claimed is not None:
        return overrides.hand_over(Tensor.__getitem__, claimed, (x, index), {})
    items = [simple_index(i) for i in items_of(index)]
    by_ops = getattr(type(x), "is_traced", False) or is_wrapped(x)
    if by_ops and not any(isinstance(i, Tensor) for i in items):
        return slice_(x, normal_index(x, tuple(items)))
    if not any(isinstance(i, Tensor) for i in items):
        return basic_view(x, tuple(items))
    if len(items) == 1 and items[0].dtype is bool_ and items[0].ndim:
        return _masked(x, items[0])
    items = _expand_masks(x, items)
    if len(items) == 1 and hasattr(type(x), "_facts") and items[0].ndim == 1:
        return index_select(x, 0, items[0])         # sparse or nested: rows by their places
    if by_ops or not 1 <= len(items) <= x.ndim:
        return _advanced(x, items)
    last = items[-1]
    if isinstance(last, Tensor) and last.ndim == 1 and len(items) > 1 and all(i == WHOLE for i in items[:-1]
                                                                         if not isinstance(i, Tensor)) \
            and not any(isinstance(i, Tensor) for i in items[:-1]):
        return index_select(x, len(items) - 1, last)
    single = _single_index(x, items)
    if single is not None:
        view, axis, index = single
        return _rows(view, index) if axis == 0 else index_select(view, axis, index)
    if len(items) == 2 and all(isinstance(i, Tensor) and i.dtype is int64 and i.shape == items[0].shape for i in items):
        return _places(x, *items)
    return _advanced(x, items)


def _single_index(x, items):
    """(what the basic items make of x, its axis, the index) for one tensor of int64 among basic items; else None."""
    found = [(at, i) for at, i in enumerate(items) if isinstance(i, (Tensor, NewAxis))]
    at, index = found[0]
    plain = sum(i is not None and i is not Ellipsis for i in items)
    if len(found) > 1 or not isinstance(index, Tensor) or index.dtype is not int64 or plain > x.ndim \
            or sum(i is Ellipsis for i in items) > 1:
        return None
    axis = sum(x.ndim - plain if i is Ellipsis else not isinstance(i, int) for i in items[:at])
    if axis and index.ndim != 1:
        return None
    others = (*items[:at], WHOLE, *items[at + 1:])
    return x if all(i == WHOLE for i in others) else x[others], axis, index


def items_of(index):
    """The items of an index. A short list that holds more than numbers stands for a tuple, as in PyTorch:
    x[[[0, 1], [2, 0]]] is x[[0, 1], [2, 0]]."""
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < _SHORT and any(
            i is None or i is Ellipsis or isinstance(i, (list, tuple, range, slice, Tensor)) or getattr(i, "ndim", 0)
            for i in index):
        return index
    return (index,)


_SHORT = 32         # longer lists of lists are index tensors


def simple_index(i):
    """An index item as an int, slice, None, Ellipsis or index tensor."""
    if isinstance(i, Tensor):
        if i.ndim == 0 and i.dtype.is_integer and i.dtype is not uint8 and not is_wrapped(i):
            return i.item()
        if i.dtype is uint8:
            warnings.warn("indexing with dtype uint8 is deprecated: use a mask of dtype bool, or int64 for places", stacklevel=4)
        return i
    if isinstance(i, bool) or i is None or i is Ellipsis or isinstance(i, int):
        return _scalar_mask(i) if isinstance(i, bool) else i
    if type(i).__module__ == "numpy" and getattr(i, "dtype", None) == bool and i.ndim == 0:
        return _scalar_mask(bool(i))
    if isinstance(i, slice):
        parts = [p if p is None or isinstance(p, int) else p.__index__() for p in (i.start, i.stop, i.step)]
        return slice(*parts)
    if isinstance(i, (list, tuple, range)) or (type(i).__module__ == "numpy" and getattr(i, "ndim", 0)):
        from flambeau.tensor.create import tensor
        made = tensor(list(i) if isinstance(i, range) else i)
        return made if made.numel() else cast(made, int64)
    if hasattr(i, "__index__"):
        return i.__index__()
    fail("index", "this cannot be an index", type(i).__name__,
         "ints, slices, None, ..., or tensors of ints or bools",
         kind=IndexError)


def _scalar_mask(value):
    from flambeau.tensor.create import tensor
    return tensor(value)


def _masked(x, mask):
    """x[mask] for a mask over the first axes."""
    _check_mask(x, mask, 0)
    if mask.ndim > 1:
        x = reshape(x, (mask.numel(), *x.shape[mask.ndim:]))
    return index_select(x, 0, true_places(as_mask(mask)))


def _check_mask(x, mask, axis):
    for a, size in enumerate(mask.shape):
        if axis + a >= x.ndim or x.shape[axis + a] != size:
            fail("index", f"the shape of the mask {tuple(mask.shape)} at axis {a} does not match the shape "
                 f"of the indexed tensor {tuple(x.shape)} at axis {axis + a}", kind=IndexError)


class NewAxis:
    """A new axis of size 1 or, for a false mask without axes, 0."""

    def __init__(self, kept):
        from flambeau.tensor.create import zeros
        self.index = zeros(int(kept), dtype=int64)


def _expand_masks(x, items):
    """Bool tensors become index tensors, one for each of their axes."""
    found, axis = [], 0
    plain = sum(i.ndim if isinstance(i, Tensor) and i.dtype in (bool_, uint8) else 1
                for i in items if i is not None and i is not Ellipsis)
    for i in items:
        if i is Ellipsis:
            axis += x.ndim - plain
        if isinstance(i, Tensor) and i.dtype in (bool_, uint8) and i.ndim == 0:
            found.append(NewAxis(cast(i, bool_).item()))
            continue
        if isinstance(i, Tensor) and i.dtype in (bool_, uint8):
            _check_mask(x, i, axis)
            found.extend(nonzero(i, as_tuple=True))
            axis += i.ndim
            continue
        found.append(i)
        axis += i is not None and i is not Ellipsis
    return found


def nonzero(input, *, as_tuple=False, out=None):
    """The places of non-zero elements: (count, rank), or a tuple of one index tensor an axis."""
    mask = as_mask(input.detach())
    if as_tuple:
        places = true_places(mask if mask.ndim else reshape(mask, (1,)), coordinates=True)
        return tuple(select(places, 1, axis) for axis in range(places.shape[1]))
    found = true_places(mask, coordinates=True)
    return found if out is None else write_out(REGISTRY["copy"], out, found)


def raw(t):
    """A NumPy array on the memory of a tensor; bfloat16 as its bits, uint16."""
    import numpy

    from flambeau.tensor.methods import Exposed
    return numpy.asarray(Exposed(t)) if t.numel() else numpy.empty(tuple(t.shape), t.dtype.numpy)


def _advanced(x, items):
    """Mixed indices: basic ones first, then all index tensors as one read of flattened axes."""
    x, tensors, where = _apply_basic(x, items)
    shape = broadcast_shapes(*(tuple(t.shape) for t in tensors), op="index")
    sizes = [x.shape[a] for a in where]
    front = [a for a in range(x.ndim) if a not in where]
    consecutive = where == list(range(where[0], where[0] + len(where)))
    from flambeau.ops.view import permute
    moved = permute(x, tuple(where + front))
    rest = tuple(moved.shape[len(where):])
    flat = reshape(moved, (-1 if moved.numel() else _product(sizes), *rest))
    linear = None
    for t, size in zip(tensors, sizes):
        t = expand(check_index("index", cast(t, int64), size), shape)
        linear = t if linear is None else linear * size + t
    picked = index_select(flat, 0, reshape(linear, (-1,)))
    picked = reshape(picked, (*shape, *rest))
    if not consecutive or where[0] == 0:
        return picked
    order = [len(shape) + i for i in range(where[0])] + list(range(len(shape)))
    order += [len(shape) + i for i in range(where[0], len(rest))]
    return permute(picked, tuple(order))


def _product(sizes):
    total = 1
    for s in sizes:
        total *= s
    return total


def _apply_basic(x, items):
    """(x after ints, slices and None; the index tensors; the axes they index)."""
    plain = sum(1 for i in items if i is not None and i is not Ellipsis and not isinstance(i, NewAxis))
    if plain > x.ndim:
        fail("index", f"too many indices for tensor of dimension {x.ndim}", plain, kind=IndexError)
    if not any(i is Ellipsis for i in items):
        items = [*items, Ellipsis]
    basic, tensors, where, axis = [], [], [], 0
    for i in items:
        if i is Ellipsis:
            basic.extend([slice(None)] * (x.ndim - plain))
            axis += x.ndim - plain
        elif isinstance(i, NewAxis):
            basic.append(None)
            tensors.append(i.index)
            where.append(axis)
            axis += 1
        elif isinstance(i, Tensor):
            basic.append(slice(None))
            tensors.append(i)
            where.append(axis)
            axis += 1
        else:
            basic.append(i)
            axis += not isinstance(i, int)
    return x[tuple(basic)], tensors, where


def set_item(x, index, value):
    """x[index] = value, on the tape where x or the value is."""
    claimed = overrides.claim((x, index, value), {})
    if claimed is not None:
        return overrides.hand_over(Tensor.__setitem__, claimed, (x, index, value), {})
    items = [simple_index(i) for i in items_of(index)]
    check_write("setitem", x)
    source = _as_source(x, value)
    recorded = _core.grad_mode() and (x.requires_grad or getattr(source, "requires_grad", False))
    recorded = recorded or is_wrapped(x) or is_wrapped(source)
    if not any(isinstance(i, Tensor) for i in items):
        window = x[tuple(items)] if recorded else x.detach()[tuple(items)]
        source = _fitted(source, tuple(window.shape))
        if recorded:
            source = source if isinstance(source, Tensor) else full_like(window.detach(), source)
            assign(REGISTRY["copy"], window, expand(source, tuple(window.shape)))
        else:
            write(window, source)
    elif len(items) == 1 and items[0].dtype is bool_ and tuple(items[0].shape) == tuple(x.shape) \
            and (not isinstance(source, Tensor) or source.ndim == 0):
        if not isinstance(source, Tensor) and x.dtype.kind not in "fc":
            source = bool(source) if x.dtype is bool_ else int(source)
        result = where(items[0], source, x)
        assign(REGISTRY["copy"], x, result)
    elif recorded:
        put_recorded(x, items, source)
    else:
        write_elements(x, items, source)


def put_recorded(x, items, source):
    """An advanced assignment as an op: which elements of x are replaced, by which of the source."""
    from flambeau.tensor.create import arange
    places = arange(x.numel()).reshape(tuple(x.shape))[tuple(items)]
    source = _fitted(source, tuple(places.shape))
    source = source if isinstance(source, Tensor) else full_like(_core.empty_strided((), None, x.dtype),
                                                                 source)
    source = expand(source, tuple(places.shape))
    if is_wrapped(x) or is_wrapped(source) or is_wrapped(places):
        flat = [reshape(t, (-1,)) for t in (x, places, source)]
        put = REGISTRY["_scatter_elements"].function(flat[0], 0, flat[1], flat[2], "set")
        assign(REGISTRY["copy"], x, reshape(put, tuple(x.shape)))
    else:
        assign(REGISTRY["copy"], x, put_elements(x, source, places))


def write_elements(x, items, source):
    """x[items] = source through NumPy."""
    source = _fitted(source, None)
    if not isinstance(source, Tensor):
        source = full_like(_core.empty_strided((), None, x.dtype), source)
    if all(isinstance(i, (Tensor, slice)) for i in items):
        window, places = x.detach(), tuple(raw(_numbers(i)) if isinstance(i, Tensor) else i for i in items)
    else:           # ints come first: NumPy would count them among the index arrays
        window, tensors, where = _apply_basic(x.detach(), _expand_masks(x, items))
        tensors = dict(zip(where, tensors))
        places = tuple(raw(tensors[a]) if a in tensors else slice(None) for a in range(window.ndim))
    raw(window)[places] = raw(source.detach())
    x._bump_version()


def _numbers(index):
    """uint8 index tensors are masks."""
    return cast(index, bool_) if index.dtype is uint8 else index


class PutElements(Op):
    """A tensor with the elements at `places` (row-major numbers) replaced: a recorded advanced assignment."""

    name = "index_put"
    signature = "input, source"
    operands = ("input", "source")
    derivative_in_python = True

    @staticmethod
    def derivative(grad, x, source, *, places):
        zeros = full_like(_core.empty_strided(tuple(places.shape), None, grad.dtype), 0)
        taken = index_select(reshape(grad, (-1,)), 0, reshape(places, (-1,)))
        return put_elements(grad, zeros, places), reshape(taken, tuple(places.shape))


INDEX_PUT = PutElements()


def put_elements(x, source, places):
    """A row-major copy of x with source's elements at `places`, which has the shape of source."""
    out = _core.empty_strided(tuple(x.shape), None, x.dtype)
    write(out, x.detach())
    raw(out).reshape(-1)[raw(places)] = raw(source.detach())
    out._reset_version()
    if _core.grad_mode() and (x.requires_grad or source.requires_grad):
        plans.record_python(INDEX_PUT, (x, source), out, {"places": places})
    return out


def _as_source(x, value):
    """A number, or a tensor in the dtype of x."""
    if isinstance(value, Tensor):
        return cast(value, x.dtype) if value.dtype is not x.dtype else value
    if isinstance(value, (bool, int, float, complex)):
        return check_held("setitem", value, x.dtype, halves=False)
    from flambeau.tensor.create import tensor
    return tensor(value, dtype=x.dtype)


def _fitted(source, shape):
    """A tensor without leading axes of size 1 beyond the rank of `shape` (None: without any)."""
    if not isinstance(source, Tensor):
        return source
    while source.ndim > (0 if shape is None else len(shape)) and source.shape[0] == 1:
        source = reshape(source, tuple(source.shape[1:]))
    return source


def _name_index_ops():
    basic = REGISTRY["slice_"]
    basic.native.view_rule = plans.python_rule(basic, 1)
    _core.set_index_ops(basic.native, REGISTRY["_rows"].native, REGISTRY["_places"].native,
                        REGISTRY["index_select"].native)


_name_index_ops()
_core.set_hook("get_item", get_item)
_core.set_hook("set_item", set_item)
