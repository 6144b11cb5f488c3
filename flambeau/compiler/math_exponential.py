"""Exponentials and logarithms: exp, exp2, expm1, log, log2, log10, log1p.

Exponentials write x = n ln2 + r, |r| <= ln2/2. n is rounded by adding and taking off `shifter`, which leaves
it in the low bits too; ln2 stands in two parts; expm1(r) = r + r^2 p(r) is a polynomial; 2^n is two factors,
each a normal number, so that results down to the subnormal ones round once. NaN passes through every step.

Logarithms write x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and log(1 + f) = f + c, where f is
exact and c small. The instructions of a float32 vector: exp 22, log 31.
"""

import struct

from flambeau.compiler import math_coefficients as P
from flambeau.compiler.math_values import (
    LN2, LOG2_E, LOG10_2, LOG10_E, at_least, at_most, copysign, fma, function, polynomial, parts, select)
from flambeau.types.dtype import float32

INFINITY, NAN = float("inf"), float("nan")


# ------------------------------------------------------------------------------------------ exponentials
def exp_terms(dtype):
    return P.EXP_32 if dtype is float32 else P.EXP_64


def reduce_exponent(x, low=None):
    """(t, r) with x + low = n ln2 + r; n stands in the low bits of t."""
    shifter = x.format.shifter
    t = fma(x, float(LOG2_E), shifter)
    n = t - shifter
    high_part, low_part = parts(LN2, x.dtype, 2)
    r = fma(n, -low_part, fma(n, -high_part, x))
    return t, r if low is None else r + low


def expm1_near_0(r):
    """expm1(r) for |r| <= ln2/2."""
    return fma(r * r, polynomial(r, exp_terms(r.dtype)), r)


def scale_factors(t):
    """Two normal numbers with the product 2^n, which need not be one; n stands in the low bits of t."""
    form = t.format
    bits = t.bits()
    half = bits >> 1
    first = (half << form.digits) + form.one
    second = ((bits - half) << form.digits) + form.one
    return first.floating(t.dtype), second.floating(t.dtype)


def scale_factor(t, extra=0):
    """2^(n + extra), which must be a normal number."""
    form = t.format
    return ((t.bits() << form.digits) + (form.one + (extra << form.digits))).floating(t.dtype)


@function
def exp(x):
    """e^x."""
    low, high = exp_range(x)
    t, r = reduce_exponent(at_most(at_least(x, low), high))
    first, second = scale_factors(t)
    return fma(expm1_near_0(r), first, first) * second


def exp_range(x):
    """Arguments outside give the same results as these bounds: 0 and infinity."""
    return (-104.0, 89.0) if x.dtype is float32 else (-746.0, 710.0)


@function
def exp2(x):
    """2^x."""
    low, high = (-151.0, 129.0) if x.dtype is float32 else (-1076.0, 1025.0)
    x = at_most(at_least(x, low), high)
    shifter = x.format.shifter
    t = x + shifter
    first, second = scale_factors(t)
    r = (x - (t - shifter)) * float(LN2)
    return fma(expm1_near_0(r), first, first) * second


def expm1_parts(x):
    """(q, s) with e^x = s (1 + q) for x whose 2^n is a normal number."""
    t, r = reduce_exponent(x)
    return expm1_near_0(r), scale_factor(t)


@function
def expm1(x):
    """e^x - 1; 2^n is halved on the way, so that it stays finite."""
    low, high = (-18.0, 89.0) if x.dtype is float32 else (-40.0, 710.0)
    t, r = reduce_exponent(at_most(at_least(x, low), high))
    q, half = expm1_near_0(r), scale_factor(t, -1)
    near = abs(x) < 0.25
    return copysign(select(near, q, fma(q, half, half - 0.5) * 2), x)


# -------------------------------------------------------------------------------------------- logarithms
def split_logarithm(x):
    """(k, f) with x = 2^k (1 + f) for positive finite x; k is floating."""
    form, root = x.format, 0.5 ** 0.5
    subnormal = x < form.tiniest
    bits = select(subnormal, x * 2.0 ** form.digits, x).bits()
    base = _bits_of(root, x)
    offset = bits - base
    k = (offset >> form.digits).cast(x.dtype) + select(subnormal, x.constant(-float(form.digits)), 0.0)
    mantissa = (offset & ((1 << form.digits) - 1)) + base
    return k, mantissa.floating(x.dtype) - 1


def _bits_of(number, like):
    kinds = ("<f", "<i") if like.dtype is float32 else ("<d", "<q")
    return struct.unpack(kinds[1], struct.pack(kinds[0], number))[0]


def log_correction(f):
    """log(1 + f) - f."""
    square = f * f
    if f.dtype is float32:
        return square * fma(f, polynomial(f, P.LOG_32), -0.5)
    s = f / (f + 2)
    z = s * s
    half = square * 0.5
    return fma(s, fma(z * 2, polynomial(z, P.LOG_64), half), -half)


def log_edges(x, result):
    """`result` for positive finite x; the values of a logarithm elsewhere."""
    special = select(x == 0, x.constant(-INFINITY), NAN)
    return select(x > 0, select(x < INFINITY, result, x), special)


def natural_log(x, low=None):
    """log(x) for positive finite x; `low` is added at the end."""
    k, f = split_logarithm(x)
    c = log_correction(f)
    if low is not None:
        c = c + low
    high_part, low_part = parts(LN2, x.dtype, 2)
    return fma(k, high_part, f + fma(k, low_part, c))


@function
def log(x):
    """Natural logarithm: -inf at 0, NaN below."""
    return log_edges(x, natural_log(x))


@function
def log1p(x):
    """log(1 + x), exact near 0."""
    u = x + 1
    above = u - 1
    lost = (x - above) + (1 - (u - above))
    result = log_edges(u, natural_log(u, lost / u))
    return copysign(select(x < INFINITY, result, x), x)


def scaled_log(x, scale, exponent_parts):
    """(f + c) * scale + k * exponent, with the first product and the sum in two parts."""
    k, f = split_logarithm(x)
    c = log_correction(f)
    high_part, low_part = parts(scale, x.dtype, 2)
    product = f * high_part
    rest = fma(c, high_part, fma(f, low_part, fma(f, high_part, -product)))
    whole = k * exponent_parts[0]
    if exponent_parts[1]:
        rest = rest + fma(k, exponent_parts[1], fma(k, exponent_parts[0], -whole))
    total = whole + product
    return total + (((whole - total) + product) + rest)


@function
def log2(x):
    """Logarithm to base 2, exact at powers of 2."""
    return log_edges(x, scaled_log(x, LOG2_E, (1.0, 0.0)))


@function
def log10(x):
    """Logarithm to base 10."""
    return log_edges(x, scaled_log(x, LOG10_E, parts(LOG10_2, x.dtype, 2)))
