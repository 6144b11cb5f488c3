"""Kullback-Leibler divergences against sums, integrals and formulas in NumPy."""

import itertools
import math
import warnings

import numpy
import pytest

import flambeau as fl

D = fl.distributions


def t(*values):
    return fl.tensor(list(values), dtype=fl.float64)


# every pair of these, by integration over the values of the first
LINE = {
    "Normal": lambda: D.Normal(t(0.3), t(0.8)), "Normal 2": lambda: D.Normal(t(-0.4), t(1.7)),
    "Laplace": lambda: D.Laplace(t(0.2), t(0.7)), "Gumbel": lambda: D.Gumbel(t(0.5), t(1.2)),
    "Gumbel 2": lambda: D.Gumbel(t(-0.5), t(0.9)),
    "Exponential": lambda: D.Exponential(t(1.5)), "Gamma": lambda: D.Gamma(t(2.5), t(1.2)),
    "Gamma 2": lambda: D.Gamma(t(1.5), t(0.7)), "HalfNormal": lambda: D.HalfNormal(t(0.9)),
    "Beta": lambda: D.Beta(t(2.5), t(1.8)), "Beta 2": lambda: D.Beta(t(1.5), t(3.0)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t(0.3)),
    "ContinuousBernoulli 2": lambda: D.ContinuousBernoulli(t(0.8)),
    "Uniform": lambda: D.Uniform(t(0.2), t(0.9)), "Uniform 2": lambda: D.Uniform(t(-1.0), t(4.0)),
    "Pareto": lambda: D.Pareto(t(0.6), t(5.5)), "Pareto 2": lambda: D.Pareto(t(0.1), t(3.5)),
    "LogNormal": lambda: D.LogNormal(t(0.1), t(0.5)), "LogNormal 2": lambda: D.LogNormal(t(-0.2), t(0.8)),
}
ENDS = {"Uniform": (0.2, 0.9), "Uniform 2": (-1.0, 4.0), "Beta": (0, 1), "Beta 2": (0, 1),
        "ContinuousBernoulli": (0, 1),
        "ContinuousBernoulli 2": (0, 1), "Pareto": (0.6, 60), "Pareto 2": (0.1, 200), "Exponential": (0, 25),
        "Gamma": (0, 35),
        "Gamma 2": (0, 50), "HalfNormal": (0, 9), "LogNormal": (0, 40), "LogNormal 2": (0, 80)}


def integrated(p, q, low, high):
    """By the midpoint rule on a grid that is fine at both ends; infinite where q has no density and p has."""
    edges = low + (high - low) * (1 - numpy.cos(numpy.linspace(0, math.pi, 400001))) / 2
    middle = (edges[1:] + edges[:-1]) / 2
    x = fl.tensor(middle)
    for one in (p, q):
        one._validate_args = False
    log_p = p.log_prob(x).numpy()
    log_q = numpy.where(q.support.check(x).numpy(), q.log_prob(x).numpy(), -math.inf)
    density = numpy.exp(log_p)
    kept = density > 1e-25
    if numpy.isinf(log_q[kept]).any():
        return math.inf
    return (density * (log_p - log_q) * numpy.diff(edges))[kept].sum()


def known(p, q):
    try:
        return D.kl_divergence(p, q)
    except NotImplementedError:
        return None


@pytest.mark.parametrize("name", LINE)
def test_pairs_on_the_line(name):
    tested = 0
    for other in LINE:
        got = known(LINE[name](), LINE[other]())
        if got is None:
            continue
        want = integrated(LINE[name](), LINE[other](), *ENDS.get(name, (-25, 45)))
        assert got.item() == pytest.approx(want, rel=2e-4, abs=1e-5), (name, other)
        tested += 1
    assert tested


DISCRETE = {
    "Bernoulli": lambda: D.Bernoulli(t(0.3)), "Bernoulli 2": lambda: D.Bernoulli(t(0.8)),
    "Geometric": lambda: D.Geometric(t(0.3)),
    "Geometric 2": lambda: D.Geometric(t(0.6)), "Poisson": lambda: D.Poisson(t(2.5)),
    "Poisson 2": lambda: D.Poisson(t(0.7)),
    "Binomial": lambda: D.Binomial(6, t(0.3)), "Binomial 2": lambda: D.Binomial(6, t(0.7)),
    "Binomial few": lambda: D.Binomial(4, t(0.7)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_pairs_of_counts(name):
    for other in DISCRETE:
        p, q = DISCRETE[name](), DISCRETE[other]()
        got = known(p, q)
        if got is None:
            continue
        values = fl.arange(200, dtype=fl.float64)
        p._validate_args = q._validate_args = False
        inside = p.support.check(values)
        values = values[inside]
        log_p = p.log_prob(values)
        log_q = fl.where(q.support.check(values), q.log_prob(values), -math.inf)
        kept = log_p > -300
        want = (log_p.exp() * (log_p - log_q))[kept].sum().item()
        assert got.item() == pytest.approx(want, rel=1e-9), (name, other)


def test_classes():
    p, q = numpy.array([0.2, 0.5, 0.3]), numpy.array([0.4, 0.4, 0.2])
    want = (p * numpy.log(p / q)).sum()
    for kind in (D.Categorical, D.OneHotCategorical):
        assert D.kl_divergence(kind(fl.tensor(p)), kind(fl.tensor(q))).item() == pytest.approx(want)


def test_a_class_without_probability_adds_nothing():
    """Not even where q has none either; where only q has none the divergence is infinite."""
    p, q = D.Categorical(logits=t(0.0, 0.0, -math.inf)), D.Categorical(logits=t(1.0, 0.0, -math.inf))
    without = D.kl_divergence(D.Categorical(logits=t(0.0, 0.0)), D.Categorical(logits=t(1.0, 0.0)))
    assert D.kl_divergence(p, q).item() == pytest.approx(without.item())
    assert D.kl_divergence(D.Categorical(logits=t(0.0, 0.0, 0.0)), p).item() == math.inf
    assert D.kl_divergence(D.Bernoulli(t(1.0)), D.Bernoulli(t(1.0))).item() == pytest.approx(0, abs=1e-12)


def normal_formula(m, s, n, u):
    """For normal vectors with means m, n and covariances s, u."""
    inverse = numpy.linalg.inv(u)
    return 0.5 * (numpy.trace(inverse @ s) + (n - m) @ inverse @ (n - m) - len(m)
                  + numpy.linalg.slogdet(u)[1] - numpy.linalg.slogdet(s)[1])


def test_normal_vectors_full_and_of_low_rank():
    rng = numpy.random.default_rng(0)
    made = []
    for _ in range(2):
        mean, factor, diagonal = rng.normal(size=3), rng.normal(size=(3, 2)), rng.uniform(0.5, 2, 3)
        covariance = factor @ factor.T + numpy.diag(diagonal)
        made.append((mean, covariance, D.MultivariateNormal(fl.tensor(mean), fl.tensor(covariance)),
                     D.LowRankMultivariateNormal(fl.tensor(mean), fl.tensor(factor), fl.tensor(diagonal))))
    (m, s, *first), (n, u, *second) = made
    want = normal_formula(m, s, n, u)
    for p, q in itertools.product(first, second):
        assert D.kl_divergence(p, q).item() == pytest.approx(want)
    with pytest.raises(ValueError, match="different event shapes"):
        D.kl_divergence(first[0], D.MultivariateNormal(t(0.0), scale_tril=t(1.0).reshape(1, 1)))


def test_batches_broadcast():
    p = D.MultivariateNormal(fl.zeros(4, 1, 2), fl.eye(2))
    q = D.MultivariateNormal(fl.ones(3, 2), fl.eye(2).expand(3, 2, 2) * 2)
    assert tuple(D.kl_divergence(p, q).shape) == (4, 3)
    assert tuple(D.kl_divergence(D.Normal(fl.zeros(4, 1), 1.0), D.Laplace(fl.zeros(3), 1.0)).shape) == (4, 3)
    assert tuple(D.kl_divergence(D.Normal(fl.zeros(4, 1), 1.0), D.Uniform(fl.zeros(3), 1.0)).shape) == (4, 3)


@pytest.mark.parametrize("make", [
    lambda a: D.Dirichlet(t(a, 1.0, 2.0)),
    lambda a: D.Wishart(fl.tensor(3.0 + a).double(), fl.eye(2).double() * a),
    lambda a: D.Cauchy(t(a), t(a)), lambda a: D.LogisticNormal(t(a, 0.0), t(1.0, a)),
    lambda a: D.Independent(D.Normal(t(a, 0.0), t(1.0, a)), 1)],
    ids=["Dirichlet", "Wishart", "Cauchy", "LogisticNormal", "Independent"])
def test_against_draws(make):
    fl.manual_seed(0)
    p, q = make(1.5), make(0.8)
    x = p.sample((40000,))
    log_ratio = p.log_prob(x) - q.log_prob(x)
    got = D.kl_divergence(p, q)
    spread = log_ratio.std(0) / 200
    assert bool(((got - log_ratio.mean(0)).abs() < 4 * spread).all())


def test_of_itself_it_is_zero_with_a_gradient_of_zero():
    for make in (lambda a: D.Normal(a, a), lambda a: D.Gamma(a, a), lambda a: D.Beta(a, a),
                 lambda a: D.Gumbel(a, a),
                 lambda a: D.Exponential(a), lambda a: D.Poisson(a), lambda a: D.Laplace(a, a)):
        leaf = fl.tensor(0.7, dtype=fl.float64, requires_grad=True)
        result = D.kl_divergence(make(fl.tensor(0.7).double()), make(leaf))
        result.backward()
        assert abs(result.item()) < 1e-7 and abs(leaf.grad.item()) < 1e-6


def test_exponential_families_by_their_normaliser():
    """The rule for any exponential family agrees with the formulas of the pairs."""
    from flambeau.distributions.kl import _family
    for p, q in ((D.Normal(t(0.3), t(0.8)), D.Normal(t(-0.4), t(1.7))),
                 (D.Gamma(t(2.5), t(1.2)), D.Gamma(t(1.5), t(0.7))),
                 (D.Beta(t(2.5), t(1.8)), D.Beta(t(1.5), t(3.0))), (D.Bernoulli(t(0.3)), D.Bernoulli(t(0.8))),
                 (D.Exponential(t(0.3)), D.Exponential(t(0.8))), (D.Poisson(t(0.3)), D.Poisson(t(0.8))),
                 (D.Dirichlet(t(0.3, 2.0)), D.Dirichlet(t(0.8, 1.0))),
                 (D.ContinuousBernoulli(t(0.3)), D.ContinuousBernoulli(t(0.8)))):
        assert _family(p, q).tolist() == pytest.approx(D.kl_divergence(p, q).tolist())


# ------------------------------------------------------------------------------ the table
def test_the_most_special_pair_is_taken():
    class First(D.Normal):
        pass

    class Second(First):
        pass

    @D.register_kl(First, D.Normal)
    def of_first(p, q):
        return "first"

    @D.register_kl(D.Normal, Second)
    def to_second(p, q):
        return "second"
    one = {kind: kind(0.0, 1.0) for kind in (D.Normal, First, Second)}
    assert D.kl_divergence(one[First], one[D.Normal]) == "first" == D.kl_divergence(one[Second], one[First])
    assert D.kl_divergence(one[D.Normal], one[Second]) == "second"
    with pytest.warns(RuntimeWarning, match="Ambiguous"):
        D.kl_divergence(one[First], one[Second])
    assert D.kl_divergence(one[D.Normal], one[First]).item() == 0


def test_what_is_not_known():
    with pytest.raises(NotImplementedError, match="Cauchy and q of type Normal"):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="different exponential families"):
        D.kl_divergence(D.Poisson(1.0), D.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="different transforms"):
        D.kl_divergence(D.LogNormal(0.0, 1.0), D.Gumbel(0.0, 1.0))
    with pytest.raises(TypeError, match="Distribution classes"):
        D.register_kl(D.Normal, int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(0.0, 2.0))
