"""Orthogonal polynomials of integer degree n, by their recurrences on the host:
torch.special.*_polynomial_*.
"""

from flambeau.base.lazy import LazyModule
from flambeau.ops.spec import op
from flambeau.ops.special_host import OnHost

numpy = LazyModule("numpy")


def recurrence(x, n, first, step):
    """p_n(x), where p_0 = 1, p_1 = first(x) and p_{k+1} = step(k, x, p_k, p_{k-1}); 0 for negative n."""
    x, n = numpy.broadcast_arrays(x, n)
    n = numpy.trunc(n)
    before, now = numpy.ones(x.shape), first(x) + 0 * x
    result = numpy.where(n == 0, before, numpy.where(n == 1, now, 0.0))
    for k in range(1, int(n.max()) if n.size and numpy.isfinite(n).all() else 0):
        before, now = now, step(k, x, now, before)
        result = numpy.where(n == k + 1, now, result)
    return numpy.where((n >= 0) & numpy.isnan(x) & (n > 0), numpy.nan, result)


def _chebyshev(first):
    return lambda x, n: recurrence(x, n, first, lambda k, x, p, q: 2 * x * p - q)


CHEBYSHEV = {"t": lambda x: x, "u": lambda x: 2 * x, "v": lambda x: 2 * x - 1, "w": lambda x: 2 * x + 1}
POLYNOMIALS = {
    "hermite_polynomial_h":
        lambda x, n: recurrence(x, n, lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q),
    "hermite_polynomial_he":
        lambda x, n: recurrence(x, n, lambda x: x, lambda k, x, p, q: x * p - k * q),
    "laguerre_polynomial_l":
        lambda x, n: recurrence(x, n, lambda x: 1 - x,
                                 lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "legendre_polynomial_p":
        lambda x, n: recurrence(x, n, lambda x: x,
                                 lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1)),
}
for _letter, _first in CHEBYSHEV.items():
    POLYNOMIALS[f"chebyshev_polynomial_{_letter}"] = _chebyshev(_first)
    POLYNOMIALS[f"shifted_chebyshev_polynomial_{_letter}"] = \
        lambda x, n, value=_chebyshev(_first): value(2 * x - 1, n)


class Polynomial(OnHost):
    """A polynomial of degree `n` at `x`."""

    signature = "input, n"
    operands = ("input", "n")

    def samples(rng, shape):
        return [rng.uniform(-1, 1, shape), rng.integers(-1, 6, shape).astype(float)]


for _name, _value in POLYNOMIALS.items():
    op(type(_name, (Polynomial,),
            {"__doc__": f"The {_name.replace('_', ' ')} of degree n at each element.", "__module__": __name__,
                                   "name": f"_special_{_name}", "value": staticmethod(_value),
                                   "reference": staticmethod(_value)}))
