"""log_prob, cdf, icdf, moments and entropy against SciPy's."""

import math

import numpy
import pytest
from scipy import stats

import flambeau as fl

D = fl.distributions


def t(*values):
    return fl.tensor(list(values), dtype=fl.float64)


LOC, SCALE, SHAPE = (-1.5, 0.0, 2.0), (0.5, 1.0, 3.0), (0.4, 1.0, 4.5)
P = (0.05, 0.5, 0.9)
CONTINUOUS = {
    "Normal": (D.Normal(t(*LOC), t(*SCALE)), stats.norm(LOC, SCALE)),
    "HalfNormal": (D.HalfNormal(t(*SCALE)), stats.halfnorm(0, SCALE)),
    "LogNormal": (D.LogNormal(t(*LOC), t(0.5, 1.0, 0.7)), stats.lognorm((0.5, 1.0, 0.7), 0, numpy.exp(LOC))),
    "Uniform": (D.Uniform(t(*LOC), t(0.0, 1.0, 7.0)), stats.uniform(LOC, (1.5, 1.0, 5.0))),
    "Laplace": (D.Laplace(t(*LOC), t(*SCALE)), stats.laplace(LOC, SCALE)),
    "Cauchy": (D.Cauchy(t(*LOC), t(*SCALE)), stats.cauchy(LOC, SCALE)),
    "HalfCauchy": (D.HalfCauchy(t(*SCALE)), stats.halfcauchy(0, SCALE)),
    "StudentT": (D.StudentT(t(2.5, 4.0, 30.0), t(*LOC), t(*SCALE)), stats.t((2.5, 4.0, 30.0), LOC, SCALE)),
    "Gumbel": (D.Gumbel(t(*LOC), t(*SCALE)), stats.gumbel_r(LOC, SCALE)),
    "Exponential": (D.Exponential(t(*SHAPE)), stats.expon(0, 1 / numpy.array(SHAPE))),
    "Gamma": (D.Gamma(t(*SHAPE), t(*SCALE)), stats.gamma(SHAPE, 0, 1 / numpy.array(SCALE))),
    "Chi2": (D.Chi2(t(*SHAPE)), stats.chi2(SHAPE)),
    "InverseGamma": (D.InverseGamma(t(2.5, 4.0, 9.0), t(*SCALE)), stats.invgamma((2.5, 4.0, 9.0), 0, SCALE)),
    "FisherSnedecor": (D.FisherSnedecor(t(1.0, 4.0, 6.0), t(5.0, 6.5, 20.0)),
                       stats.f((1, 4, 6), (5, 6.5, 20))),
    "Beta": (D.Beta(t(*SHAPE), t(0.7, 1.0, 2.0)), stats.beta(SHAPE, (0.7, 1.0, 2.0))),
    "Weibull": (D.Weibull(t(*SCALE), t(*SHAPE)), stats.weibull_min(SHAPE, 0, SCALE)),
    "Pareto": (D.Pareto(t(*SCALE), t(2.5, 3.0, 7.0)), stats.pareto((2.5, 3.0, 7.0), 0, SCALE)),
    "GeneralizedPareto": (D.GeneralizedPareto(t(-1.5, 0.0, 2.0, 1.0), t(0.5, 1.0, 3.0, 2.0),
                                              t(0.3, 0.0, -0.6, 1e-9)),
                          stats.genpareto((0.3, 0.0, -0.6, 1e-9), (-1.5, 0.0, 2.0, 1.0),
                                          (0.5, 1.0, 3.0, 2.0))),
    "VonMises": (D.VonMises(t(0.0, 1.0, -2.0), t(0.3, 2.0, 500.0)),
                 stats.vonmises((0.3, 2.0, 500.0), (0, 1, -2))),
}
DISCRETE = {
    "Bernoulli": (D.Bernoulli(t(*P)), stats.bernoulli(P)),
    "Bernoulli logits": (D.Bernoulli(logits=t(-3.0, 0.0, 5.0)),
                         stats.bernoulli(1 / (1 + numpy.exp([3.0, 0.0, -5.0])))),
    "Geometric": (D.Geometric(t(*P)), stats.geom(P, -1)),
    "Binomial": (D.Binomial(7, t(*P)), stats.binom(7, P)),
    "NegativeBinomial": (D.NegativeBinomial(t(2.0, 3.5, 1.0), t(*P)),
                         stats.nbinom((2.0, 3.5, 1.0), 1 - numpy.array(P))),
    "Poisson": (D.Poisson(t(0.3, 2.0, 30.0)), stats.poisson((0.3, 2.0, 30.0))),
}
NO_MOMENTS = ("Cauchy", "HalfCauchy", "VonMises")


def close(got, want, tolerance=1e-9):
    numpy.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


def quantiles(reference):
    """Values in the middle and far in the tails, (levels, batch)."""
    return reference.ppf(numpy.array([1e-6, 0.01, 0.3, 0.5, 0.8, 0.99, 1 - 1e-6])[:, None])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_density(name):
    ours, reference = CONTINUOUS[name]
    values = quantiles(reference)
    close(ours.log_prob(fl.tensor(values)), reference.logpdf(values))


@pytest.mark.parametrize("name", DISCRETE)
def test_probability(name):
    ours, reference = DISCRETE[name]
    values = numpy.array([[0.0], [1.0],
                          *([[2.0], [7.0]] if "Bernoulli" not in name else [])]) + numpy.zeros(3)
    close(ours.log_prob(fl.tensor(values)), reference.logpmf(values))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_cdf_and_its_inverse(name):
    ours, reference = CONTINUOUS[name]
    values = quantiles(reference)
    levels = numpy.array([0.01, 0.3, 0.5, 0.8, 0.99])[:, None] + numpy.zeros(ours.batch_shape)
    for method, argument, want in (("cdf", values, reference.cdf(values)),
                                   ("icdf", levels, reference.ppf(levels))):
        try:
            got = getattr(ours, method)(fl.tensor(argument))
        except NotImplementedError:
            assert name in ("StudentT", "Beta", "FisherSnedecor", "VonMises", "Gamma", "Chi2", "InverseGamma")
            continue
        close(got, want, 1e-8)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_moments(name):
    ours, reference = (CONTINUOUS | DISCRETE)[name]
    if name in NO_MOMENTS:
        pytest.skip("there are none, or circular ones")
    close(ours.mean, reference.mean())
    close(ours.variance, reference.var(), 1e-8)
    close(ours.stddev, reference.std(), 1e-8)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_entropy(name):
    ours, reference = (CONTINUOUS | DISCRETE)[name]
    if name in ("FisherSnedecor", "VonMises", "NegativeBinomial", "Poisson"):
        with pytest.raises(NotImplementedError):
            ours.entropy()
        return
    close(ours.entropy(), [float(v) for v in numpy.ravel(reference.entropy())], 1e-7)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_mode_is_where_the_density_is_highest(name):
    ours, reference = CONTINUOUS[name]
    try:
        mode = ours.mode
    except NotImplementedError:
        return
    beside = fl.tensor(quantiles(reference))
    ours = ours.expand(ours.batch_shape)
    ours._validate_args = False         # some modes are NaN
    for i in range(mode.shape[0]):
        if math.isfinite(mode[i].item()):
            one = ours.log_prob(mode)[i]
            assert bool((ours.log_prob(beside)[:, i] <= one + 1e-9).all())


# ------------------------------------------------------------------------------ vectors and matrices
RNG = numpy.random.default_rng(0)
ROOT = RNG.normal(size=(3, 3))
COVARIANCE = ROOT @ ROOT.T + numpy.eye(3)
VECTORS = RNG.normal(size=(5, 3))
FACTOR, DIAGONAL = RNG.normal(size=(3, 2)), RNG.uniform(0.5, 2, 3)


@pytest.mark.parametrize("given", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_normal_vectors(given):
    matrix = {"covariance_matrix": COVARIANCE, "precision_matrix": numpy.linalg.inv(COVARIANCE),
              "scale_tril": numpy.linalg.cholesky(COVARIANCE)}[given]
    matrix = (matrix + matrix.T) / 2 if given != "scale_tril" else matrix
    ours = D.MultivariateNormal(t(1.0, 0.0, -1.0), **{given: fl.tensor(matrix)})
    reference = stats.multivariate_normal([1.0, 0.0, -1.0], COVARIANCE)
    close(ours.log_prob(fl.tensor(VECTORS)), reference.logpdf(VECTORS))
    close(ours.entropy(), reference.entropy())
    close(ours.covariance_matrix, COVARIANCE)
    close(ours.precision_matrix, numpy.linalg.inv(COVARIANCE))
    close(ours.scale_tril, numpy.linalg.cholesky(COVARIANCE))
    close(ours.variance, numpy.diag(COVARIANCE))


def test_normal_vectors_of_low_rank():
    ours = D.LowRankMultivariateNormal(t(1.0, 0.0, -1.0), fl.tensor(FACTOR), fl.tensor(DIAGONAL))
    covariance = FACTOR @ FACTOR.T + numpy.diag(DIAGONAL)
    reference = stats.multivariate_normal([1.0, 0.0, -1.0], covariance)
    close(ours.log_prob(fl.tensor(VECTORS)), reference.logpdf(VECTORS))
    close(ours.entropy(), reference.entropy())
    close(ours.precision_matrix, numpy.linalg.inv(covariance))
    close(ours.scale_tril, numpy.linalg.cholesky(covariance))


def test_batches_of_normal_vectors():
    """Every place of a batch is the distribution of its own parameters."""
    covariances = numpy.stack([COVARIANCE, numpy.eye(3) * 2])
    ours = D.MultivariateNormal(fl.tensor(VECTORS[:, None]), fl.tensor(covariances))
    assert tuple(ours.batch_shape) == (5, 2)
    value = RNG.normal(size=3)
    want = [[stats.multivariate_normal(m, c).logpdf(value) for c in covariances] for m in VECTORS]
    close(ours.log_prob(fl.tensor(value)), want)


def test_shares():
    ours, reference = D.Dirichlet(t(0.5, 2.0, 4.0)), stats.dirichlet([0.5, 2.0, 4.0])
    value = numpy.array([0.2, 0.3, 0.5])
    close(ours.log_prob(fl.tensor(value)), reference.logpdf(value))
    for got, want in ((ours.mean, reference.mean()), (ours.variance, reference.var()),
                      (ours.entropy(), reference.entropy())):
        close(got, want)


def test_counts_of_classes():
    weights = numpy.array([0.2, 0.5, 0.3])
    ours, reference = D.Multinomial(4, fl.tensor(weights)), stats.multinomial(4, weights)
    for value in ([4.0, 0, 0], [1.0, 2.0, 1.0]):
        close(ours.log_prob(t(*value)), reference.logpmf(value))
    close(ours.entropy(), reference.entropy())
    close(D.Categorical(fl.tensor(weights)).entropy(), stats.entropy(weights))


def test_wishart():
    ours, reference = D.Wishart(t(5.0), fl.tensor(COVARIANCE)), stats.wishart(5, COVARIANCE)
    value = reference.rvs(random_state=1)
    close(ours.log_prob(fl.tensor(value)), [reference.logpdf(value)])
    close(ours.entropy(), [reference.entropy()])
    close(ours.mean[0], reference.mean())
    close(ours.variance[0], reference.var())
    close(ours.mode[0], reference.mode())


# ------------------------------------------------------------------------------ by integration
def integral(function, low, high, count=200001):
    x = numpy.linspace(low, high, count)[1:-1]
    return numpy.trapezoid(function(x), x)


@pytest.mark.parametrize("make", [
    lambda: D.ContinuousBernoulli(t(0.2)), lambda: D.ContinuousBernoulli(t(0.5)),
    lambda: D.ContinuousBernoulli(logits=t(-1e-3)), lambda: D.ContinuousBernoulli(logits=t(30.0)),
    lambda: D.Kumaraswamy(t(1.5), t(2.5)), lambda: D.Kumaraswamy(t(3.0), t(1.0)),
    lambda: D.RelaxedBernoulli(t(0.7), logits=t(0.4))],
    ids=["ContinuousBernoulli", "at 1/2", "beside 1/2", "far from 1/2", "Kumaraswamy", "Kumaraswamy 1",
         "RelaxedBernoulli"])
def test_on_the_unit_interval(make):
    """Area, moments, entropy and cdf of what SciPy does not have."""
    one = make()

    def density(x):
        return one.log_prob(fl.tensor(x)).exp().numpy()
    assert integral(density, 0, 1) == pytest.approx(1, abs=1e-3)
    assert integral(density, 0.01, 0.3) == pytest.approx((one.cdf(t(0.3)) - one.cdf(t(0.01))).item(),
                                                         abs=1e-5)
    levels = t(0.1, 0.5, 0.9)
    close(one.cdf(one.icdf(levels)), levels.numpy())
    if not isinstance(one, D.RelaxedBernoulli):
        mean = one.mean.item()
        assert integral(lambda x: x * density(x), 0, 1) == pytest.approx(mean, abs=2e-4)
        assert integral(lambda x: (x - mean) ** 2 * density(x), 0, 1) == pytest.approx(one.variance.item(),
                                                                                       abs=2e-4)
        entropy = integral(lambda x: -density(x) * numpy.log(density(x)), 0, 1)
        assert entropy == pytest.approx(one.entropy().item(), abs=1e-3)


def test_continuous_bernoulli_is_smooth_where_its_formulas_meet():
    """The series and the closed form agree at their border, in value and slope."""
    for logit in (-1.0, 1.0):
        below, above = (D.ContinuousBernoulli(logits=t(logit * factor)) for factor in (1 - 1e-12, 1 + 1e-12))
        for name in ("mean", "variance"):
            close(getattr(below, name), getattr(above, name).numpy(), 1e-10)
        close(below.entropy(), above.entropy().numpy(), 1e-10)


@pytest.mark.parametrize("concentration", [0.5, 1.0, 3.0])
def test_lkj_density_integrates_to_one(concentration):
    """For two dimensions over the one correlation r: the factor's row is (r, sqrt(1 - r^2))."""
    angle = numpy.linspace(0, math.pi, 20001)[1:-1]
    r, rest = numpy.cos(angle), numpy.sin(angle)
    factors = numpy.stack([numpy.stack([numpy.ones_like(r), 0 * r], -1), numpy.stack([r, rest], -1)], -2)
    one = D.LKJCholesky(2, fl.tensor(concentration, dtype=fl.float64), validate_args=False)
    density = one.log_prob(fl.tensor(factors)).exp().numpy()
    # in terms of r; dr = sin(angle) d angle
    assert numpy.trapezoid(density * rest, angle) == pytest.approx(1, abs=1e-2)
