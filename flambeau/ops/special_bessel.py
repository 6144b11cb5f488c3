"""Bessel and Airy functions on the host, by trapezoid sums of their integrals, power series and asymptotic
series.

The trapezoid rule converges exponentially for the periodic integrands of J_n and I_n and for the doubly
exponential one of
K_nu; far out, where it would need many points, Hankel's asymptotic series is exact to the last digits.
"""

import math

from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import sign, where
from flambeau.ops.spec import INPLACE, op
from flambeau.ops.special_host import OnHost

numpy = LazyModule("numpy")
EULER_GAMMA = 0.57721566490153286
FAR = 25.0
POINTS = 96


# ------------------------------------------------------------------------------ numerics
def j_near(order, x):
    """J_order(x) for |x| <= FAR: the mean of cos(order t - x sin t) over a period."""
    t = (numpy.arange(POINTS) + 0.5) * (math.pi / POINTS)
    return numpy.cos(order * t - x[..., None] * numpy.sin(t)).mean(-1)


def hankel(order, x):
    """(P, Q) with J = sqrt(2 / (pi x)) (P cos - Q sin) at x - order pi/2 - pi/4, and Y with P sin + Q cos."""
    mu, term, p, q = 4.0 * order * order, numpy.ones(x.shape), numpy.ones(x.shape), numpy.zeros(x.shape)
    for k in range(1, 24):
        term = term * (mu - (2 * k - 1) ** 2) / (k * 8 * x)
        if k % 2:
            q = q + term * (1 if k % 4 == 1 else -1)
        else:
            p = p + term * (1 if k % 4 == 0 else -1)
    return p, q


def bessel_j(order, x):
    a = abs(x)
    near = j_near(order, numpy.minimum(a, FAR))
    far = numpy.maximum(a, FAR)
    p, q = hankel(order, far)
    # cos(x - order pi/2 - pi/4) from cos x and sin x: no digits of a large x are lost
    c, s = _shifted(order, far)
    result = numpy.where(a <= FAR, near, numpy.sqrt(2 / (math.pi * far)) * (p * c - q * s))
    result = numpy.where(a == math.inf, 0.0, result)
    return numpy.where(numpy.isnan(x), x, numpy.where((x < 0) & (order % 2 == 1), -result, result))


def _shifted(order, x):
    """(cos, sin) of x - order pi/2 - pi/4 for order 0 or 1."""
    c, s, r = numpy.cos(x), numpy.sin(x), math.sqrt(0.5)
    return ((c + s) * r, (s - c) * r) if order == 0 else ((s - c) * r, -(c + s) * r)


def bessel_y(order, x):
    """Y_0 and Y_1: Neumann's series in J near 0, Hankel's series far out."""
    near = numpy.clip(x, 1e-300, FAR)
    logarithm = numpy.log(near / 2) + EULER_GAMMA
    if order == 0:
        total = sum((-1) ** (k + 1) * j_near(2 * k, near) / k for k in range(1, 32))
        small = 2 / math.pi * logarithm * j_near(0, near) + 4 / math.pi * total
    else:
        total = sum((-1) ** k * (2 * k + 1) / (k * (k + 1)) * j_near(2 * k + 1, near) for k in range(1, 32))
        bracket = (logarithm - 1) * j_near(1, near) - total
        small = 2 / math.pi * (bracket - j_near(0, near) / near)
    far = numpy.maximum(x, FAR)
    p, q = hankel(order, far)
    c, s = _shifted(order, far)
    result = numpy.where(x <= FAR, small, numpy.sqrt(2 / (math.pi * far)) * (p * s + q * c))
    result = numpy.where(x == math.inf, 0.0, numpy.where(x == 0, -math.inf, result))
    return numpy.where((x < 0) | numpy.isnan(x), math.nan, result)


def bessel_i(order, x, scaled):
    """I_0 and I_1, or times exp(-|x|): the power series, which has positive terms, or the asymptotic one."""
    a = abs(x)
    near, far = numpy.minimum(a, 30.0), numpy.maximum(a, 30.0)
    quarter = near * near / 4
    term = total = numpy.ones(x.shape) if order == 0 else near / 2
    for k in range(1, 90):
        term = term * quarter / (k * (k + order))
        total = total + term
    mu, part, series = 4.0 * order * order, numpy.ones(x.shape), numpy.ones(x.shape)
    for k in range(1, 24):
        part = -part * (mu - (2 * k - 1) ** 2) / (k * 8 * far)
        series = series + part
    series = series / numpy.sqrt(2 * math.pi * far)
    if scaled:
        result = numpy.where(a <= 30, total * numpy.exp(-near), series)
        result = numpy.where(a == math.inf, 0.0, result)
    else:
        result = numpy.where(a <= 30, total, numpy.exp(far / 2) * series * numpy.exp(far / 2))
        result = numpy.where(a == math.inf, math.inf, result)
    return numpy.where(numpy.isnan(x), x, numpy.where((x < 0) & (order == 1), -result, result))


def bessel_k(order, x, scaled):
    """K_order(x), or times exp(x): the integral of exp(-x (cosh t - 1)) cosh(order t)."""
    safe = numpy.where(x > 0, numpy.minimum(x, 1e300), 1.0)
    end = numpy.arccosh(1 + 60 / safe) if order == 0 else numpy.arcsinh(100 / safe)
    step = end[..., None] / 400
    t = numpy.arange(401) * step
    values = numpy.exp(-2 * safe[..., None] * numpy.sinh(t / 2) ** 2) * numpy.cosh(order * t)
    result = (values.sum(-1) - values[..., 0] / 2) * step[..., 0]
    if not scaled:
        result = result * numpy.exp(-safe)
    result = numpy.where(x == math.inf, 0.0, numpy.where(x == 0, math.inf, result))
    return numpy.where((x < 0) | numpy.isnan(x), math.nan, result)


def airy(x):
    """Ai(x): K_{1/3} for x > 1, the power series to -6, the asymptotic one below."""
    big = numpy.maximum(x, 1.0)
    z = 2 / 3 * big ** 1.5
    right = numpy.sqrt(big / 3) / math.pi * bessel_k(1 / 3, z, False)
    middle = numpy.clip(x, -6.0, 1.0)
    cube = middle ** 3
    f, g = numpy.ones(x.shape), middle
    first, second = f, g
    for k in range(1, 40):
        f = f * cube / ((3 * k - 1) * (3 * k))
        g = g * cube / ((3 * k) * (3 * k + 1))
        first, second = first + f, second + g
    series = 0.355028053887817239 * first - 0.258819403792806798 * second
    a = numpy.maximum(-x, 6.0)
    z = 2 / 3 * a ** 1.5
    u, p, q = numpy.ones(x.shape), numpy.ones(x.shape), numpy.zeros(x.shape)
    for k in range(1, 16):
        u = u * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)) / z
        if k % 2:
            q = q + u * (1 if k % 4 == 1 else -1)
        else:
            p = p + u * (1 if k % 4 == 0 else -1)
    left = (numpy.sin(z + math.pi / 4) * p
            - numpy.cos(z + math.pi / 4) * q) / (math.sqrt(math.pi) * a ** 0.25)
    result = numpy.where(x > 1, right, numpy.where(x < -6, left, series))
    return numpy.where(numpy.isnan(x), x, numpy.where(abs(x) == math.inf, 0.0, result))


# ------------------------------------------------------------------------------ ops
def _declare(label, value, doc):
    body = {"__doc__": doc, "__module__": __name__, "name": f"_special_{label}", "value": staticmethod(value),
            "reference": staticmethod(value)}
    op(type(label, (OnHost,), body))


for _order in (0, 1):
    _declare(f"bessel_j{_order}", lambda x, n=_order: bessel_j(n, x),
             f"Bessel function of the first kind of order {_order}.")
    _declare(f"bessel_y{_order}", lambda x, n=_order: bessel_y(n, x),
             f"Bessel function of the second kind of order {_order}.")
    for _prefix in ("", "scaled_"):
        _declare(f"{_prefix}modified_bessel_k{_order}", lambda x, n=_order,
                 s=bool(_prefix): bessel_k(n, x, s),
                 f"Modified Bessel function K of order {_order}{', times exp(x)' if _prefix else ''}.")
_declare("airy_ai", airy, "Airy's function Ai.")


class Modified(OnHost):
    """Modified Bessel functions of the first kind."""

    differentiable = True


@op
class I0(Modified):
    """Modified Bessel function of the first kind of order 0."""

    def value(input):
        return bessel_i(0, input, False)

    reference = value

    def derivative(grad, x):
        return grad * _special_i1(x)            # noqa: F821


@op
class I1(Modified):
    """Modified Bessel function of the first kind of order 1."""

    name = "_special_i1"

    def value(input):
        return bessel_i(1, input, False)

    reference = value

    def derivative(grad, out, x):
        return grad * where(x == 0, 0.5, i0(x) - out / x)           # noqa: F821


@op
class I0e(Modified):
    """exp(-|x|) i0(x)."""

    name = "_special_i0e"

    def value(input):
        return bessel_i(0, input, True)

    reference = value

    def derivative(grad, out, x):
        return grad * (_special_i1e(x) - sign(x) * out)         # noqa: F821


@op
class I1e(Modified):
    """exp(-|x|) i1(x)."""

    name = "_special_i1e"

    def value(input):
        return bessel_i(1, input, True)

    reference = value

    def derivative(grad, out, x):
        return grad * where(x == 0, 0.5, _special_i0e(x) - out * (sign(x) + 1 / x))         # noqa: F821


INPLACE["i0_"] = i0         # noqa: F821
