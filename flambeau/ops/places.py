"""Elements named by row-major numbers, masks or a tuple of index tensors: taken, put and added.

All of it comes down to reads and writes of the flat tensor at a vector of row-major numbers: `index_select`
and `flat_put`. Masks become numbers first: how many there are is known only then.
"""

from flambeau.base.errors import fail
from flambeau.ops.chosen import as_mask, true_places
from flambeau.ops.create import full, iota
from flambeau.ops.elementwise import cast
from flambeau.ops.index import check_index, gather, index_select
from flambeau.ops.join import cat
from flambeau.ops.kinds import broadcast
from flambeau.ops.out import with_out
from flambeau.ops.scatter import as_numbers, front, same_dtype, scatter_rows
from flambeau.ops.spec import FUNCTIONS, QUICK, public
from flambeau.ops.view import clone, expand, narrow, reshape
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import bool_, int32, int64
from flambeau.types.shape import normalize_axis, numel


# ---------------------------------------------------------------------------------- elements by number
def flat_put(input, places, source, mode="set"):
    """A copy of input with the flat elements `places` combined with a flat source."""
    if input.numel() == 0:
        return clone(input)
    flat = reshape(input, (-1,))
    put = as_numbers(lambda t, s: scatter_rows(t, 0, places, s, mode))(flat, source)
    return reshape(put, tuple(input.shape))


@public()
def take(input, index):
    """The elements with the row-major numbers `index`, in its shape."""
    if index.dtype is not int64:
        fail("take", "take(): Expected a long tensor for index, but got", index.dtype)
    if input.numel() == 0 and index.numel():
        fail("take", "take(): tried to take from an empty tensor", kind=IndexError)
    if input.numel() == 0:
        return reshape(input, tuple(index.shape)) if index.numel() == 0 else input
    return reshape(index_select(reshape(input, (-1,)), 0, reshape(index, (-1,))), tuple(index.shape))


@public(inplace=True)
def put(input, index, source, accumulate=False):
    """A copy of input with source's elements at the row-major numbers `index`, added where `accumulate`."""
    if index.dtype is not int64:
        fail("put", "put_(): Expected a long tensor for index, but got", index.dtype)
    same_dtype("put", input, source)
    if index.numel() != source.numel():
        fail("put", "put_(): Expected source and index to have the same number of elements",
             (source.numel(), index.numel()))
    if input.numel() == 0 and index.numel():
        fail("put", "put_(): Expected self to be non-empty when index is not", kind=IndexError)
    count = (index.numel(),)
    places = check_index("put", reshape(index, count), input.numel())
    return flat_put(input, places, reshape(source, count), "add" if accumulate else "set")


@public()
def take_along_dim(input, indices, dim=None):
    """input's elements at `indices` along `dim` (other axes broadcast); without `dim` of the flat input."""
    if indices.dtype is not int64 and indices.dtype is not int32:
        fail("take_along_dim", "expected the dtype of indices to be Long but got", indices.dtype)
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    if input.ndim != indices.ndim:
        fail("take_along_dim", "input and indices should have the same number of dimensions",
             (input.ndim, indices.ndim))
    dim = normalize_axis(dim, input.ndim, "take_along_dim")
    common = broadcast("take_along_dim", _with(input.shape, dim, 1), _with(indices.shape, dim, 1))
    return gather(expand(input, _with(common, dim, input.shape[dim])), dim,
                  expand(indices, _with(common, dim, indices.shape[dim])))


def _with(shape, dim, size):
    return (*shape[:dim], size, *shape[dim + 1:])


# ---------------------------------------------------------------------------------- masks
@public()
def masked_select(input, mask):
    """The elements where the mask (broadcast) is true, in one axis."""
    if mask.dtype is not bool_:
        fail("masked_select", "masked_select: expected BoolTensor for mask", mask.dtype)
    shape = broadcast("masked_select", tuple(input.shape), tuple(mask.shape))
    places = true_places(expand(mask, shape))
    if numel(shape) == 0:
        return reshape(input, (-1,)) if input.numel() else reshape(input, (0,))
    return index_select(reshape(expand(input, shape), (-1,)), 0, places)


@public(inplace=True)
def masked_scatter(input, mask, source):
    """A copy of input with the first elements of the source where the mask is true."""
    if mask.dtype is not bool_:
        fail("masked_scatter", "masked_scatter_ only supports boolean masks, but got mask with dtype",
             mask.dtype)
    same_dtype("masked_scatter", input, source)
    shape = broadcast("masked_scatter", tuple(input.shape), tuple(mask.shape))
    places = true_places(expand(mask, shape))
    if places.numel() > source.numel():
        fail("masked_scatter",
             "masked_scatter: expected self and source to have same number of elements in total, "
             "the source has too few", source.numel(), f"at least {places.numel()}")
    source = reshape(source, (source.numel(),))
    return flat_put(expand(input, shape), places, front(source, places.shape))


# ---------------------------------------------------------------------------------- index_put, where
def flat_places(name, shape, indices):
    """(row-major numbers of the elements that a tuple of index tensors names, shape of what they name).

    None stands for a whole axis; a bool tensor for the index tensors of its true elements.
    """
    items = []
    for index in indices:
        if index is not None and index.dtype is bool_:
            for a, size in enumerate(index.shape):
                if len(items) + a >= len(shape) or shape[len(items) + a] != size:
                    fail(name, f"the shape of the mask {list(index.shape)} does not match the shape of the "
                         f"indexed tensor {list(shape)}", kind=IndexError)
            items.extend(_coordinates(true_places(index), index.shape))
        else:
            items.append(index)
    if len(items) > len(shape):
        fail(name, f"too many indices for tensor of dimension {len(shape)}", len(items), kind=IndexError)
    items += [None] * (len(shape) - len(items))
    given = [a for a, i in enumerate(items) if i is not None]
    common = broadcast(name, *(tuple(items[a].shape) for a in given))
    together = given == list(range(given[0], given[-1] + 1)) if given else True
    free = [a for a in range(len(shape)) if a not in given]
    at = given[0] if given and together else 0
    full_shape = (*(shape[a] for a in free[:at]), *common, *(shape[a] for a in free[at:]))
    places, step = None, 1
    for axis in reversed(range(len(shape))):
        if axis in given:
            term = check_index(name, cast(items[axis], int64), shape[axis])
            term = reshape(term, (*term.shape, *(1,) * (len(free) - at)))
        else:
            place = free.index(axis)
            place = place if place < at else place + len(common)
            term = iota(tuple(shape[axis] if a == place else 1 for a in range(len(full_shape))), place)
        places = term * step if places is None else places + term * step
        step = step * shape[axis]
    return expand(places, full_shape), full_shape


def _coordinates(places, shape):
    """Row-major numbers as one index tensor an axis."""
    found = []
    for size in reversed(shape):
        found.insert(0, places % size)
        places = places // size
    return found


@public(inplace=True)
def index_put(input, indices, values, accumulate=False):
    """A copy of input with `values` (broadcast) at the places that a tuple of index tensors names.

    With `accumulate` values are added, also where a place is named twice.
    """
    same_dtype("index_put", input, values)
    if input.numel() == 0:
        return clone(input)
    places, shape = flat_places("index_put", tuple(input.shape), tuple(indices))
    source = reshape(expand(values, shape), (-1,))
    return flat_put(input, reshape(places, (-1,)), source, "add" if accumulate else "set")


def _put_natively(self, indices=None, values=None, *rest, **named):
    """index_put_ of few elements, without a record; False where that is not it."""
    if rest or named or not isinstance(values, Tensor) or not isinstance(indices, (tuple, list)):
        return False
    return _core.put_indexed(self, tuple(indices), values)


QUICK["index_put_"] = _put_natively


@public()
def argwhere(input):
    """The places of the non-zero elements: (count, rank)."""
    return true_places(as_mask(input), coordinates=True)


@public()
def nonzero_static(input, *, size, fill_value=-1):
    """The places of the first `size` non-zero elements, padded with `fill_value`: (size, rank)."""
    if size < 0:
        fail("nonzero_static", "nonzero_static: 'size' must be an non-negative integer", size)
    found = argwhere(input)
    if found.shape[0] >= size:
        return clone(narrow(found, 0, 0, size))
    return cat((found, full((size - found.shape[0], input.ndim), fill_value, int64)))


@public(method=False)
def unravel_index(indices, shape):
    """Row-major numbers as a tuple of index tensors for a tensor of this shape."""
    if indices.dtype.kind not in "iu":
        fail("unravel_index", "expected 'indices' to be integer dtype, but got", indices.dtype,
             kind=ValueError)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return tuple(_coordinates(cast(indices, int64), shape))


for _name in ("take", "take_along_dim", "masked_select", "masked_scatter", "argwhere", "nonzero_static",
              "index_put"):
    FUNCTIONS[_name] = with_out(FUNCTIONS[_name])
