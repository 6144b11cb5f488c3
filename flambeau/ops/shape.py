"""Shapes seen differently: further views, splits, and what is made of them by one call of another op.

Everything here shares memory with its operand unless its docstring says that it copies. Most functions are
a few calls of the views in `view`; `diagonal` and `unfold` are views of their own.
"""

from flambeau.base.errors import ArgumentError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops import view as views
from flambeau.ops.create import iota
from flambeau.ops.elementwise import EVERY
from flambeau.ops.index import index_sum
from flambeau.ops.kinds import View
from flambeau.ops.out import with_out
from flambeau.ops.reduce import sum as total
from flambeau.ops.samples import unary_samples
from flambeau.ops.spec import FUNCTIONS, REGISTRY, as_int, op, public
from flambeau.ops.strided import as_strided, overlaps, strided_put
from flambeau.ops.view import clone, expand, narrow, permute, reshape, slice_, transpose, unslice, unsqueeze
from flambeau.ops.write import write
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dim import minimum
from flambeau.types.shape import broadcast_shapes as common_shape
from flambeau.types.shape import normalize_axes, normalize_axis, numel

numpy = LazyModule("numpy")
WHOLE = slice(None)


def every(size):
    """The index item of `slice_` for a whole axis."""
    return ("slice", 0, size, 1)


# ---------------------------------------------------------------------------------- views of their own
@op
class Diagonal(View):
    """The elements whose indices along `dim1` and `dim2` differ by `offset`, as a last axis."""

    signature = "input, offset=0, dim1=0, dim2=1"
    dtypes = EVERY
    samples = unary_samples()
    shapes = ((3, 3), (5, 7), (2, 3, 33))
    cases = [{}, {"offset": 1}, {"offset": -2, "dim1": -1, "dim2": 0}]

    def prepare(self, values):
        x = values["input"]
        dims = [normalize_axis(values[name], x.ndim, "diagonal") for name in ("dim1", "dim2")]
        if dims[0] == dims[1]:
            fail("diagonal", "diagonal dimensions cannot be identical", (values["dim1"], values["dim2"]))
        return values | {"dim1": dims[0], "dim2": dims[1]}

    def view(shape, strides, place, offset, dim1, dim2):
        start, count = diagonal_part(shape[dim1], shape[dim2], offset)
        keep = [a for a in range(len(shape)) if a not in (dim1, dim2)]
        place = place + start[0] * strides[dim1] + start[1] * strides[dim2]
        sizes, steps = (*(shape[a] for a in keep), count), tuple(strides[a] for a in keep)
        return sizes, (*steps, strides[dim1] + strides[dim2]), place

    def reference(input, offset=0, dim1=0, dim2=1):
        return numpy.diagonal(input, offset, dim1, dim2)

    def derivative(grad, x, *, offset, dim1, dim2):
        shape = tuple(x.shape)
        rows, columns = shape[dim1], shape[dim2]
        start, count = diagonal_part(rows, columns, offset)
        rest = [a for a in range(len(shape)) if a not in (dim1, dim2)]
        first = start[0] * columns + start[1]
        step = ("slice", first, first + (count - 1) * (columns + 1) + 1, columns + 1) if count != 0 \
            else ("slice", 0, 0, 1)
        lead = tuple(shape[a] for a in rest)
        flat = unslice(grad, (*lead, rows * columns), (*(every(s) for s in lead), step))
        back = sorted(range(len(shape)), key=[*rest, dim1, dim2].__getitem__)
        return permute(reshape(flat, (*lead, rows, columns)), tuple(back))


def diagonal_part(rows, columns, offset):
    """((first row, first column), length) of a diagonal."""
    start = (0, offset) if offset >= 0 else (-offset, 0)
    rows, columns = rows - start[0], columns - start[1]
    if isinstance(rows, int) and isinstance(columns, int):
        count = max(0, min(rows, columns))
        return (start if count else (0, 0)), count
    return start, rows if rows == columns else minimum(rows, columns)


@op
class Unfold(View):
    """Windows of `size` elements along `dimension`, one every `step`, as a last axis; they may overlap."""

    signature = "input, dimension, size, step"
    dtypes = EVERY
    samples = unary_samples()
    shapes = ((7,), (5, 7), (2, 3, 33))
    cases = [{"dimension": -1, "size": 3, "step": 2}, {"dimension": 0, "size": 2, "step": 1},
             {"dimension": -1, "size": 2, "step": 4}]

    def prepare(self, values):
        x, size, step = values["input"], values["size"], values["step"]
        dim = normalize_axis(values["dimension"], x.ndim, "unfold")
        length = x.shape[dim] if x.ndim else 1
        if size < 0:
            fail("unfold", "size must be non-negative", size)
        if isinstance(length, int) and size > length:
            fail("unfold", f"maximum size for tensor at dimension {dim} is {length} but size is", size)
        if step <= 0:
            fail("unfold", "step must be greater than zero", step)
        return values | {"dimension": dim}

    def view(shape, strides, offset, dimension, size, step):
        if not len(shape):
            return (size,), (1,), offset
        count, stride = (shape[dimension] - size) // step + 1, strides[dimension]
        return ((*shape[:dimension], count, *shape[dimension + 1:], size),
                (*strides[:dimension], stride * step, *strides[dimension + 1:], stride), offset)

    def reference(input, dimension, size, step):
        windows = numpy.lib.stride_tricks.sliding_window_view(input, size, dimension)
        return numpy.take(windows, numpy.arange(0, windows.shape[dimension], step), dimension)

    def derivative(grad, x, *, dimension, size, step):
        if not x.ndim:
            return reshape(grad, ())
        count = grad.shape[dimension]
        moved = movedim(grad, -1, dimension + 1)
        flat = reshape(moved, (*moved.shape[:dimension], count * size, *moved.shape[dimension + 2:]))
        places = iota((count, size), 0) * step + iota((count, size), 1)
        return index_sum(flat, dimension, reshape(places, (count * size,)), x.shape[dimension])


diagonal, unfold = REGISTRY["diagonal"].function, REGISTRY["unfold"].function


# ---------------------------------------------------------------------------------- the order of axes
@public(aliases=("moveaxis",))
def movedim(input, source, destination):
    """The axes `source` moved to the places `destination`; the others keep their order."""
    source, destination = as_int(source), as_int(destination)
    count = [1 if isinstance(axes, int) else len(axes) for axes in (source, destination)]
    if count[0] != count[1]:
        fail("movedim", "source and destination differ in length", (source, destination), "as many of both")
    source, destination = (normalize_axes(axes, input.ndim, "movedim") for axes in (source, destination))
    rest = iter([a for a in range(input.ndim) if a not in source])
    placed = dict(zip(destination, source))
    return permute(input, tuple(placed[a] if a in placed else next(rest) for a in range(input.ndim)))


@public()
def swapaxes(input, axis0, axis1):
    """Two axes swapped: NumPy's name of `transpose`."""
    return transpose(input, axis0, axis1)


@public()
def swapdims(input, dim0, dim1):
    """Two axes swapped: the same as `transpose`."""
    return transpose(input, dim0, dim1)


@public()
def adjoint(input):
    """The last two axes swapped, complex elements conjugated."""
    if input.ndim < 2:
        fail("adjoint", "tensor.adjoint() is only supported on matrices or batches of matrices",
             tuple(input.shape))
    from flambeau.ops.complex_kernels import conjugate
    return conjugate(transpose(input, -2, -1))


def conjugate_transpose(input):
    """x.H: the adjoint of a matrix; numbers stay."""
    if input.ndim not in (0, 2):
        fail("H", f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor",
             tuple(input.shape), hint="use x.mH for batches of matrices")
    return adjoint(input) if input.ndim else input


_core.attach_attribute("H", property(conjugate_transpose))
_core.attach_attribute("mH", property(adjoint))


# ---------------------------------------------------------------------------------- parts
def part(x, dim, item):
    """x[:, ..., item] with the item (an int or a slice with both ends) at axis `dim`."""
    if getattr(type(x), "is_traced", False):
        if isinstance(item, slice):
            item = ("slice", item.start, item.stop, 1)
        else:
            item = item + x.shape[dim] if item < 0 else item
        return slice_(x, (*map(every, x.shape[:dim]), item))
    return x[(WHOLE,) * dim + (item,)]


@public()
def select(input, dim, index):
    """The slice at `index` along `dim`, which disappears."""
    if input.ndim == 0:
        fail("select", "select() cannot be applied to a 0-dim tensor.", kind=IndexError)
    return part(input, normalize_axis(dim, input.ndim, "select"), int(index))


def select_part(input, dim, index):
    """The index of `slice_` for select."""
    dim, index = normalize_axis(dim, input.ndim, "select"), int(index)
    size = input.shape[dim]
    if isinstance(size, int) and not -size <= index < size:
        fail("select",
             f"index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}",
             kind=IndexError)
    return (*map(every, input.shape[:dim]), index + size if index < 0 else index)


def slice_part(input, dim, start, end, step):
    """The index of `slice_` for a Python slice along `dim`."""
    dim = normalize_axis(dim, input.ndim, "slice")
    if step <= 0:
        fail("slice", "slice step must be positive", step)
    start, end, step = slice(start, end, step).indices(input.shape[dim])
    return (*map(every, input.shape[:dim]), ("slice", start, max(start, end), step))


def put_part(input, source, index):
    """A copy of input with `source` in the part that an index of `slice_` names."""
    return put_view(input, source, views.Slice.view(tuple(input.shape), input.stride(), 0, index))


def put_view(input, source, window):
    """A copy of input with `source` in a window (shape, strides, offset) on it."""
    if tuple(source.shape) != tuple(window[0]):
        fail("scatter", "expected src to have a size equal to the slice of self", tuple(source.shape),
             tuple(window[0]), kind=ShapeError)
    return strided_put(input, source, *window)


def own_memory(input):
    """input, or a copy where several of its elements share a place, so that it can be written."""
    return clone(input) if overlaps(tuple(input.shape), input.stride()) else input


@public()
def select_scatter(input, src, dim, index):
    """A copy of input with `src` at `index` along `dim`."""
    input = own_memory(input)
    return put_part(input, src, select_part(input, dim, index))


@public()
def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    """A copy of input with `src` in input[start:end:step] along `dim`."""
    input = own_memory(input)
    return put_part(input, src, slice_part(input, dim, start, end, step))


@public()
def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    """A copy of input with `src` on a diagonal."""
    input = own_memory(input)
    dim1, dim2 = (normalize_axis(d, input.ndim, "diagonal_scatter") for d in (dim1, dim2))
    return put_view(input, src, Diagonal.view(tuple(input.shape), input.stride(), 0, offset, dim1, dim2))


public()(as_strided)


@public()
def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of input with `src` in the window that `as_strided` with the same sizes would show."""
    as_strided(input.detach(), size, stride, storage_offset)
    input = own_memory(input)
    offset = 0 if storage_offset is None else storage_offset - input.storage_offset()
    return put_view(input, src, (tuple(size), tuple(stride), offset))


@public()
def narrow_copy(input, dim, start, length):
    """A copy of input's part from start along `dim`, `length` long."""
    return clone(narrow(input, dim, start, length))


# ---------------------------------------------------------------------------------- sizes
@public()
def broadcast_to(input, *sizes, size=None):
    """input expanded to `size`, a tuple or separate numbers."""
    return expand(input, *sizes) if size is None else expand(input, tuple(size))


@public()
def sum_to_size(input, *size):
    """Summed along the axes that broadcasting a tensor of `size` would make."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    lead = input.ndim - len(size)
    if lead < 0 or any(s != 1 and s != own for s, own in zip(size, input.shape[lead:])):
        fail("sum_to_size", f"size {{{list(size)}}} is not expandable to size {{{list(input.shape)}}}.")
    if not size:
        return total(input)
    axes = (*range(lead), *(lead + i for i, s in enumerate(size) if s == 1 != input.shape[lead + i]))
    return reshape(total(input, axes, True), size) if axes else input


@public(method=False)
def broadcast_shapes(*shapes):
    """The shape that all `shapes` (tuples, or ints for one axis) broadcast to."""
    shapes = tuple((s,) if isinstance(s, int) else tuple(s) for s in shapes)
    for shape in shapes:
        if any(s < 0 for s in shape):
            fail("broadcast_shapes", "Trying to create tensor with negative dimension", shape)
    return _core.Size(common_shape(*shapes, op="broadcast_shapes"))


@public(method=False)
def broadcast_tensors(*tensors):
    """All tensors expanded to their common shape."""
    tensors = tensor_list("broadcast_tensors", tensors)
    shape = common_shape(*(tuple(t.shape) for t in tensors), op="broadcast_tensors")
    return tuple(t if tuple(t.shape) == shape else expand(t, shape) for t in tensors)


def tensor_list(name, tensors):
    """The tensors of f(a, b) and of f([a, b])."""
    nested = len(tensors) == 1 and isinstance(tensors[0], (tuple, list))
    return only_tensors(name, tensors[0] if nested else tensors)


def only_tensors(name, tensors):
    """The tuple of `tensors`; TypeError for one that is something else."""
    if not isinstance(tensors, (tuple, list, Tensor)) and not hasattr(tensors, "__iter__"):
        fail(name, "expected several tensors", type(tensors).__name__, "a list or tuple of tensors",
             kind=ArgumentError)
    tensors = tuple(tensors)
    for number, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            fail(name, f"expected Tensor as element {number} in argument 0, but got {type(tensor).__name__}",
                 kind=ArgumentError)
    return tensors


@public()
def unflatten(input, dim, sizes):
    """Axis `dim` split into axes of `sizes`; one may be -1."""
    dim = normalize_axis(dim, input.ndim, "unflatten")
    sizes = as_int(sizes)
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not sizes:
        fail("unflatten", "sizes must be non-empty", sizes)
    size = input.shape[dim] if input.ndim else 1
    known = numel(s for s in sizes if s != -1)
    if not isinstance(size, int):           # symbolic: reshape says what does not fit
        return reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1:]))
    if sizes.count(-1) > 1 or (known != size if -1 not in sizes else not known or size % known):
        fail("unflatten", f"Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({size})")
    full_sizes = tuple(size // known if s == -1 else s for s in sizes)
    return reshape(input, (*input.shape[:dim], *full_sizes, *input.shape[dim + 1:]))


@public()
def ravel(input):
    """All elements in one axis; a copy where no view can have that shape."""
    return reshape(input, (-1,)) if numel(input.shape) else reshape(input, (0,))


def _length(x):
    """The number of elements of a vector or number."""
    return x.shape[0] if x.ndim else 1


def at_least(name, change):
    """atleast_<n>d from what it does with one tensor."""
    def function(*tensors):
        made = tuple(change(t) for t in tensor_list(name, tensors))
        return made if len(tensors) != 1 or isinstance(tensors[0], (tuple, list)) else made[0]

    function.__name__ = name
    function.__doc__ = f"The tensors with at least {name[8]} axes; several give a tuple."
    return public()(function)


atleast_1d = at_least("atleast_1d", lambda x: x if x.ndim else reshape(x, (1,)))
atleast_2d = at_least("atleast_2d", lambda x: x if x.ndim > 1 else reshape(x, (1, _length(x))))
atleast_3d = at_least("atleast_3d", lambda x: x if x.ndim > 2 else unsqueeze(x, -1) if x.ndim == 2
                      else reshape(x, (1, _length(x), 1)))


# ---------------------------------------------------------------------------------- splits
@public()
def unbind(input, dim=0):
    """The slices along `dim` as a tuple."""
    found = _core.axis_parts(input, dim, None)
    if found is not NotImplemented:
        return found
    if input.ndim == 0:
        fail("unbind", "Dimension specified as 0 but tensor has no dimensions", kind=IndexError)
    dim = normalize_axis(dim, input.ndim, "unbind")
    return tuple(part(input, dim, i) for i in range(input.shape[dim]))


def parts(input, dim, sizes):
    """Neighbouring parts of these sizes along `dim`."""
    known = _core.axis_parts(input, dim, tuple(sizes))
    if known is not NotImplemented:
        return known
    found, at = [], 0
    for size in sizes:
        found.append(part(input, dim, slice(at, at + size)))
        at += size
    return tuple(found)


@public(aliases=("unsafe_split",))
def split(tensor, split_size_or_sections=None, dim=0, *, split_size=None):
    """Parts of `split_size` along `dim` (the last may be smaller), or of the sizes of a list."""
    if type(split_size_or_sections) in (int, tuple) and split_size is None:
        found = _core.axis_parts(tensor, dim, split_size_or_sections)
        if found is not NotImplemented and found:
            return found
    sizes = as_int(split_size_or_sections if split_size is None else split_size)
    if not isinstance(sizes, int):
        return split_with_sizes(tensor, sizes, dim)
    dim = _split_axis("split", tensor, dim)
    total = tensor.shape[dim]
    if sizes < 0:
        fail("split", "split expects split_size be non-negative, but got split_size", sizes)
    if sizes == 0:
        if total:
            fail("split", "split_size can only be 0 if dimension size is 0, but the size is", total)
        return (tensor,)
    starts = range(0, total, sizes) if total else (0,)
    return parts(tensor, dim, [min(sizes, total - at) for at in starts])


@public(aliases=("unsafe_split_with_sizes",))
def split_with_sizes(input, split_sizes, dim=0):
    """Parts of the given sizes along `dim`; they add up to its size."""
    dim, sizes = _split_axis("split_with_sizes", input, dim), tuple(int(s) for s in split_sizes)
    if any(s < 0 for s in sizes):
        fail("split_with_sizes", "split_with_sizes expects split_sizes have only non-negative entries", sizes)
    if sum(sizes) != input.shape[dim]:
        fail("split_with_sizes",
             f"split_with_sizes expects split_sizes to sum exactly to {input.shape[dim]}", sizes)
    return parts(input, dim, sizes)


@public(aliases=("unsafe_chunk",))
def chunk(input, chunks, dim=0):
    """At most `chunks` parts of one size along `dim`; the last may be smaller."""
    dim = _split_axis("chunk", input, dim)
    if chunks <= 0:
        fail("chunk", "chunk expects `chunks` to be greater than 0, got", chunks)
    size = -(-input.shape[dim] // chunks)
    if size == 0:
        return parts(input, dim, [0] * chunks)
    found = _core.axis_parts(input, dim, size)
    return split(input, size, dim) if found is NotImplemented else found


def _split_axis(name, input, dim):
    if input.ndim == 0:
        fail(name, f"{name} expects at least a 1-dimensional tensor", tuple(input.shape))
    return normalize_axis(dim, input.ndim, name)


@public()
def tensor_split(input, indices_or_sections=None, dim=0, *, indices=None, sections=None):
    """`sections` parts whose sizes differ by at most 1, or the parts between `indices`."""
    indices_or_sections = next((v for v in (indices_or_sections, indices, sections) if v is not None), None)
    if indices_or_sections is None:
        fail("tensor_split", "argument 'indices_or_sections' is missing", kind=TypeError)
    if input.ndim == 0:
        fail("tensor_split",
             "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim, given = normalize_axis(dim, input.ndim, "tensor_split"), indices_or_sections
    if isinstance(given, Tensor):
        if given.ndim > 1 or given.dtype.name != "int64":
            fail("tensor_split", "tensor_split expected tensor_indices_or_sections to be a zero-dimensional "
                 "or one-dimensional tensor of int64", (given.dtype, tuple(given.shape)))
        given = given.tolist()
    total = input.shape[dim]
    if isinstance(given, int):
        if given <= 0:
            fail("tensor_split", "number of sections must be larger than 0, got", given)
        return parts(input, dim, [total // given + (i < total % given) for i in range(given)])
    edges = [slice(0, int(i)).indices(total)[1] for i in given]
    return tuple(part(input, dim, slice(a, max(a, b))) for a, b in zip((0, *edges), (*edges, total)))


def splitter(name, dim_of, least):
    """hsplit, vsplit and dsplit."""
    def function(input, *indices_or_sections, **named):
        given = named.pop("indices", named.pop("sections", indices_or_sections))
        given = given[0] if isinstance(given, tuple) and len(given) == 1 and not named else given
        if input.ndim < least:
            fail(name, f"torch.{name} requires a tensor with at least {least} dimension{'s' * (least > 1)}, "
                 f"but got a tensor with {input.ndim} dimensions!")
        dim = dim_of(input)
        if isinstance(given, int) and (given <= 0 or input.shape[dim] % given):
            fail(name, f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                 f"dimension {input.shape[dim]} is not divisible by the split_size {given}!")
        return tensor_split(input, given, dim)

    function.__name__ = name
    function.__doc__ = "Parts of equal size along an axis, or between indices: `tensor_split` along " \
        + {"hsplit": "axis 1 (0 for vectors).", "vsplit": "axis 0.", "dsplit": "axis 2."}[name]
    return public()(function)


hsplit = splitter("hsplit", lambda x: 0 if x.ndim == 1 else 1, 1)
vsplit = splitter("vsplit", lambda x: 0, 2)
dsplit = splitter("dsplit", lambda x: 2, 3)


# ---------------------------------------------------------------------------------- diagonals as results
@public()
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Matrices of zeros with input's last axis on a diagonal: (..., n) -> (..., n + |offset|, the same)."""
    dim1, dim2 = (normalize_axis(d, input.ndim + 1, "diag_embed") for d in (dim1, dim2))
    if dim1 == dim2:
        fail("diag_embed", "diagonal dimensions cannot be identical", (dim1, dim2))
    lead, size = tuple(input.shape[:-1]), input.shape[-1] + abs(offset)
    first = offset if offset >= 0 else -offset * size
    count, step = input.shape[-1], ("slice", 0, 0, 1)
    if count != 0:
        step = ("slice", first, first + (count - 1) * (size + 1) + 1, size + 1)
    if not lead and _core.writes_directly((input,)):
        made = _core.empty_strided((size, size), None, input.dtype)
        if not _core.fill(made, 0):
            write(made, 0)
        write(_core.view_of(made, (count,), (size + 1,), first), input)
        made._reset_version()
        return made if dim1 < dim2 else transpose(made, 0, 1)
    flat = unslice(input, (*lead, size * size), (*map(every, lead), step))
    return movedim(reshape(flat, (*lead, size, size)), (-2, -1), (dim1, dim2))


@public()
def diag(input, diagonal=0):
    """A copy of the diagonal of a matrix, or a matrix with a vector on its diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        fail("diag", f"Supports 1D or 2D tensors. Got {input.ndim}D", tuple(input.shape))
    return clone(REGISTRY["diagonal"].function(input, diagonal))


@public()
def diagflat(input, offset=0):
    """A matrix with all elements of input on a diagonal."""
    return diag_embed(ravel(input), offset)


for _name in ("diag", "diag_embed", "diagonal_scatter", "select_scatter", "slice_scatter",
              "as_strided_scatter", "narrow_copy"):
    FUNCTIONS[_name] = with_out(FUNCTIONS[_name])
