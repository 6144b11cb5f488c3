"""Hyperbolic functions, their inverses, and sigmoid.

tanh and sigmoid take one exponential and one division each. The instructions of a float32 vector: tanh 29,
sigmoid 23. The others are for occasional use; all but cosh are computed in float64 for float32, too.
"""

from flambeau.compiler import math_coefficients as P
from flambeau.compiler.math_exponential import (
    INFINITY, NAN, expm1_near_0, expm1_parts, natural_log, reduce_exponent, scale_factor,
    scale_factors)
from flambeau.compiler.math_values import (
    LN2, LOG2_E, at_least, at_most, copysign, fma, function, polynomial, parts, select, sqrt, through_float64)
from flambeau.types.dtype import float32


@function
def tanh(x):
    """Hyperbolic tangent: a polynomial up to 5/8, then 1 - 2/(e^2|x| + 1)."""
    single = x.dtype is float32
    a = at_most(abs(x), 10.0 if single else 20.0)
    z = a * a
    near = fma(a * z, polynomial(z, P.TANH_32 if single else P.TANH_64), a)
    shifter = x.format.shifter
    t = fma(a, 2 * float(LOG2_E), shifter)
    half = fma(t - shifter, -0.5 * parts(LN2, x.dtype, 1)[0], a)        # 2a = n ln2 + 2 half
    q, s = expm1_near_0(half + half), scale_factor(t)
    far = 1 - 2 / fma(q, s, s + 1)
    return copysign(select(a < 0.625, near, far), x)


@function
def sigmoid(x):
    """1 / (1 + e^-x), without overflow and with full accuracy where it is tiny.

    Numerator and denominator are kept 2^-extra times as large, which is normal for all results above 0."""
    low, high, extra = (-18.0, 104.0, 64) if x.dtype is float32 else (-40.0, 746.0, 512)
    t, r = reduce_exponent(at_most(at_least(-x, low), high))
    s, one = scale_factor(t, -extra), 2.0 ** -extra
    late = select(s > one * 2.0 ** (x.format.digits - 1), s, 0.0)   # s + one is not exact: s comes last
    return one / (fma(expm1_near_0(r), s, (s - late) + one) + late)


def half_exp(a):
    """e^a / 2 for a >= 0, finite as long as the result is."""
    t, r = reduce_exponent(a)
    first, second = scale_factors(t)
    return fma(expm1_near_0(r), first, first) * (second * 0.5)


@function
def cosh(x):
    """(e^x + e^-x) / 2."""
    e = half_exp(at_most(abs(x), 90.0 if x.dtype is float32 else 711.0))
    return e + 0.25 / e


@function
@through_float64
def sinh(x):
    """(e^x - e^-x) / 2: by expm1 where e^-x counts, else e^|x| / 2."""
    a = abs(x)
    q, s = expm1_parts(at_most(a, 30.0))
    t = fma(q, s, s - 1)
    large = half_exp(at_most(a, 711.0))
    return copysign(select(a > 22, large, (t + t / (t + 1)) * 0.5), x)


def log1p_positive(x):
    """log(1 + x) for finite x >= 0."""
    u = x + 1
    above = u - 1
    return natural_log(u, ((x - above) + (1 - (u - above))) / u)


@function
@through_float64
def asinh(x):
    """log(x + sqrt(x^2 + 1)), by log1p of |x| + x^2 / (1 + sqrt(x^2 + 1)); from 2^28 on log(2|x|)."""
    a = abs(x)
    large = a >= 2.0 ** 28
    m = select(large, x.constant(1.0), a)
    square = m * m
    argument = m + square / (sqrt(square + 1) + 1)
    y = natural_log_or_log1p(large, a, argument)
    return copysign(select(a < INFINITY, y, a), x)


@function
@through_float64
def acosh(x):
    """log(x + sqrt(x^2 - 1)), NaN below 1."""
    large = x >= 2.0 ** 28
    t = select(large, x.constant(1.0), x) - 1
    y = natural_log_or_log1p(large, x, t + sqrt(fma(t, t, t + t)))
    return select(x >= 1, select(x < INFINITY, y, x), NAN)


def natural_log_or_log1p(large, a, argument):
    """log(2a) where `large`, else log1p(argument): one logarithm for both."""
    u = argument + 1
    above = u - 1
    lost = ((argument - above) + (1 - (u - above))) / u
    y = natural_log(select(large, a, u), select(large, a.constant(0.0), lost))
    return y + select(large, a.constant(float(LN2)), 0.0)


@function
@through_float64
def atanh(x):
    """log1p(2x / (1 - x)) / 2; infinite at 1 and -1, NaN outside."""
    a = abs(x)
    y = log1p_positive(select(a < 1, (a + a) / (1 - a), 0.0)) * 0.5
    edge = select(a == 1, a.constant(INFINITY), NAN)
    return copysign(select(a < 1, y, edge), x)
