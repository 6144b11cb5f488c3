"""How ops run on nested tensors.

On a jagged tensor an op that leaves the batch axis and the ragged axis alone runs once on the packed values, its other
axes counted one lower; a reduction over the ragged axis adds by item. Everything else runs item by item, and the results
are put together again: nested where their sizes differ or must, else stacked.
"""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.spec import bind
from flambeau.runtime._core import Tensor
from flambeau.tensor.constants import tensor, zeros
from flambeau.tensor.nested_values import JaggedTensor, NestedBase, NestedTensor, Raggedness
from flambeau.types.dim import Dim

AXES = ("dim", "dims", "dim0", "dim1", "dim2", "dimension")


def process(operation, values):
    """Run a call in which nested tensors take part."""
    nested = _among(values)
    if len({len(t) for t in nested}) > 1:
        fail(operation.name, "nested tensors with different numbers of items", [len(t) for t in nested])
    values = _replaced(values, lambda t: t.packed() if isinstance(t, JaggedTensor) else t, NestedBase)
    nested = _among(values)
    if all(isinstance(t, JaggedTensor) and t.axis == nested[0].axis and t.ragged is nested[0].ragged for t in nested):
        rule = RULES.get(operation.name) or KINDS.get(operation.kind, along_axes)
        result = rule(operation, values, nested[0])
        if result is not NotImplemented:
            return result
    return item_by_item(operation, values, nested[0])


def _among(values):
    found = []
    for value in values.values():
        found.extend(v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, NestedBase))
    return found


def _replaced(values, change, kind=Tensor):
    """The arguments with every tensor of `kind` changed, in tuples too."""
    def new(value):
        if isinstance(value, tuple) and value and isinstance(value[0], Tensor):
            return tuple(new(v) for v in value)
        return change(value) if isinstance(value, kind) else value
    return {name: new(value) for name, value in values.items()}


# ---------------------------------------------------------------------------------- on packed values
def elementwise(operation, values, like):
    rank = like.ndim
    changed = {}
    for name, value in values.items():
        if isinstance(value, JaggedTensor):
            if value.ndim != rank:
                return NotImplemented
            value = value.inner
        elif isinstance(value, Tensor):
            value = _beside(value, like, rank)
            if value is None:
                return NotImplemented
        changed[name] = value
    return like._like(bind(operation, (), changed))


def _beside(dense, like, rank):
    """A dense operand as it broadcasts against the packed values; None if it does not."""
    if dense.ndim < rank - like.axis + 1 or dense.ndim == 0:
        return dense                                    # only axes behind the ragged one
    lead = rank - dense.ndim                            # nested axes that it does not have
    if dense.shape[like.axis - lead] != 1:
        return None
    if lead > 0 or dense.shape[0] == 1:
        return dense if lead else ops.squeeze(dense, 0)
    rows = ops.index_select(dense, 0, like.ragged.item_of_each())       # (total, ..., 1, ...): each place its item's
    return _moved(ops.squeeze(rows, like.axis), like.axis - 1)


def _moved(rows, axis):
    """Axis 0 to the place `axis`."""
    order = list(range(1, rows.ndim))
    order.insert(axis, 0)
    return rows if axis == 0 else ops.permute(rows, tuple(order))


def _axes_of(values):
    """The axes that the arguments name, or None if they mean all."""
    found = []
    for name in AXES:
        if name in values:
            value = values[name]
            if value is None:
                return None
            found.extend(value if isinstance(value, tuple) else (value,))
    return found


def along_axes(operation, values, like):
    """Ops over axes of one tensor: the same axes of the packed values."""
    if any(isinstance(v, tuple) and v and isinstance(v[0], Tensor) for v in values.values()):
        return NotImplemented
    dense = [v for v in values.values() if isinstance(v, Tensor) and not isinstance(v, JaggedTensor)]
    if dense or not any(name in values for name in AXES):
        return NotImplemented
    axes = _axes_of(values)
    if axes is None or any(a % like.ndim in (0, like.axis) for a in axes):
        return NotImplemented
    lowered = _replaced(_shifted(values, like.ndim), lambda t: t.inner)
    return _wrapped(bind(operation, (), lowered), like)


def _shifted(values, rank):
    def lower(value):
        return tuple(map(lower, value)) if isinstance(value, tuple) else value if value is None else value % rank - 1
    return {name: lower(value) if name in AXES else value for name, value in values.items()}


def _wrapped(result, like):
    """Results of the packed values as jagged tensors; the ragged axis moves with the axes that went."""
    if isinstance(result, tuple):
        return type(result)(*[_wrapped(r, like) for r in result]) if hasattr(result, "_fields") \
            else tuple(_wrapped(r, like) for r in result)
    total = like.inner.shape[like.axis - 1]
    if result.ndim >= like.axis and result.shape[like.axis - 1] == total:
        return like._like(result)
    return NotImplemented


def reduction(operation, values, like):
    axes = _axes_of(values)
    if axes is None and operation.name in ("sum", "amax", "amin", "any", "all", "mean", "prod"):
        return bind(operation, (), {**values, "input": like.inner})
    axes = sorted({a % like.ndim for a in axes or range(like.ndim)})
    if axes == [0, like.axis] or axes == list(range(like.ndim)):
        dims = tuple(a - 1 for a in axes if a)
        result = bind(operation, (), {**values, "input": like.inner, "dim": dims})
        return result.unsqueeze(0) if values.get("keepdim") else result
    if like.axis in axes and 0 not in axes and operation.name in ("sum", "mean"):
        return _by_item(operation, values, like, axes)
    if 0 in axes or like.axis in axes:
        return NotImplemented
    dims = tuple(a - 1 for a in axes)
    made = bind(operation, (), {**values, "input": like.inner, "dim": dims})
    gone = 0 if values.get("keepdim") else sum(a < like.axis for a in axes)
    return like._like(made, like.axis - gone)


def _by_item(operation, values, like, axes):
    """Sums or means over the ragged axis (and others): (batch, ...)."""
    rest = [a for a in axes if a != like.axis]
    kept = bind(operation, (), {**values, "input": like.inner, "dim": tuple(a - 1 for a in rest), "keepdim": True}) \
        if rest else like.inner
    place = like.axis - 1
    total = ops.index_sum(kept, place, like.ragged.item_of_each(), len(like.ragged.sizes))
    if operation.name == "mean":
        shape = tuple(-1 if a == place else 1 for a in range(total.ndim))
        total = total / tensor(like.ragged.sizes, dtype=total.dtype).reshape(shape)
    total = ops.unsqueeze(_to_front(total, place), like.axis)
    return total if values.get("keepdim") else ops.squeeze(total, tuple(axes))


def _to_front(rows, axis):
    order = [axis, *[a for a in range(rows.ndim) if a != axis]]
    return rows if axis == 0 else ops.permute(rows, tuple(order))


# ---------------------------------------------------------------------------------- views
def reshape(operation, values, like):
    shape = tuple(values["shape"])
    places = [i for i, size in enumerate(shape) if isinstance(size, Dim)]
    if len(places) != 1 or shape[places[0]] != like.ragged.size or not places[0] or shape[0] != like.shape[0]:
        return NotImplemented
    at = places[0]
    before = [s for s in like.shape[1:like.axis]]
    if _product(before) != _product(shape[1:at]):
        fail(operation.name, "elements cannot move across the ragged axis", shape, tuple(like.shape))
    inner = ops.reshape(like.inner, (*shape[1:at], like.inner.shape[like.axis - 1], *shape[at + 1:]))
    return like._like(inner, at)


def _product(sizes):
    total = 1
    for size in sizes:
        total *= size
    return total


def permute(operation, values, like):
    order = list(range(like.ndim))
    if operation.name == "transpose":
        a, b = values["dim0"] % like.ndim, values["dim1"] % like.ndim
        order[a], order[b] = order[b], order[a]
    else:
        order = [d % like.ndim for d in values["dims"]]
    if order[0] != 0:
        fail(operation.name, "the batch axis of a nested tensor stays in front", order)
    return like._like(ops.permute(like.inner, tuple(d - 1 for d in order[1:])), order.index(like.axis))


def unsqueeze(operation, values, like):
    dim = values["dim"] % (like.ndim + 1)
    if dim == 0:
        return NotImplemented
    return like._like(ops.unsqueeze(like.inner, dim - 1), like.axis + (dim <= like.axis))


def squeeze(operation, values, like):
    dim = values["dim"]
    dims = range(1, like.ndim) if dim is None else [d % like.ndim for d in (dim if isinstance(dim, tuple) else (dim,))]
    dims = [d for d in dims if like.shape[d] == 1]
    if not dims:
        return like
    return like._like(ops.squeeze(like.inner, tuple(d - 1 for d in dims)), like.axis - sum(d < like.axis for d in dims))


def window(operation, values, like):
    """x[...]: an item, or a window that leaves the batch and the ragged axis whole."""
    index = list(values["index"])
    if index and isinstance(index[0], int):
        return _inside(operation, like.unbind()[index[0]], index[1:])
    if not index or index[0] is None or not _whole(index[0], like.shape[0]):
        return NotImplemented
    axis, moved = 1, like.axis
    for item in index[1:]:
        if item is None:
            moved += axis <= like.axis
            continue
        if axis == like.axis and not _whole(item, like.shape[axis]):
            return NotImplemented
        moved -= isinstance(item, int) and axis < like.axis
        axis += 1
    inner = [("slice", 0, like.inner.shape[like.axis - 1], 1) if isinstance(i, tuple) and i[2] == like.ragged.size
             else i for i in index[1:]]
    return like._like(bind(operation, (), {"input": like.inner, "index": tuple(inner)}) if inner else like.inner, moved)


def _whole(item, size):
    return isinstance(item, tuple) and item[1] == 0 and item[2] == size and item[3] == 1


# ---------------------------------------------------------------------------------- products, joins
def linear(operation, values, like):
    if values["input"] is not like or like.axis == like.ndim - 1 or _among({"w": values["weight"]}):
        return NotImplemented
    return like._like(bind(operation, (), {**values, "input": like.inner}))


def matmul(operation, values, like):
    other = values["other"]
    if values["input"] is not like or isinstance(other, NestedBase) or other.ndim > 2 or like.axis == like.ndim - 1:
        return NotImplemented
    result = bind(operation, (), {"input": like.inner, "other": other})
    return like._like(result)


def cat(operation, values, like):
    tensors, dim = values["tensors"], values["dim"] % like.ndim
    if dim in (0, like.axis) or not all(isinstance(t, JaggedTensor) for t in tensors):
        return NotImplemented
    return like._like(ops.cat(tuple(t.inner for t in tensors), dim - 1))


def composite(operation, values, like):
    """A composite without axes of its own goes through its parts; layer_norm over the last axes runs as it is."""
    if "normalized_shape" in values:
        count = len(values["normalized_shape"])
        if like.axis >= like.ndim - count:
            return NotImplemented
        return _wrapped(bind(operation, (), _replaced(values, lambda t: t.inner, JaggedTensor)), like)
    if getattr(operation, "draws", False) or operation.name.endswith("_with_key"):
        return _wrapped(bind(operation, (), _replaced(values, lambda t: t.inner, JaggedTensor)), like)
    return along_axes(operation, values, like)


# ---------------------------------------------------------------------------------- item by item
def item_by_item(operation, values, like):
    """The op on each item, axes counted one lower."""
    if operation.name == "cat" and values["dim"] % like.ndim == 0:
        items = [item for t in values["tensors"] for item in t.unbind()]
        return _together(items, like, force=True)
    if operation.name in ("reshape", "view"):
        return _reshaped(operation, values["shape"], like)
    rank = like.ndim + (operation.name == "unsqueeze")
    axes = _axes_of(values)
    if axes is None:
        if operation.kind == "reduction" and operation.name in ("sum", "amax", "amin", "any", "all", "mean", "prod"):
            return bind(operation, (), {**values, "input": _elements(like)})
        axes = []
    if any(a % rank == 0 for a in axes) or "shape" in values or "size" in values:
        fail(operation.name, "not available for nested tensors along the batch axis",
             hint="call .to_padded_tensor(0) or .unbind() first", kind=NotImplementedError)
    if operation.name == "slice_":
        return _sliced(operation, values, like)
    lowered = _shifted(values, rank) if axes else values
    count = len(like)

    def item_of(b):
        def change(t):
            if isinstance(t, NestedBase):
                return t.unbind()[b]
            return t[b if t.shape[0] == count else 0] if t.ndim == like.ndim and t.shape[0] in (count, 1) else t
        return change
    results = [bind(operation, (), _replaced(lowered, item_of(b))) for b in range(count)]
    if results and isinstance(results[0], tuple):
        whole = [_together([r[i] for r in results], like) for i in range(len(results[0]))]
        return type(results[0])(*whole) if hasattr(results[0], "_fields") else tuple(whole)
    return _together(results, like)


def _reshaped(operation, shape, like):
    """Each item in the given shape without its first size; symbols stand for the item's own sizes."""
    if not shape or shape[0] != len(like):
        fail(operation.name, "the batch axis of a nested tensor stays in front", tuple(shape), tuple(like.shape))
    own = list(like.shape)

    def sizes_of(item):
        return tuple(item.shape[own.index(s) - 1] if s in own and isinstance(s, Dim) else -1 if isinstance(s, Dim) else s
                     for s in shape[1:])
    return _together([ops.reshape(item, sizes_of(item)) for item in like.unbind()], like, force=True)


def item_wise(function, *nested):
    """function(items...) for the items of nested tensors, put together again."""
    results = [function(*items) for items in zip(*[t.unbind() for t in nested])]
    return _together(results, nested[0], force=True)


def _elements(nested):
    """The elements of all items in one plain tensor."""
    return nested.packed().inner if isinstance(nested, JaggedTensor) else nested.inner


def _sliced(operation, values, like):
    index = values["index"]
    if isinstance(index[0], int):
        return _inside(operation, like.unbind()[index[0]], index[1:])
    if index[0] is None:
        fail("index", "a nested tensor cannot get an axis in front of its batch axis")
    chosen = list(like.unbind())[slice(*index[0][1:])]
    return _together([_inside(operation, item, index[1:]) for item in chosen], like, force=True)


def _inside(operation, item, index):
    """item[index]; a slice to the end of a ragged axis goes to the item's own end."""
    axis, own = 0, []
    for i in index:
        if isinstance(i, tuple):
            own.append(("slice", i[1], i[2] if isinstance(i[2], int) else item.shape[axis], i[3]))
        else:
            own.append(i)
        axis += i is not None
    return bind(operation, (), {"input": item, "index": tuple(own)}) if own else item


def _together(results, like, force=False):
    """Results of the items as one tensor. Of a jagged tensor: stacked if no axis is ragged any more, jagged if one is, nested
    if more are; of a nested one: nested."""
    if isinstance(like, NestedTensor):
        return nested_of(results)
    if len({tuple(r.shape) for r in results}) == 1 and not force and any(
            r.ndim != like.ndim - 1 or r.shape[like.axis - 1] != n for r, n in zip(results, like.ragged.sizes)):
        return ops.stack(results)
    differ = [len(set(sizes)) > 1 for sizes in zip(*[tuple(r.shape) for r in results])]
    return nested_of(results) if sum(differ) > 1 else jagged_of(results, like)


def nested_of(items):
    """Items of any sizes, each with its history, as a NestedTensor."""
    if not items:
        return NestedTensor.of(zeros(0), ())
    return NestedTensor.of(ops.cat([ops.reshape(item, (-1,)) for item in items], 0), [tuple(i.shape) for i in items])


def jagged_of(items, like=None):
    """Items that differ along one axis at most as a JaggedTensor; of equal ones the first axis (or like's) is ragged."""
    shapes = [tuple(item.shape) for item in items]
    ranks = {len(s) for s in shapes}
    differ = [a for a, sizes in enumerate(zip(*shapes)) if len(set(sizes)) > 1] if len(ranks) == 1 else [0, 0]
    if len(differ) > 1 or ranks == {0}:
        fail("nested_tensor", "Cannot represent given tensor list as a nested tensor with the jagged layout: it has one "
             "ragged dimension only", shapes, hint="use layout=torch.strided")
    axis = differ[0] if differ else 0
    sizes = [s[axis] for s in shapes]
    if not differ and like is not None and like.axis <= len(shapes[0]):
        axis = like.axis - 1
        sizes = [s[axis] for s in shapes]
    ragged = like.ragged if like is not None and sizes == like.ragged.sizes and like.ragged.lengths is None \
        else Raggedness.of_sizes(sizes)
    return JaggedTensor.on(ops.cat(items, axis), ragged, axis + 1)


RULES = {"reshape": reshape, "view": reshape, "permute": permute, "transpose": permute, "unsqueeze": unsqueeze,
         "squeeze": squeeze, "slice_": window, "linear": linear, "matmul": matmul, "cat": cat}
KINDS = {"elementwise": elementwise, "reduction": reduction, "composite": composite}
