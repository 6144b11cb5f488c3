"""Draws at fixed seeds: their distribution by Kolmogorov and Smirnov, their moments, and gradients through
them.
"""

import math

import numpy
import pytest
from scipy import stats

import flambeau as fl
from flambeau.ops.gamma_slope import slope
from flambeau.ops.random import log_gamma_draw

D = fl.distributions


def t(*values, **options):
    return fl.tensor(list(values), dtype=fl.float64, **options)


COUNT = 4000
# distribution of one number, SciPy's cdf
CONTINUOUS = {
    "Normal": (lambda: D.Normal(t(1.0), t(2.0)), stats.norm(1, 2)),
    "HalfNormal": (lambda: D.HalfNormal(t(2.0)), stats.halfnorm(0, 2)),
    "LogNormal": (lambda: D.LogNormal(t(0.5), t(0.7)), stats.lognorm(0.7, 0, math.exp(0.5))),
    "Uniform": (lambda: D.Uniform(t(-1.0), t(3.0)), stats.uniform(-1, 4)),
    "Laplace": (lambda: D.Laplace(t(1.0), t(2.0)), stats.laplace(1, 2)),
    "Cauchy": (lambda: D.Cauchy(t(1.0), t(2.0)), stats.cauchy(1, 2)),
    "HalfCauchy": (lambda: D.HalfCauchy(t(2.0)), stats.halfcauchy(0, 2)),
    "StudentT": (lambda: D.StudentT(t(3.0), t(1.0), t(2.0)), stats.t(3, 1, 2)),
    "Gumbel": (lambda: D.Gumbel(t(1.0), t(2.0)), stats.gumbel_r(1, 2)),
    "Exponential": (lambda: D.Exponential(t(2.0)), stats.expon(0, 0.5)),
    "Gamma": (lambda: D.Gamma(t(2.5), t(2.0)), stats.gamma(2.5, 0, 0.5)),
    "Gamma small": (lambda: D.Gamma(t(0.2), t(2.0)), stats.gamma(0.2, 0, 0.5)),
    "Chi2": (lambda: D.Chi2(t(3.0)), stats.chi2(3)),
    "InverseGamma": (lambda: D.InverseGamma(t(2.5), t(2.0)), stats.invgamma(2.5, 0, 2)),
    "FisherSnedecor": (lambda: D.FisherSnedecor(t(3.0), t(7.0)), stats.f(3, 7)),
    "Beta": (lambda: D.Beta(t(0.5), t(2.0)), stats.beta(0.5, 2)),
    "Weibull": (lambda: D.Weibull(t(2.0), t(1.5)), stats.weibull_min(1.5, 0, 2)),
    "Pareto": (lambda: D.Pareto(t(2.0), t(3.0)), stats.pareto(3, 0, 2)),
    "GeneralizedPareto": (lambda: D.GeneralizedPareto(t(1.0), t(2.0), t(-0.3)), stats.genpareto(-0.3, 1, 2)),
    "VonMises": (lambda: D.VonMises(t(0.5), t(2.0)), stats.vonmises(2, 0.5)),
}
OWN_CDF = {
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t(0.2)),
    "Kumaraswamy": lambda: D.Kumaraswamy(t(1.5), t(2.5)),
    "RelaxedBernoulli": lambda: D.RelaxedBernoulli(t(0.7), logits=t(0.4)),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(D.Categorical(t(0.3, 0.7)),
                                                     D.Normal(t(-2.0, 1.0), t(0.5, 1.0))),
    "Transformed": lambda: D.TransformedDistribution(D.Normal(t(0.0), t(1.0)), D.AffineTransform(1.0, -2.0)),
}


@pytest.mark.parametrize("name", [*CONTINUOUS, *OWN_CDF])
def test_draws_have_the_distribution(name):
    """The largest distance between the empirical cdf and the true one has a p-value that is not tiny."""
    fl.manual_seed(1)
    if name in CONTINUOUS:
        make, reference = CONTINUOUS[name]
        one, cdf = make(), reference.cdf
    else:
        one = OWN_CDF[name]()

        def cdf(x):
            return one.cdf(fl.tensor(x).unsqueeze(-1)).reshape(-1).numpy()
    drawn = one.sample((COUNT,)).reshape(-1).numpy()
    assert stats.kstest(drawn, cdf).pvalue > 1e-3


def test_the_same_seed_draws_the_same():
    for make in (*(make for make, _ in CONTINUOUS.values()), *OWN_CDF.values(), lambda: D.Poisson(t(3.0)),
                 lambda: D.Categorical(t(0.2, 0.8)), lambda: D.Dirichlet(t(0.2, 0.8))):
        fl.manual_seed(5)
        first, second = make().sample((3,)), make().sample((3,))
        fl.manual_seed(5)
        assert make().sample((3,)).tolist() == first.tolist() != second.tolist() or first.dtype is fl.int64


DISCRETE = {
    "Bernoulli": lambda: D.Bernoulli(t(0.3)), "Binomial": lambda: D.Binomial(6, t(0.3)),
    "Geometric": lambda: D.Geometric(t(0.3)), "NegativeBinomial": lambda: D.NegativeBinomial(t(2.5), t(0.4)),
    "Poisson": lambda: D.Poisson(t(2.5)), "Categorical": lambda: D.Categorical(t(0.1, 0.0, 0.6, 0.3)),
}


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("shape", [(COUNT,), ()], ids=["at once", "as a batch"])
def test_draws_of_whole_numbers_have_the_probabilities(name, shape):
    """By the chi-square test over the values that are expected at least 10 times."""
    fl.manual_seed(2)
    one = DISCRETE[name]()
    if not shape:
        one = one.expand((COUNT, *one.batch_shape))
    drawn = one.sample(shape).reshape(-1).numpy().astype(int)
    count = {"Categorical": 4, "Bernoulli": 2, "Binomial": 7}.get(name, 30)
    values = fl.arange(count) if name == "Categorical" else fl.arange(count, dtype=fl.float64).reshape(-1, 1)
    one = DISCRETE[name]()
    one._validate_args = False
    log_probs = one.log_prob(values).reshape(-1)
    wanted = numpy.nan_to_num(log_probs.exp().numpy()) * COUNT
    found = numpy.bincount(drawn, minlength=count)
    assert found[wanted == 0].sum() == 0
    often = wanted > 10
    observed = numpy.append(found[often], COUNT - found[often].sum())
    expected = numpy.append(wanted[often], COUNT - wanted[often].sum())
    kept = expected > 1e-6
    statistic = ((observed - expected)[kept] ** 2 / expected[kept]).sum()
    assert stats.chi2.sf(statistic, kept.sum() - 1) > 1e-3


VECTORS = {
    "Dirichlet": lambda: D.Dirichlet(t(0.5, 2.0, 1.0)),
    "MultivariateNormal": lambda: D.MultivariateNormal(t(1.0, -1.0),
                                                       fl.tensor([[2.0, 0.5], [0.5, 1.0]]).double()),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(t(1.0, -1.0), t(1.0, 0.5).unsqueeze(-1),
                                                                     t(1.0, 2.0)),
    "Multinomial": lambda: D.Multinomial(5, t(0.2, 0.5, 0.3)),
    "OneHotCategorical": lambda: D.OneHotCategorical(t(0.2, 0.8)),
    "Wishart": lambda: D.Wishart(fl.tensor(4.0).double(), fl.tensor([[2.0, 0.5], [0.5, 1.0]]).double()),
}


@pytest.mark.parametrize("name", VECTORS)
def test_moments_of_draws(name):
    fl.manual_seed(3)
    one = VECTORS[name]()
    drawn = one.sample((20000,))
    assert drawn.mean(0).numpy() == pytest.approx(one.mean.numpy(), abs=0.08, rel=0.05)
    assert drawn.var(0).numpy() == pytest.approx(one.variance.numpy(), abs=0.05, rel=0.08)


def test_normal_vectors_have_their_covariance():
    fl.manual_seed(4)
    for name in ("MultivariateNormal", "LowRankMultivariateNormal"):
        one = VECTORS[name]()
        found = numpy.cov(one.sample((20000,)).numpy().T)
        numpy.testing.assert_allclose(found, one.covariance_matrix.numpy(), atol=0.08)


@pytest.mark.parametrize("concentration", [0.5, 2.0])
def test_correlations(concentration):
    """Every correlation of an LKJ matrix is 2 x - 1 of a beta x (Lewandowski, Kurowicka and Joe, 2009)."""
    fl.manual_seed(6)
    one = D.LKJCholesky(3, fl.tensor(concentration))
    factor = one.sample((2000,)).double()
    matrix = (factor @ factor.mT).numpy()
    shape = concentration + 0.5         # c - 1 + n/2
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert stats.kstest((matrix[:, i, j] + 1) / 2, stats.beta(shape, shape).cdf).pvalue > 1e-3


# ------------------------------------------------------------------------------ gradients through draws
@pytest.mark.parametrize("concentration", [0.01, 0.5, 1.0, 7.0, 300.0, 999.0, 1001.0, 1e5])
def test_gamma_draws_move_along_their_quantile(concentration):
    """The slope against finite differences of SciPy's quantile, far into both tails."""
    from scipy import special
    level = numpy.array([1e-6, 1e-3, 0.3, 0.5, 0.7, 0.999, 1 - 1e-6])

    def log_quantile(c):
        with numpy.errstate(divide="ignore"):
            return numpy.log(numpy.where(level < 0.5, special.gammaincinv(c, level),
                                         special.gammainccinv(c, 1 - level)))
    step = concentration * (1e-4 if concentration < 1000 else 1e-3)
    with numpy.errstate(invalid="ignore"):
        near = log_quantile(concentration + step) - log_quantile(concentration - step)
        far = log_quantile(concentration + 2 * step) - log_quantile(concentration - 2 * step)
    want = (8 * near - far) / (12 * step)
    kept = numpy.isfinite(want)
    got = slope(concentration, log_quantile(concentration))
    numpy.testing.assert_allclose(got[kept], want[kept], rtol=1e-6)


def test_gamma_slope_at_the_edges():
    """Outside the domain NaN; a value that underflows keeps its slope, (digamma(1 + c) - log x) / c."""
    got = slope(numpy.array([-1.0, 0.0, math.nan, 0.01]), numpy.array([0.0, 0.0, 0.0, -2000.0]))
    assert numpy.isnan(got[:3]).all()
    assert got[3] == pytest.approx((-0.5608854578 + 2000) / 0.01, rel=1e-9)
    drawn = log_gamma_draw(t(-1.0, 0.0, 1e-3), fl.tensor(7))
    assert numpy.isnan(drawn.numpy()).tolist() == [True, True, False]


def reached(distribution, *leaves):
    """Gradients of the sum of one draw."""
    distribution.rsample().sum().backward()
    return [leaf.grad.numpy() for leaf in leaves]


QUANTILE = {
    "Gamma": (D.Gamma, lambda a, b: stats.gamma(a, 0, 1 / b), (2.5, 2.0)),
    "Laplace": (D.Laplace, stats.laplace, (1.0, 2.0)), "Cauchy": (D.Cauchy, stats.cauchy, (1.0, 2.0)),
    "Exponential": (D.Exponential, lambda r: stats.expon(0, 1 / r), (2.0,)),
    "Weibull": (D.Weibull, lambda s, c: stats.weibull_min(c, 0, s), (2.0, 1.5)),
    "Pareto": (D.Pareto, lambda s, a: stats.pareto(a, 0, s), (2.0, 3.0)),
    "GeneralizedPareto": (D.GeneralizedPareto, lambda m, s, c: stats.genpareto(c, m, s), (1.0, 2.0, 0.4)),
    "Gumbel": (D.Gumbel, stats.gumbel_r, (1.0, 2.0)),
    "Uniform": (D.Uniform, lambda a, b: stats.uniform(a, b - a), (1.0, 3.0)),
    "InverseGamma": (D.InverseGamma, lambda a, b: stats.invgamma(a, 0, b), (2.5, 2.0)),
    "Chi2": (D.Chi2, stats.chi2, (3.0,)),
}


@pytest.mark.parametrize("name", QUANTILE)
def test_gradients_through_draws(name):
    """dx/da = -(dF/da) / p(x), F the cdf and p the density, by finite differences of SciPy's cdf."""
    kind, reference, parameters = QUANTILE[name]
    fl.manual_seed(8)
    leaves = [fl.full((20,), p, dtype=fl.float64, requires_grad=True) for p in parameters]
    drawn = kind(*leaves).rsample()
    drawn.sum().backward()
    x = drawn.detach().numpy()
    for i, leaf in enumerate(leaves):
        step = 1e-5
        up, down = (reference(*[p + sign * step * (i == j) for j, p in enumerate(parameters)]).cdf(x)
                    for sign in (1, -1))
        want = -(up - down) / (2 * step) / reference(*parameters).pdf(x)
        numpy.testing.assert_allclose(leaf.grad.numpy(), want, rtol=2e-4, atol=1e-6)


def test_gradients_of_expectations():
    """Where several draws make one, the mean of the gradients is the gradient of the mean."""
    fl.manual_seed(9)
    count = 20000
    a, b = t(2.0, requires_grad=True), t(3.0, requires_grad=True)
    D.Beta(a, b).rsample((count,)).mean().backward()            # a / (a + b)
    assert a.grad.item() == pytest.approx(3 / 25, rel=0.05) and b.grad.item() == pytest.approx(-2 / 25,
                                                                                               rel=0.05)
    c = t(0.5, 1.0, 2.0, requires_grad=True)
    D.Dirichlet(c).rsample((count,)).select(-1, 0).mean().backward()        # c0 / sum
    numpy.testing.assert_allclose(c.grad.numpy(), [3 / 3.5 ** 2, -0.5 / 3.5 ** 2, -0.5 / 3.5 ** 2], rtol=0.06)
    df = t(5.0, requires_grad=True)
    D.StudentT(df).rsample((count,)).square().mean().backward()             # df / (df - 2)
    assert df.grad.item() == pytest.approx(-2 / 9, rel=0.3)
    root = fl.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=fl.float64, requires_grad=True)
    D.MultivariateNormal(t(0.0, 0.0), scale_tril=root).rsample((count,)).square().sum(-1).mean().backward()
    numpy.testing.assert_allclose(root.grad.tril().numpy(), 2 * root.detach().numpy(), atol=0.15)


def test_straight_through():
    """The draw is one-hot, its gradient that of the probabilities."""
    logits = t(0.1, 0.2, 0.7, requires_grad=True)
    drawn = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert sorted(drawn.tolist()) == [0.0, 0.0, 1.0]
    (drawn * t(1.0, 2.0, 3.0)).sum().backward()
    probs = numpy.exp(logits.detach().numpy()) / numpy.exp(logits.detach().numpy()).sum()
    weights = numpy.array([1.0, 2.0, 3.0])
    numpy.testing.assert_allclose(logits.grad.numpy(), probs * (weights - (probs * weights).sum()), rtol=1e-9)


@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16, fl.float32])
def test_narrow_dtypes_draw_what_they_hold(dtype):
    fl.manual_seed(10)
    for one in (D.Gamma(fl.tensor([1e-3, 0.5, 3.0], dtype=dtype), 1.0),
                D.Beta(fl.tensor([1e-3, 0.5], dtype=dtype), 0.5),
                D.Dirichlet(fl.tensor([1e-4, 1e-4], dtype=dtype)),
                D.Gumbel(fl.tensor([0.0], dtype=dtype), 1.0),
                D.Laplace(fl.tensor([0.0], dtype=dtype), 1.0), D.Exponential(fl.tensor([1.0], dtype=dtype)),
                D.Poisson(fl.tensor([3.0], dtype=dtype))):
        drawn = one.sample((500,))
        assert drawn.dtype is dtype and bool(drawn.isfinite().all())
        assert isinstance(one, D.Dirichlet) or bool(one.support.check(drawn).all())
