"""Special functions beyond what tests/ops/test_every_op.py draws: known values, whole ranges, edges,
arithmetic of bits.
"""

import math

import mpmath
import numpy
import pytest

import flambeau as fl
from flambeau import special

X = numpy.array([1e-8, 0.03, 0.7, 1.0, 1.4616, 2.5, 7.9, 12.0, 24.9, 25.1, 40.0])
BOTH = numpy.concatenate([X, -X])
UNIT = numpy.array([1e-12, 1e-3, 0.1, 0.49, 0.51, 0.9, 1 - 1e-9])


def check(function, exact, x, tolerance=1e-12):
    got = function(fl.tensor(x)).numpy()
    want = numpy.array([float(exact(float(v))) for v in x])
    numpy.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    single = function(fl.tensor(x, dtype=fl.float32)).numpy()
    near = numpy.array([float(exact(float(v))) for v in x.astype("float32")]).astype("float32")
    numpy.testing.assert_allclose(single, near, rtol=3e-7, atol=1e-7)


FUNCTIONS = {
    "gammaln": (lambda x: mpmath.log(abs(mpmath.gamma(x))), numpy.concatenate([X, -X[1:3], -X[5:6]])),
    "psi": (mpmath.digamma, numpy.concatenate([X, -X[1:3], -X[5:6]])),
    "erfcx": (lambda x: mpmath.exp(mpmath.mpf(x) ** 2) * mpmath.erfc(x), numpy.concatenate([X, -X[:7]])),
    "ndtr": (mpmath.ncdf, BOTH / 5), "log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), BOTH),
    "erfinv": (mpmath.erfinv, UNIT[:6]), "i0": (lambda x: mpmath.besseli(0, x),
                                                BOTH), "i1": (lambda x: mpmath.besseli(1, x), BOTH),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), BOTH),
    "i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), BOTH),
    "bessel_j0": (lambda x: mpmath.besselj(0, x), BOTH), "bessel_j1": (lambda x: mpmath.besselj(1, x), BOTH),
    "bessel_y0": (lambda x: mpmath.bessely(0, x), X), "bessel_y1": (lambda x: mpmath.bessely(1, x), X),
    "modified_bessel_k0": (lambda x: mpmath.besselk(0, x),
                           X), "modified_bessel_k1": (lambda x: mpmath.besselk(1, x), X),
    "scaled_modified_bessel_k1": (lambda x: mpmath.besselk(1, x) * mpmath.exp(x), X),
    "spherical_bessel_j0": (lambda x: mpmath.sin(x) / x, X),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_mpmath(name):
    exact, x = FUNCTIONS[name]
    check(getattr(special, name), exact, x)


def test_airy():
    check(special.airy_ai, mpmath.airyai, numpy.array([-20.0, -6.1, -5.9, -1, 0, 0.9, 1.1, 8]), 1e-9)


def test_inverse_error_function_to_a_few_units_in_the_last_place():
    rng = numpy.random.default_rng(0)
    x = numpy.concatenate([rng.uniform(-1, 1, 60), 1 - 10.0 ** -rng.uniform(1, 15, 40),
                           10.0 ** -rng.uniform(1, 30, 20), [0.85, numpy.nextafter(0.85, 1), 1 - 2e-11]])
    for dtype, most in (("float64", 5), ("float32", 1)):
        given = x.astype(dtype)
        given = given[abs(given) < 1]
        want = numpy.array([float(mpmath.erfinv(float(v))) for v in given])
        got = fl.erfinv(fl.tensor(given)).numpy()
        assert (abs(got - want) / numpy.spacing(abs(want).astype(dtype))).max() <= most
        edges = fl.erfinv(fl.tensor(numpy.array([1, -1, 0, -0.0, 1.5, -numpy.inf, numpy.nan], dtype))).numpy()
        numpy.testing.assert_array_equal(edges, [numpy.inf, -numpy.inf, 0, 0, *[numpy.nan] * 3])
        assert numpy.signbit(edges[2:4]).tolist() == [False, True]


def test_normal_quantiles_far_out():
    p = numpy.array([1e-300, 1e-30, 1e-6, 0.2, 0.5, 0.8])
    got = special.ndtri(fl.tensor(p)).numpy()
    numpy.testing.assert_allclose([float(mpmath.ncdf(x)) for x in got], p, rtol=1e-11)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 9])
def test_polygamma(n):
    x = numpy.array([0.1, 1.5, 9.0, 33.0, -0.3, -2.6])
    got = fl.polygamma(n, fl.tensor(x)).numpy()
    numpy.testing.assert_allclose(got, [float(mpmath.psi(n, v)) for v in x], rtol=1e-11)


@pytest.mark.parametrize("a, x", [(0.3, 0.1), (2.5, 1.0), (2.5, 9.0), (40.0, 38.0), (40.0, 60.0)])
def test_incomplete_gamma(a, x):
    lower = float(mpmath.gammainc(a, 0, x, regularized=True))
    assert fl.igamma(fl.tensor(a, dtype=fl.float64),
                     fl.tensor(x, dtype=fl.float64)).item() == pytest.approx(lower, rel=1e-11)
    upper = fl.igammac(fl.tensor(a, dtype=fl.float64), fl.tensor(x, dtype=fl.float64)).item()
    assert upper == pytest.approx(float(mpmath.gammainc(a, x, math.inf, regularized=True)), rel=1e-11)


def test_zeta_and_multivariate_gamma():
    got = special.zeta(fl.tensor([1.5, 2.0, 7.0], dtype=fl.float64),
                       fl.tensor([0.2, 1.0, 30.0], dtype=fl.float64)).numpy()
    want = [float(mpmath.zeta(s, q)) for s, q in ((1.5, 0.2), (2, 1), (7, 30))]
    numpy.testing.assert_allclose(got, want, rtol=1e-12)
    want = math.log(math.pi) * 1.5 + sum(math.lgamma(4 - j / 2) for j in range(3))
    assert fl.mvlgamma(fl.tensor(4.0, dtype=fl.float64), 3).item() == pytest.approx(want)


def laguerre(n, x):
    return sum(mpmath.binomial(n, k) * (-mpmath.mpf(x)) ** k / mpmath.factorial(k) for k in range(n + 1))


POLYNOMIALS = {
    "chebyshev_polynomial_t": mpmath.chebyt, "chebyshev_polynomial_u": mpmath.chebyu,
    "hermite_polynomial_h": mpmath.hermite, "laguerre_polynomial_l": laguerre,
    "legendre_polynomial_p": mpmath.legendre,
    "shifted_chebyshev_polynomial_t": lambda n, x: mpmath.chebyt(n, 2 * x - 1),
    "hermite_polynomial_he": lambda n, x: mpmath.hermite(n, x / mpmath.sqrt(2)) / mpmath.sqrt(2) ** n,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    x, n = numpy.array([-0.9, 0.0, 0.3, 1.0]), numpy.arange(7)
    got = getattr(special, name)(fl.tensor(x)[:, None], fl.tensor(n)).numpy()
    want = [[float(POLYNOMIALS[name](int(k), v)) for k in n] for v in x]
    numpy.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------ arithmetic of single numbers
def test_next_float32():
    x = numpy.array([0.0, -0.0, 1.0, -1.0, 1e-45, math.inf, math.nan, 3.4e38], "float32")
    for target in (math.inf, -math.inf, 0.0):
        y = numpy.full_like(x, target)
        numpy.testing.assert_array_equal(fl.nextafter(fl.tensor(x), fl.tensor(y)).numpy(),
                                         numpy.nextafter(x, y))


def test_clamp_takes_numbers_tensors_and_either_bound():
    x = fl.tensor([-2.0, 0.5, 3.0])
    assert fl.clamp(x, -1, 1).tolist() == [-1, 0.5, 1]
    assert x.clamp(min=fl.tensor([0.0, 1.0, 4.0])).tolist() == [0, 1, 4]
    assert x.clip(max=1).tolist() == [-2, 0.5, 1]
    assert fl.clamp(fl.tensor([5, -5]), 0, 3).tolist() == [3, 0]
    with pytest.raises(RuntimeError, match="must not be None"):
        x.clamp()


def test_rounding_to_decimals():
    x = fl.tensor([1.2345, -7.891, 1251.0], dtype=fl.float64)
    numpy.testing.assert_allclose(fl.round(x, decimals=2).numpy(), [1.23, -7.89, 1251])
    numpy.testing.assert_allclose(x.round(decimals=-2).numpy(), [0, 0, 1300])


def test_replacing_what_is_not_finite():
    x = fl.tensor([math.nan, math.inf, -math.inf, 2.0])
    assert fl.nan_to_num(x, 7, 8, 9).tolist() == [7, 8, 9, 2]
    assert fl.nan_to_num(x).tolist() == [0, 3.4028234663852886e38, -3.4028234663852886e38, 2]


def test_frexp_and_ldexp():
    x = fl.tensor([0.0, 1.0, -5.5, 1e-40, 3e30], dtype=fl.float64, requires_grad=True)
    mantissa, exponent = fl.frexp(x)
    assert exponent.dtype is fl.int32
    assert fl.ldexp(mantissa, exponent).tolist() == x.tolist()
    mantissa.sum().backward()
    numpy.testing.assert_allclose(x.grad.numpy(), 2.0 ** -exponent.numpy())


def test_host_ops_take_half_precision():
    x = fl.tensor([0.5, 2.0])
    for dtype, tolerance in ((fl.float16, 1e-3), (fl.bfloat16, 1e-2)):
        got = fl.i0(x.to(dtype))
        assert got.dtype is dtype
        numpy.testing.assert_allclose(got.float().numpy(), fl.i0(x).numpy(), rtol=tolerance)
