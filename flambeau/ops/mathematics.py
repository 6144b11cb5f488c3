"""Mathematical functions of floating point elements. Integers and bools are taken as the default dtype.

Scalar bodies call the functions of `compiler.scalar_math` by name. Derivatives are written in ops, so that they
can be differentiated and compiled again; in them `grad * f` is zero where grad is zero, whatever f is.
"""

import math

from flambeau.base.errors import DTypeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import Binary, Unary, number, one, zero
from flambeau.ops.held import check_held
from flambeau.ops.kinds import Elementwise
from flambeau.ops.samples import binary_samples, positive_samples, ulps, unary_samples
from flambeau.ops.spec import op
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import FLOATING, INTEGERS

numpy = LazyModule("numpy")
NUMBERS = INTEGERS + FLOATING
LN2 = math.log(2.0)
LN10 = math.log(10.0)


def each(function, array):
    """A function of Python floats applied to every element: references for what NumPy lacks."""
    return numpy.vectorize(function, otypes=[float])(array)


def only_floating(name):
    """A `check` statement that refuses integers and bools."""
    def check(dtype):
        if dtype.kind != "f":
            fail(name, "the operands are not floating point", dtype, "a floating point dtype",
                 hint="x.float() converts", kind=DTypeError)
    return check


# ------------------------------------------------------------------------------ trigonometric
@op
class Sin(Unary):
    """Sine of each element, in radians."""

    samples = unary_samples(-20, 20)

    def reference(input):
        return numpy.sin(input)

    def scalar(b, x):
        return b.call("sin", x)

    def derivative(grad, x):
        return grad * cos(x)        # noqa: F821 - put here by @op


@op
class Cos(Unary):
    """Cosine of each element, in radians."""

    samples = unary_samples(-20, 20)

    def reference(input):
        return numpy.cos(input)

    def scalar(b, x):
        return b.call("cos", x)

    def derivative(grad, x):
        return grad * -sin(x)       # noqa: F821


@op
class Tan(Unary):
    """Tangent of each element, in radians."""

    samples = unary_samples(-1.4, 1.4)

    def reference(input):
        return numpy.tan(input)

    def scalar(b, x):
        return b.call("tan", x)

    def derivative(grad, out, x):
        return grad * (out * out + 1)


@op
class Asin(Unary):
    """Arc sine in radians, in [-pi/2, pi/2]; NaN outside [-1, 1]."""

    alias_names = ("arcsin",)
    samples = unary_samples(-0.95, 0.95)

    def reference(input):
        return numpy.arcsin(input)

    def scalar(b, x):
        return b.call("asin", x)

    def derivative(grad, x):
        return grad * rsqrt(1 - x * x)      # noqa: F821


@op
class Acos(Unary):
    """Arc cosine in radians, in [0, pi]; NaN outside [-1, 1]."""

    alias_names = ("arccos",)
    samples = unary_samples(-0.95, 0.95)

    def reference(input):
        return numpy.arccos(input)

    def scalar(b, x):
        return b.call("acos", x)

    def derivative(grad, x):
        return grad * -rsqrt(1 - x * x)     # noqa: F821


@op
class Atan(Unary):
    """Arc tangent in radians, in [-pi/2, pi/2]."""

    alias_names = ("arctan",)

    def reference(input):
        return numpy.arctan(input)

    def scalar(b, x):
        return b.call("atan", x)

    def derivative(grad, x):
        return grad / (x * x + 1)


@op
class Atan2(Binary):
    """The angle of the point (other, input) in radians, in [-pi, pi]."""

    alias_names = ("arctan2",)
    promotion = "float"
    dtypes = FLOATING
    samples = binary_samples(away_from_zero=True)
    tolerance = ulps(4)

    def reference(input, other):
        return numpy.arctan2(input, other)

    def scalar(b, y, x):
        return b.call("atan2", y, x)

    def derivative(grad, y, x):
        inverse = reciprocal(x * x + y * y)     # noqa: F821
        return grad * (x * inverse), grad * (-y * inverse)


# ------------------------------------------------------------------------------ hyperbolic
@op
class Sinh(Unary):
    """Hyperbolic sine."""

    def reference(input):
        return numpy.sinh(input)

    def scalar(b, x):
        return b.call("sinh", x)

    def derivative(grad, x):
        return grad * cosh(x)       # noqa: F821


@op
class Cosh(Unary):
    """Hyperbolic cosine."""

    def reference(input):
        return numpy.cosh(input)

    def scalar(b, x):
        return b.call("cosh", x)

    def derivative(grad, x):
        return grad * sinh(x)       # noqa: F821


@op
class Tanh(Unary):
    """Hyperbolic tangent."""

    def reference(input):
        return numpy.tanh(input)

    def scalar(b, x):
        return b.call("tanh", x)

    def derivative(grad, out):
        return grad * (1 - out * out)


@op
class Asinh(Unary):
    """Inverse hyperbolic sine."""

    alias_names = ("arcsinh",)

    def reference(input):
        return numpy.arcsinh(input)

    def scalar(b, x):
        return b.call("asinh", x)

    def derivative(grad, x):
        return grad * rsqrt(x * x + 1)      # noqa: F821


@op
class Acosh(Unary):
    """Inverse hyperbolic cosine; NaN below 1."""

    alias_names = ("arccosh",)
    samples = unary_samples(1.2, 6)

    def reference(input):
        return numpy.arccosh(input)

    def scalar(b, x):
        return b.call("acosh", x)

    def derivative(grad, x):
        return grad * rsqrt(x * x - 1)      # noqa: F821


@op
class Atanh(Unary):
    """Inverse hyperbolic tangent; NaN outside [-1, 1]."""

    alias_names = ("arctanh",)
    samples = unary_samples(-0.95, 0.95)

    def reference(input):
        return numpy.arctanh(input)

    def scalar(b, x):
        return b.call("atanh", x)

    def derivative(grad, x):
        return grad / (1 - x * x)


# ------------------------------------------------------------------------------ exponentials and logarithms
@op
class Exp(Unary):
    """e to the power of each element."""

    def reference(input):
        return numpy.exp(input)

    def scalar(b, x):
        return b.call("exp", x)

    def derivative(grad, out):
        return grad * out


@op
class Exp2(Unary):
    """2 to the power of each element."""

    def reference(input):
        return numpy.exp2(input)

    def scalar(b, x):
        return b.call("exp2", x)

    def derivative(grad, out):
        return grad * (out * LN2)


@op
class Expm1(Unary):
    """exp(input) - 1, accurate near zero."""

    def reference(input):
        return numpy.expm1(input)

    def scalar(b, x):
        return b.call("expm1", x)

    def derivative(grad, out):
        return grad * (out + 1)


@op
class Log(Unary):
    """Natural logarithm; -inf at 0, NaN below."""

    samples = positive_samples()

    def reference(input):
        return numpy.log(input)

    def scalar(b, x):
        return b.call("log", x)

    def derivative(grad, x):
        return grad / x


@op
class Log2(Unary):
    """Logarithm to base 2; -inf at 0, NaN below."""

    samples = positive_samples()

    def reference(input):
        return numpy.log2(input)

    def scalar(b, x):
        return b.call("log2", x)

    def derivative(grad, x):
        return grad / (x * LN2)


@op
class Log10(Unary):
    """Logarithm to base 10; -inf at 0, NaN below."""

    samples = positive_samples()

    def reference(input):
        return numpy.log10(input)

    def scalar(b, x):
        return b.call("log10", x)

    def derivative(grad, x):
        return grad / (x * LN10)


@op
class Log1p(Unary):
    """log(1 + input), accurate near zero; -inf at -1, NaN below."""

    samples = unary_samples(-0.9, 4)

    def reference(input):
        return numpy.log1p(input)

    def scalar(b, x):
        return b.call("log1p", x)

    def derivative(grad, x):
        return grad / (x + 1)


@op
class Logaddexp(Binary):
    """log(exp(input) + exp(other)) without overflow."""

    dtypes = FLOATING
    tolerance = ("ulps", 8, 1.0)
    check = only_floating("logaddexp")

    def reference(input, other):
        return numpy.logaddexp(input, other)

    def scalar(b, x, y):
        distance = b.select(b.eq(x, y), zero(b, x), b.abs(b.sub(x, y)))     # also of equal infinities
        return b.add(b.max(x, y), b.call("log1p", b.call("exp", b.neg(distance))))

    def derivative(grad, x, y):
        from flambeau.ops.activation import sigmoid
        return grad * sigmoid(x - y), grad * sigmoid(y - x)


# ------------------------------------------------------------------------------ powers
@op
class Sqrt(Unary):
    """Square root, rounded correctly; NaN below zero."""

    samples = positive_samples()
    tolerance = ulps(0)

    def reference(input):
        return numpy.sqrt(input)

    def scalar(b, x):
        return b.sqrt(x)

    def derivative(grad, out):
        return grad / (out * 2)


@op
class Rsqrt(Unary):
    """1 / sqrt(input); inf at 0, NaN below."""

    samples = positive_samples()

    def reference(input):
        return 1 / numpy.sqrt(input)

    def scalar(b, x):
        return b.call("rsqrt", x)

    def derivative(grad, out):
        return grad * (out * out * out * -0.5)


@op
class Reciprocal(Unary):
    """1 / input; an infinity of the same sign at zero."""

    samples = positive_samples()
    tolerance = ulps(0)

    def reference(input):
        return 1 / input

    def scalar(b, x):
        return b.div(one(b, x), x)

    def derivative(grad, out):
        return grad * -(out * out)


@op
class Hypot(Binary):
    """sqrt(input * input + other * other) without overflow on the way."""

    dtypes = FLOATING
    samples = binary_samples(away_from_zero=True)
    tolerance = ulps(4)
    check = only_floating("hypot")

    def reference(input, other):
        return numpy.hypot(input, other)

    def scalar(b, x, y):
        x, y = b.abs(x), b.abs(y)
        large, small = b.max(x, y), b.min(x, y)
        ratio = b.select(b.eq(small, large), one(b, x), b.div(small, large))       # also 0 / 0 and inf / inf
        length = b.mul(large, b.sqrt(b.fma(ratio, ratio, one(b, x))))
        infinite = number(b, math.inf, x)
        return b.select(b.or_(b.eq(x, infinite), b.eq(y, infinite)), infinite, length)

    def derivative(grad, out, x, y):
        return grad * (x / out), grad * (y / out)


# ------------------------------------------------------------------------------ error function
@op
class Erf(Unary):
    """The error function."""

    def reference(input):
        return each(math.erf, input)

    def scalar(b, x):
        return b.call("erf", x)

    def derivative(grad, x):
        return grad * (exp(-(x * x)) * (2 / math.sqrt(math.pi)))        # noqa: F821


@op
class Erfc(Unary):
    """1 - erf(input), accurate where it is tiny."""

    def reference(input):
        return each(math.erfc, input)

    def scalar(b, x):
        return b.call("erfc", x)

    def derivative(grad, x):
        return grad * (exp(-(x * x)) * (-2 / math.sqrt(math.pi)))       # noqa: F821


# ------------------------------------------------------------------------------ several operands
@op
class Frac(Unary):
    """The part after the point, with the sign of the element; NaN for infinities."""

    promotion = "same"
    tolerance = ulps(0)
    check = only_floating("frac")

    def reference(input):
        return input - numpy.trunc(input)

    def scalar(b, x):
        return b.sub(x, b.trunc(x))

    def derivative(grad, x):
        return grad


class Ternary(Elementwise):
    """An op on three operands that promote together."""

    signature = "input, tensor1, tensor2, *, value=1"
    operands = ("input", "tensor1", "tensor2", "value")
    dtypes = FLOATING
    tolerance = ("ulps", 4, 4.0)


@op
class Lerp(Ternary):
    """input + weight * (end - input): input at weight 0 and end at weight 1, both exactly."""

    signature = "input, end, weight"
    operands = ("input", "end", "weight")
    check = only_floating("lerp")

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), rng.uniform(-3, 3, shape), rng.uniform(0, 1, shape)]

    def reference(input, end, weight):
        near, far = input + weight * (end - input), end - (end - input) * (1 - weight)
        return numpy.where(abs(weight) < 0.5, near, far)

    def scalar(b, x, y, w):
        way = b.sub(y, x)
        near = b.add(x, b.mul(w, way))
        far = b.sub(y, b.mul(way, b.sub(one(b, w), w)))
        return b.select(b.lt(b.abs(w), number(b, 0.5, w)), near, far)

    def derivative(grad, x, y, w):
        return grad * (1 - w), grad * w, grad * (y - x)


@op
class Addcmul(Ternary):
    """input + value * tensor1 * tensor2; among integers a fraction of the value is dropped."""

    dtypes = NUMBERS

    def prepare(self, values):
        tensors = [v for v in values.values() if isinstance(v, Tensor)]
        if isinstance(values["value"], float) and all(t.dtype.is_integer for t in tensors):
            values["value"] = int(check_held(self.name, values["value"], tensors[0].dtype))
        return values

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape) for _ in range(4)]

    def reference(input, tensor1, tensor2, value=1):
        return input + value * tensor1 * tensor2

    def scalar(b, x, y, z, value):
        return b.add(x, b.mul(b.mul(value, y), z))

    def derivative(grad, x, y, z, value):
        return grad, grad * (z * value), grad * (y * value), grad * (y * z)


@op
class Addcdiv(Ternary):
    """input + value * tensor1 / tensor2."""

    check = only_floating("addcdiv")

    def samples(rng, shape):
        a, b = binary_samples(away_from_zero=True)(rng, shape)
        return [rng.uniform(-3, 3, shape), a, b, rng.uniform(-3, 3, shape)]

    def reference(input, tensor1, tensor2, value=1):
        return input + value * tensor1 / tensor2

    def scalar(b, x, y, z, value):
        return b.add(x, b.div(b.mul(value, y), z))

    def derivative(grad, x, y, z, value):
        return grad, grad * (value / z), grad * (-(y * value) / (z * z)), grad * (y / z)
