"""Complex arithmetic on pairs of reals: what one complex element becomes, written in real ops.

A `Pair` is a complex number whose parts are tensors (traced ones, so that a formula becomes one kernel); the
imaginary part None says that the number is real. The functions follow C's conventions for branch cuts and
signed zeros, as NumPy does. After W. Kahan, Branch cuts for complex elementary functions (1987).
"""

import math
from dataclasses import dataclass

from flambeau.ops.arithmetic import copysign
from flambeau.ops.compare import isinf, isnan, logical_and, logical_not, logical_or
from flambeau.ops.elementwise import abs as magnitude, cast, full_like, maximum, minimum, where
from flambeau.ops.mathematics import (asinh, atan2, cos, cosh, exp, expm1, hypot, log, log1p, sin, sinh, sqrt,
                                      tan)
from flambeau.types.dtype import float32, float64


@dataclass(frozen=True)
class Pair:
    """re + i im; `im` None: a real number."""

    re: object
    im: object = None

    @property
    def y(self):
        """The imaginary part, zeros for a real number."""
        return full_like(self.re, 0.0) if self.im is None else self.im

    def __add__(self, other):
        if self.im is None or other.im is None:
            return Pair(self.re + other.re, other.im if self.im is None else self.im)
        return Pair(self.re + other.re, self.im + other.im)

    def __sub__(self, other):
        if other.im is None:
            return Pair(self.re - other.re, self.im)
        return Pair(self.re - other.re, -other.im if self.im is None else self.im - other.im)

    def __neg__(self):
        return Pair(-self.re, None if self.im is None else -self.im)

    def __mul__(self, other):
        if self.im is None:
            return Pair(self.re * other.re, None if other.im is None else self.re * other.im)
        if other.im is None:
            return Pair(self.re * other.re, self.im * other.re)
        return Pair(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __truediv__(self, other):
        if other.im is None:
            return Pair(self.re / other.re, None if self.im is None else self.im / other.re)
        return divide(self, other)

    def scaled(self, number):
        """Times a real number."""
        return Pair(self.re * number, None if self.im is None else self.im * number)

    def conj(self):
        return Pair(self.re, None if self.im is None else -self.im)

    def times_i(self):
        return Pair(-self.y, self.re)

    def over_i(self):
        return Pair(self.y, -self.re)


def choose(condition, a, b):
    """a where the condition holds, else b."""
    return Pair(where(condition, a.re, b.re), where(condition, a.y, b.y))


def boxed(x):
    """1 for infinity, 0 for a number, with the sign of x."""
    return copysign(where(isinf(x), 1.0, 0.0), x)


def within(x, size):
    """x / size; of infinities their sign."""
    return where(isinf(size), boxed(x), x / size)


def infinite(z):
    return logical_or(isinf(z.re), isinf(z.y))


def divide(a, b):
    """a / b without overflow on the way: both divided by the larger part of b."""
    size = maximum(magnitude(b.re), magnitude(b.im))
    size = where(size == 0, 1.0, size)
    c, d = within(b.re, size), within(b.im, size)
    square = c * c + d * d
    x = a.re / size
    if a.im is None:
        return Pair(x * c / square, -x * d / square)
    y = a.im / size
    over_zero = logical_and(b.re == 0, b.im == 0)
    re, im = (x * c + y * d) / square, (y * c - x * d) / square
    return Pair(where(over_zero, a.re / b.re, re), where(over_zero, a.im / b.re, im))


def reciprocal_of(z):
    size = maximum(magnitude(z.re), magnitude(z.y))
    size = where(size == 0, 1.0, size)
    c, d = within(z.re, size), within(z.y, size)
    square = (c * c + d * d) * size
    return Pair(c / square, -d / square)


def size_of(z):
    """The magnitude, real."""
    return magnitude(z.re) if z.im is None else hypot(z.re, z.im)


def angle_of(z):
    """The angle in (-pi, pi], real."""
    return atan2(z.y, z.re)


def direction_of(z):
    """z / |z|; 0 at 0."""
    size = size_of(z)
    zero = size == 0
    safe = where(zero, 1.0, size)
    return Pair(where(zero, 0.0, z.re / safe), where(zero, 0.0, z.y / safe))


# ------------------------------------------------------------------------------ powers and logarithms
def exponential(z):
    size = exp(z.re)
    none = size == 0
    return Pair(where(none, size, size * cos(z.y)), where(z.y == 0, z.y, where(none, size, size * sin(z.y))))


def exponential_minus_one(z):
    half = sin(z.y * 0.5)
    return Pair(expm1(z.re) * cos(z.y) - half * half * 2.0, exp(z.re) * sin(z.y))


def logarithm(z):
    large = maximum(magnitude(z.re), magnitude(z.y))
    small = minimum(magnitude(z.re), magnitude(z.y))
    size = hypot(z.re, z.y)
    near = logical_and(size > 0.71, size < 1.73)        # log(size) would lose its digits near 1
    real = where(near, log1p((large - 1.0) * (large + 1.0) + small * small) * 0.5, log(size))
    return Pair(real, angle_of(z))


def logarithm_of_one_plus(z):
    near = size_of(z) < 0.5
    square = z.re * (z.re + 2.0) + z.y * z.y
    return Pair(where(near, log1p(square) * 0.5, log(hypot(z.re + 1.0, z.y))), atan2(z.y, z.re + 1.0))


def logarithm_to(base):
    return lambda z: logarithm(z).scaled(1.0 / math.log(base))


def root(z):
    """The square root in the right half plane; on the negative axis the imaginary part's sign decides."""
    size = hypot(z.re, z.y)
    s = sqrt(magnitude(z.re) * 0.5 + size * 0.5)
    t = where(s == 0, 0.0, magnitude(z.y) / (s * 2.0))
    t = where(isinf(z.y), magnitude(z.y), where(isinf(z.re), 0.0, t))
    right = z.re >= 0
    re, im = where(right, s, t), copysign(where(right, t, s), z.y)
    return Pair(where(isinf(z.y), s, re), im)


def widened(z):
    """In float64, where the digits of a logarithm outlive the exponential."""
    return Pair(cast(z.re, float64), cast(z.y, float64)) if z.re.dtype is float32 else z


def narrowed(z, dtype):
    return z if z.re.dtype is dtype else Pair(cast(z.re, dtype), cast(z.y, dtype))


def power(z, w):
    """exp(w log z); 0 to a power of positive real part is 0, anything to the power 0 is 1."""
    zero = logical_and(z.re == 0, z.y == 0)
    result = narrowed(exponential(widened(w) * logarithm(widened(z))), z.re.dtype)
    result = choose(logical_and(zero, w.re > 0), Pair(z.re * 0.0, z.re * 0.0), result)
    none = logical_and(w.re == 0, w.y == 0)
    return Pair(where(none, 1.0, result.re), where(none, 0.0, result.y))


def logistic(z):
    """1 / (1 + exp(-z)), by the exponential that does not overflow."""
    right = z.re >= 0
    shrunk = exponential(choose(right, -z, z))
    whole = Pair(shrunk.re + 1.0, shrunk.im)
    return choose(right, reciprocal_of(whole), divide(shrunk, whole))


def log_of_sum(a, b):
    """log(exp(a) + exp(b)): the operand of larger real part, and what the other adds to it."""
    swapped = b.re > a.re
    large, small = choose(swapped, b, a), choose(swapped, a, b)
    gap = Pair(where(a.re == b.re, 0.0, small.re - large.re), small.y - large.y)
    return large + logarithm_of_one_plus(exponential(gap))


# ------------------------------------------------------------------------------ circular and hyperbolic
def hyperbolic_sine(z):
    re = where(logical_and(z.re == 0, isinf(z.y)), z.re, sinh(z.re) * cos(z.y))
    return Pair(re, where(z.y == 0, z.y, cosh(z.re) * sin(z.y)))


def hyperbolic_cosine(z):
    on_axis = logical_and(logical_or(z.re == 0, z.y == 0), infinite(z))
    none = copysign(boxed(z.re) * 0.0, z.re) * copysign(boxed(z.y) * 0.0 + 1.0, z.y)
    return Pair(cosh(z.re) * cos(z.y), where(on_axis, none, sinh(z.re) * sin(z.y)))


def sine(z):
    return hyperbolic_sine(z.times_i()).over_i()


def cosine(z):
    return hyperbolic_cosine(z.times_i())


def hyperbolic_tangent(z):
    t, s = tan(z.y), sinh(z.re)
    beta, rho = t * t + 1.0, sqrt(s * s + 1.0)
    below = beta * (s * s) + 1.0
    far = magnitude(z.re) > 20.0
    im = where(far, sin(z.y) * cos(z.y) * exp(magnitude(z.re) * -2.0) * 4.0, t / below)
    im = where(isinf(z.re), copysign(boxed(z.y) * 0.0, z.y), im)
    return Pair(where(far, copysign(boxed(z.re) * 0.0 + 1.0, z.re), beta * rho * s / below), im)


def tangent(z):
    return hyperbolic_tangent(z.times_i()).over_i()


def _sides(z):
    """sqrt(1 - z) and sqrt(1 + z), the signs of zeros kept."""
    return root(Pair(1.0 - z.re, -z.y)), root(Pair(z.re + 1.0, z.y))


def endless(x):
    """Infinity with the sign of x."""
    return copysign(boxed(x) * 0.0 + math.inf, x)


def corner_of(z, y):
    """The angle of an infinite number, y being its imaginary part or that without sign."""
    return atan2(boxed(y), boxed(z.re))


def arc_sine(z):
    left, right = _sides(z)
    product = left * right
    re = where(infinite(z), atan2(boxed(z.re), magnitude(boxed(z.y))), atan2(z.re, product.re))
    return Pair(re, where(infinite(z), endless(z.y), asinh(left.re * right.im - left.im * right.re)))


def arc_cosine(z):
    left, right = _sides(z)
    re = where(infinite(z), corner_of(z, magnitude(z.y)), atan2(left.re, right.re) * 2.0)
    return Pair(re, where(infinite(z), -endless(z.y), asinh(right.re * left.im - right.im * left.re)))


def area_hyperbolic_cosine(z):
    low, high = root(Pair(z.re - 1.0, z.y)), root(Pair(z.re + 1.0, z.y))
    im = where(infinite(z), corner_of(z, z.y), atan2(low.im, high.re) * 2.0)
    return Pair(where(infinite(z), math.inf, asinh(low.re * high.re + low.im * high.im)), im)


def area_hyperbolic_sine(z):
    return arc_sine(z.times_i()).over_i()


def area_hyperbolic_tangent(z):
    x = magnitude(z.re)
    gap = 1.0 - x
    re = log1p(x * 4.0 / (gap * gap + z.y * z.y)) * 0.25
    im = atan2(z.y * 2.0, gap * (x + 1.0) - z.y * z.y) * 0.5
    far = infinite(z)
    return Pair(copysign(where(far, 0.0, re), z.re), where(far, copysign(boxed(x) * 0.0 + math.pi / 2, z.y),
                                                           im))


def arc_tangent(z):
    return area_hyperbolic_tangent(z.times_i()).over_i()


def sine_over(z):
    """sin(pi z) / (pi z), 1 at 0."""
    turned = z.scaled(math.pi)
    zero = logical_and(z.re == 0, z.y == 0)
    ratio = divide(sine(turned), turned)
    return Pair(where(zero, 1.0, ratio.re), where(zero, 0.0, ratio.im))


# ------------------------------------------------------------------------------ questions, real results
def equal(a, b):
    return logical_and(a.re == b.re, a.y == b.y)


def unequal(a, b):
    return logical_or(a.re != b.re, a.y != b.y)


def nonzero(z):
    return logical_or(z.re != 0, z.y != 0)


def zero(z):
    return logical_not(nonzero(z))


def not_a_number(z):
    return logical_or(isnan(z.re), isnan(z.y))


def scaled_gradient(g, f):
    """g f, 0 where g is 0 whatever f is: the product of derivatives."""
    product = g * f
    none = zero(g)
    return Pair(where(none, 0.0, product.re), where(none, 0.0, product.y))
