"""The Kullback-Leibler divergence of two distributions: a table of pairs of classes, and the pairs of one
family.

    kl_divergence(p, q) = E[log p(x) - log q(x)], x drawn from p

`kl_pairs` has the pairs of different families.
"""

import math
import warnings

from flambeau.distributions.beta import Beta, Dirichlet
from flambeau.distributions.binary import Bernoulli, ContinuousBernoulli, Geometric, times
from flambeau.distributions.categorical import Categorical, OneHotCategorical
from flambeau.distributions.counts import Binomial, Poisson
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.gamma import Exponential, Gamma
from flambeau.distributions.heavy_tailed import EULER, Cauchy, Gumbel, Laplace, Uniform
from flambeau.distributions.matrices import Wishart, multivariate_digamma
from flambeau.distributions.multivariate_normal import (LowRankMultivariateNormal, MultivariateNormal,
                                                        log_diagonal,
                                                        square_distance)
from flambeau.distributions.normal import HalfNormal, Normal
from flambeau.distributions.pareto import Pareto
from flambeau.distributions.transformed import Independent, TransformedDistribution
from flambeau.distributions.utils import sum_rightmost
from flambeau.ops.activation import log_sigmoid
from flambeau.ops.arithmetic import xlogy
from flambeau.ops.elementwise import where
from flambeau.ops.linalg_functions import solve_triangular
from flambeau.ops.matmul import matmul
from flambeau.ops.special import mvlgamma

_TABLE = {}         # (class of p, class of q) -> function(p, q)
_FOUND = {}         # the same for classes that were looked up


def register_kl(type_p, type_q):
    """Decorator: the function (p, q) gives the divergence for these classes and their subclasses.

    The most special pair that fits is taken, p's class counting first.

    >>> class Shifted(Normal): pass
    >>> @register_kl(Shifted, Shifted)
    ... def divergence(p, q):
    ...     return p.loc * 0
    >>> kl_divergence(Shifted(1.0, 1.0), Shifted(2.0, 1.0))
    tensor(0.)
    """
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"register_kl takes two Distribution classes, got {kind!r}")

    def declare(function):
        _TABLE[type_p, type_q] = function
        _FOUND.clear()
        return function
    return declare


def _lookup(kind_p, kind_q):
    """The function for a pair of classes, or None; warns where p's and q's order disagree."""
    if (kind_p, kind_q) not in _FOUND:
        fitting = [(p, q) for p, q in _TABLE if issubclass(kind_p, p) and issubclass(kind_q, q)]
        by_p = min(fitting, key=lambda pair: (_depth(kind_p, pair[0]), _depth(kind_q, pair[1])), default=None)
        by_q = min(fitting, key=lambda pair: (_depth(kind_q, pair[1]), _depth(kind_p, pair[0])), default=None)
        if by_p != by_q and _TABLE[by_p] is not _TABLE[by_q]:
            pairs = " and ".join(f"({p.__name__}, {q.__name__})" for p, q in (by_p, by_q))
            warnings.warn(f"Ambiguous kl_divergence({kind_p.__name__}, {kind_q.__name__}): {pairs} both fit; "
                          "the first is taken", RuntimeWarning, stacklevel=3)
        _FOUND[kind_p, kind_q] = None if by_p is None else _TABLE[by_p]
    return _FOUND[kind_p, kind_q]


def _depth(kind, base):
    return kind.__mro__.index(base)


def kl_divergence(p, q):
    """The Kullback-Leibler divergence of q from p, in nats, of the shape of the batch.

    Raises:
        NotImplementedError: the pair is not in the table (see `register_kl`).

    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    function = _lookup(type(p), type(q))
    if function is None:
        raise NotImplementedError(f"no KL(p || q) is known for p of type {type(p).__name__} and q of type "
                                  f"{type(q).__name__}; register_kl adds one")
    return function(p, q)


# ------------------------------------------------------------------------------ made of others
@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the two have different numbers of reinterpreted axes")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    """One bijection changes nothing."""
    if p.transforms != q.transforms:
        raise NotImplementedError("the two distributions have different transforms")
    if p.event_shape != q.event_shape:
        raise NotImplementedError("the two distributions have different event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p, q):
    """A(theta_q) - A(theta_p) - <theta_q - theta_p, gradient of A at theta_p>, A the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(f"no KL(p || q) is known for {type(p).__name__} and {type(q).__name__}: "
                                  "different exponential families")
    own, normalizer, slopes = p._expected_statistics()
    other = q._natural_params
    result = q._log_normalizer(*other) - normalizer
    for theta_p, theta_q, slope in zip(own, other, slopes):
        product = (theta_q - theta_p) * slope
        result = result - sum_rightmost(product, len(q.event_shape))
    return result


# ------------------------------------------------------------------------------ the same family twice
@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    return (times(p.probs, log_sigmoid(p.logits) - log_sigmoid(q.logits))
            + times(1 - p.probs, log_sigmoid(-p.logits) - log_sigmoid(-q.logits)))


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    """Infinite where p may count more than q can; for fewer trials of p there is no closed form."""
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("no KL is known between binomials where q has more trials")
    result = p.total_count * _bernoulli(p, q)
    return where(p.total_count > q.total_count, math.inf, result)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    return times(p.probs, p.logits - q.logits).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return kl_divergence(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    return p.mean * (p.logits - q.logits) - p._log_normalizer(p.logits) + q._log_normalizer(q.logits)


@register_kl(Beta, Beta)
def _beta(p, q):
    (a, b), (c, d) = p._natural_params, q._natural_params
    return (q._log_normalizer(c, d) - p._log_normalizer(a, b) + (a - c) * a.digamma() + (b - d) * b.digamma()
            + (c + d - a - b) * (a + b).digamma())


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    means = a.digamma() - a.sum(-1, True).digamma()         # of log x
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * means).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, c = p.concentration, q.concentration
    return (c * (p.rate / q.rate).log() + c.lgamma() - a.lgamma() + (a - c) * a.digamma()
            + (q.rate - p.rate) * (a / p.rate))


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - shift + ratio * EULER + (shift + (1 + ratio).lgamma()).exp() - (1 + EULER)


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return 0.5 * (ratio * ratio + shift * shift - 1) - ratio.log()


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    """Source: Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy
    distributions", 2019.
    """
    width, shift = p.scale + q.scale, p.loc - q.loc
    return (width * width + shift * shift).log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return xlogy(p.rate, p.rate) - xlogy(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Wishart, Wishart)
def _wishart(p, q):
    n = p.event_shape[0]
    solved = solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    trace = (solved * solved).sum((-2, -1))
    return (q.df * (log_diagonal(q.scale_tril) - log_diagonal(p.scale_tril)) + 0.5 * p.df * (trace - n)
            + mvlgamma(q.df / 2, n) - mvlgamma(p.df / 2, n)
            + 0.5 * (p.df - q.df) * multivariate_digamma(p.df / 2, n))


# ------------------------------------------------------------------------------ normal vectors
def _check_sizes(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("no divergence of normal vectors with different event shapes: "
                         f"{tuple(p.event_shape)} and {tuple(q.event_shape)}")


def _half_log_det(normal):
    if isinstance(normal, LowRankMultivariateNormal):
        return 0.5 * normal._log_det()
    return log_diagonal(normal._unbroadcasted_scale_tril)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _to_full_normal(p, q):
    """(trace of S_q^-1 S_p + distance of the means - n) / 2 + half the difference of log det."""
    _check_sizes(p, q)
    n = p.event_shape[0]
    factor = q._unbroadcasted_scale_tril
    if isinstance(p, LowRankMultivariateNormal):
        halves = (p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed())
    else:
        halves = (p._unbroadcasted_scale_tril,)
    trace = 0.0
    for half in halves:
        solved = solve_triangular(factor, half, upper=False)
        trace = trace + (solved * solved).sum((-2, -1))
    distance = square_distance(factor, q.loc - p.loc)
    return _half_log_det(q) - _half_log_det(p) + 0.5 * (trace + distance - n)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _to_low_rank_normal(p, q):
    _check_sizes(p, q)
    n = p.event_shape[0]
    diagonal = q._unbroadcasted_cov_diag.unsqueeze(-1)
    inner = q._unbroadcasted_cov_factor.mT / diagonal.mT            # W^T d^-1
    half = solve_triangular(q._capacitance_tril, inner, upper=False)    # the inverse is d^-1 - half^T half
    covariance = p._covariance() if isinstance(p, LowRankMultivariateNormal) else matmul(
        p._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril.mT)
    trace = (covariance.diagonal(0, -2, -1) / diagonal.squeeze(-1)).sum(-1)
    trace = trace - (matmul(half, covariance) * half).sum((-2, -1))
    distance = q.square_distance(q.loc - p.loc)
    return _half_log_det(q) - _half_log_det(p) + 0.5 * (trace + distance - n)
