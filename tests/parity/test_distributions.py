"""Distributions, transforms and divergences beside PyTorch's. Skipped where PyTorch is not installed."""

import itertools
import warnings

import numpy
import pytest

torch = pytest.importorskip("torch")

from flambeau import torch as facade     # noqa: E402
from flambeau.torch import distributions as ours     # noqa: E402

theirs = torch.distributions


def spread(low, high, *shape, seed=0):
    return numpy.random.default_rng(seed).uniform(low, high, shape)


def matrix(n, *batch, seed=0):
    """A positive definite matrix for each place of a batch."""
    root = numpy.random.default_rng(seed).normal(size=(*batch, n, n))
    return root @ numpy.swapaxes(root, -1, -2) + n * numpy.eye(n)


class Made:
    """One family's distributions from NumPy parameters: `Made(torch).Normal([0.0], [1.0])`."""

    def __init__(self, module, requires_grad=False):
        self.module, self.requires_grad, self.leaves = module, requires_grad, []

    def tensor(self, value):
        if not isinstance(value, (numpy.ndarray, list)):
            return value
        made = self.module.tensor(numpy.asarray(value).tolist(), dtype=self.module.float64)
        if self.requires_grad:
            made.requires_grad_(True)
            self.leaves.append(made)
        return made

    def __getattr__(self, name):
        kind = getattr(self.module.distributions, name)

        def make(*args, **kwargs):
            return kind(*map(self.tensor, args), **{k: self.tensor(v) for k, v in kwargs.items()})
        return make


P, SIMPLEX = spread(0.1, 0.9, 3), spread(0.1, 1, 3, 4)
POSITIVE, MORE = spread(0.3, 4, 3), spread(0.3, 5, 2, 3, seed=1)
REAL, LOGITS = spread(-2, 2, 3), spread(-2, 2, 2, 4, seed=2)
TABLE = {
    "Bernoulli": lambda d: d.Bernoulli(P), "Bernoulli logits": lambda d: d.Bernoulli(logits=LOGITS),
    "Bernoulli edge": lambda d: d.Bernoulli([0.0, 0.5, 1.0]),
    "Beta": lambda d: d.Beta(POSITIVE, MORE), "Beta numbers": lambda d: d.Beta(2.0, 3.0),
    "Beta small": lambda d: d.Beta([0.5, 0.2], [0.5, 0.7]),
    "Binomial": lambda d: d.Binomial(5, P),
    "Binomial logits": lambda d: d.Binomial([3.0, 5.0, 9.0], logits=REAL),
    "Categorical": lambda d: d.Categorical(SIMPLEX),
    "Categorical logits": lambda d: d.Categorical(logits=LOGITS),
    "Cauchy": lambda d: d.Cauchy(REAL, POSITIVE),
    "Chi2": lambda d: d.Chi2(POSITIVE), "Chi2 number": lambda d: d.Chi2(3.0),
    "ContinuousBernoulli": lambda d: d.ContinuousBernoulli(P),
    "ContinuousBernoulli logits": lambda d: d.ContinuousBernoulli(logits=LOGITS),
    "Dirichlet": lambda d: d.Dirichlet(MORE),
    "Dirichlet small": lambda d: d.Dirichlet([[0.5, 0.2], [3.0, 0.4]]),
    "Exponential": lambda d: d.Exponential(POSITIVE),
    "FisherSnedecor": lambda d: d.FisherSnedecor([1.0, 3.0, 5.0, 7.0], [2.0, 3.5, 5.0, 9.0]),
    "Gamma": lambda d: d.Gamma(POSITIVE, MORE),
    "GeneralizedPareto": lambda d: d.GeneralizedPareto(REAL, POSITIVE, [0.3, -0.4, 0.7]),
    "GeneralizedPareto 0": lambda d: d.GeneralizedPareto(REAL, POSITIVE, [0.0, 0.0, 1.5]),
    "Geometric": lambda d: d.Geometric(P), "Geometric logits": lambda d: d.Geometric(logits=LOGITS),
    "Gumbel": lambda d: d.Gumbel(REAL, POSITIVE),
    "HalfCauchy": lambda d: d.HalfCauchy(POSITIVE), "HalfNormal": lambda d: d.HalfNormal(POSITIVE),
    "Independent": lambda d: d.module.distributions.Independent(d.Normal(REAL, MORE), 1),
    "InverseGamma": lambda d: d.InverseGamma([0.5, 1.5, 3.5], POSITIVE),
    "Kumaraswamy": lambda d: d.Kumaraswamy([1.5, 0.7, 3.0], [2.0, 3.0, 0.5]),
    "LKJCholesky": lambda d: d.LKJCholesky(3, [0.5, 1.0, 2.5]),
    "LKJCholesky 2": lambda d: d.LKJCholesky(2, 1.5),
    "Laplace": lambda d: d.Laplace(REAL, POSITIVE),
    "LogNormal": lambda d: d.LogNormal(REAL, POSITIVE),
    "LogisticNormal": lambda d: d.LogisticNormal(REAL, POSITIVE),
    "LowRankMultivariateNormal": lambda d: d.LowRankMultivariateNormal(REAL, spread(-1, 1, 3, 2), POSITIVE),
    "LowRankMultivariateNormal batch": lambda d: d.LowRankMultivariateNormal(MORE, spread(-1, 1, 3, 2),
                                                                             POSITIVE),
    "MixtureSameFamily": lambda d: d.module.distributions.MixtureSameFamily(
        d.Categorical(SIMPLEX), d.Normal(spread(-3, 3, 3, 4), spread(0.5, 2, 4))),
    "MixtureSameFamily vectors": lambda d: d.module.distributions.MixtureSameFamily(
        d.Categorical(spread(0.1, 1, 3)), d.MultivariateNormal(spread(-3, 3, 3, 2), matrix(2, 3))),
    "Multinomial": lambda d: d.Multinomial(5, SIMPLEX),
    "Multinomial logits": lambda d: d.Multinomial(3, logits=LOGITS),
    "MultivariateNormal": lambda d: d.MultivariateNormal(REAL, matrix(3)),
    "MultivariateNormal batch": lambda d: d.MultivariateNormal(MORE, precision_matrix=matrix(3, 2)),
    "MultivariateNormal tril": lambda d: d.MultivariateNormal(
        REAL, scale_tril=numpy.linalg.cholesky(matrix(3, 4, seed=5))),
    "NegativeBinomial": lambda d: d.NegativeBinomial(POSITIVE, P),
    "NegativeBinomial logits": lambda d: d.NegativeBinomial(2.5, logits=REAL),
    "Normal": lambda d: d.Normal(REAL, MORE), "Normal numbers": lambda d: d.Normal(0.5, 2.0),
    "OneHotCategorical": lambda d: d.OneHotCategorical(SIMPLEX),
    "OneHotCategoricalStraightThrough": lambda d: d.OneHotCategoricalStraightThrough(logits=LOGITS),
    "Pareto": lambda d: d.Pareto(POSITIVE, [0.5, 1.5, 3.5]),
    "Poisson": lambda d: d.Poisson(POSITIVE), "Poisson 0": lambda d: d.Poisson([0.0, 2.0]),
    "RelaxedBernoulli": lambda d: d.RelaxedBernoulli([0.7], P),
    "RelaxedOneHotCategorical": lambda d: d.RelaxedOneHotCategorical([0.7], logits=LOGITS),
    "StudentT": lambda d: d.StudentT([0.5, 1.5, 4.0], REAL, POSITIVE),
    "StudentT number": lambda d: d.StudentT(3.0),
    "TransformedDistribution": lambda d: d.module.distributions.TransformedDistribution(
        d.Normal(REAL, POSITIVE), [d.module.distributions.AffineTransform(1.0, d.tensor(POSITIVE)),
                                   d.module.distributions.TanhTransform()]),
    "Uniform": lambda d: d.Uniform(REAL, REAL + POSITIVE), "VonMises": lambda d: d.VonMises(REAL, POSITIVE),
    "Weibull": lambda d: d.Weibull(POSITIVE, [0.7, 1.5, 3.0]),
    "Wishart": lambda d: d.Wishart([4.0, 6.5], matrix(3)), "Wishart tril": lambda d: d.Wishart(
        5.5, scale_tril=numpy.linalg.cholesky(matrix(3, 2))),
}
PROPERTIES = ("mean", "mode", "variance", "stddev")
# where PyTorch is less exact than float64
LOOSE = {"Bernoulli edge": 1e-6, "VonMises": 1e-6, "ContinuousBernoulli": 1e-6,
         "ContinuousBernoulli logits": 1e-6,
         "Multinomial": 1e-6, "Multinomial logits": 1e-6, "Power": 1e-6}
# PyTorch gives NaN for what is known (a Weibull density that is infinite at 0, moments that are infinite),
# and the first
# corner where a density is infinite at several
DIFFERENT = {("Beta", "mode"), ("GeneralizedPareto", "mean"), ("GeneralizedPareto", "variance"),
             ("GeneralizedPareto", "stddev"), ("Kumaraswamy", "mode"), ("Weibull", "mode")}


def array(value):
    return value.detach().numpy()


def both(name, requires_grad=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        makers = Made(torch, requires_grad), Made(facade, requires_grad)
        return [TABLE[name](m) for m in makers], makers


def values_for(name, distribution, shape=(4,)):
    if name.startswith("GeneralizedPareto"):
        pytest.skip("PyTorch's works in float32 only")
    torch.manual_seed(len(name))
    return distribution.sample(shape)


def close(name, got, want, about):
    tolerance = max(LOOSE.get(name, 1e-9), 3e-6 if want.dtype == torch.float32 else 0)
    numpy.testing.assert_allclose(array(got), array(want), rtol=tolerance, atol=tolerance, err_msg=about)


@pytest.mark.parametrize("name", TABLE)
def test_shapes_and_what_it_says_of_itself(name):
    (want, got), _ = both(name)
    for attribute in ("batch_shape", "event_shape"):
        assert tuple(getattr(got, attribute)) == tuple(getattr(want, attribute))
    assert got.has_rsample == want.has_rsample and got.has_enumerate_support == want.has_enumerate_support
    assert got.support.event_dim == want.support.event_dim
    assert got.support.is_discrete == want.support.is_discrete
    assert type(got.support).__name__ == type(want.support).__name__.lstrip("_")
    assert list(got.arg_constraints) == list(want.arg_constraints)
    grown = (5, *want.batch_shape)
    assert tuple(got.expand(grown).sample((2,)).shape) == tuple(want.expand(grown).sample((2,)).shape)
    assert type(got.expand(grown)) is type(got)


@pytest.mark.parametrize("name", TABLE)
def test_moments_and_entropy(name):
    (want, got), _ = both(name)
    for attribute in (*PROPERTIES, "entropy", "perplexity"):
        try:
            expected = getattr(want, attribute)
            expected = expected() if callable(expected) else expected
        except (NotImplementedError, RuntimeError):        # the latter for a df of Wishart's without a batch
            continue
        if (name.partition(" ")[0], attribute) not in DIFFERENT:
            found = getattr(got, attribute)
            close(name, found() if callable(found) else found, expected, attribute)


@pytest.mark.parametrize("name", TABLE)
def test_values(name):
    """log_prob, cdf and icdf at draws of PyTorch, of expanded distributions too."""
    (want, got), _ = both(name)
    drawn = values_for(name, want)
    value = facade.tensor(drawn.numpy())
    close(name, got.log_prob(value), want.log_prob(drawn), "log_prob")
    close(name, got.expand((4, *got.batch_shape)).log_prob(value), want.log_prob(drawn), "log_prob, expanded")
    for method in ("cdf", "icdf"):
        try:
            argument = drawn if method == "cdf" else torch.rand(drawn.shape, dtype=drawn.dtype)
            expected = getattr(want, method)(argument)
        except (NotImplementedError, ValueError):
            continue
        close(name, getattr(got, method)(facade.tensor(argument.numpy())), expected, method)
    if want.has_enumerate_support:
        for expand in (True, False):
            try:
                expected = want.enumerate_support(expand)
            except NotImplementedError:
                with pytest.raises(NotImplementedError):
                    got.enumerate_support(expand)
                continue
            found = got.enumerate_support(expand)
            close(name, found, expected, "enumerate_support")
            assert str(found.dtype) == str(expected.dtype)


@pytest.mark.parametrize("name", TABLE)
def test_draws(name):
    """Shape, dtype and support; draws with gradients reach every parameter."""
    (want, got), (_, maker) = both(name, requires_grad=True)
    drawn, expected = got.sample((3, 2)), want.sample((3, 2))
    assert tuple(drawn.shape) == tuple(expected.shape) and str(drawn.dtype) == str(expected.dtype)
    assert not drawn.requires_grad
    assert bool(want.support.check(torch.tensor(array(drawn))).all())
    if got.has_rsample and maker.leaves:
        got.rsample((3,)).sum().backward()
        assert all(leaf.grad is not None for leaf in maker.leaves)


@pytest.mark.parametrize("name", TABLE)
def test_gradients_of_log_prob(name):
    if name == "Bernoulli edge":
        pytest.skip("infinite")
    (want, got), (their_maker, our_maker) = both(name, requires_grad=True)
    drawn = values_for(name, want).detach()
    value, target = facade.tensor(drawn.numpy()), drawn.clone()
    continuous = drawn.is_floating_point() and not want.support.is_discrete
    if continuous:
        value.requires_grad_(True)
        target.requires_grad_(True)
    got.log_prob(value).sum().backward()
    want.log_prob(target).sum().backward()
    pairs = list(zip(our_maker.leaves, their_maker.leaves, strict=True)) + [(value, target)] * continuous
    for ours_, theirs_ in pairs:
        if theirs_.grad is not None:
            found, wanted = (project(name, array(leaf.grad)) for leaf in (ours_, theirs_))
            numpy.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7 * (1 + abs(wanted).max()))


def project(name, gradient):
    """A gradient without the part that leads out of the parameter's or value's space."""
    if name == "LogisticNormal" and gradient.shape[-1] == 4:        # along the simplex
        return gradient - gradient[..., -1:]
    return numpy.tril(gradient) if name == "Wishart tril" else gradient


SAME_BATCH = [name for name in TABLE if name.partition(" ")[2] in ("", "logits", "0")]
# pairs where PyTorch's value is not the divergence
WRONG_THERE = {("Uniform", "Gamma")}


@pytest.mark.parametrize("name", SAME_BATCH)
def test_divergences(name):
    """All pairs of the table with `name` first; what PyTorch does not know may be known here."""
    p, _ = both(name)
    for other in SAME_BATCH:
        q, _ = both(other)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want = theirs.kl_divergence(p[0], q[0])
        except (NotImplementedError, RuntimeError, ValueError, IndexError):
            continue
        if torch.isnan(want).any() or (name, other) in WRONG_THERE:
            continue
        try:
            shape = numpy.broadcast_shapes(p[0].batch_shape, q[0].batch_shape)
        except ValueError:
            continue
        loose = max(LOOSE.get(name, 0), LOOSE.get(other, 0), 1e-8)
        numpy.testing.assert_allclose(array(ours.kl_divergence(p[1], q[1])),
                                      numpy.broadcast_to(array(want), shape),
                                      rtol=loose, atol=loose, err_msg=f"{name}, {other}")


def test_same_table_of_divergences():
    """Every pair of classes that PyTorch registers is known here."""
    from flambeau.distributions.kl import _lookup
    missing = [(p.__name__, q.__name__) for p, q in theirs.kl._KL_REGISTRY
               if _lookup(getattr(ours, p.__name__), getattr(ours, q.__name__)) is None]
    assert not missing


# ------------------------------------------------------------------------------ transforms and constraints
TRANSFORMS = {
    "Abs": (lambda d: d.AbsTransform(), spread(-2, 2, 3)),
    "Affine": (lambda d: d.AffineTransform(1.0, -2.0), spread(-2, 2, 3)),
    "Affine events": (lambda d: d.AffineTransform(1.0, 2.0, event_dim=1), spread(-2, 2, 2, 3)),
    "Exp": (lambda d: d.ExpTransform(), spread(-2, 2, 3)),
    "Power": (lambda d: d.PowerTransform(1.5), spread(1, 2, 3)),
    "Sigmoid": (lambda d: d.SigmoidTransform(), spread(-2, 2, 3)),
    "Softplus": (lambda d: d.SoftplusTransform(), spread(-2, 2, 3)),
    "Tanh": (lambda d: d.TanhTransform(), spread(-2, 2, 3)),
    "Softmax": (lambda d: d.SoftmaxTransform(), spread(-2, 2, 2, 3)),
    "StickBreaking": (lambda d: d.StickBreakingTransform(), spread(-2, 2, 2, 3)),
    "LowerCholesky": (lambda d: d.LowerCholeskyTransform(), spread(-2, 2, 2, 3, 3)),
    "PositiveDefinite": (lambda d: d.PositiveDefiniteTransform(), spread(-2, 2, 2, 3, 3)),
    "CorrCholesky": (lambda d: d.CorrCholeskyTransform(), spread(-2, 2, 2, 6)),
    "Reshape": (lambda d: d.ReshapeTransform((2, 3), (6,)), spread(-2, 2, 4, 2, 3)),
    "Compose": (lambda d: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0),
                                              d.ExpTransform().inv]),
                spread(-2, 2, 3)),
    "Compose vectors": (lambda d: d.ComposeTransform([d.AffineTransform(1.0, 2.0),
                                                      d.StickBreakingTransform()]),
                        spread(-2, 2, 2, 3)),
    "Independent": (lambda d: d.IndependentTransform(d.ExpTransform(), 1), spread(-2, 2, 2, 3)),
    "Cat": (lambda d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], -1, [1, 2]), spread(-2, 2, 2, 3)),
    "Stack": (lambda d: d.StackTransform([d.ExpTransform(), d.TanhTransform()], -1), spread(-2, 2, 3, 2)),
    "Cumulative": (lambda d: d.CumulativeDistributionTransform(d.Normal(0.5, 2.0)), spread(-2, 2, 3)),
    "identity": (lambda d: d.identity_transform, spread(-2, 2, 3)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    make, x = TRANSFORMS[name]
    want, got = make(theirs), make(ours)
    assert got.bijective == want.bijective
    a, b = torch.tensor(x), facade.tensor(x)
    close(name, got(b), want(a), "forward")
    close(name, got.inv(got(b)), want.inv(want(a)), "inverse")
    assert tuple(got.forward_shape(b.shape)) == tuple(want.forward_shape(a.shape))
    assert tuple(got.inverse_shape(got(b).shape)) == tuple(want.inverse_shape(want(a).shape))
    for side in ("domain", "codomain"):
        assert repr(getattr(got, side)) == repr(getattr(want, side))
    if want.bijective:
        close(name, got.log_abs_det_jacobian(b, got(b)), want.log_abs_det_jacobian(a, want(a)), "jacobian")
        close(name, got.inv.log_abs_det_jacobian(got(b), b), want.inv.log_abs_det_jacobian(want(a), a),
              "jacobian")


CONSTRAINTS = ["boolean", "corr_cholesky", "lower_cholesky", "lower_triangular", "nonnegative",
               "nonnegative_integer",
               "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
               "real",
               "real_vector", "simplex", "square", "symmetric", "unit_interval"]
MADE = {"greater_than": (1.0,), "greater_than_eq": (1.0,), "less_than": (1.0,), "interval": (-1.0, 1.0),
        "half_open_interval": (0.0, 1.0), "integer_interval": (0, 2), "multinomial": (3,)}
VALUES = [numpy.array([-1.0, 0.0, 0.5, 1.0, 2.0, numpy.nan]),
          numpy.array([[0.0, 1.0], [0.5, 0.5], [1.0, 2.0]]),
          numpy.stack([numpy.eye(2), numpy.ones((2, 2)), [[1.0, 0.0], [0.6, 0.8]], [[0.0, 1.0], [1.0, 0.0]]]),
          numpy.array([[1.0, 0.0], [0.5, -1.0]])]


@pytest.mark.parametrize("name, value", list(itertools.product([*CONSTRAINTS, *MADE], VALUES)))
def test_constraints(name, value):
    want, got = (getattr(d.constraints, name) for d in (theirs, ours))
    if name in MADE:
        want, got = want(*MADE[name]), got(*MADE[name])
    assert name == "multinomial" or repr(got) == repr(want)         # ours shows the bound
    assert got.event_dim == want.event_dim and got.is_discrete == want.is_discrete
    if value.ndim > got.event_dim or value.ndim == got.event_dim == 2:
        assert got.check(facade.tensor(value)).tolist() == want.check(torch.tensor(value)).tolist()


@pytest.mark.parametrize("registry, name",
                         [(r, n) for r in ("biject_to", "transform_to") for n in [*CONSTRAINTS, *MADE]])
def test_transforms_onto_constraints(registry, name):
    want, got = (getattr(d.constraints, name) for d in (theirs, ours))
    if name in MADE:
        want, got = want(*MADE[name]), got(*MADE[name])
    try:
        expected = getattr(theirs, registry)(want)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            getattr(ours, registry)(got)
        return
    found = getattr(ours, registry)(got)
    shape = {0: (3,), 1: (2, 3), 2: (2, 3, 3)}[expected.domain.event_dim]
    x = spread(-2, 2, *shape)
    close(name, found(facade.tensor(x)), expected(torch.tensor(x)), name)
    assert bool(got.check(found(facade.tensor(x))).all())


# ------------------------------------------------------------------------------ errors
REFUSED = [
    lambda d: d.Normal(0.0, -1.0), lambda d: d.Normal(float("nan"), 1.0), lambda d: d.Bernoulli(1.5),
    lambda d: d.Bernoulli(), lambda d: d.Bernoulli(probs=[0.5], logits=[0.0]), lambda d: d.Uniform(1.0, 0.0),
    lambda d: d.Categorical([-1.0, 2.0]), lambda d: d.Categorical(), lambda d: d.Gamma(0.0, 1.0),
    lambda d: d.Dirichlet([0.0, 1.0]), lambda d: d.MultivariateNormal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]),
    lambda d: d.MultivariateNormal([0.0, 0.0]), lambda d: d.Poisson(-1.0), lambda d: d.Binomial(-1, [0.5]),
    lambda d: d.Geometric(0.0), lambda d: d.NegativeBinomial(1.0, [1.0]), lambda d: d.LKJCholesky(1),
    lambda d: d.Wishart(1.0, matrix(3)), lambda d: d.StudentT(0.0),
    lambda d: d.Multinomial([3.0], [0.5, 0.5]),
    lambda d: d.module.distributions.Independent(d.Normal(0.0, 1.0), 1), lambda d: d.Normal("a", 1.0),
    lambda d: d.Normal([0.0, 1.0], [1.0, 1.0, 1.0]), lambda d: d.Normal(0.0, 1.0).log_prob(0.0),
    lambda d: d.Normal(0.0, 1.0).log_prob(d.tensor([float("nan")])),
    lambda d: d.Bernoulli(0.5).log_prob(d.tensor([0.5])),
    lambda d: d.Categorical(P).log_prob(d.tensor([3.0])),
    lambda d: d.Normal(REAL, 1.0).log_prob(d.tensor([0.0, 1.0])),
    lambda d: d.Exponential(1.0).log_prob(d.tensor([-1.0])),
    lambda d: d.Dirichlet([1.0, 1.0]).log_prob(d.tensor([0.5, 0.6])),
    lambda d: d.Normal(0.0, 1.0).expand((-2,)),
    lambda d: d.Poisson(1.0).rsample(), lambda d: d.Normal(REAL, 1.0).enumerate_support(),
    lambda d: d.Poisson(1.0).cdf(d.tensor([1.0])), lambda d: d.module.distributions.Distribution().mean,
    lambda d: d.module.distributions.kl_divergence(d.Cauchy(0.0, 1.0), d.Normal(0.0, 1.0)),
    lambda d: d.module.distributions.MixtureSameFamily(d.Categorical(P), d.Normal([0.0, 1.0], 1.0)),
    lambda d: d.module.distributions.AffineTransform(0.0, 1.0, cache_size=2),
    lambda d: d.module.distributions.ReshapeTransform((2, 3), (5,)),
    lambda d: d.module.distributions.biject_to(d.module.distributions.constraints.boolean),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_what_is_refused(place):
    """By the same type of exception."""
    with pytest.raises(Exception) as theirs_:
        REFUSED[place](Made(torch))
    with pytest.raises(type(theirs_.value)) as ours_:
        REFUSED[place](Made(facade))
    assert len(str(ours_.value)) > 0 or type(ours_.value) is NotImplementedError
