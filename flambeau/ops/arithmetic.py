"""Further elementwise arithmetic: remainders, extremes, signs and replacements."""

import math

from flambeau.base.errors import DTypeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.compare import Question, false, whole_samples
from flambeau.ops.elementwise import (EVERY, Binary, Unary, cast, mul, no_bools, number, one, pow,
                                      sign, where,
                                      zero)
from flambeau.ops.host import require_floating
from flambeau.ops.kinds import Elementwise, Opaque, broadcast
from flambeau.ops.mathematics import LN2, exp2, log, log1p, only_floating
from flambeau.ops.out import with_out
from flambeau.ops.samples import binary_samples, positive_samples, ulps, unary_samples
from flambeau.ops.spec import INPLACE, op, public
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import FLOATING, bool_, complex128, float32, float64, int32, int64

numpy = LazyModule("numpy")


# ------------------------------------------------------------------------------ remainders, extremes
@op
class Fmod(Binary):
    """input - trunc(input / other) * other: the sign of the dividend. Inexact where the quotient exceeds the
    mantissa.
    """

    divisor = 1
    check = no_bools("fmod")
    tensor_first = True
    samples = binary_samples(away_from_zero=True)
    tolerance = ulps(16)

    def reference(input, other):
        return numpy.fmod(input, other)

    def scalar(b, x, y):
        if x.dtype.kind != "f":
            return b.irem(x, y)
        whole = b.trunc(b.div(x, y))
        rest = b.fma(b.neg(whole), y, x)
        turned = b.lt(b.mul(rest, b.copysign(one(b, x), x)), zero(b, x))         # the quotient was rounded up
        rest = b.select(turned, b.add(rest, b.copysign(y, x)), rest)
        # no digit of the rest is left
        rest = b.select(b.ge(b.abs(rest), b.abs(y)), b.copysign(zero(b, x), x), rest)
        return b.select(b.eq(whole, zero(b, x)), x, rest)

    def derivative(grad, x, y):
        return grad, -(grad * trunc_quotient(x, y))


def trunc_quotient(x, y):
    from flambeau.ops.rounding import trunc
    return trunc(x / y)


class PresentExtreme(Binary):
    """The extreme of two where NaN counts as missing."""

    dtypes = EVERY


@op
class Fmax(PresentExtreme):
    """The larger of the two; of a number and NaN the number."""

    def reference(input, other):
        return numpy.fmax(input, other)

    def scalar(b, x, y):
        if x.dtype is bool_:
            return b.or_(x, y)
        larger = b.max(x, y)
        return larger if x.dtype.kind != "f" else b.select(b.ne(x, x), y, b.select(b.ne(y, y), x, larger))

    def derivative(grad, x, y):
        first = (x >= y) | (y != y)
        return grad * where(first, 1.0, 0.0), grad * where(first, 0.0, 1.0)


@op
class Fmin(PresentExtreme):
    """The smaller of the two; of a number and NaN the number."""

    def reference(input, other):
        return numpy.fmin(input, other)

    def scalar(b, x, y):
        if x.dtype is bool_:
            return b.and_(x, y)
        smaller = b.min(x, y)
        return smaller if x.dtype.kind != "f" else b.select(b.ne(x, x), y, b.select(b.ne(y, y), x, smaller))

    def derivative(grad, x, y):
        first = (x <= y) | (y != y)
        return grad * where(first, 1.0, 0.0), grad * where(first, 0.0, 1.0)


@op
class Heaviside(Binary):
    """0 below zero, 1 above it, and `values` at zero."""

    signature = "input, values"
    operands = ("input", "values")
    differentiable = False
    samples = whole_samples(2)

    def reference(input, values):
        return numpy.where(input == 0, values, (input > 0).astype(input.dtype))

    def scalar(b, x, y):
        step = b.select(b.gt(x, zero(b, x)), one(b, x), zero(b, x))
        return b.select(b.eq(x, zero(b, x)), y, step)


# ------------------------------------------------------------------------------ bits of floating point number
@op
class Copysign(Binary):
    """The magnitude of input with the sign of other."""

    promotion = "float"
    dtypes = FLOATING
    tensor_first = True
    samples = binary_samples(away_from_zero=True)

    def reference(input, other):
        return numpy.copysign(input, other)

    def scalar(b, x, y):
        return b.copysign(x, y)

    def derivative(grad, out, x, y):
        return grad * where(x == 0, 0.0, out / x), grad * 0


@op
class Nextafter(Binary):
    """The next number after input in the direction of other."""

    dtypes = (float64,)             # float32 has a test of its own: references are asked in float64
    check = only_floating("nextafter")

    def reference(input, other):
        return numpy.nextafter(input, other)

    def scalar(b, x, y):
        integer = int32 if x.dtype.itemsize == 4 else int64
        bits = b.bitcast(x, dtype=integer)
        away = b.not_(b.xor(b.gt(y, x), b.gt(x, zero(b, x))))
        step = b.select(away, b.const(1, integer, x.lanes), b.const(-1, integer, x.lanes))
        moved = b.bitcast(b.add(bits, step), dtype=x.dtype)
        smallest = b.bitcast(b.const(1, integer, x.lanes), dtype=x.dtype)
        moved = b.select(b.eq(x, zero(b, x)), b.copysign(smallest, y), moved)
        return b.select(b.eq(x, y), y, b.select(b.or_(b.ne(x, x), b.ne(y, y)), b.add(x, y), moved))

    def derivative(grad, x, y):
        return grad, grad * 0


@public(method=True, inplace=True)
@with_out
def ldexp(input, other):
    """input * 2 ** other, in the dtype of the input where `other` holds integers."""
    if not isinstance(other, Tensor):
        return mul(input, 2.0 ** other)
    result = mul(input, pow(2.0, other))
    halves = input.dtype.kind == "f" and input.dtype.itemsize == 2 and other.dtype.kind in "biu"
    return cast(result, input.dtype) if halves else result


@op
class Frexp(Opaque):
    """(mantissa, exponent) with input = mantissa * 2 ** exponent and 0.5 <= |mantissa| < 1."""

    outputs = ("mantissa", "exponent")
    each_element = True
    dtypes = (float32, float64)
    samples = unary_samples()
    tolerance = ulps(0)

    def infer(self, inputs, attrs):
        require_floating("frexp", *inputs, half=True)
        return [(inputs[0].dtype, tuple(inputs[0].shape)), (int32, tuple(inputs[0].shape))]

    def host(input):
        return numpy.frexp(input)

    reference = host

    def derivative(grad, out, x):
        return grad[0] * exp2(cast(-out[1], x.dtype))


# ------------------------------------------------------------------------------ whole numbers
class WholeNumbers(Opaque):
    """A function of pairs of integers."""

    signature = "input, other"
    operands = ("input", "other")
    each_element = True
    differentiable = False
    dtypes = (int32, int64)
    samples = whole_samples(2, -60, 60)
    tolerance = ulps(0)

    def prepare(self, values):
        from flambeau.types.dtype import promote
        x, y = values["input"], values["other"]
        for v in (x, y):
            if not isinstance(v, Tensor) or v.dtype.kind not in "iu":
                fail(self.name, "the operands must be integer tensors", getattr(v, "dtype", type(v).__name__),
                     kind=DTypeError)
        common = promote(x.dtype, y.dtype)
        return {"input": cast(x, common), "other": cast(y, common)}

    def infer(self, inputs, attrs):
        return [(inputs[0].dtype, tuple(broadcast(self.name, *(tuple(v.shape) for v in inputs))))]


@op
class Gcd(WholeNumbers):
    """The greatest common divisor, never negative."""

    def host(input, other):
        return numpy.gcd(input, other)

    reference = host


@op
class Lcm(WholeNumbers):
    """The least common multiple, never negative."""

    def host(input, other):
        return numpy.abs(numpy.lcm(input, other))

    reference = host


INPLACE["gcd_"], INPLACE["lcm_"] = gcd, lcm         # noqa: F821


# ------------------------------------------------------------------------------ logarithms
@op
class Logaddexp2(Binary):
    """log2(2 ** input + 2 ** other) without overflow."""

    dtypes = FLOATING
    tolerance = ("ulps", 8, 1.0)
    check = only_floating("logaddexp2")

    def reference(input, other):
        return numpy.logaddexp2(input, other)

    def scalar(b, x, y):
        distance = b.select(b.eq(x, y), zero(b, x), b.abs(b.sub(x, y)))     # also of equal infinities
        rest = b.call("log1p", b.call("exp2", b.neg(distance)))
        return b.add(b.max(x, y), b.mul(rest, number(b, 1 / LN2, x)))

    def derivative(grad, x, y):
        from flambeau.ops.activation import sigmoid
        return grad * sigmoid((x - y) * LN2), grad * sigmoid((y - x) * LN2)


class TimesLog(Binary):
    """input times a logarithm of other; 0 where input is 0 and other is not NaN."""

    promotion = "float"
    dtypes = FLOATING
    samples = positive_samples(2)
    tolerance = ("ulps", 8, 1.0)


@op
class Xlogy(TimesLog):
    """input * log(other); 0 where input is 0 and other is not NaN."""

    def reference(input, other):
        with numpy.errstate(all="ignore"):
            product = input * numpy.log(other)
        return numpy.where((input == 0) & ~numpy.isnan(other), 0, product)

    def scalar(b, x, y):
        product = b.mul(x, b.call("log", y))
        return b.select(b.and_(b.eq(x, zero(b, x)), b.eq(y, y)), zero(b, x), product)

    def derivative(grad, x, y):
        return grad * where((x == 0) & (y <= 0), 0.0, log(y)), grad * (x / y)


@op
class Xlog1py(TimesLog):
    """input * log(1 + other); 0 where input is 0 and other is not NaN."""

    def reference(input, other):
        with numpy.errstate(all="ignore"):
            product = input * numpy.log1p(other)
        return numpy.where((input == 0) & ~numpy.isnan(other), 0, product)

    def scalar(b, x, y):
        product = b.mul(x, b.call("log1p", y))
        return b.select(b.and_(b.eq(x, zero(b, x)), b.eq(y, y)), zero(b, x), product)

    def derivative(grad, x, y):
        return grad * where((x == 0) & (y <= -1), 0.0, log1p(y)), grad * (x / (y + 1))


@public(method=True, inplace=True)
@with_out
def float_power(input, exponent):
    """input to the power exponent, both in float64, or complex128 if one is complex."""
    both = (input, exponent)
    if any(isinstance(v, complex) or isinstance(v, Tensor) and v.dtype.kind == "c" for v in both):
        return pow(*(cast(v, complex128) if isinstance(v, Tensor) else complex(v) for v in both))
    return pow(*(cast(v, float64) if isinstance(v, Tensor) else float(v) for v in both))


@op
class ReplaceNonfinite(Elementwise):
    """input with NaN, inf and -inf replaced by three numbers."""

    name = "_replace_nonfinite"
    signature = "input, nan, posinf, neginf"
    operands = ("input", "nan", "posinf", "neginf")
    dtypes = FLOATING
    tolerance = ulps(0)

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape) for _ in range(4)]

    def reference(input, nan, posinf, neginf):
        finite = numpy.where(input == math.inf, posinf, numpy.where(input == -math.inf, neginf, input))
        return numpy.where(numpy.isnan(input), nan, finite)

    def scalar(b, x, nan, high, low):
        finite = b.select(b.eq(x, number(b, math.inf, x)), high,
                          b.select(b.eq(x, number(b, -math.inf, x)), low, x))
        return b.select(b.ne(x, x), nan, finite)

    def derivative(grad, x, nan, high, low):
        return grad * where(x - x == 0, 1.0, 0.0), None, None, None


LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38,
           "float64": 1.7976931348623157e308}


@public(method=True, inplace=True)
@with_out
def nan_to_num(input, nan=None, posinf=None, neginf=None):
    """input with NaN replaced by `nan` (0) and infinities by the given numbers (the largest of the dtype)."""
    if input.dtype.kind == "c":
        from flambeau.ops.complex_kernels import join, parts
        return join(*[nan_to_num(part, nan, posinf, neginf) for part in parts(input)])
    if input.dtype.kind != "f":
        return mul(input, 1) if input.dtype is not bool_ else input | False
    largest = LARGEST[input.dtype.name]
    return _replace_nonfinite(input, 0.0 if nan is None else float(nan),  # noqa: F821
                              largest if posinf is None else float(posinf),  # noqa: F821
                              -largest if neginf is None else float(neginf))


# ------------------------------------------------------------------------------ angles and signs
@op
class Rad2deg(Unary):
    """Radians as degrees."""

    def reference(input):
        return numpy.rad2deg(input)

    def scalar(b, x):
        return b.mul(x, number(b, 180 / math.pi, x))

    def derivative(grad, x):
        return grad * (180 / math.pi)


@op
class Deg2rad(Unary):
    """Degrees as radians."""

    def reference(input):
        return numpy.deg2rad(input)

    def scalar(b, x):
        return b.mul(x, number(b, math.pi / 180, x))

    def derivative(grad, x):
        return grad * (math.pi / 180)


@op
class Angle(Unary):
    """The angle of a real number: 0, pi below zero, NaN for NaN."""

    def reference(input):
        return numpy.where(numpy.isnan(input), input, numpy.where(input < 0, math.pi, 0.0))

    def scalar(b, x):
        return b.select(b.ne(x, x), x, b.select(b.lt(x, zero(b, x)), number(b, math.pi, x), zero(b, x)))

    def derivative(grad, x):
        return grad * 0


@public(method=True, inplace=True)
@with_out
def sgn(input):
    """The sign of each element; of a complex one its direction, x / |x|."""
    if input.dtype.kind == "c":
        from flambeau.ops import complex_rules
        return complex_rules.sgn(input)
    return sign(input)


@public(method=True)
def positive(input):
    """+input."""
    if input.dtype is bool_:
        fail("positive", "the + of a bool tensor is not supported", hint="convert first: x.int()")
    return input


@op
class Isposinf(Question):
    """True where the element is +inf."""

    def reference(input):
        return input == math.inf

    def scalar(b, x):
        return b.eq(x, number(b, math.inf, x)) if x.dtype.kind == "f" else false(b, x)


@op
class Isneginf(Question):
    """True where the element is -inf."""

    def reference(input):
        return input == -math.inf

    def scalar(b, x):
        return b.eq(x, number(b, -math.inf, x)) if x.dtype.kind == "f" else false(b, x)


@op
class Isreal(Question):
    """True: every element of a real tensor is real."""

    def reference(input):
        return numpy.ones_like(input, dtype=bool)

    def scalar(b, x):
        return b.const(True, bool_, x.lanes)


# ------------------------------------------------------------------------------ smooth functions
@op
class Sinc(Unary):
    """sin(pi x) / (pi x), 1 at zero."""

    tolerance = ("ulps", 8, 1.0)

    def reference(input):
        return numpy.sinc(input)

    def scalar(b, x):
        scaled = b.mul(x, number(b, math.pi, x))
        return b.select(b.eq(x, zero(b, x)), one(b, x), b.div(b.call("sin", scaled), scaled))

    def derivative(grad, x):
        from flambeau.ops.mathematics import cos, sin
        scaled = x * math.pi
        slope = (scaled * cos(scaled) - sin(scaled)) / (scaled * x)
        square = scaled * scaled        # near zero both terms cancel: the series of the difference
        series = 1.0
        for k in range(7, 0, -1):
            series = 1.0 - square * series / (2 * k * (2 * k + 3))
        return grad * where(square < 1, x * (math.pi ** 2 / -3.0) * series, slope)


@op
class Logit(Unary):
    """log(x / (1 - x)); with `eps` x is limited to [eps, 1 - eps] first."""

    signature = "input, eps=None"
    samples = unary_samples(0.05, 0.95)
    tolerance = ("ulps", 16, 1.0)
    cases = [{}, {"eps": 0.25}]

    def reference(input, eps=None):
        with numpy.errstate(all="ignore"):
            x = input if eps is None else numpy.clip(input, eps, 1 - eps)
            return numpy.log(x / (1 - x))

    def scalar(b, x, eps=None):
        if eps is not None:
            x = b.min(b.max(x, number(b, eps, x)), number(b, 1 - eps, x))
        return b.call("log", b.div(x, b.sub(one(b, x), x)))

    def derivative(grad, x, *, eps):
        slope = 1 / (x * (1 - x))
        if eps is None:
            return grad * where((x >= 0) & (x <= 1), slope, float("nan"))
        return grad * where((x >= eps) & (x <= 1 - eps), slope, 0.0)


# ------------------------------------------------------------------------------ real tensors as complex ones
def _conjugating(name):
    def function(input):
        from flambeau.ops.complex_kernels import conjugate
        return conjugate(input)
    function.__name__, function.__doc__ = name, "The complex conjugate: of a real tensor the tensor itself."
    return public(method=True, inplace=name == "conj_physical")(with_out(function))


def _same(name, doc):
    def function(input):
        return input
    function.__name__, function.__doc__ = name, doc
    return public(method=True)(function)


conj, conj_physical = _conjugating("conj"), _conjugating("conj_physical")
resolve_conj = _same("resolve_conj", "The tensor itself: a conjugation is never pending.")
resolve_neg = _same("resolve_neg", "The tensor itself: a negation is never pending.")


@public(method=True)
def is_conj(input):
    """False: no tensor has a pending conjugation."""
    return False


@public(method=True)
def is_neg(input):
    """False: no tensor has a pending negation."""
    return False
