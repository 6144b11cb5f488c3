"""Copies that rearrange: flipped, rolled, repeated, masked to triangles, joined from several tensors."""

import functools

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops import plans
from flambeau.ops import shape as shapes
from flambeau.ops import view as views
from flambeau.ops.chosen import as_mask, true_places
from flambeau.ops.create import full, iota
from flambeau.ops.elementwise import EVERY, cast, where
from flambeau.ops.index import index_select
from flambeau.ops.join import cat, stack
from flambeau.ops.kinds import Composite, View
from flambeau.ops.out import with_out
from flambeau.ops.reinterpret import detach, view_as_complex, view_as_real
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.shape import atleast_1d, atleast_2d, atleast_3d, only_tensors, ravel, tensor_list
from flambeau.types.device import placed
from flambeau.types.dtype import bool_
from flambeau.ops.spec import FUNCTIONS, INPLACE, REGISTRY, Op, as_int, op, public, write_out
from flambeau.ops.view import clone, expand, permute, reshape, slice_, transpose, unsqueeze
from flambeau.ops.wrapped import is_wrapped
from flambeau.ops.write import number_in_memory, write
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import int32, int64, promote
from flambeau.types.shape import normalize_axes, normalize_axis

numpy = LazyModule("numpy")
LARGE = 1 << 14         # elements from which a copy in several steps of Python costs less than one slower kernel


# ---------------------------------------------------------------------------------- turned and moved
@op
class Reversed(View):
    """A view that runs backwards along `dims`."""

    name = "_reversed"
    signature = "input, dims"
    dtypes = EVERY
    samples = unary_samples()
    shapes = ((3,), (5, 7), (2, 3, 33))
    cases = [{"dims": (0,)}, {"dims": (-1,)}]

    def prepare(self, values):
        return values | {"dims": normalize_axes(values["dims"], values["input"].ndim, "flip")}

    def view(shape, strides, offset, dims):
        for d in dims:
            offset = offset + (shape[d] - 1) * strides[d]
        return shape, tuple(-s if a in dims else s for a, s in enumerate(strides)), offset

    def reference(input, dims):
        return numpy.flip(input, dims)

    def derivative(grad, x, *, dims):
        return reversed_view(grad, dims)


reversed_view = REGISTRY["_reversed"].function


@public()
def flip(input, *args, dims=()):
    """A copy with the elements in reverse order along `dims`: flip(x, 0, 1), flip(x, (0, 1)).

    The copy of a permuted tensor without gaps lies in memory in the order of its source.
    """
    if len(args) == 1 and type(args[0]) is int and 0 <= args[0] < input.ndim:
        dims = args
    else:
        dims = normalize_axes(_sizes(args) or dims, input.ndim, "flip")
    if not dims or not input.numel():
        return clone(input)
    order = _memory_order(input)
    if order is None:
        return clone(reversed_view(input, dims))
    copied = clone(reversed_view(permute(input, order), tuple(order.index(d) for d in dims)))
    return permute(copied, tuple(map(order.index, range(input.ndim))))


def _memory_order(x):
    """The axes of a permuted tensor without gaps, outermost first; None for other tensors."""
    if getattr(type(x), "is_traced", False) or is_wrapped(x) or x.is_contiguous():
        return None
    strides = x.stride()
    order = tuple(sorted(range(x.ndim), key=lambda d: (-strides[d], d)))
    return order if permute(x.detach(), order).is_contiguous() else None


def _sizes(values):
    """f(1, 2) and f((1, 2)) alike; also a 0-d tensor is one number."""
    is_one = len(values) == 1 and not isinstance(values[0], int) and getattr(values[0], "ndim", 1)
    return tuple(values[0]) if is_one else values


@public()
def fliplr(input):
    """A copy with axis 1 reversed."""
    if input.ndim < 2:
        fail("fliplr", "Input must be >= 2-d.", tuple(input.shape))
    return flip(input, 1)


@public()
def flipud(input):
    """A copy with axis 0 reversed."""
    if input.ndim < 1:
        fail("flipud", "Input must be >= 1-d.", tuple(input.shape))
    return flip(input, 0)


@public()
def roll(input, shifts, dims=None):
    """A copy whose elements have moved `shifts` places along `dims` (none: if flat), around the end."""
    shifts, dims = as_int(shifts), as_int(dims)
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not dims:
        if len(shifts) != 1:
            fail("roll", "shifts and dimensions must align", (shifts, dims))
        return reshape(_roll_axis(reshape(input, (input.numel(),)), shifts[0], 0), tuple(input.shape))
    if len(shifts) != len(dims):
        fail("roll", f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    for shift, dim in zip(shifts, dims):
        if not input.ndim:
            fail("roll", "Dimension specified as 0 but tensor has no dimensions", kind=IndexError)
        input = _roll_axis(input, shift, normalize_axis(dim, input.ndim, "roll"))
    return input


def _roll_axis(x, shift, dim):
    size = x.shape[dim]
    shift = shift % size if size else 0
    if not shift:
        return clone(x)
    if _core.takes_native((x,)) and (dim or x.numel() >= LARGE) and x.dtype.kind != "c" and not x.is_shape_only:
        made, before, source = _core.empty_strided(tuple(x.shape), None, x.dtype), (slice(None),) * dim, x.detach()
        write(made[(*before, slice(shift, None))], source[(*before, slice(size - shift))])
        write(made[(*before, slice(shift))], source[(*before, slice(size - shift, None))])
        made._reset_version()
        if x.requires_grad and _core.grad_mode():
            plans.record_python(ROLLED, (x,), made, {"shift": shift, "dim": dim})
        return made
    return cat(tuple(reversed(shapes.parts(x, dim, (size - shift, shift)))), dim)


class Rolled(Op):
    """A roll along one axis, as the tape knows it."""

    name = "roll"
    derivative_in_python = True

    @staticmethod
    def derivative(grad, x, *, shift, dim):
        return _roll_axis(grad, -shift, dim)


ROLLED = Rolled()


@public()
def rot90(input, k=1, dims=(0, 1)):
    """A copy turned by k quarter turns in the plane of two axes, from the first towards the second."""
    dims = tuple(dims)
    if len(dims) != 2:
        fail("rot90", "expected total rotation dims == 2, but got dims", dims)
    if input.ndim < 2:
        fail("rot90", "expected total dims >= 2, but got total dims", input.ndim)
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == input.ndim:
        fail("rot90", "expected rotation dims to be different, but got", dims)
    a, b = (normalize_axis(d, input.ndim, "rot90") for d in dims)
    turns = k % 4
    if turns == 0:
        return clone(input)
    if turns == 2:
        return flip(input, a, b)
    return flip(transpose(input, a, b), a if turns == 1 else b)


# ---------------------------------------------------------------------------------- repeated
@public()
def repeat(input, *args, repeats=()):
    """A copy of input repeated along each axis; more numbers than axes make new leading axes."""
    repeats = tuple(int(r) for r in _sizes(args) or repeats)
    lead = len(repeats) - input.ndim
    if lead < 0:
        fail("repeat",
             "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
             repeats, f"at least {input.ndim}")
    if any(r < 0 for r in repeats):
        fail("repeat", "Trying to create tensor with negative dimension", repeats)
    if _core.writes_directly((input,)) and input.numel() >= LARGE and any(r > 1 for r in repeats):
        apart, size = _apart(input, repeats)
        return reshape(views.contiguous(apart), size)
    return _repeated(input, repeats)            # noqa: F821


def _apart(x, repeats):
    """A view of x that has each axis of the result as two, how often and what; and the shape of the result."""
    sizes = (1,) * (len(repeats) - x.ndim) + tuple(x.shape)
    pairs = reshape(x, tuple(n for size in sizes for n in (1, size)))
    return (expand(pairs, tuple(n for r, size in zip(repeats, sizes) for n in (r, size))),
            tuple(r * size for r, size in zip(repeats, sizes)))


@op
class Repeated(Composite):
    """`repeat` with one number for each axis of the result."""

    name = "_repeated"
    internal = True
    numbers = False
    signature = "input, repeats"
    operands = ("input",)
    dtypes = EVERY
    tolerance = ulps(0)
    samples = unary_samples()
    shapes = ((5,), (3, 33))
    cases = [{"repeats": (2, 3)}, {"repeats": (1, 1, 2)}]

    def compute(input, repeats):
        apart, size = _apart(input, repeats)
        return clone(reshape(apart, size))

    def reference(input, repeats):
        return numpy.tile(input, repeats)


@public()
def tile(input, *args, dims=()):
    """`repeat` with as many leading ones as `dims` lacks."""
    dims = _sizes(args) or tuple(dims)
    return repeat(input, (1,) * (input.ndim - len(dims)) + tuple(dims))


@public()
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each slice along `dim` (None: element of the flat tensor) repeated; `repeats` is one int or many.

    With `input` alone, a tensor of counts, the result holds index i input[i] times.
    """
    if repeats is None:
        return _repeated_places(input, input.shape[0], output_size)
    if isinstance(repeats, (tuple, list)):
        from flambeau.ops.host import tensor_of
        repeats = tensor_of(numpy.asarray(repeats), int64)
    if dim is None:
        input, dim = reshape(input, (-1,)) if input.numel() else reshape(input, (0,)), 0
    scalar = input.ndim == 0
    input = reshape(input, (1,)) if scalar else input
    dim = normalize_axis(dim, input.ndim, "repeat_interleave")
    if isinstance(repeats, Tensor) and repeats.numel() == 1:
        repeats = int(repeats.item())
    if isinstance(repeats, Tensor):
        if repeats.ndim > 1:
            fail("repeat_interleave", "repeats must be 0-dim or 1-dim tensor", tuple(repeats.shape))
        return index_select(input, dim, _repeated_places(repeats, input.shape[dim], output_size))
    if repeats < 0:
        fail("repeat_interleave", "repeats can not be negative", repeats)
    spread = (*input.shape[:dim + 1], repeats, *input.shape[dim + 1:])
    if 1 < repeats <= 8 and dim == input.ndim - 1 and input.numel() >= LARGE and _core.writes_directly((input,)):
        made = _core.empty_strided(spread, None, input.dtype)           # the kernels copy long rows well, not these
        for number in range(repeats):
            write(made[..., number], input)
        made._reset_version()
        spread = made
    else:
        spread = expand(unsqueeze(input, dim + 1), spread)
        spread = clone(spread) if repeats == 1 else views.contiguous(spread)        # never memory of the input
    return reshape(spread, (*input.shape[:dim], input.shape[dim] * repeats, *input.shape[dim + 1:]))


def _repeated_places(repeats, size, output_size):
    from flambeau.ops.host import array_of, tensor_of
    if repeats.dtype not in (int32, int64):
        fail("repeat_interleave", "repeats has to be Long or Int tensor", repeats.dtype)
    counts = array_of(repeats)
    if counts.shape != (size,):
        fail("repeat_interleave", "repeats must have the same size as input along dim", tuple(counts.shape),
             (size,))
    if (counts < 0).any():
        fail("repeat_interleave", "repeats can not be negative", counts.tolist())
    if output_size is not None and counts.sum() != output_size:
        fail("repeat_interleave", "allocated size does not match required size", output_size,
             int(counts.sum()))
    return tensor_of(numpy.repeat(numpy.arange(size), counts), repeats.dtype)


# ---------------------------------------------------------------------------------- triangles
def _inside(name, x, diagonal):
    """(rows, columns) bools: true on and below a diagonal. Row r + 1 is row r moved by one: all view one vector."""
    if x.ndim < 2:
        fail(name, f"{name}: input tensor must have at least 2 dimensions", tuple(x.shape))
    rows, columns = x.shape[-2:]
    inside = iota((rows + columns - 1,), 0) <= rows - 1 + int(diagonal)
    return reversed_view(shapes.unfold(inside, 0, columns, 1), (0,))


@public(inplace=True)
def tril(input, diagonal=0):
    """The matrices with zeros above the diagonal number `diagonal`."""
    if input.ndim > 1 and not input.numel():
        return clone(input)
    return where(_inside("tril", input, diagonal), input, _zero_of(input))


@public(inplace=True)
def triu(input, diagonal=0):
    """The matrices with zeros below the diagonal number `diagonal`."""
    if input.ndim > 1 and not input.numel():
        return clone(input)
    return where(_inside("triu", input, int(diagonal) - 1), _zero_of(input), input)


def _zero_of(x):
    return False if x.dtype.kind == "b" else 0


def _in_place(function, zero_inside):
    """A function(x, diagonal) that writes tril or triu into x, in one pass, where nothing records the call."""
    def written(input, diagonal=0):
        if not _core.writes_directly((input,)) or not input.numel() or input.ndim < 2:
            return function(input, diagonal)
        inside = _inside(function.__name__, input, int(diagonal) - zero_inside)
        zero = number_in_memory(0, input.dtype)
        operands = [inside, zero, input] if zero_inside else [inside, input, zero]
        return _core.run_into(plans.elementwise_plan(REGISTRY["where"], operands, {}), operands, input)
    return functools.wraps(function)(written)


INPLACE["tril_"], INPLACE["triu_"] = _in_place(tril, 0), _in_place(triu, 1)


def _triangle_indices(name, row, col, offset, dtype):
    """The (row, column) of each element of a triangle, from the first column and the number of each row's."""
    from flambeau.ops.host import memory_array
    if row < 0 or col < 0:
        fail(name, "row and col must be non-negative", (row, col))
    numbers = numpy.arange(row)
    first = numpy.clip(numbers + offset, 0, col) if name == "triu_indices" else numpy.zeros(row, int)
    end = numpy.clip(numbers + offset + 1, 0, col) if name == "tril_indices" else numpy.full(row, col)
    lengths = end - first
    made = _core.empty_strided((2, int(lengths.sum())), None, dtype if dtype and dtype.kind in "iu" else int64)
    places, columns = memory_array(made.data_ptr(), tuple(made.shape), made.dtype), numpy.arange(col)
    places[0] = numpy.repeat(numbers, lengths)
    if places.size:
        numpy.concatenate([columns[a:b] for a, b in zip(first.tolist(), end.tolist())], out=places[1],
                          casting="unsafe")
    return made if dtype is None else cast(made, dtype)


@public(method=False)
@placed
def tril_indices(row, col, offset=0, *, dtype=None, device=None, layout=None, requires_grad=False):
    """(2, count): rows and columns of the elements on and below a diagonal of a row x col matrix."""
    return _triangle_indices("tril_indices", row, col, offset, dtype)


@public(method=False)
@placed
def triu_indices(row, col, offset=0, *, dtype=None, device=None, layout=None, requires_grad=False):
    """(2, count): rows and columns of the elements on and above a diagonal of a row x col matrix."""
    return _triangle_indices("triu_indices", row, col, offset, dtype)


# ---------------------------------------------------------------------------------- joined
def _non_empty(name, tensors):
    tensors = only_tensors(name, tensors)
    if not tensors:
        fail(name, f"{name} expects a non-empty TensorList")
    return tensors


@public(method=False)
def hstack(tensors):
    """Tensors side by side: along axis 1, or 0 for vectors."""
    tensors = atleast_1d(_non_empty("hstack", tensors))
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@public(method=False, aliases=("row_stack",))
def vstack(tensors):
    """Tensors below each other: along axis 0, vectors as rows."""
    return cat(atleast_2d(_non_empty("vstack", tensors)), 0)


@public(method=False)
def dstack(tensors):
    """Tensors behind each other: along axis 2."""
    return cat(atleast_3d(_non_empty("dstack", tensors)), 2)


@public(method=False)
def column_stack(tensors):
    """Tensors side by side along axis 1, vectors as columns."""
    tensors = _non_empty("column_stack", tensors)
    return cat(tuple(t if t.ndim > 1 else reshape(t, (t.numel(), 1)) for t in tensors), 1)


@public(method=False)
def block_diag(*tensors):
    """A matrix with the operands (matrices; vectors as rows) along its diagonal."""
    for t in tensors:
        if t.ndim > 2:
            fail("block_diag", "Input tensors must have 2 or fewer dimensions", tuple(t.shape))
    if not tensors:
        return full((1, 0), 0.0)
    blocks = atleast_2d(tensors)
    dtype = blocks[0].dtype
    for b in blocks:
        dtype = promote(dtype, b.dtype)
    if _core.writes_directly(blocks):
        return _filled_in(blocks, dtype)
    width, at, rows = sum(b.shape[1] for b in blocks), 0, []
    for b in blocks:
        block = cast(b, dtype)
        sides = [full((b.shape[0], n), 0, dtype) for n in (at, width - at - b.shape[1])]
        rows.append(cat((sides[0], block, sides[1]), 1))
        at += b.shape[1]
    return cat(tuple(rows), 0)


def _filled_in(blocks, dtype):
    """Zeros with the blocks written along the diagonal."""
    made, row, column = full([sum(b.shape[axis] for b in blocks) for axis in (0, 1)], 0, dtype), 0, 0
    for b in blocks:
        write(made[row:row + b.shape[0], column:column + b.shape[1]], b)
        row, column = row + b.shape[0], column + b.shape[1]
    made._reset_version()
    return made


# ---------------------------------------------------------------------------------- grids
@public(method=False)
def meshgrid(*tensors, indexing=None):
    """The coordinates of a grid: vectors of sizes (a, b, ...) expanded to it; 'xy' swaps the first two."""
    tensors = tensor_list("meshgrid", tensors)
    if not tensors:
        fail("meshgrid", "meshgrid expects a non-empty TensorList")
    for t in tensors:
        if t.ndim > 1:
            fail("meshgrid", "Expected 0D or 1D tensor in the tensor list but got", tuple(t.shape))
        if t.dtype is not tensors[0].dtype:
            fail("meshgrid", "meshgrid expects all tensors to have the same dtype")
    if indexing is None:
        import warnings
        warnings.warn("meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
                      stacklevel=3)
    elif indexing not in ("ij", "xy"):
        fail("meshgrid", "indexing must be one of \"xy\" or \"ij\", but received", indexing)
    swap = indexing == "xy" and len(tensors) > 1
    tensors = (tensors[1], tensors[0], *tensors[2:]) if swap else tensors
    shape = tuple(t.numel() for t in tensors)
    grids = [expand(reshape(t, tuple(s if i == axis else 1 for i, s in enumerate(shape))), shape)
             for axis, t in enumerate(tensors)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@public(method=False)
def cartesian_prod(*tensors):
    """All combinations of one element from each vector, as rows; of a single vector the vector."""
    tensors = tensor_list("cartesian_prod", tensors)
    for t in tensors:
        if t.ndim != 1:
            fail("cartesian_prod", "Expect a 1D vector, but got shape", tuple(t.shape))
    if len(tensors) == 1:
        return tensors[0]
    return stack(tuple(ravel(g) for g in meshgrid(*tensors, indexing="ij")), 1)


@public()
def combinations(input, r=2, with_replacement=False):
    """All choices of r elements of a vector in their order, as rows."""
    if input.ndim != 1:
        fail("combinations", "Expect a 1D vector, but got shape", tuple(input.shape))
    if r < 0:
        fail("combinations", "Expect a non-negative number, but got", r)
    if r == 0:
        return full((0,), 0, input.dtype)
    from flambeau.ops.host import tensor_of
    rows = _choices(input.shape[0], r, 0 if with_replacement else 1)
    return reshape(index_select(input, 0, tensor_of(rows.reshape(-1), int64)), rows.shape)


def _choices(n, r, step):
    """(choices, r) rising numbers below n as a NumPy array, in order; neighbours are `step` apart at least."""
    columns = [numpy.arange(n)]
    for _ in range(r - 1):
        first = columns[-1] + step                              # of what may follow each row
        counts = n - first
        ends = numpy.cumsum(counts)
        rows = numpy.repeat(numpy.arange(counts.size), counts)
        following = numpy.arange(rows.size) + (first - ends + counts)[rows]
        columns = [c[rows] for c in columns] + [following]
    return numpy.stack(columns, 1)


# ---------------------------------------------------------------------------------- selection
@public(method=False)
def where_(condition, input=None, other=None):
    """input where condition is true, else other; for a condition alone the places of its true elements."""
    if input is None and other is None:
        return _places(condition)
    return where(condition, input, other)


def _places(condition):
    places = true_places(as_mask(condition.detach() if condition.ndim else reshape(condition.detach(), (1,))), coordinates=True)
    return shapes.unbind(places, 1)


# ---------------------------------------------------------------------------------- views as copies
def _copying(name, function):
    """<view>_copy: the same elements in memory of their own."""
    def copy(input, *args, out=None, **kwargs):
        made = function(input, *args, **kwargs)
        if isinstance(made, tuple):
            return tuple(map(store, made, made if out is None else out))
        return store(made, made if out is None else out)

    def store(made, out):
        return clone(made) if out is made else write_out(REGISTRY["copy"], out, made)

    copy.__name__ = name + "_copy"
    copy.__doc__ = f"`{name}`, as a copy."
    return public(method=False)(copy)


for _name, _function in {
        "permute": permute, "view": views.view, "expand": expand, "diagonal": shapes.diagonal,
        "squeeze": views.squeeze,
        "unsqueeze": unsqueeze, "unfold": shapes.unfold, "transpose": transpose, "t": views.t,
        "alias": lambda x: x,
        "split": shapes.split, "split_with_sizes": shapes.split_with_sizes, "select": shapes.select,
        "unbind": shapes.unbind, "detach": detach, "view_as_real": view_as_real,
        "view_as_complex": view_as_complex,
        "as_strided": shapes.as_strided,
        "slice": lambda x, dim=0, start=None, end=None, step=1: slice_(x, shapes.slice_part(x, dim, start,
                                                                                            end, step)),
}.items():
    _copying(_name, _function)


for _name in ("flip", "fliplr", "flipud", "roll", "rot90", "tile", "tril", "triu", "hstack", "vstack",
              "row_stack",
              "dstack", "column_stack", "where", "repeat_interleave"):
    FUNCTIONS[_name] = with_out(FUNCTIONS[_name])


@public(method=False)
def fill(input, value):
    """A tensor like `input` whose elements are all `value`, a number or a 0-d tensor (which gets the gradient)."""
    from flambeau.ops.elementwise import cast, full_like, where
    everywhere = full_like(cast(input.detach(), bool_), True)
    return where(everywhere, cast(value, input.dtype) if isinstance(value, Tensor) else value, input)
