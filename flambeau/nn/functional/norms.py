"""Normalisation, with the handling of running statistics."""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops import padding
from flambeau.ops.pooling import avg_pool2d
from flambeau.tensor import no_grad

_EPSILON = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7, "float32": 2.0 ** -23, "float64": 2.0 ** -52}


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
               eps=1e-05):
    """Normalise each channel (axis 1) over all other axes.

    In training the batch's own mean and variance are used and the running ones, where given, are moved
    towards them by the factor `momentum`; the running variance takes the unbiased estimate.
    """
    if not training:
        if running_mean is None or running_var is None:
            fail("batch_norm", "Expected running_mean and running_var to be defined when training=False",
                 kind=RuntimeError)
        return ops.batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    count = input.numel() // input.shape[1] if input.shape[1] else 0
    if count == 1:
        raise ValueError("Expected more than 1 value per channel when training, "
                         f"got input size {input.shape}")
    output, mean, variance = ops.batch_norm_train(input, weight, bias, eps)
    if count:
        _follow(running_mean, mean, momentum)
        _follow(running_var, variance, momentum, count / (count - 1))       # the unbiased estimate
    return output


def _follow(running, value, momentum, factor=1.0):
    """Move a running statistic towards a value."""
    if running is not None:
        with no_grad():
            running.mul_(1 - momentum).add_(value, alpha=momentum * factor)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-05):
    """Normalise each channel of each example over its own elements, or by the running statistics."""
    if not use_input_stats:
        if running_mean is None or running_var is None:
            fail("instance_norm", "Expected running_mean and running_var to be defined when use_input_stats=False",
                 kind=RuntimeError)
        return ops.batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    batch, channels = input.shape[:2]
    count = 1
    for size in input.shape[2:]:
        count *= size
    if count == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    rows = input.reshape(1, batch * channels, *input.shape[2:])
    output, mean, variance = ops.batch_norm_train(rows, None, None, eps)
    _follow(running_mean, mean.reshape(batch, channels).mean(0), momentum)
    _follow(running_var, variance.reshape(batch, channels).mean(0), momentum, count / max(count - 1, 1))
    return _scaled(output.reshape(input.shape), weight, bias)


def _scaled(output, weight, bias):
    """output * weight + bias, which have an element a channel (axis 1)."""
    shape = (-1,) + (1,) * (output.dim() - 2)
    if weight is not None:
        output = output * weight.reshape(shape)
    return output if bias is None else output + bias.reshape(shape)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05):
    """Normalise each group of neighbouring channels of each example."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    if num_groups < 1 or input.shape[1] % num_groups:
        fail("group_norm", "Expected number of channels in input to be divisible by num_groups",
             f"{input.shape[1]} channels, num_groups={num_groups}", kind=RuntimeError)
    batch, channels = input.shape[:2]
    count = input.numel() // (batch * num_groups) if batch else 0
    if count == 0:
        return _scaled(input, weight, bias)
    rows = input.reshape(batch, num_groups, count)
    return _scaled(ops.layer_norm(rows, (count,), None, None, eps).reshape(input.shape), weight, bias)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """Normalise over the last axes, whose sizes are `normalized_shape`."""
    return ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """`input / sqrt(mean of squares + eps) * weight` over the last axes; eps None: the dtype's epsilon."""
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape):]) != shape:
        fail("rms_norm", "Given normalized_shape does not fit the input", tuple(input.shape), f"(..., {shape})",
             kind=RuntimeError)
    eps = _EPSILON[input.dtype.name] if eps is None else eps
    wide = input.float() if input.dtype.itemsize == 2 else input
    axes = tuple(range(-len(shape), 0))
    output = wide * ops.rsqrt((wide * wide).mean(axes, keepdim=True) + eps)
    output = output if weight is None else output * weight
    return output.to(input.dtype)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide by a power of the mean square of the `size` neighbouring channels."""
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    squares = (input * input).reshape(input.shape[0], 1, input.shape[1], -1)
    squares = padding.pad(squares, (0, 0, size // 2, (size - 1) // 2))
    means = avg_pool2d(squares, (size, 1), stride=1).reshape(input.shape)
    return input / (means * alpha + k) ** beta


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divide by the p-norm along `dim`, at least `eps`."""
    norms = ops.norm(input, p, dim, True)
    result = input / ops.maximum(norms, eps)
    return result if out is None else out.copy_(result)
