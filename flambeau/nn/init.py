"""Filling parameters with their starting values, in place and outside autograd.

The distributions and the order of draws are PyTorch's.
"""

import math
import warnings

from flambeau.tensor import empty_like, no_grad, randperm

_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0, "conv_transpose3d": 1.0, "sigmoid": 1.0,
    "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity, param=None):
    """The factor by which weights before `nonlinearity` are scaled to keep the variance.

    `param` is the slope of 'leaky_relu' (default 0.01).
    """
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise ValueError(f"negative_slope {slope} not a valid number")
    return math.sqrt(2.0 / (1 + slope ** 2))


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fill with the uniform distribution on [a, b)."""
    if tensor.is_meta:
        return tensor
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fill with the normal distribution."""
    if tensor.is_meta:
        return tensor
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Fill with the normal distribution restricted to [a, b]."""
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
                      "The distribution of values may be incorrect.", stacklevel=2)
    low, high = (math.erf((end - mean) / (std * math.sqrt(2.0))) for end in (a, b))
    draw = _draw_normal if high - low > 0.6 else _draw_accepted_uniform
    with no_grad():
        values, refused = draw(tensor, mean, std, a, b, generator)
        while refused.any():
            again, refused_again = draw(empty_like(tensor), mean, std, a, b, generator)
            values = again.where(refused, values)
            refused = refused & refused_again
        if values is not tensor:
            tensor.copy_(values)
    return tensor


def _draw_normal(values, mean, std, a, b, generator):
    """Normal numbers, and which of them lie outside [a, b]."""
    values.normal_(mean, std, generator=generator)
    return values, (values < a) | (values > b)


def _draw_accepted_uniform(values, mean, std, a, b, generator):
    """Uniform numbers on [a, b], and which of them the normal density refuses."""
    peak = ((max(a, min(mean, b)) - mean) / std) ** 2
    values.uniform_(a, b, generator=generator)
    density = (((values - mean) / std) ** 2 - peak) * -0.5      # logarithm of it, at most 0
    chance = empty_like(values).uniform_(0.0, 1.0, generator=generator)
    return values, chance.log() > density


def constant_(tensor, val):
    """Fill with `val`."""
    if tensor.is_meta:
        return tensor
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """Fill with 0."""
    if tensor.is_meta:
        return tensor
    with no_grad():
        return tensor.zero_()


def eye_(tensor):
    """Fill the matrix with the identity, cut or padded by zeros."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.zero_()
        for index in range(min(tensor.shape)):
            tensor[index, index] = 1
    return tensor


def fans(tensor):
    """(inputs, outputs) that one output and one input element of the weight is connected to."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans


def _fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return fans(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Glorot: uniform with variance `gain**2 * 2 / (inputs + outputs)`."""
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Glorot: normal with variance `gain**2 * 2 / (inputs + outputs)`."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    """The standard deviation, or None for a tensor without elements, which stays as it is."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """He: uniform with standard deviation `gain / sqrt(fan)`; `a` is the slope of leaky_relu."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """He: normal with standard deviation `gain / sqrt(fan)`; `a` is the slope of leaky_relu."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


# ---------------------------------------------------------------------------------- structured matrices

def dirac_(tensor, groups=1):
    """Fill the weight of a convolution with the one that keeps its input, in each of the groups."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    outputs = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(outputs, tensor.shape[1])):
                tensor[(group * outputs + channel, channel, *middle)] = 1
    return tensor


def orthogonal_(tensor, gain=1, generator=None):
    """Fill with a (semi-)orthogonal matrix times `gain`; further axes count as columns."""
    from flambeau.ops.linalg_functions import qr_decomposition
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    with no_grad():
        draws = empty_like(tensor).reshape(rows, columns).normal_(0, 1, generator=generator)
        q, r = qr_decomposition(draws.t() if rows < columns else draws)
        q = q * r.diagonal().sign()
        tensor.reshape(rows, columns).copy_((q.t() if rows < columns else q) * gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Fill the matrix with normal numbers, of which the share `sparsity` of each column is 0."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            order = randperm(rows, generator=generator).tolist()
            for row in order[:math.ceil(sparsity * rows)]:
                tensor[row, column] = 0
    return tensor


def _older(function):
    """The name without underscore, which PyTorch keeps with a warning."""
    def older(*args, **kwargs):
        warnings.warn(f"`nn.init.{function.__name__[:-1]}` is now deprecated in favor of "
                      f"`nn.init.{function.__name__}`.",
                      FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    older.__name__ = function.__name__[:-1]
    older.__doc__ = f"An older name of `{function.__name__}`."
    return older


uniform, normal, constant, eye, dirac = (_older(f) for f in (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)
orthogonal, sparse = _older(orthogonal_), _older(sparse_)
