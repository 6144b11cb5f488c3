"""erf, erfc, pow, cbrt and rsqrt.

erf(x) is x + x p(x^2) up to about 1 and 1 - p(x)^8 from there on, with two polynomials of the same length: no
exponential and no division. The instructions of a float32 vector: erf 25.
"""

from flambeau.compiler import math_coefficients as P
from flambeau.compiler.math_exponential import (
    INFINITY, NAN, expm1_near_0, reduce_exponent, scale_factor, scale_factors, split_logarithm)
from flambeau.compiler.math_values import (
    LN2, at_least, at_most, copysign, fma, function, polynomial, parts, select, sqrt, through_float64)
from flambeau.types.dtype import float32, float64


@function
def erf(x):
    """The error function: the selected polynomial's coefficients are chosen lane by lane."""
    single = x.dtype is float32
    edge, end = (1.125, 3.93) if single else (1.25, 5.94)
    near_terms, far_terms = (P.ERF_32, P.ERF_FAR_32) if single else (P.ERF_64, P.ERF_FAR_64)
    a = abs(x)
    near = a < edge
    terms = [select(near, x.constant(c), d) for c, d in zip(near_terms, far_terms)]
    p = polynomial(select(near, x * x, at_most(a, end)), terms)
    square = p * p
    fourth = square * square
    return copysign(select(near, fma(a, p, a), fma(-fourth, fourth, 1)), x)


@function
@through_float64
def erfc(x):
    """1 - erf(x), with full accuracy where it is tiny: p(t) exp(-x^2) / (1 + 2|x|) from 1/2 on."""
    a = at_most(abs(x), 28.0)
    scaled = polynomial((a - 4) / (a + 4), P.ERFC_64) / fma(a, 2.0, 1.0)
    square = a * a
    t, r = reduce_exponent(-square, -fma(a, a, -square))
    first, second = scale_factors(t)
    first = first * scaled
    y = fma(expm1_near_0(r), first, first) * second
    near = fma(-x, polynomial(square, P.ERF_64), 1 - x)
    return select(a < 0.5, near, select(x < 0, 2 - y, y))


# ------------------------------------------------------------------------------------------------------ pow
@function
def pow(x, y):
    """x^y with C99's special cases: 2^(y log2|x|), the sign of x where y is odd."""
    if x.dtype is float32:
        result = power_magnitude_32(x, y)
    else:
        result = power_magnitude_64(x, y)
    return power_edges(x, y, result)


def power_magnitude_32(x, y):
    """|x|^y of float32 values, in float64: log2 to 2^-43, the exponential to 2^-28."""
    k, f = split_logarithm(abs(x).cast(float64))
    s = f / (f + 2)
    z = s * s
    log2 = fma(fma(s * z, polynomial(z, P.LOG_LOW_64), s), 2 / float(LN2), k)
    exponent = at_most(at_least(y.cast(float64) * log2, -300.0), 300.0)
    t = exponent + exponent.format.shifter
    r = (exponent - (t - exponent.format.shifter)) * float(LN2)
    s = scale_factor(t)
    return fma(fma(r * r, polynomial(r, P.EXP_32), r), s, s).cast(float32)


def power_magnitude_64(x, y):
    """|x|^y: log2|x| in two parts, good to 2^-64."""
    k, f = split_logarithm(abs(x))
    high, low = log2_in_two_parts(k, f)
    product = y * high
    rest = fma(y, low, fma(y, high, -product))
    bounded = at_most(at_least(product, -1200.0), 1200.0)       # beyond, the result is 0 or infinite already
    t = bounded + bounded.format.shifter
    first, second = scale_factors(t)
    r = (bounded - (t - bounded.format.shifter)) + select(bounded == product, rest, 0.0)
    return fma(expm1_near_0(r * float(LN2)), first, first) * second


def log2_in_two_parts(k, f):
    """k + log2(1 + f) as a sum of two: log(1 + f) = 2 (s + s z (1/3 + z p(z))), s = f / (2 + f), z = s^2."""
    m = f + 2
    m_low = f - (m - 2)
    inverse = 1 / m
    s = f * inverse
    s_low = (fma(-s, m, f) - s * m_low) * inverse
    z = s * s
    z_low = fma(s, s, -z) + 2 * s * s_low
    third, third_low = parts("0." + 80 * "3", s.dtype, 2)
    tail = z * polynomial(z, P.POW_64)
    u, u_low = quick_sum(s.constant(third), tail + third_low)
    w, w_low = exact_product(z, u)
    w_low = w_low + (z * u_low + z_low * u)
    p, p_low = exact_product(s, w)
    p_low = p_low + (s * w_low + s_low * w)
    v, v_low = quick_sum(s, p)
    v_low = v_low + (s_low + p_low)
    scale, scale_low = parts(TWO_LOG2_E, s.dtype, 2)
    product, product_low = exact_product(v, s.constant(scale))
    product_low = product_low + fma(v, scale_low, v_low * scale)
    total, total_low = quick_sum(k, product)
    return total, total_low + product_low


TWO_LOG2_E = "2.88539008177792681471984936200378427485329190833186827058689881386218423836237"


def quick_sum(large, small):
    """(rounded sum, its error) where |large| >= |small| or large is 0."""
    total = large + small
    return total, (large - total) + small


def exact_product(a, b):
    product = a * b
    return product, fma(a, b, -product)


def power_edges(x, y, result):
    """C99's results at 0, 1, infinities and NaN, NaN for negative x and fractional y, and the sign."""
    a, z = abs(x), abs(y)
    grows = y > 0
    result = select((a == 0) | (a == INFINITY), select((a == 0) ^ grows, x.constant(INFINITY), 0.0), result)
    ends = select(a == 1, x.constant(1.0), select((a > 1) ^ grows, x.constant(0.0), INFINITY))
    result = select(z == INFINITY, ends, result)
    whole = y.apply("trunc") == y
    half = y * 0.5
    odd = whole & (half.apply("trunc") != half)
    negative = (x.bits() < 0)
    result = select(negative & odd, -result, result)
    fractional = (x < 0) & ~whole & (a < INFINITY)
    result = select(fractional, x.constant(NAN), result)
    result = select((x != x) | (y != y), x + y, result)
    return select((x == 1) | (y == 0), x.constant(1.0), result)


# ------------------------------------------------------------------------------------------------- roots
@function
def rsqrt(x):
    """1 / sqrt(x)."""
    return 1 / sqrt(x)


CBRT_2 = 2 ** (1 / 3)


@function
def cbrt(x):
    """Cube root, negative below 0: a polynomial's guess at x = 2^(3j + i) (1 + f), one step of Halley."""
    k, f = split_logarithm(abs(x))
    t = k * (1 / 3) + x.format.shifter
    i = k - 3 * (t - x.format.shifter)
    a = (f + 1) * select(i < 0, x.constant(0.5), select(i > 0, x.constant(2.0), 1.0))
    root_of_scale = select(i < 0, x.constant(1 / CBRT_2), select(i > 0, x.constant(CBRT_2), 1.0))
    guess = polynomial(f, P.CBRT_64) * root_of_scale
    square, square_low = exact_product(guess, guess)
    excess = fma(square, guess, -a) + square_low * guess
    root = guess - guess * excess / fma(square * guess, 2.0, a)
    ordinary = (x != 0) & (abs(x) < INFINITY)
    return select(ordinary, copysign(root * scale_factor(t), x), x)
