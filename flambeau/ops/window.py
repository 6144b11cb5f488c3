"""Convolution and pooling, over sliding windows. Layout is (batch, channels, height, width)."""

from flambeau.base.lazy import LazyModule
from flambeau.ops.kinds import Window
from flambeau.ops.matmul import same_dtype
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.types.dtype import FLOATING, int64

numpy = LazyModule("numpy")


def out_size(size, kernel, stride, padding, dilation):
    """How many windows fit."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


class Convolving(Window):
    """What the three products of a convolution share: the window's numbers as attributes."""

    dtypes = FLOATING
    tolerance = ulps(512)

    def prepare(self, values):
        values = super().prepare(values)
        same_dtype(self.name, *(values[name] for name in self.operands))
        return values


NUMBERS = "kernel_size, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1"


@op
class Convolution(Convolving):
    """out[n, k] = bias[k] + sum over c, r, s of input[n, c, moved by (r, s)] * weight[k, c, r, s].

    Over two axes, or over three with the depth in front.
    """

    takes_epilogue = True
    signature = f"input, weight, bias, {NUMBERS}"
    operands = ("input", "weight", "bias")

    def infer_shape(x, w, bias=None, *, kernel_size, stride, padding, dilation, groups, **attrs):
        return (x[0], w[0], *map(out_size, x[2:], kernel_size, stride, padding, dilation))

    def lower(planner, inputs, outputs, *, kernel_size, stride, padding, dilation, groups, **attrs):
        x = inputs[0]
        spec = planner.templates.Convolution(kernel_size, stride, padding, dilation, groups, len(inputs) > 2,
                                             x.dtype)
        planner.templates.convolution(planner, "forward", inputs, outputs[0], spec, x.shape, outputs[0].shape)

    def derivative(grad, x, w, b=None, *, kernel_size, stride, padding, dilation, groups):
        from flambeau.ops.reduce import sum as total
        window = (kernel_size, stride, padding, dilation, groups)
        grads = (convolution_input_gradient(grad, w, tuple(x.shape), *window),      # noqa: F821
                 weight_gradient(x, grad, tuple(w.shape), *window))
        return grads if b is None else (*grads, total(grad, (0, *range(2, grad.ndim))))

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 4, 6, 5)), rng.uniform(-1, 1, (6, 4, 3, 3)), rng.uniform(-1, 1, (6,))]

    cases = [{"kernel_size": (3, 3)}, {"kernel_size": (3, 3), "stride": (2, 1), "padding": (1, 2)}]

    def reference(input, weight, bias=None, kernel_size=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1),
                  groups=1):
        axes = tuple(range(2, input.ndim))
        padded = numpy.pad(input, ((0, 0), (0, 0), *((p, p) for p in padding)))
        spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel_size, dilation))
        windows = numpy.lib.stride_tricks.sliding_window_view(padded, spans, axes)
        windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in (*stride, *dilation)))]
        n, c, *out_sizes = windows.shape[:input.ndim]
        windows = windows.reshape(n, groups, c // groups, *out_sizes, -1)
        filters = weight.reshape(groups, weight.shape[0] // groups, c // groups, -1)
        out = numpy.einsum("ngc...t,gkct->ngk...", windows, filters).reshape(n, weight.shape[0], *out_sizes)
        return out if bias is None else out + bias.reshape(-1, *(1 for _ in axes))


def weight_gradient(x, grad, size, kernel_size, stride, padding, dilation, groups):
    """The gradient of a convolution's weight of shape `size`. Over three axes each tap of the depth has a
    gradient over two: of the planes that it connects."""
    window = kernel_size[-2:], stride[-2:], padding[-2:], dilation[-2:], groups
    if len(kernel_size) == 2:
        return convolution_weight_gradient(x, grad, size, *window)                  # noqa: F821
    from flambeau.ops.join import stack
    from flambeau.ops.padding import pad
    from flambeau.ops.view import permute, reshape, slice_

    def planes(volume):             # (n, c, d, h, w) -> (d, n, c, h, w)
        return permute(volume, (2, 0, 1, 3, 4))

    n, c, *_ = x.shape
    x, seen, step = planes(x), planes(grad), stride[0]
    x = pad(x, (0, 0) * 4 + (padding[0],) * 2) if padding[0] else x
    rows = reshape(x, (x.shape[0] * n, c, *x.shape[3:]))        # those that a tap sees are neighbours
    seen = reshape(seen, (seen.shape[0] * seen.shape[1], *seen.shape[2:]))
    reach = (grad.shape[2] - 1) * step + 1

    def part(start):
        if step == 1:
            return slice_(rows, (("slice", start * n, (start + reach) * n, 1),))
        depths = reshape(rows, (x.shape[0], n, *rows.shape[1:]))
        taken = slice_(depths, (("slice", start, start + reach, step),))
        return reshape(taken, (taken.shape[0] * n, *rows.shape[1:]))

    starts = [tap * dilation[0] for tap in range(kernel_size[0])]
    return stack([convolution_weight_gradient(part(start), seen, (*size[:2], *size[3:]), *window)   # noqa: F821
                  for start in starts], 2)


def unfold(image, kernel, stride, padding, dilation):
    """NumPy: every window of an image, (n, c, kernel rows, kernel columns, out rows, out columns)."""
    n, c, h, w = image.shape
    padded = numpy.pad(image, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    oh, ow = (out_size(image.shape[2 + i], kernel[i], stride[i], padding[i], dilation[i]) for i in (0, 1))
    columns = numpy.empty((n, c, *kernel, oh, ow), image.dtype)
    for r in range(kernel[0]):
        for s in range(kernel[1]):
            top, left = r * dilation[0], s * dilation[1]
            columns[:, :, r, s] = padded[:, :, top:top + oh * stride[0]:stride[0],
                                         left:left + ow * stride[1]:stride[1]]
    return columns


@op
class ConvolutionInputGradient(Convolving):
    """The gradient of a convolution's input of shape `size`."""

    internal = True
    signature = f"grad, weight, size, {NUMBERS}"
    operands = ("grad", "weight")

    def infer_shape(grad, w, *, size, **attrs):
        return tuple(size)

    def lower(planner, inputs, outputs, *, size, kernel_size, stride, padding, dilation, groups):
        grad = inputs[0]
        spec = planner.templates.Convolution(kernel_size, stride, padding, dilation, groups, False,
                                             grad.dtype)
        planner.templates.convolution(planner, "backward_data", inputs, outputs[0], spec, outputs[0].shape,
                                      grad.shape)

    def derivative(g, grad, w, *, size, kernel_size, stride, padding, dilation, groups):
        window = (kernel_size, stride, padding, dilation, groups)
        return (convolution(g, w, None, *window),                                   # noqa: F821
                weight_gradient(g, grad, tuple(w.shape), *window))


@op
class ConvolutionWeightGradient(Convolving):
    """The gradient of a convolution's weight of shape `size`."""

    internal = True
    signature = f"input, grad, size, {NUMBERS}"
    operands = ("input", "grad")

    def infer_shape(x, grad, *, size, **attrs):
        return tuple(size)

    def lower(planner, inputs, outputs, *, size, kernel_size, stride, padding, dilation, groups):
        x, grad = inputs
        spec = planner.templates.Convolution(kernel_size, stride, padding, dilation, groups, False,
                                             grad.dtype)
        planner.templates.convolution(planner, "backward_weight", inputs, outputs[0], spec, x.shape,
                                      grad.shape)

    def derivative(g, x, grad, *, size, kernel_size, stride, padding, dilation, groups):
        window = (kernel_size, stride, padding, dilation, groups)
        return (convolution_input_gradient(grad, g, tuple(x.shape), *window),   # noqa: F821
                convolution(x, g, None, *window))                               # noqa: F821


def pair(value):
    """An int stands for both axes."""
    return (value, value) if isinstance(value, int) else tuple(value) * (2 // len(value))


# ---------------------------------------------------------------------------------- pooling
POOL = "kernel_size, stride, padding=(0, 0), dilation=(1, 1), ceil_mode=False"


def pool_params(x, out):
    """The sizes that the pooling templates take."""
    return {"planes": x.shape[0] * x.shape[1], "H": x.shape[2], "W": x.shape[3], "OH": out.shape[2],
            "OW": out.shape[3]}


@op
class MaxPool2dWithIndices(Window):
    """The maximum of each window and its place in the plane."""

    signature = f"input, {POOL}"
    outputs = ("values", "indices")
    dtypes = FLOATING
    tolerance = ulps(0)
    cases = [{"kernel_size": (2, 2), "stride": (2, 2)},
             {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 1)}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 3, 7, 6))]

    def infer_shape(x, *, kernel_size, stride, padding, dilation, ceil_mode):
        shape = (x[0], x[1], *(pool_size(x[2 + i], kernel_size[i], stride[i], padding[i], dilation[i],
                                         ceil_mode)
                               for i in (0, 1)))
        return shape, shape

    def infer_dtype(x, **attrs):
        return x, int64

    def lower(planner, inputs, outputs, *, kernel_size, stride, padding, dilation, ceil_mode):
        x = planner.dense(inputs[0])
        spec = planner.templates.Pooling(kernel_size, stride, padding, dilation, x.dtype)
        work = outputs[0].shape[0] * outputs[0].shape[1] * outputs[0].shape[2] * outputs[0].shape[3]
        planner.launch_template(planner.templates.max_pool2d(spec), [x, *outputs], pool_params(x, outputs[0]),
                                work * (4 * kernel_size[0] * kernel_size[1]))

    def derivative(grads, out, x, *, kernel_size, stride, padding, dilation, ceil_mode):
        return max_pool2d_gradient(grads[0], out[1], tuple(x.shape), kernel_size, stride, padding, dilation)   # noqa: F821

    def reference(input, kernel_size=None, stride=None, padding=(0, 0), dilation=(1, 1), ceil_mode=False):
        places = numpy.arange(input.shape[2] * input.shape[3], dtype="int64").reshape(1, 1, *input.shape[2:])
        outside = ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)
        padded = numpy.pad(input.astype("float64"), outside, constant_values=-numpy.inf)
        columns = unfold(padded, kernel_size, stride, (0, 0), dilation)
        index = unfold(numpy.pad(places, outside), kernel_size, stride, (0, 0), dilation)
        flat = columns.reshape(*columns.shape[:2], -1, *columns.shape[4:])
        best = flat.argmax(2)[:, :, None]
        index = numpy.broadcast_to(index.reshape(1, 1, -1, *columns.shape[4:]), flat.shape)
        return (numpy.take_along_axis(flat, best, 2)[:, :, 0].astype(input.dtype),
                numpy.take_along_axis(index, best, 2)[:, :, 0])


def pool_size(size, kernel, stride, padding, dilation, ceil_mode):
    """The number of windows along an axis, as PyTorch counts with ceil_mode."""
    if not ceil_mode:
        return out_size(size, kernel, stride, padding, dilation)
    from flambeau.types.dim import minimum
    count = (size + 2 * padding - dilation * (kernel - 1) - 1 + stride - 1) // stride + 1
    return minimum(count, (size + padding - 1) // stride + 1)    # the last window starts inside


@op
class MaxPool2dGradient(Window):
    """Each gradient goes to the place of its maximum; kernel_size None: of windows of no fixed size."""

    internal = True
    signature = "grad, indices, size, kernel_size, stride, padding, dilation"
    operands = ("grad", "indices")
    dtypes = FLOATING

    def infer_shape(grad, indices, *, size, **attrs):
        return tuple(size)

    def lower(planner, inputs, outputs, *, size, kernel_size, stride, padding, dilation):
        grad, indices = (planner.dense(i) for i in inputs)
        spec = planner.templates.Pooling(kernel_size, stride, padding, dilation, grad.dtype)
        work = outputs[0].shape[0] * outputs[0].shape[1] * outputs[0].shape[2] * outputs[0].shape[3]
        planner.launch_template(planner.templates.max_pool2d_backward(spec), [grad, indices, outputs[0]],
                                pool_params(outputs[0], grad), 4 * work)

    def derivative(g, grad, indices, *, size, kernel_size, stride, padding, dilation):
        from flambeau.ops.index import gather
        from flambeau.ops.view import flatten, reshape
        picked = gather(flatten(g, 2), 2, flatten(indices, 2))
        return reshape(picked, tuple(indices.shape)), None
