"""Special functions with kernels of their own: gamma, error function, normal distribution, entropy."""

import math

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import Unary, number, where, zero
from flambeau.ops.mathematics import each, exp, log, reciprocal
from flambeau.ops.out import with_out
from flambeau.ops.samples import positive_samples, ulps, unary_samples
from flambeau.ops.spec import INPLACE, METHODS, op, public
from flambeau.ops.special_host import _polygamma_on_host, polygamma_host

numpy = LazyModule("numpy")
ROOT_PI = math.sqrt(math.pi)
NEARLY = ("ulps", 64, 1.0)          # float64 loses relative accuracy beside zeros


def one_by_one(function):
    """A function of mpmath as a reference for arrays."""
    def values(array):
        import mpmath
        return numpy.vectorize(lambda x: float(getattr(mpmath, function)(x)), otypes=[float])(array)
    return values


class Named(Unary):
    """A function that `compiler.scalar_math` has under the op's own name."""

    tolerance = NEARLY


# ------------------------------------------------------------------------------ gamma
def lgamma_of(x):
    if math.isinf(x) or x == 0 or (x < 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


@op
class Lgamma(Named):
    """log |gamma(input)|; infinite at 0, -1, -2, ..."""

    samples = positive_samples()

    def reference(input):
        return each(lgamma_of, input)

    def scalar(b, x):
        return b.call("lgamma", x)

    def derivative(grad, x):
        return grad * digamma(x)            # noqa: F821


@op
class Digamma(Named):
    """The derivative of lgamma; NaN at -1, -2, ..., infinite at 0."""

    samples = positive_samples()

    def reference(input):
        with numpy.errstate(all="ignore"):
            small = polygamma_host(0, input)
            return numpy.where(input == 0, -numpy.copysign(math.inf, input), small)

    def scalar(b, x):
        return b.call("digamma", x)

    def derivative(grad, x):
        return grad * _polygamma(x, 1)          # noqa: F821


HIGHEST = 8         # compiler.scalar_math has these derivatives of digamma


@op
class Polygamma(Named):
    """The n-th derivative of digamma, 1 <= n <= 8."""

    name = "_polygamma"
    signature = "input, n"
    samples = positive_samples()
    cases = [{"n": 1}, {"n": 2}, {"n": 5}]

    def native_arity(self):
        return 0

    def attributes_optional(self):
        return False

    def reference(input, n):
        pole = math.inf if n % 2 else math.nan
        values = numpy.where((input < 0) & (input == numpy.floor(input)), pole, polygamma_host(n, input))
        at_zero = math.inf if n % 2 else -numpy.copysign(math.inf, input)
        return numpy.where(input == 0, at_zero, numpy.where(input == -math.inf, math.nan, values))

    def scalar(b, x, n=None):
        return b.call(f"polygamma_{n}", x)

    def derivative(grad, x, *, n):
        if n >= HIGHEST:
            fail("polygamma", f"the derivative of order {n} has no derivative here",
                 hint=f"orders below {HIGHEST} have one")
        return grad * _polygamma(x, n + 1)          # noqa: F821


@public(method=False)
@with_out
def polygamma(n, input):
    """The n-th derivative of digamma."""
    if n < 0:
        fail("polygamma", "the order must not be negative", n)
    if n == 0:
        return digamma(input)           # noqa: F821
    return _polygamma(input, n) if n <= HIGHEST else _polygamma_on_host(input, n)       # noqa: F821


def _polygamma_method(self, n):
    """The n-th derivative of digamma."""
    return polygamma(n, self)


METHODS["polygamma"] = INPLACE["polygamma_"] = _polygamma_method


@public(method=True, inplace=True)
@with_out
def mvlgamma(input, p):
    """log of the multivariate gamma function of dimension p."""
    if p < 1:
        fail("mvlgamma", "p has to be greater than or equal to 1", p)
    result = lgamma(input) + p * (p - 1) / 4 * math.log(math.pi)            # noqa: F821
    for j in range(1, p):
        result = result + lgamma(input - j / 2)         # noqa: F821
    return result


# ------------------------------------------------------------------------------ error function, normal distri
@op
class Erfcx(Named):
    """exp(input^2) erfc(input)."""

    name = "_special_erfcx"

    def reference(input):
        def value(x):
            if x > 26:
                return (1 - 0.5 / x ** 2 + 0.75 / x ** 4) / (x * ROOT_PI)
            try:
                return math.exp(x * x) * math.erfc(x)
            except OverflowError:
                return math.inf
        return each(value, input)

    def scalar(b, x):
        return b.call("erfcx", x)

    def derivative(grad, out, x):
        return grad * (2 * x * out - 2 / ROOT_PI)


@op
class Erfinv(Named):
    """The number whose error function is input; NaN outside [-1, 1]."""

    samples = unary_samples(-0.95, 0.95)
    tolerance = ulps(8)

    def reference(input):
        with numpy.errstate(all="ignore"):
            return inverse(math.erf, lambda y: 2 / ROOT_PI * math.exp(-y * y), input, -1, 1)

    def scalar(b, x):
        return b.call("erfinv", x)

    def derivative(grad, out):
        return grad * (exp(out * out) * (ROOT_PI / 2))


def inverse(function, slope, array, low, high):
    """The y with function(y) = x for each x in (low, high), by bisection and Newton's method."""
    def value(x):
        if not low < x < high:
            return math.copysign(math.inf, x - (low + high) / 2) if x in (low, high) else math.nan
        below, above = -40.0, 40.0
        for _ in range(60):
            middle = (below + above) / 2
            below, above = (middle, above) if function(middle) < x else (below, middle)
        y = (below + above) / 2
        return y - (function(y) - x) / slope(y) if slope(y) else y
    return each(value, array)


def normal_area(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def normal_density(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@op
class Ndtr(Named):
    """The area below input of the normal distribution."""

    name = "_special_ndtr"

    def reference(input):
        return each(normal_area, input)

    def scalar(b, x):
        return b.call("ndtr", x)

    def derivative(grad, x):
        return grad * (exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))


@op
class Ndtri(Named):
    """The number below which the normal distribution has the area input; NaN outside [0, 1]."""

    name = "_special_ndtri"
    samples = unary_samples(0.05, 0.95)

    def reference(input):
        far = numpy.where(input < 1e-6, numpy.nan, input)
        got = inverse(normal_area, normal_density, far, 0, 1)
        tiny = {1e-40: -13.310921, 0.0: -math.inf}
        return numpy.where(input < 1e-6,
                           each(lambda x: next((v for k, v in tiny.items() if abs(x - k) < 1e-43), math.nan),
                                input),
                           got)

    def scalar(b, x):
        return b.call("ndtri", x)

    def derivative(grad, out):
        return grad * (exp(out * out * 0.5) * math.sqrt(2 * math.pi))


@op
class LogNdtr(Named):
    """log of the area below input of the normal distribution."""

    name = "_special_log_ndtr"

    def reference(input):
        def value(x):
            if x > -30:
                return math.log(normal_area(x)) if x < 5 else math.log1p(-normal_area(-x))
            return -x * x / 2 - math.log(-x * math.sqrt(2 * math.pi)) + math.log1p(-1 / (x * x) + 3 / x ** 4)
        return each(value, input)

    def scalar(b, x):
        return b.call("log_ndtr", x)

    def derivative(grad, x):
        return grad * (reciprocal(_special_erfcx(x * -math.sqrt(0.5))) * math.sqrt(2 / math.pi))  # noqa: F821


# ------------------------------------------------------------------------------ entropy
@op
class Entr(Unary):
    """-input log(input); 0 at 0 and -inf below."""

    name = "_special_entr"
    samples = positive_samples()
    tolerance = ("ulps", 8, 1.0)

    def reference(input):
        with numpy.errstate(all="ignore"):
            at_most_0 = numpy.where(input == 0, 0, numpy.where(input < 0, -math.inf, input))
            return numpy.where(input > 0, -input * numpy.log(input), at_most_0)

    def scalar(b, x):
        product = b.neg(b.mul(x, b.call("log", x)))
        below = b.select(b.lt(x, zero(b, x)), number(b, -math.inf, x), product)
        return b.select(b.eq(x, zero(b, x)), zero(b, x), below)

    def derivative(grad, x):
        return grad * where(x < 0, float("nan"), -log(x) - 1)


@op
class SphericalBesselJ0(Unary):
    """sin(x) / x, 1 at zero."""

    name = "_special_spherical_bessel_j0"
    differentiable = False
    tolerance = ("ulps", 8, 1.0)

    def reference(input):
        with numpy.errstate(all="ignore"):
            return numpy.where(numpy.isinf(input), 0, numpy.sinc(input / math.pi))

    def scalar(b, x):
        ratio = b.div(b.call("sin", x), x)
        at_end = b.select(b.eq(b.abs(x), number(b, math.inf, x)), zero(b, x), ratio)
        return b.select(b.eq(x, zero(b, x)), number(b, 1.0, x), at_end)
