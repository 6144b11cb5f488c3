"""What all distributions have in common: shapes, expand, checks, repr; and what it costs not to use them."""

import copy
import math
import pickle
import subprocess
import sys

import numpy
import pytest

import flambeau as fl

D = fl.distributions


def t(*values):
    return fl.tensor(list(values), dtype=fl.float64)


ONES = {
    "Bernoulli": D.Bernoulli(0.3), "Beta": D.Beta(1.0, 2.0), "Binomial": D.Binomial(3, 0.2),
    "Categorical": D.Categorical(t(1.0, 2.0)),
    "Cauchy": D.Cauchy(0.0, 1.0), "Chi2": D.Chi2(2.0), "ContinuousBernoulli": D.ContinuousBernoulli(0.3),
    "Dirichlet": D.Dirichlet(t(1.0, 2.0)), "Exponential": D.Exponential(1.0),
    "FisherSnedecor": D.FisherSnedecor(3.0, 4.0),
    "Gamma": D.Gamma(1.0, 1.0), "GeneralizedPareto": D.GeneralizedPareto(0.0, 1.0, 0.2),
    "Geometric": D.Geometric(0.4),
    "Gumbel": D.Gumbel(0.0, 1.0), "HalfCauchy": D.HalfCauchy(1.0), "HalfNormal": D.HalfNormal(1.0),
    "Independent": D.Independent(D.Normal(t(0.0, 1.0), 1.0), 1), "InverseGamma": D.InverseGamma(3.0, 1.0),
    "Kumaraswamy": D.Kumaraswamy(1.0, 2.0), "LKJCholesky": D.LKJCholesky(3, 1.0),
    "Laplace": D.Laplace(0.0, 1.0),
    "LogNormal": D.LogNormal(0.0, 1.0), "LogisticNormal": D.LogisticNormal(t(0.0, 1.0), 1.0),
    "LowRankMultivariateNormal": D.LowRankMultivariateNormal(t(0.0, 0.0), t(1.0, 1.0).unsqueeze(-1),
                                                             t(1.0, 1.0)),
    "MixtureSameFamily": D.MixtureSameFamily(D.Categorical(t(1.0, 2.0)), D.Normal(t(0.0, 1.0), 1.0)),
    "Multinomial": D.Multinomial(3, t(1.0, 2.0)),
    "MultivariateNormal": D.MultivariateNormal(t(0.0, 0.0), fl.eye(2).double()),
    "NegativeBinomial": D.NegativeBinomial(2.0, 0.3), "Normal": D.Normal(0.0, 1.0),
    "OneHotCategorical": D.OneHotCategorical(t(1.0, 2.0)),
    "OneHotCategoricalStraightThrough": D.OneHotCategoricalStraightThrough(t(1.0, 2.0)),
    "Pareto": D.Pareto(1.0, 3.0),
    "Poisson": D.Poisson(2.0), "RelaxedBernoulli": D.RelaxedBernoulli(0.5, 0.3),
    "RelaxedOneHotCategorical": D.RelaxedOneHotCategorical(0.5, t(1.0, 2.0)), "StudentT": D.StudentT(3.0),
    "TransformedDistribution": D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform()]),
    "Uniform": D.Uniform(0.0, 1.0),
    "VonMises": D.VonMises(0.0, 1.0), "Weibull": D.Weibull(1.0, 2.0),
    "Wishart": D.Wishart(3.0, fl.eye(2).double()),
}


def test_the_table_is_complete():
    kinds = {name for name in D.__all__ if isinstance(getattr(D, name), type)
             and issubclass(getattr(D, name), D.Distribution)}
    assert set(ONES) == kinds - {"Distribution", "ExponentialFamily"} and len(ONES) == 41


@pytest.mark.parametrize("name", ONES)
def test_samples_and_their_log_prob(name):
    """Shapes for every kind of sample shape; draws lie in the support; the tape sees none of `sample`."""
    fl.manual_seed(0)
    one = ONES[name]
    whole = tuple(one.batch_shape) + tuple(one.event_shape)
    for shape in ((), (2,), (3, 2), (0,)):
        drawn = one.sample(shape)
        assert tuple(drawn.shape) == (*shape, *whole) and not drawn.requires_grad
        assert bool(one.support.check(drawn).all())
        assert tuple(one.log_prob(drawn).shape) == (*shape, *one.batch_shape)
    assert one.has_rsample == (name not in ("Bernoulli", "Binomial", "Categorical", "Geometric",
                                            "LKJCholesky", "MixtureSameFamily",
                                            "Multinomial", "NegativeBinomial", "OneHotCategorical", "Poisson",
                                            "VonMises"))
    if not one.has_rsample:
        with pytest.raises(NotImplementedError):
            one.rsample()


@pytest.mark.parametrize("name", ONES)
def test_expand(name):
    """The same values, in a larger batch, as what it stems from; twice too."""
    fl.manual_seed(0)
    one = ONES[name]
    drawn = one.sample()
    for shape in ((3, *one.batch_shape), (2, 3, *one.batch_shape)):
        grown = one.expand(shape)
        assert type(grown) is type(one) and grown.event_shape == one.event_shape
        assert tuple(grown.batch_shape) == shape
        assert tuple(grown.sample((4,)).shape) == (4, *shape, *one.event_shape)
        want = one.log_prob(drawn).expand(shape)
        numpy.testing.assert_allclose(grown.log_prob(drawn).numpy(), want.numpy())
        numpy.testing.assert_allclose(grown.expand((5, *shape)).log_prob(drawn)[0].numpy(), want.numpy())
        for attribute in ("mean", "variance"):
            try:
                small = getattr(one, attribute)
            except NotImplementedError:
                continue
            numpy.testing.assert_allclose(getattr(grown, attribute).numpy(),
                                          small.expand(shape + tuple(small.shape)[len(one.batch_shape):]))


@pytest.mark.parametrize("name", ONES)
def test_copies_and_repr(name):
    one = ONES[name]
    drawn = one.sample()
    for twin in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert twin.log_prob(drawn).tolist() == one.log_prob(drawn).tolist()
    assert repr(one).startswith(name + "(")


def test_repr():
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"       # as PyTorch: a number, where it is one
    assert repr(D.Categorical(t(1.0, 1.0))) == "Categorical(probs: flambeau.Size([2]))"


# ------------------------------------------------------------------------------ checks
@pytest.mark.parametrize("make, says", [
    (lambda: D.Normal(0.0, -1.0), r"\[Normal\] parameter scale .* GreaterThan\(lower_bound=0.0\)"),
    (lambda: D.Normal(math.nan, 1.0), "parameter loc"),
    (lambda: D.Categorical(t(-1.0, 2.0)), "parameter probs"),
    (lambda: D.Uniform(1.0, 1.0), "parameter low"), (lambda: D.Bernoulli(), "but not both"),
    (lambda: D.Bernoulli(0.5, 0.5), "but not both"), (lambda: D.MultivariateNormal(t(0.0)), "Exactly one"),
    (lambda: D.Dirichlet(fl.tensor(1.0)), "at least one-dimensional"),
    (lambda: D.Normal("a", 1.0), "numbers or tensors"),
    (lambda: D.Independent(D.Normal(0.0, 1.0), 1), "more batch axes"),
    (lambda: D.Wishart(1.0, fl.eye(3)), "df"),
    (lambda: D.LowRankMultivariateNormal(t(0.0, 0.0), t(1.0, 1.0), t(1.0, 1.0)), "cov_factor"),
    (lambda: D.Normal(0.0, 1.0).log_prob(0.5), "must be a Tensor"),
    (lambda: D.Normal(0.0, 1.0).log_prob(fl.tensor(math.nan)), "not within the support"),
    (lambda: D.Bernoulli(0.5).log_prob(fl.tensor(0.5)), "not within the support"),
    (lambda: D.Dirichlet(t(1.0, 1.0)).log_prob(t(0.2, 0.3, 0.5)), "event_shape"),
    (lambda: D.Normal(fl.zeros(3), 1.0).log_prob(fl.zeros(2)), "not broadcastable"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), "exp"), "Transform or list"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
     "base_distribution needs"),
    (lambda: D.Distribution.set_default_validate_args(2), "True or False")])
def test_what_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_checks_can_be_left_out():
    assert math.isnan(D.Normal(0.0, -1.0, validate_args=False).log_prob(fl.tensor(0.0)).item())
    unchecked = D.Bernoulli(0.5, validate_args=False)
    assert unchecked.log_prob(fl.tensor(0.5)).item() == pytest.approx(-math.log(2))
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)
    grown = D.Normal(0.0, 1.0, validate_args=False).expand((2,))
    assert math.isnan(grown.log_prob(fl.tensor(math.nan))[0].item())


class Own(D.Distribution):
    """A user's distribution that states nothing but draws."""

    def rsample(self, sample_shape=()):
        return fl.zeros(*self._extended_shape(sample_shape))


def test_a_distribution_of_ones_own():
    with pytest.warns(UserWarning, match="arg_constraints"):
        one = Own((2,), (3,))
    assert tuple(one.sample((4,)).shape) == (4, 2, 3)
    for ask in (lambda: one.mean, lambda: one.mode, lambda: one.variance, lambda: one.stddev, one.entropy,
                one.perplexity,
                lambda: one.log_prob(fl.zeros(3)), lambda: one.expand((3,)), lambda: one.support):
        with pytest.raises(NotImplementedError):
            ask()

    class Shifted(D.Normal):
        def __init__(self, shift):
            super().__init__(shift, 1.0)
    with pytest.raises(NotImplementedError, match="must define expand"):
        Shifted(1.0).expand((2,))

    class Renamed(D.Normal):
        pass
    assert type(Renamed(0.0, 1.0).expand((2,))) is Renamed


class Geometric(D.ExponentialFamily):
    """Failures before a success, stated as an exponential family: theta = log(1 - p)."""

    arg_constraints = {}

    def __init__(self, probs):
        self.probs = probs
        super().__init__(probs.shape)

    @property
    def _natural_params(self):
        return ((1 - self.probs).log(),)

    def _log_normalizer(self, theta):
        return -(1 - theta.exp()).log()

    _mean_carrier_measure = 0.0


def test_entropy_of_an_exponential_family_by_differentiation():
    probs = fl.tensor([0.2, 0.7], dtype=fl.float64, requires_grad=True)
    own, built_in = Geometric(probs).entropy(), D.Geometric(probs).entropy()
    assert own.tolist() == pytest.approx(built_in.tolist())
    first, = fl.autograd.grad(own.sum(), probs)
    second, = fl.autograd.grad(built_in.sum(), probs)
    assert first.tolist() == pytest.approx(second.tolist())
    assert not Geometric(probs.detach()).entropy().requires_grad
    for one in (D.Normal(t(0.3), t(0.8)), D.Gamma(t(2.5), t(1.2)), D.Beta(t(2.5), t(0.8)),
                D.Dirichlet(t(0.3, 2.0)),
                D.Exponential(t(0.3)), D.ContinuousBernoulli(t(0.3)), D.Bernoulli(t(0.3))):
        assert D.ExponentialFamily.entropy(one).tolist() == pytest.approx(one.entropy().tolist())


# ------------------------------------------------------------------------------ discrete ones
@pytest.mark.parametrize("make", [lambda: D.Bernoulli(t(0.3, 0.6)), lambda: D.Binomial(3, t(0.2, 0.9)),
                                  lambda: D.Categorical(fl.ones(2, 5)),
                                  lambda: D.OneHotCategorical(fl.ones(2, 3))])
def test_all_values(make):
    """Probabilities of all values add up to 1, and give mean and entropy."""
    one = make()
    values = one.enumerate_support()
    logs = one.log_prob(values)
    numpy.testing.assert_allclose(logs.exp().sum(0).numpy(), 1, rtol=1e-6)
    numpy.testing.assert_allclose(-(logs.exp() * logs).sum(0).numpy(), one.entropy().numpy(), rtol=1e-5)
    if not isinstance(one, D.Categorical):
        weights = logs.exp().reshape(tuple(logs.shape) + (1,) * len(one.event_shape))
        numpy.testing.assert_allclose((weights * values).sum(0).numpy(), one.mean.numpy(), rtol=1e-6)
    narrow = one.enumerate_support(expand=False)
    assert narrow.shape[1:1 + len(one.batch_shape)].numel() == 1
    assert narrow.expand(values.shape).tolist() == values.tolist()


@pytest.mark.parametrize("make", [
    lambda logits: D.Categorical(logits=logits), lambda logits: D.OneHotCategorical(logits=logits),
    lambda logits: D.Categorical(probs=logits.softmax(-1)), lambda logits: D.Multinomial(2, logits=logits)])
def test_an_impossible_class_poisons_nothing(make):
    """Entropy, log_prob of the others and their gradients stay finite."""
    for logits in ([0.0, 0.0, -math.inf], [-math.inf, 3.0, -math.inf]):
        leaf = fl.tensor(logits, requires_grad=True)
        one = make(leaf)
        (one.entropy() * 3).backward()
        assert bool(leaf.grad.isfinite().all())
        possible = one.sample((50,))
        leaf.grad = None
        result = make(leaf).log_prob(possible).sum()
        result.backward()
        assert math.isfinite(result.item()) and bool(leaf.grad.isfinite().all())


def test_certain_coins():
    for one in (D.Bernoulli(t(0.0, 1.0)), D.Bernoulli(logits=t(-math.inf, math.inf)),
                D.Geometric(t(1.0, 1.0)),
                D.Binomial(3, t(0.0, 1.0))):
        assert one.entropy().tolist() == pytest.approx([0, 0], abs=1e-12)
    one = D.Bernoulli(logits=t(-math.inf, math.inf))
    assert one.log_prob(t(0.0, 1.0)).tolist() == [0, 0] and one.log_prob(t(1.0, 0.0)).tolist() == [-math.inf,
                                                                                                   -math.inf]


def test_parameters_that_are_given_are_leaves_of_the_gradient():
    """What is computed from a parameter later, under no_grad too, still leads back to it."""
    logits = t(0.0, 1.0).requires_grad_()
    one = D.Bernoulli(logits=logits)
    with fl.no_grad():
        one.sample()
        probs = one.probs
    probs.sum().backward()
    assert logits.grad is not None


# ------------------------------------------------------------------------------ compositions
def test_independent():
    base = D.Normal(fl.zeros(4, 2, 3), 1.0)
    one = D.Independent(base, 2)
    assert tuple(one.batch_shape) == (4,) and tuple(one.event_shape) == (2, 3) and one.support.event_dim == 2
    x = base.sample()
    numpy.testing.assert_allclose(one.log_prob(x).numpy(), base.log_prob(x).sum((-2, -1)).numpy(), rtol=1e-5)
    numpy.testing.assert_allclose(one.entropy().numpy(), base.entropy().sum((-2, -1)).numpy(), rtol=1e-6)


def test_transformed_parameters_broadcast():
    """Batch axes that only the transform's parameters have become axes of the distribution."""
    one = D.TransformedDistribution(D.Normal(0.0, 1.0), [D.AffineTransform(fl.tensor([1.0, 2.0, 3.0]), 2.0)])
    assert tuple(one.batch_shape) == (3,) and tuple(one.sample((5,)).shape) == (5, 3)
    simplex = D.TransformedDistribution(D.Normal(fl.zeros(4, 2), 1.0), [D.StickBreakingTransform()])
    assert tuple(simplex.batch_shape) == (4,) and tuple(simplex.event_shape) == (3,)
    decreasing = D.TransformedDistribution(D.Uniform(0.0, 1.0), D.AffineTransform(0.0, -1.0))
    assert decreasing.cdf(fl.tensor(-0.25)).item() == 0.75
    assert decreasing.icdf(fl.tensor(0.75)).item() == -0.25


def test_mixture_of_vectors():
    weights, means = t(0.3, 0.7), fl.tensor([[0.0, 1.0], [2.0, -1.0]]).double()
    one = D.MixtureSameFamily(D.Categorical(weights), D.Independent(D.Normal(means, 1.0), 1))
    x = t(0.5, 0.2)
    parts = [w * math.exp(D.Independent(D.Normal(m, 1.0), 1).log_prob(x).item()) for w,
             m in zip((0.3, 0.7), means)]
    assert one.log_prob(x).item() == pytest.approx(math.log(sum(parts)))
    numpy.testing.assert_allclose(one.mean.numpy(), [1.4, -0.4])
    assert tuple(one.sample((3,)).shape) == (3, 2)


def test_old_name_of_sample():
    with pytest.warns(UserWarning, match="sample"):
        assert tuple(D.Normal(0.0, 1.0).sample_n(3).shape) == (3,)
    assert D.Uniform(0.0, 4.0).perplexity().item() == pytest.approx(4)


# ------------------------------------------------------------------------------ cost
def test_importing_flambeau_does_not_load_distributions():
    code = ("import sys, flambeau as fl\nassert 'flambeau.distributions' not in sys.modules\n"
            "fl.distributions.Normal\n"
            "assert 'flambeau.distributions' in sys.modules and 'numpy' not in sys.modules")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).returncode == 0


def test_new_parameters_compile_nothing():
    """Numbers and keys of draws are operands."""
    from flambeau.compiler import objects

    def step(i):
        fl.manual_seed(i)
        value = D.Gamma(1.5 + i, 2.0 + i).rsample() + D.Normal(0.1 * i, 1.0
                                                               + i).rsample() + D.VonMises(0.1 * i, 1.0
                                                                                           + i).sample()
        return D.Normal(0.2 * i, 2.0 + i).log_prob(value) + D.StudentT(3.0 + i).log_prob(value)
    step(0)
    step(1)
    before = objects.statistics()
    for i in range(2, 6):
        step(i)
    assert objects.statistics() == before
