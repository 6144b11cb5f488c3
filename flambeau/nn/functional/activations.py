"""Activations. `inplace=True` and the names that end in an underscore write the result into the input."""

import math
import warnings

from flambeau import ops
from flambeau.ops import activation
from flambeau.ops.out import with_out
from flambeau.ops.spec import REGISTRY
from flambeau.tensor import empty, empty_like, ones_like, rand_like, stream
from flambeau.tensor.rng import chosen
from flambeau.types.dtype import float64


# What an op takes besides its operand when nothing is given; a call without it goes the native way.
_DEFAULTS = {operation.name: tuple(operation.parameters.values())[1:] for operation in REGISTRY.values()
             if type(operation).__module__ == activation.__name__}


def into(input, name, *args, inplace=False):
    """The op of that name, or its in-place form."""
    if args == _DEFAULTS.get(name):
        args = ()
    if inplace:
        return getattr(input, name + "_")(*args)
    return getattr(activation, name)(input, *args)


def relu(input, inplace=False):
    """The larger of each element and 0."""
    return input.relu_() if inplace else ops.relu(input)


def relu_(input):
    """`relu` in place."""
    return input.relu_()


def relu6(input, inplace=False):
    """The elements limited to [0, 6]."""
    return into(input, "relu6", inplace=inplace)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """The elements limited to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return into(input, "hardtanh", min_val, max_val, inplace=inplace)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, True)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """The element where positive, else `negative_slope` times it."""
    return into(input, "leaky_relu", negative_slope, inplace=inplace)


def leaky_relu_(input, negative_slope=0.01):
    """`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, True)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """`leaky_relu` with slopes drawn between `lower` and `upper` in training, else their mean."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    if stream.can_fill(input):      # PyTorch draws no slope where none is needed
        falls = input.detach() <= 0
        drawn = empty(int(falls.sum()), dtype=float64).uniform_(lower, upper).to(input.dtype)
        slopes = ones_like(input).masked_scatter_(falls, drawn)
    else:
        slopes = rand_like(input) * (upper - lower) + lower
    result = ops.where(input > 0, input, input * slopes)
    return input.copy_(result) if inplace else result


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, True)


def elu(input, alpha=1.0, inplace=False):
    """The element where positive, else `alpha * (exp(x) - 1)`."""
    return into(input, "elu", alpha, inplace=inplace)


def elu_(input, alpha=1.0):
    """`elu` in place."""
    return elu(input, alpha, True)


def celu(input, alpha=1.0, inplace=False):
    """The element where positive, else `alpha * (exp(x / alpha) - 1)`."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return into(input, "celu", alpha, inplace=inplace)


def celu_(input, alpha=1.0):
    """`celu` in place."""
    return celu(input, alpha, True)


def selu(input, inplace=False):
    """`elu` with the scale and alpha that keep mean 0 and variance 1."""
    return into(input, "selu", inplace=inplace)


def selu_(input):
    """`selu` in place."""
    return selu(input, True)


def threshold(input, threshold, value, inplace=False):
    """The element where above `threshold`, else `value`."""
    return into(input, "threshold", threshold, value, inplace=inplace)


def threshold_(input, threshold, value):
    """`threshold` in place."""
    return input.threshold_(threshold, value)


def silu(input, inplace=False):
    """`x * sigmoid(x)`."""
    return into(input, "silu", inplace=inplace)


def mish(input, inplace=False):
    """`x * tanh(softplus(x))`."""
    return into(input, "mish", inplace=inplace)


def hardswish(input, inplace=False):
    """`x * hardsigmoid(x)`."""
    return into(input, "hardswish", inplace=inplace)


def hardsigmoid(input, inplace=False):
    """`(x + 3) / 6` limited to [0, 1]."""
    return into(input, "hardsigmoid", inplace=inplace)


@with_out
def gelu(input, approximate="none"):
    """`x * P(X <= x)` for a standard normal X; `approximate='tanh'` uses the tanh formula."""
    if approximate == "none":
        return ops.gelu(input)
    if approximate != "tanh":
        raise RuntimeError("approximate argument must be either none or tanh.")
    return ops.gelu(input, approximate=approximate)


def tanh(input):
    """Hyperbolic tangent."""
    return ops.tanh(input)


def sigmoid(input):
    """`1 / (1 + exp(-x))`."""
    return ops.sigmoid(input)


@with_out
def logsigmoid(input):
    """`log(sigmoid(x))` without underflow."""
    return ops.log_sigmoid(input)


@with_out
def softplus(input, beta=1, threshold=20):
    """`log(1 + exp(beta * x)) / beta`; x itself where `beta * x > threshold`."""
    return into(input, "softplus", float(beta), float(threshold))


def softsign(input):
    """`x / (1 + |x|)`."""
    return activation.softsign(input)


@with_out
def hardshrink(input, lambd=0.5):
    """0 where `|x| <= lambd`, else x."""
    return into(input, "hardshrink", lambd)


@with_out
def softshrink(input, lambd=0.5):
    """x moved towards 0 by `lambd`, 0 where it would cross it."""
    return into(input, "softshrink", lambd)


def tanhshrink(input):
    """`x - tanh(x)`."""
    return activation.tanhshrink(input)


def prelu(input, weight):
    """x where positive, else `weight * x`, with one weight or one a channel (axis 1)."""
    return activation.prelu(input, weight)


def glu(input, dim=-1):
    """The first half along `dim` times the sigmoid of the second."""
    return activation.glu(input, dim)


# ---------------------------------------------------------------------------------- softmax

def _softmax_axis(name, ndim):
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. "
                  "Change the call to include dim=X as an argument.", stacklevel=3)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """`exp(x)` divided by its sum along `dim`, in `dtype` if given."""
    dim = _softmax_axis("softmax", input.dim()) if dim is None else dim
    return ops.softmax(input if dtype is None else input.to(dtype), dim)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """`softmax(-x)`."""
    dim = _softmax_axis("softmin", input.dim()) if dim is None else dim
    return ops.softmax(-input if dtype is None else (-input).to(dtype), dim)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of `softmax`, computed without overflow."""
    dim = _softmax_axis("log_softmax", input.dim()) if dim is None else dim
    return ops.log_softmax(input if dtype is None else input.to(dtype), dim)


def _waiting_times(like):
    """Exponential draws of rate 1, above 0."""
    if chosen.pytorch:
        return empty_like(like).exponential_()
    tiny = math.ldexp(1.0, -60)
    return -ops.log(rand_like(like) + tiny) + tiny


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A draw from the classes, relaxed by the temperature `tau`; `hard`: one-hot, with the relaxed
    gradient."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -ops.log(_waiting_times(logits))
    soft = ops.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    places = soft.detach().argmax(dim, keepdim=True)
    axis = dim % soft.dim()
    shape = tuple(soft.shape[axis] if a == axis else 1 for a in range(soft.dim()))
    from flambeau.tensor import arange
    one_hot = (places == arange(soft.shape[axis]).reshape(shape)).to(soft.dtype)
    return one_hot - soft.detach() + soft
