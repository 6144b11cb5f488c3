"""Indexing beyond ints and slices, and assignment to an index."""

from flambeau.base.errors import fail
from flambeau.ops import plans
from flambeau.ops.elementwise import cast
from flambeau.ops.index import check_index, index_select
from flambeau.ops.spec import REGISTRY
from flambeau.ops.view import expand, reshape, slice_
from flambeau.ops.write import check_write, write
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import bool_, int64, uint8
from flambeau.types.shape import broadcast_shapes


def normal_index(x, index):
    """Basic indices as the attribute of the op `slice_`: ints counted from 0, slices with all numbers, no Ellipsis."""
    index = index if isinstance(index, tuple) else (index,)
    plain = sum(1 for i in index if i is not None and i is not Ellipsis)
    found, axis = [], 0
    for i in index:
        if i is Ellipsis:
            while axis < x.ndim - (plain - sum(1 for j in found if j is not None)):
                found.append(("slice", 0, x.shape[axis], 1))
                axis += 1
            continue
        if i is None:
            found.append(None)
            continue
        size = x.shape[axis]
        if isinstance(i, slice):
            start, stop, step = i.indices(size)
            found.append(("slice", start, max(start, stop), step))
        else:
            found.append(i + size if i < 0 else i)
        axis += 1
    return tuple(found)


def record_index(x, out, index):
    """Put a view that the native path made on the tape."""
    plans.record_python(REGISTRY["slice_"], (x,), out, {"index": normal_index(x, index)})


def get_item(x, index):
    """x[index] for what the native path does not take: index tensors, masks, lists, NumPy numbers."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [_simple(i) for i in items]
    if getattr(type(x), "is_traced", False):
        return slice_(x, normal_index(x, tuple(items)))
    if not any(isinstance(i, Tensor) for i in items):
        return x[tuple(items)] if len(items) != 1 else x[items[0]]
    items = _expand_masks(x, items)
    if len(items) == 1 and items[0].ndim == 1 and x.ndim:
        return index_select(x, 0, items[0])
    return _advanced(x, items)


def _simple(i):
    """An index item as an int, slice, None, Ellipsis or index tensor."""
    if isinstance(i, Tensor):
        if i.ndim == 0 and i.dtype.is_integer and i.dtype is not uint8:
            return i.item()
        return i
    if isinstance(i, bool) or i is None or i is Ellipsis or isinstance(i, int):
        return _scalar_mask(i) if isinstance(i, bool) else i
    if isinstance(i, slice):
        parts = [p if p is None or isinstance(p, int) else p.__index__() for p in (i.start, i.stop, i.step)]
        return slice(*parts)
    if isinstance(i, (list, tuple, range)) or (type(i).__module__ == "numpy" and getattr(i, "ndim", 0)):
        from flambeau.tensor.create import tensor
        made = tensor(list(i) if isinstance(i, range) else i)
        return made if made.numel() else cast(made, int64)
    if hasattr(i, "__index__"):
        return i.__index__()
    fail("index", "this cannot be an index", type(i).__name__, "ints, slices, None, ..., or tensors of ints or bools",
         kind=IndexError)


def _scalar_mask(value):
    from flambeau.tensor.create import tensor
    return tensor(value)


def _expand_masks(x, items):
    """Bool tensors become index tensors, one for each of their axes."""
    found, axis = [], 0
    for i in items:
        if isinstance(i, Tensor) and i.dtype in (bool_, uint8):
            for a, size in enumerate(i.shape):
                if axis + a >= x.ndim or x.shape[axis + a] != size:
                    fail("index", f"the shape of the mask {tuple(i.shape)} at axis {a} does not match the shape of the "
                         f"indexed tensor {tuple(x.shape)} at axis {axis + a}", kind=IndexError)
            found.extend(nonzero(i, as_tuple=True))
            axis += i.ndim
            continue
        found.append(i)
        axis += i is not None and i is not Ellipsis
    return found


def nonzero(input, *, as_tuple=False):
    """The places of non-zero elements: (count, rank), or a tuple of one index tensor an axis."""
    import numpy

    from flambeau.tensor.create import from_numpy
    places = numpy.nonzero(input.detach().numpy())
    if as_tuple:
        return tuple(from_numpy(numpy.ascontiguousarray(p)) for p in places)
    return from_numpy(numpy.ascontiguousarray(numpy.stack(places, 1)) if places else numpy.zeros((1, 0), "int64"))


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
    plain = sum(1 for i in items if i is not None and i is not Ellipsis)
    if plain > x.ndim:
        fail("index", f"too many indices for tensor of dimension {x.ndim}", plain, kind=IndexError)
    if not any(i is Ellipsis for i in items):
        items = [*items, Ellipsis]
    basic, tensors, where, axis = [], [], [], 0
    for i in items:
        if i is Ellipsis:
            basic.extend([slice(None)] * (x.ndim - plain))
            axis += x.ndim - plain
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
    """x[index] = value."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [_simple(i) for i in items]
    check_write("setitem", x)
    if _core.grad_mode() and (x.requires_grad or (isinstance(value, Tensor) and value.requires_grad)):
        fail("setitem", "assignment to an index is not recorded on the tape yet",
             hint="use where(), cat() or stack(), or assign under no_grad()", kind=NotImplementedError)
    if not any(isinstance(i, Tensor) for i in items):
        write(x.detach()[tuple(items)], _as_source(x, value))
        return
    if len(items) == 1 and items[0].dtype is bool_ and tuple(items[0].shape) == tuple(x.shape) \
            and (not isinstance(value, Tensor) or value.numel() == 1):
        from flambeau.ops.elementwise import where
        write(x, where(items[0], _as_source(x, value), x.detach()))
        return
    array = x.detach().numpy()
    array[tuple(i.numpy() if isinstance(i, Tensor) else i for i in items)] = \
        value.detach().numpy() if isinstance(value, Tensor) else value
    x._bump_version()


def _as_source(x, value):
    if isinstance(value, Tensor):
        source = value.detach()
        return cast(source, x.dtype) if source.dtype is not x.dtype else source
    if isinstance(value, (bool, int, float)):
        return value
    from flambeau.tensor.create import tensor
    return tensor(value, dtype=x.dtype)


_core.set_hook("record_index", record_index)
_core.set_hook("get_item", get_item)
_core.set_hook("set_item", set_item)
