"""Windows on memory given by strides: `as_strided`, and what the tape needs to follow writes through views.

The ops here depend on how their operands lie in memory, so no graph holds them and the registry does not know
them; they are only recorded. A window is given by sizes, strides and an offset (elements) from the first
element of a tensor whose strides are `layout`.
"""

from flambeau.base.errors import ArgumentError, ShapeError, fail
from flambeau.ops import plans
from flambeau.ops.kinds import Op
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime import _core
from flambeau.types.dtype import float32, float64, int64


def overlaps(size, stride):
    """True if two elements of such a window may stand at one place."""
    reach = 0
    for step, count in sorted((abs(step), count) for count, step in zip(size, stride) if count > 1):
        if step <= reach:
            return True
        reach += (count - 1) * step
    return False


def window_of(view):
    """The window that a view has on its base."""
    return {"size": tuple(view.shape), "stride": view.stride(),
            "offset": view.storage_offset() - view._base.storage_offset()}


def laid_out(x, layout):
    """x itself if its strides are `layout`, else a copy with these strides."""
    if x.stride() == layout:
        return x
    out = _filled(tuple(x.shape), layout, x.dtype, x)
    if x.requires_grad and _core.grad_mode():
        plans.record_python(_copy_op(), (x,), out, {})
    return out


def row_major(x):
    """A row-major copy of a real tensor, on the tape."""
    from flambeau.ops.write import write
    copying = _copy_op()
    if x.is_shape_only:
        return _core.shape_only(tuple(x.shape), x.dtype)
    out = _core.empty_strided(tuple(x.shape), None, x.dtype)
    plain = x.detach() if x.requires_grad else x
    if x.dtype.kind == "c":
        write(out, plain)
    else:
        _core.run_into(plans.elementwise_plan(copying, [plain], {}), [plain], out)
    out._reset_version()
    if x.requires_grad and _core.grad_mode():
        plans.record_python(copying, (x,), out, {})
    return out


def own_copy(x):
    """A gradient to keep: a row-major copy, or what the level of a sparse one makes of it."""
    return _copy_op().function(x.detach()) if is_wrapped(x) else row_major(x)


def _copy_op():
    from flambeau.ops.spec import REGISTRY
    return REGISTRY["copy"]


def _filled(shape, layout, dtype, value):
    from flambeau.ops.write import write
    out = write(_core.empty_strided(shape, layout, dtype),
                value if isinstance(value, int) else value.detach())
    out._reset_version()
    return out


class Recorded(Op):
    """An op that exists on the tape only."""

    derivative_in_python = True


class AsStrided(Recorded):
    """The window of a tensor."""

    name = "as_strided"

    @staticmethod
    def derivative(grad, x, *, size, stride, offset):
        return strided_sum(grad, tuple(x.shape), x.stride(), size, stride, offset)


class StridedSum(Recorded):
    """Zeros with the operand added in a window."""

    name = "strided_sum"

    @staticmethod
    def derivative(grad, values, *, layout, size, stride, offset):
        return strided_view(laid_out(grad, layout), size, stride, offset)


class CopySlices(Recorded):
    """A tensor with its window replaced by another one."""

    name = "copy_slices"
    signature = "input, source"
    operands = ("input", "source")

    @staticmethod
    def derivative(grad, x, source, *, size, stride, offset):
        grad = laid_out(grad, x.stride())
        zeros = _filled(size, None, grad.dtype, 0)
        return strided_put(grad, zeros, size, stride, offset), strided_view(grad, size, stride, offset)


AS_STRIDED, STRIDED_SUM, COPY_SLICES = AsStrided(), StridedSum(), CopySlices()


def strided_view(x, size, stride, offset):
    """The window as a view of x."""
    out = _core.view_of(x, size, stride, offset)
    if x.requires_grad and _core.grad_mode():
        plans.record_python(AS_STRIDED, (x,), out, {"size": size, "stride": stride, "offset": offset})
    return out


def strided_sum(values, shape, layout, size, stride, offset):
    """Zeros of `shape` and strides `layout` with `values` added in the window; its elements may coincide."""
    from flambeau.ops.write import write
    out = _filled(shape, layout, values.dtype, 0)
    window = _core.view_of(out, size, stride, offset)
    if overlaps(size, stride):
        _add_one_by_one(out, window, values.detach())
    else:
        write(window, values.detach())
    out._reset_version()
    if values.requires_grad and _core.grad_mode():
        plans.record_python(STRIDED_SUM, (values,), out,
                            {"layout": layout, "size": size, "stride": stride, "offset": offset})
    return out


def _add_one_by_one(out, window, values):
    """Slices of a window that do not coincide within themselves, one after the other."""
    if window.ndim == 0 or not overlaps(tuple(window.shape), window.stride()):
        from flambeau.ops.write import write
        write(window, window + values)
        return
    for place, value in zip(window, values):
        _add_one_by_one(out, place, value)


def strided_put(x, source, size, stride, offset):
    """A copy of x, its strides kept, with `source` in the window."""
    from flambeau.ops.write import write
    out = _filled(tuple(x.shape), x.stride(), x.dtype, x)
    write(_core.view_of(out, size, stride, offset), source.detach())
    out._reset_version()
    if _core.grad_mode() and (x.requires_grad or source.requires_grad):
        plans.record_python(COPY_SLICES, (x, source), out, {"size": size, "stride": stride, "offset": offset})
    return out


def as_strided(input, size, stride, storage_offset=None):
    """A view with given sizes and strides (elements), `storage_offset` counted from the start of the storage.

    Raises:
        RuntimeError: for a window that reaches outside the storage.
    """
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        fail("as_strided", "mismatch in length of strides and shape", (size, stride), kind=ShapeError)
    if any(s < 0 for s in (*size, *stride)):
        fail("as_strided", "as_strided: negative sizes and strides are not supported", (size, stride),
             kind=ArgumentError)
    if is_wrapped(input):
        return _picked(input, size, stride, storage_offset or 0)
    first = input.storage_offset() if storage_offset is None else storage_offset
    last = first + sum((n - 1) * step for n, step in zip(size, stride)) + 1 if 0 not in size else first
    room = len(input.storage_) // input.element_size()
    if first < 0 or last > room:
        fail("as_strided", "the window reaches outside the storage", f"elements {first} to {last}",
             f"within {room}",
             kind=ShapeError)
    return strided_view(input, size, stride, first - input.storage_offset())


def _picked(input, size, stride, first):
    """A window on a value of a transform, whose elements count as row-major: a copy of the elements it shows."""
    import numpy

    from flambeau.ops.index import index_select
    from flambeau.ops.view import reshape
    places = numpy.full(size, first, "int64")
    for axis, (count, step) in enumerate(zip(size, stride)):
        places += (numpy.arange(count) * step).reshape((count, *[1] * (len(size) - axis - 1)))
    if places.size and not 0 <= places.min() <= places.max() < input.numel():
        fail("as_strided", "the window reaches outside the tensor", f"elements {places.min()} to {places.max()}",
             f"within {input.numel()}", kind=ShapeError)
    from flambeau.ops.host import tensor_of
    index = tensor_of(places.reshape(-1), int64)
    picked = reshape(index_select(reshape(input, (-1,)), 0, index), size)
    picked.__dict__["is_copy"] = "as_strided"
    return picked


def stale_view(view):
    """The memory of a recorded view was written to since: its history is now that of its base."""
    base = view._base
    if base.requires_grad:
        plans.record_python(AS_STRIDED, (base,), view, window_of(view))


def complex_parts(x):
    """The real and the imaginary parts of a complex tensor as floating point windows on its memory."""
    half = float32 if x.dtype.itemsize == 8 else float64
    strides = [2 * step for step in x.stride()]
    return [_core.from_memory(x.data_ptr(), 0, x, tuple(x.shape), strides, place, half) for place in (0, 1)]


_core.set_hook("stale_view", stale_view)
_core.set_hook("own_copy", own_copy)
