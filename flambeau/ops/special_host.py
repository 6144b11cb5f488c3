"""Special functions that are rarely used: NumPy code on the host, in float64."""

import math

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.kinds import Opaque, broadcast, promoted_dtype
from flambeau.ops.mathematics import exp, log
from flambeau.ops.samples import positive_samples, unary_samples
from flambeau.ops.spec import INPLACE, op
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import category, float32, float64, get_default_dtype

numpy = LazyModule("numpy")
# B2, B4, ...
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


class OnHost(Opaque):
    """A function of one floating operand, computed in float64; integers are taken as the default dtype."""

    dtypes = (float32, float64)
    tolerance = ("ulps", 256, 1.0)
    samples = unary_samples()
    each_element = True
    differentiable = False
    numbers = False

    def prepare(self, values):
        """Python numbers become 0-d tensors."""
        for name in self.operands:
            if not isinstance(values[name], (Tensor, bool, int, float)):
                fail(self.name, "an operand has the wrong type", type(values[name]).__name__,
                     "a Tensor or a number",
                     kind=TypeError)
        like = next((values[n] for n in self.operands if isinstance(values[n], Tensor)), None)
        if like is None:
            fail(self.name, "no operand is a tensor", kind=TypeError)
        for name in self.operands:
            if not isinstance(values[name], Tensor):
                values = values | {name: like.new_full((), values[name],
                                                       dtype=_dtype_beside(like, values[name]))}
        return values

    def infer(self, inputs, attrs):
        dtype = promoted_dtype(inputs)
        dtype = get_default_dtype() if category(dtype) < 2 else dtype
        return [(dtype, tuple(broadcast(self.name, *(tuple(v.shape) for v in inputs))))]

    @property
    def host(self):
        """The statement `value`, on float64 arrays."""
        value = type(self).value

        def function(*arrays, **attrs):
            with numpy.errstate(all="ignore"):
                return value(*(numpy.asarray(a, "float64") for a in arrays), **attrs)
        return function


def _dtype_beside(like, number):
    return like.dtype if category(like.dtype) == 2 or isinstance(number, int) else get_default_dtype()


class Pair(OnHost):
    """A function of two operands."""

    signature = "input, other"
    operands = ("input", "other")
    samples = positive_samples(2)


# ------------------------------------------------------------------------------ zeta, polygamma
def zeta_value(x, q):
    """sum (k + q)^-x by Euler and Maclaurin after ten terms."""
    x, q = numpy.broadcast_arrays(x, q)
    result, base, count = numpy.zeros(q.shape), q.copy(), 0
    while count < 10 or (count < 10000 and (base < 10).any()):
        wanted = (count < 10) | (base < 10)
        result = numpy.where(wanted, result + base ** -x, result)
        base = numpy.where(wanted, base + 1, base)
        count += 1
    result = result + base ** (1 - x) / (x - 1) + base ** -x / 2
    term = x * base ** (-x - 1)
    for k, b in enumerate(BERNOULLI):
        result = result + b / math.factorial(2 * k + 2) * term
        term = term * (x + 2 * k + 1) * (x + 2 * k + 2) / (base * base)
    whole = (q <= 0) & (q == numpy.floor(q))
    undefined = (x < 1) | ((q <= 0) & ~whole & (x != numpy.floor(x)))
    return numpy.where(x == 1, math.inf,
                       numpy.where(undefined, math.nan, numpy.where(whole, math.inf, result)))


def polygamma_host(n, x):
    """The n-th derivative of digamma on NumPy arrays."""
    with numpy.errstate(all="ignore"):
        x = numpy.asarray(x, "float64")
        if n > 0:
            zeta = zeta_value(numpy.float64(n + 1), numpy.where(x < -30, numpy.nan, x))
            return (-1.0) ** (n + 1) * math.factorial(n) * zeta
        reflect = x < 0
        t, lowered = numpy.where(reflect, 1 - x, x), numpy.zeros(x.shape)
        for _ in range(12):
            lowered, t = numpy.where(t < 12, lowered - 1 / t, lowered), numpy.where(t < 12, t + 1, t)
        series = sum(b / ((2 * k + 2) * t ** (2 * k + 2)) for k, b in enumerate(BERNOULLI))
        positive = numpy.where(t == math.inf, math.inf, numpy.log(t) - 0.5 / t - series + lowered)
        rest = x - numpy.round(x)
        return numpy.where(reflect,
                           numpy.where(rest == 0, math.nan,
                                       positive - math.pi / numpy.tan(math.pi * rest)), positive)


@op
class PolygammaOnHost(OnHost):
    """The n-th derivative of digamma, n >= 2."""

    name = "_polygamma_on_host"
    signature = "input, n"
    differentiable = True
    samples = positive_samples()
    cases = [{"n": 2}, {"n": 3}]
    tolerance = ("ulps", 256, 1.0)

    def value(input, n):
        return polygamma_host(n, input)

    def reference(input, n):
        return polygamma_host(n, input)

    def derivative(grad, x, *, n):
        return grad * _polygamma_on_host(x, n + 1)          # noqa: F821


@op
class Zeta(Pair):
    """Hurwitz's zeta function: the sum of (k + other)^-input."""

    name = "_special_zeta"

    def samples(rng, shape):
        return [rng.uniform(1.5, 4, shape), rng.uniform(0.5, 4, shape)]

    def value(input, other):
        return zeta_value(input, other)

    reference = value

    def derivative(grad, x, q):
        return None, grad * (-x * _special_zeta(x + 1, q))           # noqa: F821


# ------------------------------------------------------------------------------ incomplete gamma
def log_gamma(a):
    return numpy.vectorize(math.lgamma, otypes=[float])(numpy.where(a > 0, numpy.minimum(a, 1e300), 1.0))


def lower_gamma(a, x):
    """(regularised lower, upper) incomplete gamma function: a series below x = a + 1, a continued fraction
    above.
    """
    a, x = (v.astype("float64") for v in numpy.broadcast_arrays(a, x))
    front = numpy.exp(a * numpy.log(x) - x - log_gamma(a))
    term = total = 1 / a
    for k in range(1, 2000):
        term = term * x / (a + k)
        total = total + term
        if not (abs(term) > 1e-17 * abs(total))[x < a + 1].any():
            break
    low = front * total
    b = x + 1 - a
    c, d = numpy.full(x.shape, 1e300), 1 / b
    fraction = d
    for k in range(1, 2000):
        factor = -k * (k - a)
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        fraction = fraction * (d * c)
        if not (abs(d * c - 1) > 1e-16)[x >= a + 1].any():
            break
    high = front * fraction
    small = x < a + 1
    lower, upper = numpy.where(small, low, 1 - high), numpy.where(small, 1 - low, high)
    return _gamma_edges(a, x, lower, 1.0), _gamma_edges(a, x, upper, 0.0)


def _gamma_edges(a, x, value, at_end):
    """Values at zeros, infinities and outside the domain."""
    value = numpy.where((x == math.inf) | ((a == 0) & (x > 0)), at_end, value)
    value = numpy.where((x == 0) & (a > 0) | ((a == math.inf) & (x < math.inf)), 1 - at_end, value)
    undefined = (a < 0) | (x < 0) | (a != a) | (x != x) | ((a == x) & ((a == 0) | (a == math.inf)))
    return numpy.where(undefined, math.nan, value)


def _gamma_slope(grad, a, x):
    from flambeau.ops.special import lgamma
    return grad * exp(-x + (a - 1) * log(x) - lgamma(a))


class IncompleteGamma(Pair):
    """Both operands are tensors."""

    def prepare(self, values):
        if not all(isinstance(values[name], Tensor) for name in self.operands):
            fail(self.name, "both operands must be Tensors", [type(v).__name__ for v in values.values()],
                 kind=TypeError)
        return values


@op
class Igamma(IncompleteGamma):
    """The regularised lower incomplete gamma function P(input, other)."""

    def value(input, other):
        return lower_gamma(input, other)[0]

    reference = value

    def derivative(grad, a, x):
        return None, _gamma_slope(grad, a, x)


@op
class Igammac(IncompleteGamma):
    """The regularised upper incomplete gamma function Q(input, other)."""

    def value(input, other):
        return lower_gamma(input, other)[1]

    reference = value

    def derivative(grad, a, x):
        return None, -_gamma_slope(grad, a, x)

for _op in (igamma, igammac):           # noqa: F821
    INPLACE[_op.__name__ + "_"] = _op
