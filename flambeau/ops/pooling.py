"""Pooling over 1 to 3 axes, by the kernels for two: one axis is two with a size of 1, three are planes first
and then depth, because maxima of maxima and means of means of windows are those of the whole window.

Inputs are (batch, channels, *sizes) or (channels, *sizes). Indices are places in the input's (*sizes), row
by row.
"""

import math

from flambeau.base.errors import ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.create import iota
from flambeau.ops.elementwise import cast, sign, where
from flambeau.ops.index import gather, gather_sum
from flambeau.ops.interpose import visible
from flambeau.ops.kinds import Window
from flambeau.ops.normalize import narrow, widen
from flambeau.ops.out import with_out
from flambeau.ops.reduce import amax, amin, mean
from flambeau.ops.resample import resample_axis
from flambeau.ops.samples import ulps
from flambeau.ops.spec import as_int, op, public
from flambeau.ops.view import flatten, reshape, squeeze
from flambeau.runtime._core import Tensor
from flambeau.ops.window import max_pool2d_with_indices, pool_params, pool_size, unfold
from flambeau.types.dtype import FLOATING, float64, int64
from flambeau.types.shape import show_shape

numpy = LazyModule("numpy")

SMALL_WINDOW = 32           # elements of a window whose maximum may be had without its place
FAR_STRIDE = 8              # and strides and dilations up to which strips of rows have room
LARGE_WINDOW = 16           # elements of a window from which on means are taken axis by axis


# ------------------------------------------------------------------------------ means of windows of planes
NUMBERS = ("kernel_size, stride, padding=(0, 0), ceil_mode=False, count_include_pad=True, "
           "divisor_override=None")


class Averaging(Window):
    """What the mean of windows and its gradient share."""

    internal = True
    dtypes = FLOATING
    tolerance = ulps(64)


@op
class AveragePlanes(Averaging):
    """The mean of each window: (n, c, h, w) -> (n, c, h', w')."""

    signature = f"image, {NUMBERS}"
    operands = ("image",)
    cases = [{"kernel_size": (2, 2), "stride": (2, 2)},
             {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 1)},
             {"kernel_size": (3, 2), "stride": (1, 1), "divisor_override": 4}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 3, 7, 6))]

    def infer_shape(x, *, kernel_size, stride, padding, ceil_mode, **attrs):
        return (x[0], x[1], *(pool_size(x[2 + i], kernel_size[i], stride[i], padding[i], 1, ceil_mode)
                              for i in (0, 1)))

    def lower(planner, inputs, outputs, *, kernel_size, stride, padding, ceil_mode, **divisor):
        x = planner.dense(inputs[0])
        spec = planner.templates.Pooling(kernel_size, stride, padding, (1, 1), x.dtype, **divisor)
        planner.launch_template(planner.templates.avg_pool2d(spec), [x, outputs[0]],
                                pool_params(x, outputs[0]),
                                count_of(outputs[0]) * 2 * kernel_size[0] * kernel_size[1])

    def derivative(grad, x, *, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        return average_planes_gradient(grad, tuple(x.shape), kernel_size, stride, padding,      # noqa: F821
                                       ceil_mode, count_include_pad, divisor_override)

    def reference(image, kernel_size=None, stride=None, padding=(0, 0), ceil_mode=False,
                  count_include_pad=True,
                  divisor_override=None):
        columns = unfold(image, kernel_size, stride, padding, (1, 1))
        return columns.sum(axis=(2, 3)) / (divisor_override or kernel_size[0] * kernel_size[1])


def count_of(located):
    count = 1
    for s in located.shape:
        count = count * s
    return count


@op
class AveragePlanesGradient(Averaging):
    """The gradient of the input, of shape `size`, of `average_planes`."""

    signature = f"grad, size, {NUMBERS}"
    operands = ("grad",)
    cases = [{"size": (2, 3, 6, 6), "kernel_size": (2, 2), "stride": (2, 2)}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 3, 3, 3))]

    def infer_shape(grad, *, size, **attrs):
        return tuple(size)

    def lower(planner, inputs, outputs, *, size, kernel_size, stride, padding, ceil_mode, **divisor):
        grad = planner.dense(inputs[0])
        spec = planner.templates.Pooling(kernel_size, stride, padding, (1, 1), grad.dtype, **divisor)
        planner.launch_template(planner.templates.avg_pool2d_backward(spec), [grad, outputs[0]],
                                pool_params(outputs[0], grad), 8 * count_of(outputs[0]))

    def derivative(g, grad, *, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        return average_planes(g, kernel_size, stride, padding, ceil_mode, count_include_pad,    # noqa: F821
                              divisor_override)

    def reference(grad, size, kernel_size, stride, **numbers):
        return numpy.repeat(numpy.repeat(grad, kernel_size[0], 2),
                            kernel_size[1], 3) / numpy.prod(kernel_size)


# ------------------------------------------------------------------------------ windows of any rank
def numbers_of(value, rank, name, what):
    """An int or a sequence of `rank` (or one) ints as a tuple."""
    value = as_int(value)
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    values = values * rank if len(values) == 1 else values
    if len(values) != rank:
        fail(name, f"{what} must be an int or a tuple of {rank} ints", value, kind=RuntimeError)
    return values


class Windows:
    """The checked numbers of a pooling over `rank` axes."""

    def __init__(self, name, rank, input, kernel_size, stride, padding, dilation, ceil_mode):
        self.rank, self.ceil_mode = rank, bool(ceil_mode)
        self.kernel = numbers_of(kernel_size, rank, name, "kernel_size")
        omitted = stride is None or (not isinstance(stride, int) and not len(stride))
        self.stride = self.kernel if omitted else numbers_of(stride, rank, name, "stride")
        self.padding = numbers_of(padding, rank, name, "padding")
        self.dilation = numbers_of(dilation, rank, name, "dilation")
        if min(self.kernel) < 1:
            fail(name, "kernel size should be greater than zero", self.kernel, kind=RuntimeError)
        if min(self.stride) < 1:
            fail(name, "stride should not be zero", self.stride, kind=RuntimeError)
        if min(self.dilation) < 1:
            fail(name, "dilation should be greater than zero", self.dilation, kind=RuntimeError)
        if any(p < 0 or 2 * p > d * (k - 1) + 1 for p, k, d in zip(self.padding, self.kernel, self.dilation)):
            fail(name, "pad should be at most half of effective kernel size", self.padding,
                 f"0 to half of {self.kernel}", kind=RuntimeError)
        check_rank(name, input, rank)
        sizes = [pool_size(*n, self.ceil_mode) for n in zip(input.shape[-rank:], self.kernel, self.stride,
                                                            self.padding, self.dilation)]
        if any(isinstance(s, int) and s < 1 for s in sizes):
            fail(name, "the output would be empty", show_shape(input.shape),
                 f"an input of at least {self.kernel}", kind=ShapeError)

    def planes(self):
        """(kernel, stride, padding, dilation) as pairs for the last two axes."""
        lead = max(2 - self.rank, 0)
        return tuple((fill,) * lead + numbers[-2:] for fill, numbers in (
            (1, self.kernel), (1, self.stride), (0, self.padding), (1, self.dilation)))

    def depth(self):
        """The same for the first of three axes, seen as (depth, everything else)."""
        return tuple((numbers[0], fill) for fill, numbers in (
            (1, self.kernel), (1, self.stride), (0, self.padding), (1, self.dilation)))


def check_rank(name, input, rank):
    """The input is (batch, channels, *sizes) or (channels, *sizes), and only the batch may be empty."""
    if input.ndim not in (rank + 1, rank + 2):
        fail(name, f"Expected {rank + 1}D or {rank + 2}D input", show_shape(input.shape),
             f"(batch, channels, {rank} sizes) or (channels, {rank} sizes)", kind=ShapeError)
    if any(isinstance(s, int) and s == 0 for s in input.shape[-rank - 1:]):
        fail(name, "only the batch may be empty", show_shape(input.shape), kind=ShapeError)


def as_planes(input, rank):
    """The input as (1, planes, h, w); three axes as (planes, depth, h, w)."""
    sizes = tuple(input.shape[-rank:])
    count = 1
    for s in input.shape[:-rank]:
        count = count * s
    if rank == 3:
        return reshape(input, (count, *sizes))
    return reshape(input, (1, count, *((1,) * (2 - rank)), *sizes))


def from_planes(out, input, rank):
    """The result of planes in the rank of the input."""
    return reshape(out, (*input.shape[:-rank], *out.shape[-rank:]))


def max_pool(name, rank, input, kernel_size, stride, padding, dilation, ceil_mode, wanted=True):
    """(the maximum of each window, its place; no place where it is neither `wanted` nor needed)."""
    w = Windows(name, rank, input, kernel_size, stride, padding, dilation, ceil_mode)
    x = as_planes(input, rank)
    small = math.prod(w.kernel[-2:]) <= SMALL_WINDOW and max(*w.stride, *w.dilation) <= FAR_STRIDE
    if small and not wanted and type(x) is Tensor and not x.requires_grad:
        values = max_planes(x, *w.planes(), w.ceil_mode)                                        # noqa: F821
        if rank == 3:
            count, depth, height, width = values.shape
            values = max_planes(reshape(values, (count, 1, depth, height * width)), *w.depth(), # noqa: F821
                                w.ceil_mode)
            values = reshape(values, (count, values.shape[2], height, width))
        return from_planes(values, input, rank), None
    values, places = max_pool2d_with_indices(x, *w.planes(), w.ceil_mode)
    if rank == 3:
        values, places = max_over_depth(values, places, x.shape, w)
    return from_planes(values, input, rank), from_planes(places, input, rank)


@op
class MaxPlanes(Window):
    """The maximum of each window, without its place and without a gradient."""

    internal = True
    differentiable = False
    signature = "image, kernel_size, stride, padding=(0, 0), dilation=(1, 1), ceil_mode=False"
    operands = ("image",)
    dtypes = FLOATING
    tolerance = ulps(0)
    cases = [{"kernel_size": (2, 2), "stride": (2, 2)},
             {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 1)}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 3, 7, 6))]

    def infer_shape(x, **numbers):
        from flambeau.ops.window import MaxPool2dWithIndices
        return MaxPool2dWithIndices.infer_shape(x, **numbers)[0]

    def lower(planner, inputs, outputs, *, kernel_size, stride, padding, dilation, ceil_mode):
        x, out = planner.dense(inputs[0]), outputs[0]
        spec = planner.templates.Pooling(kernel_size, stride, padding, dilation, x.dtype)
        planner.launch_template(planner.templates.max_pool2d_values(spec), [x, out], pool_params(x, out),
                                count_of(out) * 2 * kernel_size[0] * kernel_size[1])

    def reference(image, **numbers):
        from flambeau.ops.window import MaxPool2dWithIndices
        return MaxPool2dWithIndices.reference(image, **numbers)[0]


def max_over_depth(values, places, sizes, w):
    """From the maxima of planes (planes, depth, h', w') and their places to those of whole windows."""
    count, depth, height, width = values.shape
    flat = reshape(values, (count, 1, depth, height * width))
    best, chosen = max_pool2d_with_indices(flat, *w.depth(), w.ceil_mode)
    return places_in_depth(best, chosen, places, sizes, best.shape[2])


def places_in_depth(best, chosen, places, sizes, depth):
    """(values, places) as (planes, depth', h', w') from maxima over the depth (planes, 1, depth', h' * w'),
    their places in (depth, h' * w') and the places in a plane of what was chosen from."""
    count, _, height, width = places.shape
    chosen = flatten(chosen, 1)
    place = gather(flatten(places, 1), 1, chosen) + chosen // (height * width) * (sizes[2] * sizes[3])
    shape = (count, depth, height, width)
    return reshape(best, shape), reshape(place, shape)


def avg_pool(name, rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The mean of each window; of integers without its fraction."""
    if input.dtype.kind in "iu":
        means = avg_pool(name, rank, cast(input, float64), kernel_size, stride, padding, ceil_mode,
                         count_include_pad, divisor_override)
        return cast(means, input.dtype)
    if divisor_override is not None and divisor_override == 0:
        fail(name, "divisor must be not zero", divisor_override, kind=RuntimeError)
    w = Windows(name, rank, input, kernel_size, stride, padding, 1, ceil_mode)
    if math.prod(w.kernel) > LARGE_WINDOW or max(w.stride) > FAR_STRIDE:
        return avg_by_axes(input, w, bool(count_include_pad), divisor_override)
    kernel, step, border, _ = w.planes()
    shared = (w.ceil_mode, bool(count_include_pad))
    first_divisor = 1 if rank == 3 and divisor_override is not None else divisor_override
    out = average_planes(as_planes(input, rank), kernel, step, border, *shared, first_divisor)  # noqa: F821
    if rank == 3:
        count, depth, height, width = out.shape
        kernel, step, border, _ = w.depth()
        out = reshape(out, (count, 1, depth, height * width))
        out = average_planes(out, kernel, step, border, *shared, divisor_override)              # noqa: F821
        out = reshape(out, (count, out.shape[2], height, width))
    return from_planes(out, input, rank)


def avg_by_axes(input, w, include_pad, divisor_override):
    """The mean of each window as the mean along one axis after the other."""
    out, mode = widen(input), "windows" if divisor_override is None else "sums"
    for i in range(w.rank):
        axis = input.ndim - w.rank + i
        count = pool_size(input.shape[axis], w.kernel[i], w.stride[i], w.padding[i], 1, w.ceil_mode)
        numbers = w.kernel[i], w.stride[i], w.padding[i]
        out = resample_axis(out, axis, count, mode, numbers, False, include_pad)
    return narrow(out if divisor_override is None else out / divisor_override, input.dtype)


@public(method=False)
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The maximum of each window: (n, c, length) -> (n, c, length')."""
    return max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, False)[0]


@public(method=False)
def max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """`max_pool1d` and the places of the maxima."""
    return max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


@public(method=False)
def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The maximum of each window: (n, c, h, w) -> (n, c, h', w'); numbers as ints or pairs.

    Args:
        stride: how far windows are apart (default: kernel_size).
    """
    return max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, False)[0]


@public(method=False)
def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The maximum of each window: (n, c, d, h, w) -> (n, c, d', h', w')."""
    return max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, False)[0]


@public(method=False)
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window: (n, c, length) -> (n, c, length')."""
    return avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@with_out
def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """The mean of each window: (n, c, h, w) -> (n, c, h', w')."""
    return avg_pool("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                    divisor_override)


@with_out
@visible
def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """The mean of each window: (n, c, d, h, w) -> (n, c, d', h', w')."""
    return avg_pool("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                    divisor_override)


def lp_pool(rank, input, norm_type, kernel_size, stride, ceil_mode):
    """The p-norm of each window, of the sum of powers p and its sign."""
    kernel = numbers_of(kernel_size, rank, f"lp_pool{rank}d", "kernel_size")
    powers = avg_pool(f"lp_pool{rank}d", rank, input ** norm_type, kernel_size, stride, 0, ceil_mode, True,
                      None)
    count = 1
    for k in kernel:
        count *= k
    return (sign(powers) * abs(powers) * count) ** (1.0 / norm_type)


# ------------------------------------------------------------------------------ windows by their number
def wanted_sizes(name, rank, input, output_size):
    """The sizes of the result; None keeps that of the input."""
    check_rank(name, input, rank)
    sizes = (output_size,) * rank if isinstance(output_size,
             int) or output_size is None else tuple(output_size)
    sizes = sizes * rank if len(sizes) == 1 else sizes
    if len(sizes) != rank:
        fail(name, f"output_size must have {rank} sizes", output_size, kind=RuntimeError)
    sizes = tuple(own if s is None else s for own, s in zip(input.shape[-rank:], sizes))
    if min(sizes) < 0:
        fail(name, "elements of output_size must be greater than or equal to 0", sizes, kind=RuntimeError)
    return sizes


@op
class AdaptiveMaxPlanes(Window):
    """The maximum, and its place in the plane, of windows that cover a plane evenly."""

    internal = True
    signature = "image, height, width"
    operands = ("image",)
    outputs = ("values", "indices")
    dtypes = FLOATING
    tolerance = ulps(0)
    cases = [{"height": 3, "width": 2}, {"height": 7, "width": 9}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 3, 7, 5))]

    def infer_shape(x, *, height, width):
        return ((x[0], x[1], height, width),) * 2

    def infer_dtype(x, **attrs):
        return x, int64

    def lower(planner, inputs, outputs, **attrs):
        x = planner.dense(inputs[0])
        planner.launch_template(planner.templates.adaptive_max_pool2d(x.dtype), [x, *outputs],
                                pool_params(x, outputs[0]), 8 * (count_of(x) + count_of(outputs[0])))

    def derivative(grads, out, x, *, height, width):
        from flambeau.ops.window import max_pool2d_gradient
        return max_pool2d_gradient(grads[0], out[1], tuple(x.shape), None, None, None, None)

    def reference(image, height, width):
        values = numpy.empty((*image.shape[:2], height, width), image.dtype)
        places = numpy.empty(values.shape, "int64")
        for row in range(height):
            for column in range(width):
                (top, bottom), (left, right) = (
                    (i * size // count, -(-(i + 1) * size // count)) for i, size, count in
                    zip((row, column), image.shape[2:], (height, width)))
                window = image[:, :, top:bottom, left:right].reshape(*image.shape[:2], -1)
                best = window.argmax(-1)
                values[:, :, row, column] = window.max(-1)
                down, along = numpy.divmod(best, right - left)
                places[:, :, row, column] = (down + top) * image.shape[3] + along + left
        return values, places


def adaptive_avg_pool(name, rank, input, output_size):
    """The means of windows that cover the input evenly."""
    sizes = wanted_sizes(name, rank, input, output_size)
    if all(s == 1 for s in sizes):
        return mean(input, tuple(range(-rank, 0)), True)
    out = widen(input)
    for axis in range(rank):
        if sizes[axis] != out.shape[axis - rank]:
            out = resample_axis(out, input.ndim - rank + axis, sizes[axis], "even")
    return narrow(out, input.dtype)


def adaptive_max_pool(name, rank, input, output_size):
    """(the maxima of windows that cover the input evenly, their places)."""
    sizes = wanted_sizes(name, rank, input, output_size)
    height, width = (1, *sizes)[-2:]
    x = as_planes(input, rank)
    values, places = adaptive_max_planes(x, height, width)                                      # noqa: F821
    if rank == 3:
        count, depth = values.shape[:2]
        flat = reshape(values, (count, 1, depth, height * width))
        best, chosen = adaptive_max_planes(flat, sizes[0], height * width)                      # noqa: F821
        values, places = places_in_depth(best, chosen, places, x.shape, sizes[0])
    return from_planes(values, input, rank), from_planes(places, input, rank)


def first_largest(picked, inside, axis):
    """(the largest element along an axis, which goes from it, its index with the axis kept); NaN is the
    largest."""
    values = picked.detach()
    low = where(inside, values, -float("inf")) if values.dtype.kind == "f" else values
    best = amax(low, axis, True)
    hit = inside & ((low == best) | (low != low))
    length = picked.shape[axis]
    shape = tuple(length if a == axis else 1 for a in range(picked.ndim))
    index = amin(where(hit, reshape(iota((length,), 0, int64), shape), length - 1), axis, True)
    return squeeze(gather(picked, axis, index), axis), index


@public(method=False)
def adaptive_avg_pool1d(input, output_size):
    """Means of `output_size` windows that cover the input evenly: (n, c, length) -> (n, c, output_size)."""
    return adaptive_avg_pool("adaptive_avg_pool1d", 1, input, output_size)


@public(method=False)
def adaptive_max_pool1d(input, output_size):
    """(maxima, places) of `output_size` windows that cover the input evenly."""
    return adaptive_max_pool("adaptive_max_pool1d", 1, input, output_size)


# ------------------------------------------------------------------------------ back to the places of maxima
def max_unpool(name, rank, input, indices, output_size):
    """Zeros of `output_size` (*sizes) with each value at its place, the mean of them where several have the
    same."""
    if indices.dtype is not int64:
        fail(name, "elements in indices should be type int64", indices.dtype, kind=RuntimeError)
    if tuple(indices.shape) != tuple(input.shape):
        fail(name, "Expected shape of indices to be that of the input", show_shape(indices.shape),
             show_shape(input.shape), kind=RuntimeError)
    lead = tuple(input.shape[:-rank])
    area = 1
    for s in output_size:
        area *= s
    place = flatten(indices, len(lead))
    values = flatten(input, len(lead))
    count = gather_sum(ones_like_index(place), len(lead), place, area)
    share = narrow(gather(count, len(lead), place), values.dtype)
    out = gather_sum(values, len(lead), place, area)
    if input.numel() and amax(count).item() > 1:        # the mean, with the whole gradient for each
        out = gather_sum(values.detach() / share, len(lead), place, area) + (out - out.detach())
    return reshape(out, (*lead, *output_size))


def ones_like_index(place):
    """A one for each place."""
    return place * 0 + 1
