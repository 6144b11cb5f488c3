"""Normalisation of batches, groups and channels, and the running statistics that go with it, over the ops of
`normalize`."""

from flambeau.base.errors import ShapeError, fail
from flambeau.ops.elementwise import maximum
from flambeau.ops.mathematics import rsqrt
from flambeau.ops.normalize import batch_norm_eval, batch_norm_train, layer_norm, narrow, norm, widen
from flambeau.ops.out import with_out
from flambeau.ops.padding import pad as pad_axes
from flambeau.ops.pooling import avg_pool2d
from flambeau.ops.reduce import mean
from flambeau.ops.spec import public
from flambeau.ops.view import reshape

_EPSILON = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7, "float32": 2.0 ** -23, "float64": 2.0 ** -52,
            "complex64": 2.0 ** -23, "complex128": 2.0 ** -52}


def normalize_batch(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """Normalise each channel (axis 1) over all other axes.

    In training the batch's own mean and variance are used and the running ones, where given, are moved
    towards them by the factor `momentum`; the running variance takes the unbiased estimate.
    """
    if not training:
        require_running("batch_norm", running_mean, running_var)
        return batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    if input.ndim < 2:
        fail("batch_norm", "the input has no channel axis", tuple(input.shape), "(batch, channels, ...)",
             kind=ShapeError)
    count = input.numel() // input.shape[1] if input.shape[1] else 0
    output, center, variance = batch_norm_train(input, weight, bias, eps)
    if count:
        follow(running_mean, center, momentum)
        follow(running_var, variance, momentum, count / max(count - 1, 1))      # the unbiased estimate
    return output


def require_running(name, running_mean, running_var):
    if running_mean is None or running_var is None:
        fail(name, "Expected running_mean and running_var to be defined when the input's own are not used",
             kind=RuntimeError)


def follow(running, value, momentum, factor=1.0):
    """Move a running statistic towards a value, outside the tape."""
    if running is None:
        return
    moved, factor = running.detach().mul_(1 - momentum), momentum * factor
    if moved.dtype.itemsize > 2:
        moved.add_(value.detach() * factor)
    else:
        moved.add_(value.detach(), alpha=factor)        # rounded once


@public(method=False)
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=False):
    """Normalise each channel (axis 1) over all other axes, or by the running statistics if not `training`."""
    return normalize_batch(input, running_mean, running_var, weight, bias, training, momentum, eps)


@public(method=False)
def instance_norm(input, weight, bias, running_mean, running_var,
                  use_input_stats, momentum, eps, cudnn_enabled=False):
    """Normalise each channel of each example over its own elements, or by the running statistics."""
    if not use_input_stats:
        require_running("instance_norm", running_mean, running_var)
        return batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    batch, channels = input.shape[:2]
    count = 1
    for size in input.shape[2:]:
        count *= size
    rows = reshape(input, (1, batch * channels, *input.shape[2:]))
    output, center, variance = batch_norm_train(rows, None, None, eps)
    follow(running_mean, mean(reshape(center, (batch, channels)), 0), momentum)
    follow(running_var, mean(reshape(variance, (batch, channels)), 0), momentum, count / max(count - 1, 1))
    return scaled(reshape(output, tuple(input.shape)), weight, bias)


def scaled(output, weight, bias):
    """output * weight + bias, which have an element a channel (axis 1)."""
    shape = (-1,) + (1,) * (output.ndim - 2)
    if weight is not None:
        output = output * reshape(weight, shape)
    return output if bias is None else output + reshape(bias, shape)


@public(method=False)
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=False):
    """Normalise each group of neighbouring channels of each example."""
    if input.ndim < 2:
        fail("group_norm", "Expected at least 2 dimensions for input tensor", tuple(input.shape),
             kind=RuntimeError)
    batch, channels = input.shape[:2]
    if num_groups < 1 or channels % num_groups:
        fail("group_norm", "Expected number of channels in input to be divisible by num_groups",
             f"{channels} channels, num_groups={num_groups}", kind=RuntimeError)
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None and tuple(vector.shape) != (channels,):
            fail("group_norm", f"Expected {name} to be a vector of size equal to the number of channels",
                 tuple(vector.shape), (channels,), kind=RuntimeError)
    count = input.numel() // (batch * num_groups) if batch else 0
    if count == 0:
        return scaled(input * 1.0, weight, bias)
    rows = reshape(input, (batch, num_groups, count))
    return scaled(reshape(layer_norm(rows, (count,), None, None, eps), tuple(input.shape)), weight, bias)


@public(method=False)
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """`input / sqrt(mean of squares + eps) * weight` over the last axes; eps None: the dtype's epsilon."""
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape):]) != shape:
        fail("rms_norm", "Given normalized_shape does not fit the input", tuple(input.shape),
             f"(..., {shape})",
             kind=RuntimeError)
    eps = _EPSILON[input.dtype.name] if eps is None else eps
    wide = widen(input)
    output = wide * rsqrt(mean(wide * wide, tuple(range(-len(shape), 0)), True) + eps)
    output = output if weight is None else output * weight
    return narrow(output, input.dtype)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide by a power of the mean square of the `size` neighbouring channels."""
    if input.ndim < 3:
        fail("local_response_norm", "Expected 3D or higher dimensionality input", tuple(input.shape),
             kind=ValueError)
    if input.numel() == 0:
        return input
    squares = reshape(input * input, (input.shape[0], 1, input.shape[1], -1))
    squares = pad_axes(squares, (0, 0, size // 2, (size - 1) // 2))
    means = reshape(avg_pool2d(squares, (size, 1), stride=1), tuple(input.shape))
    return input / (means * alpha + k) ** beta


def normalize(input, p=2.0, dim=1, eps=1e-12):
    """Divide by the p-norm along `dim`, at least `eps`."""
    return input / maximum(norm(input, float(p), dim, True), eps)


# ------------------------------------------------------------------------------ with the statistics they used
def inverse_deviation(variance, eps):
    return rsqrt(variance + eps)


@public(method=False)
@with_out
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """(batch norm, the mean it used, 1 / the standard deviation it used); both empty unless `training`."""
    if not training:
        require_running("native_batch_norm", running_mean, running_var)
        nothing = input.new_empty((0,))
        return batch_norm_eval(input, running_mean, running_var, weight, bias, eps), nothing, nothing
    count = input.numel() // input.shape[1] if input.shape[1] else 0
    output, center, variance = batch_norm_train(input, weight, bias, eps)
    follow(running_mean, center, momentum)
    follow(running_var, variance, momentum, count / max(count - 1, 1))
    return output, narrow(center, input.dtype), narrow(inverse_deviation(variance, eps), input.dtype)


@public(method=False)
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """(layer norm, the means it used, 1 / the standard deviations), the normalised axes kept with size 1."""
    axes = tuple(range(-len(normalized_shape), 0))
    wide = widen(input)
    center = mean(wide, axes, True)
    away = wide - center
    deviation = inverse_deviation(mean(away * away, axes, True), eps)
    return (layer_norm(input, tuple(normalized_shape), weight, bias, eps), narrow(center, input.dtype),
            narrow(deviation, input.dtype))


@public(method=False)
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """(group norm, the means (N, group) it used, 1 / the standard deviations)."""
    rows = reshape(widen(input), (N, group, C // group * HxW))
    center = mean(rows, 2, True)
    away = rows - center
    variance = mean(away * away, 2)
    output = group_norm(input, group, weight, bias, eps)
    return (output, narrow(reshape(center, (N, group)), input.dtype),
            narrow(inverse_deviation(variance, eps), input.dtype))
