"""lgamma, digamma, polygamma, and the inverses and logarithms of the normal distribution.

The gamma functions take a small argument up by their recurrences (every step is a select, so all lanes do the
same) to where Stirling's series in 1/x^2 holds, and reflect a negative one. Relative accuracy is lost beside
their zeros in float64; float32 goes through float64. The inverse error function is the normal quantile, three
rational functions, which are as good at 1e-300.
"""

import math

from flambeau.compiler import math_coefficients as P
from flambeau.compiler.math_exponential import INFINITY, NAN, exp, log, log1p
from flambeau.compiler.math_special import erfc
from flambeau.compiler.math_trigonometric import sin, tan
from flambeau.compiler.math_values import copysign, fma, function, polynomial, select, sqrt, through_float64
from flambeau.types.dtype import float64

# B2, B4, ...
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
LGAMMA_SERIES = [b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(BERNOULLI[:8])]
DIGAMMA_SERIES = [b / (2 * k + 2) for k, b in enumerate(BERNOULLI[:8])]
STEPS, LARGE = 10, 10.0         # so many recurrences take any positive argument above LARGE


def raised(x, combine, state):
    """(x + n, state) with the least n that makes it at least LARGE: state = combine(state, x) at each
    step.
    """
    for _ in range(STEPS):
        small = x < LARGE
        state = [select(small, new, old) for new, old in zip(combine(state, x), state)]
        x = select(small, x + 1, x)
    return x, state


def nearest_integer(x):
    return x.apply("round")


@function
@through_float64
def lgamma(x):
    """log |gamma(x)|; infinite at 0, -1, -2, ..."""
    a = abs(x)
    t, (product,) = raised(a, lambda state, x: (state[0] * x,), [x.constant(1.0)])
    inverse = 1 / t
    series = polynomial(inverse * inverse, LGAMMA_SERIES) * inverse
    positive = fma(t - 0.5, log.on_values(t) - 1,
                   series + (0.5 * math.log(2 * math.pi) - 0.5)) - log.on_values(product)
    turned = abs(sin.on_values((a - nearest_integer(a)) * math.pi)) * a
    result = select(x < 0, math.log(math.pi) - log.on_values(turned) - positive, positive)
    result = select((x == 1) | (x == 2), 0.0, result)
    return select(a == INFINITY, INFINITY, result)


@function
@through_float64
def digamma(x):
    """The derivative of log gamma; NaN at -1, -2, ..., infinite at 0."""
    reflect = x < 0
    a = select(reflect, 1 - x, x)
    t, (top, bottom) = raised(a, lambda s, x: (fma(s[0], x, s[1]), s[1] * x),
                              [x.constant(0.0), x.constant(1.0)])
    inverse = 1 / t
    square = inverse * inverse
    positive = log.on_values(t) - 0.5 * inverse - square * polynomial(square, DIGAMMA_SERIES) - top / bottom
    rest = x - nearest_integer(x)
    reflected = positive - math.pi / tan.on_values(rest * math.pi)
    result = select(reflect, select(rest == 0, NAN, reflected), positive)
    return select(x == 0, -copysign(x.constant(INFINITY), x), result)


def polygamma(order):
    """The derivative number `order` >= 1 of digamma, as a function (b, x)."""
    factorial, large = math.factorial, LARGE + order
    series = [1.0 * factorial(order - 1), 0.5 * factorial(order)]
    tail = [b * factorial(2 * k + 1 + order) / factorial(2 * k + 2) for k, b in enumerate(BERNOULLI)]
    cotangent = cotangent_derivative(order)

    def power(x, exponent):
        return x if exponent == 1 else x * power(x, exponent - 1)

    @function
    @through_float64
    def emit(x):
        reflect = x < 0
        a, lower = select(reflect, 1 - x, x), x.constant(0.0)
        for _ in range(STEPS + order):
            small = a < large
            lower = select(small, lower + 1 / power(a, order + 1), lower)
            a = select(small, a + 1, a)
        inverse = 1 / a
        square = inverse * inverse
        bracket = series[0] + inverse * series[1] + square * polynomial(square, tail)
        positive = fma(bracket, power(inverse, order), factorial(order) * lower)
        positive = positive if order % 2 else -positive
        rest = x - nearest_integer(x)
        turned = polynomial(1 / tan.on_values(rest * math.pi), cotangent) * -math.pi ** (order + 1)
        result = select(reflect, turned + (-1) ** order * positive, positive)
        pole = x.constant(INFINITY if order % 2 else NAN)
        result = select(reflect & (rest == 0), pole, result)
        return select(x == 0, INFINITY if order % 2 else -copysign(x.constant(INFINITY), x), result)
    return emit


def cotangent_derivative(order):
    """Coefficients of the polynomial in cot(x) that is the derivative number `order` of cot(x)."""
    terms = [0, 1]
    for _ in range(order):
        slope = [k * c for k, c in enumerate(terms)][1:]
        terms = [-(a + b) for a, b in zip(slope + [0, 0], [0, 0] + slope)]
    return [float(c) for c in terms]


# ------------------------------------------------------------------------------ error function
def scaled_erfc(a):
    """erfc(a) exp(a^2) for float64 values a >= 0."""
    middle = polynomial((a - 4) / (a + 4), P.ERFC_64) / fma(a, 2.0, 1.0)
    square = a * a
    near = exp.on_values(square) * erfc.on_values(a)
    inverse = 1 / a
    half = 0.5 * inverse * inverse
    far = inverse * (1 / math.sqrt(math.pi)) * polynomial(half,
                                                          (1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0))
    return select(a < 0.5, near, select(a > 26.0, far, middle))


@function
@through_float64
def erfcx(x):
    """exp(x^2) erfc(x)."""
    positive = scaled_erfc(abs(x))
    return select(x < 0, 2 * exp.on_values(x * x) - positive, positive)


@function
@through_float64
def ndtr(x):
    """The area below x of the normal distribution."""
    return 0.5 * erfc.on_values(x * -math.sqrt(0.5))


@function
@through_float64
def log_ndtr(x):
    """log(ndtr(x)), also where ndtr(x) is too small for a number."""
    t = x * -math.sqrt(0.5)
    far = log.on_values(scaled_erfc(abs(t)) * 0.5) - t * t
    near = log1p.on_values(-0.5 * erfc.on_values(-t))
    return select(x < -1, far, near)


def normal_quantile(q, tail, deep=True):
    """The number y beside which the normal distribution has the area `tail`; q = 1/2 - tail is the area between 0
    and y. Near 0, q says more than `tail`, beyond it is the other way round. `deep`: `tail` may be below 1e-10.
    """
    r = sqrt(-log.on_values(tail))
    regions = [(abs(q) <= 0.425, P.QUANTILE_CENTER, 0.180625 - q * q)]
    regions += [(r > 5.0, P.QUANTILE_FAR, r - 5.0)] if deep else []
    above, below = (polynomial(r - 1.6, c) for c in P.QUANTILE_TAIL)
    for inside, (numerator, denominator), x in reversed(regions):
        numerator = polynomial(x, numerator) * (q if denominator is P.QUANTILE_CENTER[1] else 1.0)
        above, below = select(inside, numerator, above), select(inside, polynomial(x, denominator), below)
    return select(tail == 0, INFINITY, above / below)


@function
def erfinv(x):
    """The number whose error function is x; NaN outside [-1, 1]."""
    wide = x.cast(float64)
    a = abs(wide)
    y = normal_quantile(0.5 * a, 0.5 * (1 - a), deep=x.dtype is float64) * math.sqrt(0.5)
    return copysign(y, wide).cast(x.dtype)


@function
@through_float64
def ndtri(p):
    """The number below which the normal distribution has the area p; NaN outside [0, 1]."""
    smaller = select(p > 0.5, 1 - p, p)
    y = normal_quantile(abs(p - 0.5), smaller)
    return select(p < 0.5, -y, y)
