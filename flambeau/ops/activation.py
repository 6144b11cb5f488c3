"""Activation functions of one element."""

import math

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import Unary, number, one, scale, where, zero
from flambeau.ops.interpose import visible
from flambeau.ops.mathematics import NUMBERS, each, erf, exp, only_floating, tanh
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import op, public
from flambeau.ops.view import narrow, reshape
from flambeau.types.shape import normalize_axis

numpy = LazyModule("numpy")
NEAR_ONE = ("ulps", 8, 1.0)     # accurate as sums of terms near 1 are, also where the result is tiny
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


class Activation(Unary):
    """A floating point function of one operand; integers are refused where PyTorch refuses them."""

    promotion = "same"
    tolerance = NEAR_ONE


def finite_below(b, x):
    """x with -inf replaced by the lowest number, so that x times a limit of 0 is 0."""
    return b.max(x, number(b, -3.0e38 if x.dtype.itemsize == 4 else -1.7e308, x))


# ------------------------------------------------------------------------------ sigmoid and its relatives
@op
class Sigmoid(Unary):
    """1 / (1 + exp(-input))."""

    def reference(input):
        with numpy.errstate(over="ignore"):
            return 1 / (1 + numpy.exp(-input))

    def scalar(b, x):
        return b.call("sigmoid", x)

    def derivative(grad, out):
        return grad * (out * (1 - out))


@op
class Silu(Activation):
    """input * sigmoid(input), also called swish."""

    check = only_floating("silu")

    def reference(input):
        with numpy.errstate(all="ignore"):
            return numpy.where(input == -math.inf, -0.0, input / (1 + numpy.exp(-input)))

    def scalar(b, x):
        return b.mul(finite_below(b, x), b.call("sigmoid", x))

    def derivative(grad, x):
        s = sigmoid(x)      # noqa: F821 - put here by @op
        return grad * scale(s, scale(1 - s, x) + 1)


@op
class LogSigmoid(Activation):
    """log(sigmoid(input)), without underflow."""

    alias_names = ("logsigmoid",)
    check = only_floating("log_sigmoid")

    def reference(input):
        return numpy.minimum(input, 0) - numpy.log1p(numpy.exp(-abs(input)))

    def scalar(b, x):
        rest = b.call("log1p", b.call("exp", b.neg(b.abs(x))))
        return b.sub(b.min(x, zero(b, x)), rest)

    def derivative(grad, x):
        return grad * sigmoid(-x)       # noqa: F821


@op
class Softplus(Activation):
    """log(1 + exp(beta * input)) / beta; input itself where beta * input is above threshold."""

    signature = "input, beta=1.0, threshold=20.0"
    check = only_floating("softplus")

    def reference(input, beta=1.0, threshold=20.0):
        with numpy.errstate(over="ignore"):
            soft = numpy.log1p(numpy.exp(input * beta)) / beta
        return numpy.where(input * beta > threshold, input, soft)

    def scalar(b, x, beta=1.0, threshold=20.0):
        scaled = x if beta == 1 else b.mul(x, number(b, beta, x))
        soft = b.call("log1p", b.call("exp", scaled))
        soft = soft if beta == 1 else b.div(soft, number(b, beta, x))
        return b.select(b.gt(scaled, number(b, threshold, x)), x, soft)

    def derivative(grad, x, *, beta, threshold):
        scaled = x * beta
        return where(scaled > threshold, grad, grad * sigmoid(scaled))      # noqa: F821


@op
class Mish(Activation):
    """input * tanh(softplus(input))."""

    check = only_floating("mish")

    def reference(input):
        with numpy.errstate(all="ignore"):
            result = input * numpy.tanh(numpy.logaddexp(0, input))
        return numpy.where(input == -math.inf, -0.0, result)

    def scalar(b, x):
        soft = b.call("log1p", b.call("exp", x))
        return b.mul(finite_below(b, x), b.call("tanh", soft))

    def derivative(grad, x):
        s, t = sigmoid(x), tanh(softplus(x))        # noqa: F821
        return grad * (t + scale(s * (1 - t * t), x))


# ------------------------------------------------------------------------------ gelu
@op
class Gelu(Activation):
    """input * Phi(input), Phi the normal distribution function; approximate='tanh' uses a formula with
    tanh."""

    signature = "input, approximate='none'"
    cases = ({}, {"approximate": "tanh"})
    check = only_floating("gelu")

    def reference(input, approximate="none"):
        if approximate == "tanh":
            inner = math.sqrt(2 / math.pi) * (input + 0.044715 * input ** 3)
            share = 1 + numpy.tanh(inner)
        else:
            share = 1 + each(math.erf, input * math.sqrt(0.5))
        with numpy.errstate(all="ignore"):
            return numpy.where(input == -math.inf, -0.0, 0.5 * input * share)

    def scalar(b, x, approximate="none"):
        if approximate == "tanh":
            cubic = b.fma(b.mul(x, x), number(b, 0.044715 * math.sqrt(2 / math.pi), x),
                          number(b, math.sqrt(2 / math.pi), x))
            share = b.call("tanh", b.mul(x, cubic))
        else:
            share = b.call("erf", b.mul(x, number(b, math.sqrt(0.5), x)))
        half = b.mul(finite_below(b, x), number(b, 0.5, x))
        return b.fma(half, share, half)

    def derivative(grad, x, *, approximate):
        if approximate == "tanh":
            c = math.sqrt(2 / math.pi)
            t = tanh(x * (x * x * (0.044715 * c) + c))
            slope = scale(1 - t * t, x * (x * x * (1.5 * 0.044715 * c) + 0.5 * c))
            return grad * (t * 0.5 + (slope + 0.5))
        density = exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return grad * (erf(x * math.sqrt(0.5)) * 0.5 + 0.5 + scale(density, x))


# ------------------------------------------------------------------------------ pieces
@op
class LeakyRelu(Activation):
    """input where positive, else negative_slope * input."""

    signature = "input, negative_slope=0.01"
    cases = ({}, {"negative_slope": -0.5})
    tolerance = ulps(1)
    check = only_floating("leaky_relu")

    def reference(input, negative_slope=0.01):
        return numpy.where(input > 0, input, input * negative_slope)

    def scalar(b, x, negative_slope=0.01):
        return b.select(b.gt(x, zero(b, x)), x, b.mul(x, number(b, negative_slope, x)))

    def derivative(grad, x, *, negative_slope):
        return where(x > 0, grad, grad * negative_slope)


@op
class Elu(Activation):
    """input where positive, else alpha * (exp(input) - 1)."""

    signature = "input, alpha=1.0"
    cases = ({}, {"alpha": 0.3})
    check = only_floating("elu")

    def reference(input, alpha=1.0):
        return numpy.where(input > 0, input, alpha * numpy.expm1(numpy.minimum(input, 0)))

    def scalar(b, x, alpha=1.0):
        return b.select(b.gt(x, zero(b, x)), x, b.mul(number(b, alpha, x), b.call("expm1", x)))

    def derivative(grad, x, *, alpha):
        return where(x > 0, grad, grad * (exp(x) * alpha))


@op
class Selu(Activation):
    """1.0507 * elu(input, 1.6733): keeps mean 0 and variance 1 of its inputs."""

    check = only_floating("selu")

    def reference(input):
        return SELU_SCALE * numpy.where(input > 0, input, SELU_ALPHA * numpy.expm1(numpy.minimum(input, 0)))

    def scalar(b, x):
        below = b.mul(number(b, SELU_ALPHA * SELU_SCALE, x), b.call("expm1", x))
        return b.select(b.gt(x, zero(b, x)), b.mul(number(b, SELU_SCALE, x), x), below)

    def derivative(grad, x):
        return where(x > 0, grad * SELU_SCALE, grad * (exp(x) * (SELU_ALPHA * SELU_SCALE)))


@op
class Hardtanh(Activation):
    """input limited to [min_val, max_val]."""

    signature = "input, min_val=-1.0, max_val=1.0"
    cases = ({}, {"min_val": -2.0, "max_val": 0.5})
    tolerance = ulps(0)

    def reference(input, min_val=-1.0, max_val=1.0):
        return numpy.clip(input, min_val, max_val)

    def scalar(b, x, min_val=-1.0, max_val=1.0):
        return b.min(b.max(x, number(b, min_val, x)), number(b, max_val, x))

    def derivative(grad, x, *, min_val, max_val):
        return grad * ((x > min_val) & (x < max_val))


@op
class Relu6(Activation):
    """input limited to [0, 6]."""

    dtypes = NUMBERS
    samples = unary_samples(-4, 9)
    tolerance = ulps(0)

    def reference(input):
        return numpy.clip(input, 0, 6).astype(input.dtype)

    def scalar(b, x):
        return b.min(b.max(x, zero(b, x)), number(b, 6, x))

    def derivative(grad, x):
        return grad * ((x > 0) & (x < 6))


@op
class Hardsigmoid(Activation):
    """(input + 3) / 6 limited to [0, 1]."""

    samples = unary_samples(-5, 5)
    check = only_floating("hardsigmoid")

    def reference(input):
        return numpy.clip(input + 3, 0, 6) / 6

    def scalar(b, x):
        raised = b.max(b.add(x, number(b, 3, x)), zero(b, x))
        return b.div(b.min(raised, number(b, 6, x)), number(b, 6, x))

    def derivative(grad, x):
        return grad * (1 / 6) * ((x > -3) & (x < 3))


@op
class Hardswish(Activation):
    """input * hardsigmoid(input)."""

    samples = unary_samples(-5, 5)
    check = only_floating("hardswish")

    def reference(input):
        with numpy.errstate(all="ignore"):
            return numpy.where(input <= -3, -0.0, input * numpy.clip(input + 3, 0, 6) / 6)

    def scalar(b, x):
        raised = b.max(b.add(x, number(b, 3, x)), zero(b, x))
        return b.div(b.mul(finite_below(b, x), b.min(raised, number(b, 6, x))), number(b, 6, x))

    def derivative(grad, x):
        inside = grad * (x * (1 / 3) + 0.5)
        return where(x <= -3, grad * 0.0, where(x < 3, inside, grad))


@op
class Softsign(Activation):
    """input / (1 + |input|)."""

    promotion = "float"

    def reference(input):
        with numpy.errstate(all="ignore"):
            return numpy.where(numpy.isinf(input), numpy.sign(input), input / (1 + abs(input)))

    def scalar(b, x):
        size = b.abs(x)
        ratio = b.div(x, b.add(size, one(b, x)))
        return b.select(b.eq(size, number(b, math.inf, x)), b.copysign(one(b, x), x), ratio)

    def derivative(grad, x):
        below = abs(x) + 1
        return grad / (below * below)


# ------------------------------------------------------------------------------ thresholds
@op
class Celu(Activation):
    """input where positive, else alpha * (exp(input / alpha) - 1)."""

    signature = "input, alpha=1.0"
    cases = ({}, {"alpha": 0.3})
    check = only_floating("celu")

    def reference(input, alpha=1.0):
        return numpy.where(input > 0, input, alpha * numpy.expm1(numpy.minimum(input, 0) / alpha))

    def scalar(b, x, alpha=1.0):
        scaled = x if alpha == 1 else b.div(x, number(b, alpha, x))
        return b.select(b.gt(x, zero(b, x)), x, b.mul(number(b, alpha, x), b.call("expm1", scaled)))

    def derivative(grad, x, *, alpha):
        return where(x > 0, grad, grad * exp(x / alpha))


@op
class Hardshrink(Activation):
    """0 where |input| <= lambd, else input."""

    signature = "input, lambd=0.5"
    cases = ({}, {"lambd": 1.25})
    tolerance = ulps(0)
    check = only_floating("hardshrink")

    def reference(input, lambd=0.5):
        return numpy.where(abs(input) <= lambd, 0.0, input)

    def scalar(b, x, lambd=0.5):
        return b.select(b.le(b.abs(x), number(b, lambd, x)), zero(b, x), x)

    def derivative(grad, x, *, lambd):
        return where(abs(x) <= lambd, 0.0, grad)


@op
class Softshrink(Activation):
    """input moved towards 0 by lambd, 0 where it would cross it."""

    signature = "input, lambd=0.5"
    cases = ({}, {"lambd": 1.25})
    tolerance = ulps(1)
    check = only_floating("softshrink")

    def prepare(self, values):
        if values["lambd"] < 0:
            fail("softshrink", "lambda must be greater or equal to 0", values["lambd"], kind=RuntimeError)
        return values

    def reference(input, lambd=0.5):
        return numpy.where(input > lambd, input - lambd,
                           numpy.where(input < -lambd, input + lambd, input * 0))

    def scalar(b, x, lambd=0.5):
        step = number(b, lambd, x)
        low = b.select(b.lt(x, b.neg(step)), b.add(x, step), b.mul(x, zero(b, x)))
        return b.select(b.gt(x, step), b.sub(x, step), low)

    def derivative(grad, x, *, lambd):
        return where(abs(x) <= lambd, 0.0, grad)


@op
class Tanhshrink(Activation):
    """input - tanh(input)."""

    promotion = "float"

    def reference(input):
        return input - numpy.tanh(input)

    def scalar(b, x):
        return b.sub(x, b.call("tanh", x))

    def derivative(grad, x):
        t = tanh(x)
        return grad * (t * t)


@op
class Threshold(Activation):
    """input where it is above threshold, else value."""

    signature = "input, threshold, value"
    cases = ({"threshold": 0.5, "value": -2.0},)
    tolerance = ulps(0)

    def reference(input, threshold, value):
        return numpy.where(input <= threshold, value, input)

    def scalar(b, x, threshold=0.0, value=0.0):
        return b.select(b.le(x, number(b, threshold, x)), number(b, value, x), x)

    def derivative(grad, x, *, threshold):
        return where(x <= threshold, 0.0, grad)


@public()
@visible
def prelu(input, weight):
    """input where positive, else weight * input; weight has one element or one a channel (axis 1)."""
    if weight.ndim > 1:
        fail("prelu", "weight is a scalar or a 1-d tensor", tuple(weight.shape), "(channels,)",
             kind=RuntimeError)
    if weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.numel() != channels:
            fail("prelu", "mismatch of parameter numbers and input channel size",
                 f"{weight.numel()} weights for {channels} channels", kind=RuntimeError)
        weight = reshape(weight, tuple(-1 if a == 1 else 1 for a in range(input.ndim)))
    elif weight.ndim:
        weight = reshape(weight, (1,) * input.ndim)
    return where(input > 0, input, weight * input)


def glu(input, dim=-1):
    """The first half along `dim` times the sigmoid of the second."""
    if input.ndim == 0:
        fail("glu", "glu does not support 0-dimensional tensors", kind=RuntimeError)
    dim = normalize_axis(dim, input.ndim, "glu")
    if input.shape[dim] % 2:
        fail("glu", f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}",
             kind=RuntimeError)
    half = input.shape[dim] // 2
    return narrow(input, dim, 0, half) * sigmoid(narrow(input, dim, half, half))        # noqa: F821
