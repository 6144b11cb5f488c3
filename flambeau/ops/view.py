"""Views: index maps without a kernel. Each states shape, strides and offset of the result."""

from flambeau.base.errors import ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops import derive, plans
from flambeau.ops.elementwise import EVERY, copy
from flambeau.ops.kinds import Indexed, View, contiguous_copy
from flambeau.ops.samples import unary_samples
from flambeau.ops.spec import op
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.ops.trace import current, unify
from flambeau.types.layout import view_strides
from flambeau.types.shape import infer_reshape, normalize_axes, normalize_axis

numpy = LazyModule("numpy")


def _unify():
    return unify if current() is not None else None


class Window(View):
    """What the views here share for the tests."""

    dtypes = EVERY
    samples = unary_samples()


@op
class Reshape(Window):
    """The same elements in another shape; one size may be -1. A copy only where no view can have it."""

    signature = "input, shape"
    variadic = "shape"
    cases = [{"shape": (-1,)}]

    def prepare(self, values):
        x = values["input"]
        shape = values["shape"]
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if isinstance(x, Tensor):
            shape = infer_reshape(tuple(x.shape), shape, op=self.name, unify=_unify())
        return values | {"shape": shape}

    def view(sizes, strides, offset, shape):
        got = view_strides(sizes, strides, shape)
        return None if got is None else (shape, tuple(got), offset)

    def reference(input, shape):
        return numpy.reshape(input, shape)

    def derivative(grad, x):
        return reshape(grad, tuple(x.shape))


@op
class Permute(Window):
    """The axes in another order."""

    signature = "input, dims"
    variadic = "dims"

    def prepare(self, values):
        x, dims = values["input"], values["dims"]
        if len(dims) != x.ndim:
            fail("permute", "the number of dims differs", dims, f"{x.ndim} dims", kind=ShapeError)
        return values | {"dims": normalize_axes(dims, x.ndim, "permute")}

    def view(shape, strides, offset, dims):
        return tuple(shape[d] for d in dims), tuple(strides[d] for d in dims), offset

    def reference(input, dims):
        return numpy.transpose(input, dims)

    def derivative(grad, x, *, dims):
        back = [0] * len(dims)
        for i, d in enumerate(dims):
            back[d] = i
        return permute(grad, tuple(back))


@op
class Expand(Window):
    """Axes of size 1 repeated to `size` without memory; -1 keeps a size."""

    signature = "input, size"
    variadic = "size"

    def prepare(self, values):
        x, size = values["input"], tuple(values["size"])
        lead = len(size) - x.ndim
        if lead < 0:
            fail("expand", "too few sizes", size, f"at least {x.ndim}", kind=ShapeError)
        full = []
        for i, s in enumerate(size):
            own = x.shape[i - lead] if i >= lead else None
            if isinstance(s, int) and s == -1:
                if own is None:
                    fail("expand", "-1 stands for the size of an axis that is not there", size,
                         kind=ShapeError)
                s = own
            if isinstance(s, int) and s < 0:
                fail("expand", "a size is negative", size, hint="-1 keeps the size of an axis", kind=ShapeError)
            if own is not None and own != 1 and own != s:
                s = _same_size(own, s, x, size)
            full.append(s)
        return values | {"size": tuple(full)}

    def view(shape, strides, offset, size):
        lead = len(size) - len(shape)
        steps = tuple(0 if i < lead or (shape[i - lead] == 1 and s != 1) else strides[i - lead]
                      for i, s in enumerate(size))
        return size, steps, offset

    def reference(input, size):
        return numpy.broadcast_to(input, size)

    def derivative(grad, x):
        return derive.sum_to(grad, x)


def _same_size(own, size, x, wanted):
    if _unify() is not None and not (isinstance(own, int) and isinstance(size, int)):
        return unify(own, size)
    fail("expand", "an axis that is not 1 cannot be expanded", tuple(x.shape), wanted, kind=ShapeError)


@op
class Unsqueeze(Window):
    """A new axis of size 1 at `dim`."""

    signature = "input, dim"
    cases = [{"dim": 0}, {"dim": -1}]

    def prepare(self, values):
        return values | {"dim": normalize_axis(values["dim"], values["input"].ndim + 1, "unsqueeze")}

    def view(shape, strides, offset, dim):
        step = strides[dim] * shape[dim] if dim < len(shape) else 1
        return (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], step, *strides[dim:]), offset

    def reference(input, dim):
        return numpy.expand_dims(input, dim)

    def derivative(grad, x, *, dim):
        return reshape(grad, tuple(x.shape))


@op
class Squeeze(Window):
    """Without the axes of size 1 (all of them, or those of `dim` that are)."""

    signature = "input, dim=None"
    cases = [{}]

    def prepare(self, values):
        x, dim = values["input"], values["dim"]
        axes = normalize_axes(dim, x.ndim, "squeeze") if dim is not None else range(x.ndim)
        return values | {"dim": tuple(a for a in axes if x.ndim and x.shape[a] == 1)}

    def view(shape, strides, offset, dim):
        keep = [i for i in range(len(shape)) if i not in dim]
        return tuple(shape[i] for i in keep), tuple(strides[i] for i in keep), offset

    def reference(input, dim=None):
        return numpy.squeeze(input, dim)

    def derivative(grad, x):
        return reshape(grad, tuple(x.shape))


@op
class Slice(Window):
    """Basic indexing: `index` is a tuple of ints, ("slice", start, stop, step), None for a new axis."""

    internal = True
    name = "slice_"
    signature = "input, index"
    cases = [{"index": (("slice", 0, 2, 1),)}]

    def view(shape, strides, offset, index):
        sizes, steps, axis = [], [], 0
        for i in index:
            if i is None:
                sizes.append(1)
                steps.append(0)
                continue
            if isinstance(i, tuple):
                _, start, stop, step = i
                sizes.append((stop - start + step - 1) // step)
                steps.append(strides[axis] * step)
                offset = offset + start * strides[axis]
            else:
                offset = offset + i * strides[axis]
            axis += 1
        return (*sizes, *shape[axis:]), (*steps, *strides[axis:]), offset

    def reference(input, index):
        return input[tuple(slice(*i[1:]) if isinstance(i, tuple) else i for i in index)]

    def derivative(grad, x, *, index):
        return unslice(grad, tuple(x.shape), index)


@op
class Unslice(Indexed):
    """Zeros of `size` with the operand at `index`: the transpose of `slice_`."""

    internal = True
    signature = "input, size, index"
    derivative_in_python = True
    remembered = False

    def infer_shape(x, *, size, index):
        return tuple(size)

    def lower(planner, inputs, outputs, *, size, index):
        out = outputs[0]
        planner.fill(out, 0)
        shape, strides, offset = Slice.view(tuple(size), out.strides, 0, index)
        planner.copy(inputs[0], planner.window(out, shape, strides, offset))

    def eager(self, values):
        from flambeau.ops.write import write
        grad, size, index = values["input"], values["size"], values["index"]
        if grad.is_shape_only:
            return _core.shape_only(size, grad.dtype)
        out = write(_core.empty_strided(size, None, grad.dtype), 0)
        window = _core.view_of(out, *Slice.view(size, out.stride(), 0, index))
        write(window, grad.detach())
        out._reset_version()
        if grad.requires_grad and _core.grad_mode():
            plans.record_python(self, (grad,), out, {"size": size, "index": index})
        return out

    def derivative(grad, x, *, index):
        return slice_(grad, index)


def narrow(input, dim, start, length):
    """The part of axis `dim` from start (a number or a 0-d integer tensor), `length` long."""
    if input.ndim == 0:
        fail("narrow", "narrow() cannot be applied to a 0-dim tensor.", kind=ShapeError)
    if isinstance(start, Tensor):
        if start.ndim or start.dtype.kind not in "iu":
            fail("narrow", "start must be an 0-dim integral Tensor.", (start.dtype, tuple(start.shape)))
        start = start.item()
    dim = normalize_axis(dim, input.ndim, "narrow")
    size = input.shape[dim]
    start = start + size if start < 0 else start
    if start < 0 or length < 0 or start + length > size:
        fail("narrow", "the part does not lie inside the axis", f"start {start}, length {length}",
             f"within {size}",
             kind=ShapeError)
    whole = tuple(("slice", 0, s, 1) for s in input.shape[:dim])
    return slice_(input, (*whole, ("slice", start, start + length, 1)))


@op
class View_(Reshape):
    """The same memory in another shape; RuntimeError where that would need a copy."""

    name = "view"

    def prepare(self, values):
        x, values = values["input"], Reshape.prepare(self, values)
        traced = getattr(type(x), "is_traced", False)
        if not traced and view_strides(tuple(x.shape), x.stride(), values["shape"]) is None:
            fail("view", "no view of these strides has that shape", (tuple(x.shape), x.stride()), values["shape"],
                 hint="use reshape(), which copies where it must", kind=ShapeError)
        return values


@op
class Transpose(Window):
    """Two axes swapped."""

    signature = "input, dim0, dim1"
    cases = [{"dim0": 0, "dim1": -1}]

    def prepare(self, values):
        rank = values["input"].ndim
        return values | {name: normalize_axis(values[name], rank, "transpose") for name in ("dim0", "dim1")}

    def view(shape, strides, offset, dim0, dim1):
        if not shape:
            return shape, strides, offset
        order = list(range(len(shape)))
        a, b = dim0 % len(shape), dim1 % len(shape)
        order[a], order[b] = order[b], order[a]
        return tuple(shape[d] for d in order), tuple(strides[d] for d in order), offset

    def reference(input, dim0, dim1):
        return numpy.swapaxes(input, dim0, dim1) if input.ndim else input

    def derivative(grad, x, *, dim0, dim1):
        return transpose(grad, dim0, dim1)          # noqa: F821


def t(input):
    """The transpose of a matrix; vectors and numbers stay."""
    if input.ndim > 2:
        fail("t", "expected at most 2 dims", tuple(input.shape), hint="use transpose(a, b)", kind=ShapeError)
    return transpose(input, 0, 1) if input.ndim == 2 else input


def flatten(input, start_dim=0, end_dim=-1):
    """The axes from start_dim to end_dim as one."""
    if input.ndim == 0:
        return reshape(input, (1,))
    a, b = normalize_axis(start_dim, input.ndim, "flatten"), normalize_axis(end_dim, input.ndim, "flatten")
    if a > b:
        fail("flatten", "start_dim is behind end_dim", (start_dim, end_dim), kind=ShapeError)
    shape = tuple(input.shape)
    size = 1
    for s in shape[a:b + 1]:
        size = size * s
    return reshape(input, (*shape[:a], size, *shape[b + 1:]))


# ---------------------------------------------------------------------------------- order in memory
CHANNELS_LAST = {"channels_last": 4, "channels_last_3d": 5}        # the rank that the format is for


def format_name(memory_format):
    """'contiguous_format', 'channels_last', ... of a memory format, None of None."""
    return None if memory_format is None else repr(memory_format).rpartition(".")[2]


def is_contiguous_as(input, memory_format):
    """True if the elements lie in that order without gaps."""
    name = format_name(memory_format)
    if name not in CHANNELS_LAST:
        return input.is_contiguous()
    return input.ndim == CHANNELS_LAST[name] and permute(input.detach(), (0, *range(2, input.ndim), 1)).is_contiguous()


def channels_last(input, name, place):
    """A copy with the channels innermost: place(input with its channels behind) puts the elements in order."""
    rank, strides = CHANNELS_LAST[name], channels_last_strides(input.shape, name)
    if input.requires_grad and _core.grad_mode() or input.is_shape_only or hasattr(type(input), "level"):
        return permute(place(permute(input, (0, *range(2, rank), 1))), (0, rank - 1, *range(1, rank - 1)))
    from flambeau.ops.write import write
    return write(_core.empty_strided(tuple(input.shape), strides, input.dtype), input)


def channels_last_strides(shape, name):
    """Strides with the channels (axis 1) innermost."""
    rank = CHANNELS_LAST[name]
    if len(shape) != rank:
        fail("contiguous", f"required rank {rank} tensor to use {name} format", tuple(shape), f"{rank} dims")
    return ordered_strides(shape, (0, *range(2, rank), 1))


def ordered_strides(shape, order):
    """Strides without gaps where the axes lie in this order, the last one innermost."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def kept_strides(input):
    """The strides of a new tensor that keeps the input's order of axes, None where that is row-major or unclear."""
    if input.is_contiguous() or input.ndim < 2:
        return None
    strides = input.stride()
    if any(step <= 0 and size > 1 for step, size in zip(strides, input.shape)):
        return None
    order = sorted(range(input.ndim), key=lambda axis: -strides[axis])
    return None if order == list(range(input.ndim)) else ordered_strides(input.shape, order)


def contiguous(input, memory_format=None):
    """The tensor itself if it is row-major, or in the order that `memory_format` names; else a copy that is."""
    if memory_format is None:
        found = _core.row_major_form(copy.__self__, input)
        if found is not NotImplemented:
            return found
    if getattr(type(input), "is_traced", False):
        return input
    name = format_name(memory_format)
    if name not in CHANNELS_LAST:
        return contiguous_copy(input)
    return input if is_contiguous_as(input, memory_format) else channels_last(input, name, contiguous_copy)


def clone(input, memory_format=None):
    """A copy, on the tape; in the order that `memory_format` names (by default the input's, where it has no gaps)."""
    name = format_name(memory_format)
    if name in CHANNELS_LAST and not getattr(type(input), "is_traced", False):
        return channels_last(input, name, lambda x: clone(contiguous_copy(x)))
    if name == "contiguous_format" and not input.is_contiguous():
        return contiguous(input)
    if input.dtype.kind == "c" and not input.is_shape_only:
        from flambeau.ops.reinterpret import view_as_complex, view_as_real
        return view_as_complex(copy(view_as_real(input)))
    return copy(input)
