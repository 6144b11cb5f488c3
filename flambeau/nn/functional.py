"""Functions behind the layers: the one file of `nn` that calls `ops`.

Arguments and defaults are PyTorch's. A function that only forwards to an op keeps its checks there; what
stands here is the handling of `inplace`, `training`, running statistics and `reduction`.
"""

import warnings

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.tensor import no_grad
from flambeau.tensor.rng import next_key


# ---------------------------------------------------------------------------------- linear, convolution

def linear(input, weight, bias=None):
    """`input @ weight.T + bias`: (..., in), (out, in), (out) -> (..., out)."""
    return ops.linear(input, weight, bias)


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """1-d convolution: (batch, in, length), (out, in/groups, kernel) -> (batch, out, length')."""
    stride, dilation = single(stride), single(dilation)
    padding = padding if isinstance(padding, str) else (0, *single(padding))
    return conv2d(input.unsqueeze(-2), weight.unsqueeze(-2), bias, (1, *stride), padding,
                  (1, *dilation), groups).squeeze(-2)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """2-d convolution: (batch, in, height, width), (out, in/groups, kh, kw) -> (batch, out, h', w').

    An input without batch axis gives an output without. `padding` is a size, a pair, 'valid' or 'same'.
    """
    stride, dilation = pair(stride), pair(dilation)
    if input.dim() not in (3, 4):
        fail("conv2d", "the input's rank is wrong", got=f"{input.dim()} axes",
             want="(batch, channels, height, width) or (channels, height, width)")
    input, padding = _explicit_padding(input, weight, padding, stride, dilation)
    if input.dim() == 3:
        return ops.conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    return ops.conv2d(input, weight, bias, stride, padding, dilation, groups)


def _explicit_padding(input, weight, padding, stride, dilation):
    """Resolve 'same' and 'valid'; where 'same' is uneven, the input is padded here on the far side."""
    if padding == "valid":
        return input, (0, 0)
    if padding != "same":
        return input, pair(padding)
    if stride != (1, 1):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [step * (kernel - 1) for step, kernel in zip(dilation, weight.shape[-2:])]
    if any(each % 2 for each in total):
        input = pad(input, (0, total[1] % 2, 0, total[0] % 2))
    return input, tuple(each // 2 for each in total)


def pad(input, pad, mode="constant", value=None):
    """Surround the last axes by `value`; `pad` is (left, right) of the last axis, then of the one before."""
    if mode != "constant":
        raise NotImplementedError(f"pad mode {mode!r} is not available yet; 'constant' is")
    return ops.pad(input, tuple(pad), 0 if value is None else value)


# ---------------------------------------------------------------------------------- pooling

def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum over windows: (batch, channels, height, width) -> (batch, channels, height', width')."""
    if return_indices:
        raise NotImplementedError("max_pool2d: return_indices=True is not available yet")
    kernel = pair(kernel_size)
    stride = kernel if stride is None or stride == () or stride == [] else pair(stride)
    if input.dim() == 3:
        batch = input.unsqueeze(0)
        return ops.max_pool2d(batch, kernel, stride, pair(padding), pair(dilation), ceil_mode).squeeze(0)
    return ops.max_pool2d(input, kernel, stride, pair(padding), pair(dilation), ceil_mode)


# ---------------------------------------------------------------------------------- normalisation

def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
               eps=1e-05):
    """Normalise each channel (axis 1) over all other axes.

    In training the batch's own mean and variance are used and the running ones, where given, are moved
    towards them by the factor `momentum`; the running variance takes the unbiased estimate.
    """
    if not training:
        return ops.batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    count = input.numel() // input.shape[1] if input.shape[1] else 0
    if count == 1:
        raise ValueError("Expected more than 1 value per channel when training, "
                         f"got input size {input.shape}")
    output, mean, variance = ops.batch_norm_train(input, weight, bias, eps)
    if count == 0:
        return output
    with no_grad():
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        if running_var is not None:
            factor = momentum * count / (count - 1)             # the unbiased estimate
            running_var.mul_(1 - momentum).add_(variance, alpha=factor)
    return output


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """Normalise over the last axes, whose sizes are `normalized_shape`."""
    return ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


# ---------------------------------------------------------------------------------- activation

def _into(input, result, inplace):
    return input.copy_(result) if inplace else result


def relu(input, inplace=False):
    """The larger of each element and 0."""
    return input.relu_() if inplace else ops.relu(input)


def gelu(input, approximate="none"):
    """`x * P(X <= x)` for a standard normal X; `approximate='tanh'` uses the tanh formula."""
    return ops.gelu(input, approximate=approximate)


def tanh(input):
    """Hyperbolic tangent."""
    return ops.tanh(input)


def sigmoid(input):
    """`1 / (1 + exp(-x))`."""
    return ops.sigmoid(input)


def silu(input, inplace=False):
    """`x * sigmoid(x)`."""
    return _into(input, ops.silu(input), inplace)


def _softmax_axis(name, ndim):
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. "
                  "Change the call to include dim=X as an argument.", stacklevel=3)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """`exp(x)` divided by its sum along `dim`, in `dtype` if given."""
    dim = _softmax_axis("softmax", input.dim()) if dim is None else dim
    return ops.softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of `softmax`, computed without overflow."""
    dim = _softmax_axis("log_softmax", input.dim()) if dim is None else dim
    return ops.log_softmax(input if dtype is None else input.to(dtype), dim)


# ---------------------------------------------------------------------------------- dropout, embedding

def dropout(input, p=0.5, training=True, inplace=False):
    """In training set each element to 0 with probability `p` and divide the others by `1 - p`."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    return _into(input, ops.dropout_with_key(input, next_key(), float(p)), inplace)


def embedding(input, weight, padding_idx=None):
    """Rows of `weight` by index: (...), (count, width) -> (..., width).

    The row `padding_idx` gets no gradient.
    """
    if padding_idx is not None:
        count = weight.shape[0]
        if not -count <= padding_idx < count:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= count
    return ops.embedding(input, weight, padding_idx)


# ---------------------------------------------------------------------------------- losses

def reduce_loss(loss, reduction):
    """Apply 'none', 'mean' or 'sum' to a loss per element."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _same_shapes(name, input, target):
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(f"Using a target size ({target.shape}) that is different to the input size "
                      f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
                      "Please ensure they have the same size.", stacklevel=3)


def mse_loss(input, target, reduction="mean"):
    """The squared difference."""
    _same_shapes("mse_loss", input, target)
    difference = input - target
    return reduce_loss(difference * difference, reduction)


def l1_loss(input, target, reduction="mean"):
    """The absolute difference."""
    _same_shapes("l1_loss", input, target)
    return reduce_loss((input - target).abs(), reduction)


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """Cross entropy of the probability `sigmoid(input)` and `target` in 0..1, without overflow."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    softened = log1p_exp_negative(input)                        # -log(sigmoid(x))
    if pos_weight is not None:
        softened = softened * ((pos_weight - 1) * target + 1)
    loss = (1 - target) * input + softened
    return reduce_loss(loss if weight is None else loss * weight, reduction)


def log1p_exp_negative(input):
    """`log(1 + exp(-x))` without overflow: `max(-x, 0) + log1p(exp(-|x|))`."""
    return ops.relu(-input) + ops.log1p(ops.exp(-input.abs()))


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the log-probability of the target class.

    Args:
        input: log-probabilities (batch, classes, ...) or (classes).
        target: class numbers (batch, ...) or ().
        weight: weight of each class (classes).
        ignore_index: a target that counts nothing.
        reduction: 'mean' divides by the sum of the weights of the targets.
    """
    axis = _class_axis("nll_loss", input, target, weight)
    ignored = target == ignore_index
    index = target.masked_fill(ignored, 0)
    picked = -input.gather(axis, index.unsqueeze(axis)).squeeze(axis)
    weights = (~ignored).to(input.dtype)
    if weight is not None:
        weights = weights * weight[index]
    losses = ops.where(ignored, 0.0, picked * weights)
    if reduction == "mean":
        return losses.sum() / weights.sum()
    return reduce_loss(losses, reduction)


def _class_axis(name, input, target, weight):
    """The axis of the classes, after a check that target and weight fit."""
    axis = 0 if input.dim() == 1 else 1
    if weight is not None and tuple(weight.shape) != (input.shape[axis],):
        raise RuntimeError(f"weight tensor should be defined either for all {input.shape[axis]} classes or "
                           f"no classes but got weight tensor of shape: {list(weight.shape)}")
    wanted = tuple(input.shape[:axis]) + tuple(input.shape[axis + 1:])
    if input.dim() == 0 or tuple(target.shape) != wanted:
        fail(name, "the target does not fit the input", kind=ValueError,
             got=f"input {tuple(input.shape)}, target {tuple(target.shape)}", want=f"target {wanted}",
             hint="input is (batch, classes, ...) and target holds class numbers (batch, ...)")
    return axis


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                  reduction="mean", label_smoothing=0.0):
    """`nll_loss` of `log_softmax(input)`.

    Args:
        input: scores (batch, classes, ...) or (classes).
        target: class numbers (batch, ...), or probabilities of the shape of `input`.
        weight, ignore_index, reduction: as in `nll_loss`.
        label_smoothing: share of the target, 0 to 1, spread evenly over all classes.
    """
    return ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def single(value):
    """An int or a sequence of one as a tuple of one."""
    return _tuple_of(value, 1)


def pair(value):
    """An int or a sequence of two (height, width) as a tuple of two."""
    return _tuple_of(value, 2)


def _tuple_of(value, count):
    """`value` repeated, or a sequence of that many."""
    value = (value,) * count if isinstance(value, int) else tuple(value)
    if len(value) == 1 and count > 1:
        value *= count
    if len(value) != count:
        raise ValueError(f"expected one size or {count}, got {value}")
    return value
