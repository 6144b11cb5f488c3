"""How a gamma draw moves with its concentration, on NumPy arrays in float64.

A draw x of concentration a stays at the same quantile when a changes: P(a, x) = u, P the regularised lower
incomplete gamma function. So d log(x)/da = -(dP/da) / (x p(x)), p the density: implicit reparameterisation
(Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", NeurIPS 2018). P and its derivative come
from

- the power series of P where x < a + 1,
- the continued fraction of 1 - P beyond, both with the derivative of each term carried along,
- the uniform asymptotic expansion from a = 1000 on, P(a, x) = Phi(z) with z a series in 1/a (Temme, "The
  asymptotic expansion of the incomplete gamma functions", SIAM Journal on Mathematical Analysis 10, 1979).

All divide by x p(x) before they sum, so nothing cancels or underflows.
"""

from flambeau.base.lazy import LazyModule
from flambeau.ops.special_host import polygamma_host

numpy = LazyModule("numpy")
LARGE = 1000.0
TERMS = 5000
TOGETHER = 512          # draws of similar concentration, which need a similar number of terms


def slope(concentration, log_value):
    """d log(x)/da for draws with `log_value` = log(x); NaN where the concentration is not positive."""
    a, log_x = (numpy.array(v, "float64") for v in numpy.broadcast_arrays(concentration, log_value))
    result = numpy.full(a.shape, numpy.nan)
    with numpy.errstate(all="ignore"):
        x = numpy.exp(log_x)
        valid = (a > 0) & numpy.isfinite(a) & (log_x < numpy.inf)
        large = valid & (a >= LARGE)
        series = valid & ~large & (x < a + 1)
        rest = valid & ~large & ~series
        for where, method in ((large, _asymptotic), (series, _series), (rest, _fraction)):
            places = numpy.flatnonzero(where)
            places = places[numpy.argsort(a.flat[places], kind="stable")]
            for start in range(0, places.size, TOGETHER):
                some = places[start:start + TOGETHER]
                result.flat[some] = method(a.flat[some], x.flat[some], log_x.flat[some])
    return result


def _series(a, x, log_x):
    """x p(x) = x^a e^-x / gamma(a) and P = x p(x) / a (1 + x/(a+1) + x^2/((a+1)(a+2)) + ...)."""
    term, inverses = numpy.ones(a.shape), numpy.zeros(a.shape)
    total, total_slope = numpy.ones(a.shape), numpy.zeros(a.shape)
    for k in range(1, TERMS):
        term = term * x / (a + k)
        inverses = inverses + 1 / (a + k)
        total, total_slope = total + term, total_slope - term * inverses
        if not (term * inverses > -1e-17 * total_slope).any():
            break
    return (total * (polygamma_host(0, a + 1) - log_x) - total_slope) / a


def _fraction(a, x, log_x):
    """(1 - P) / (x p(x)) = 1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))), by Lentz's method."""
    b = x + 1 - a
    above, above_slope = numpy.full(a.shape, numpy.inf), numpy.zeros(a.shape)
    below, below_slope = 1 / b, 1 / (b * b)
    value, value_slope = below, below_slope
    for k in range(1, TERMS):
        factor = -k * (k - a)
        b = b + 2
        inverse = 1 / (factor * below + b)
        below_slope = -(k * below + factor * below_slope - 1) * inverse * inverse
        below = inverse
        above, above_slope = b + factor / above, -1 + k / above - factor * above_slope / above / above
        step, step_slope = above * below, above_slope * below + above * below_slope
        value_slope = value_slope * step + value * step_slope
        value = value * step
        if not (abs(step - 1) + abs(step_slope) > 1e-15).any():
            break
    return value * (log_x - polygamma_host(0, a)) + value_slope


def _asymptotic(a, x, log_x):
    """z = sqrt(a) eta - e(eta) / sqrt(a), where eta^2 / 2 = x/a - 1 - log(x/a); terms from 1/a^2 on are left
    out.
    """
    m = numpy.expm1(log_x - numpy.log(a))           # x/a - 1
    half = numpy.where(abs(m) < 0.02, _difference_series(m), m - numpy.log1p(m))
    eta = numpy.sign(m) * numpy.sqrt(2 * half)
    near = abs(eta) < 1e-3
    f = numpy.where(near, 1 / (1 + eta / 3 + eta * eta / 36), eta / m)
    e = numpy.where(near, -1 / 3 + eta / 36, numpy.log(f) / eta)
    e_slope = 1 / 36 + eta * (2 / 405)
    return 1 / a - f * (eta + e / a) / (2 * a * (1 - e_slope / a))


def _difference_series(m):
    """m - log(1 + m) for small m."""
    return m * m * (1 / 2 - m * (1 / 3 - m * (1 / 4 - m * (1 / 5 - m * (1 / 6 - m * (1 / 7 - m * (1 / 8)))))))
