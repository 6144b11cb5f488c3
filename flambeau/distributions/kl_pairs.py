"""Kullback-Leibler divergences between families: -entropy of p - E[log q(x)], x drawn from p."""

import math

from flambeau.distributions.beta import Beta
from flambeau.distributions.binary import Bernoulli, ContinuousBernoulli
from flambeau.distributions.counts import Binomial, Poisson
from flambeau.distributions.gamma import Exponential, Gamma
from flambeau.distributions.heavy_tailed import EULER, Gumbel, Laplace, Uniform
from flambeau.distributions.kl import register_kl
from flambeau.distributions.normal import Normal
from flambeau.distributions.pareto import Pareto
from flambeau.ops.arithmetic import xlogy
from flambeau.ops.elementwise import where
from flambeau.tensor.create import full
from flambeau.types.shape import broadcast_shapes


def _endless(*pairs):
    """Register infinity for pairs where p has values that q can't have."""
    for kind_p, *kinds_q in pairs:
        for kind_q in kinds_q:
            register_kl(kind_p, kind_q)(_infinite)


def _infinite(p, q):
    shape = broadcast_shapes(tuple(p.batch_shape), tuple(q.batch_shape))
    return full(shape, math.inf, dtype=p.sample().dtype)


_endless((Beta, Pareto), (ContinuousBernoulli, Pareto),
         (Exponential, Beta, ContinuousBernoulli, Pareto, Uniform),
         (Gamma, Beta, ContinuousBernoulli, Pareto, Uniform),
         (Gumbel, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
         (Laplace, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
         (Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
         (Pareto, Beta, ContinuousBernoulli, Uniform),
         (Poisson, Bernoulli, Binomial))


# ------------------------------------------------------------------------------ E[-log q], by moments of x
def _against_exponential(p, q, mean):
    return -p.entropy() - q.rate.log() + q.rate * mean


def _against_normal(p, q, mean, variance):
    shift = mean - q.loc
    square = 0.5 * (variance + shift * shift) / (q.scale * q.scale)
    return -p.entropy() + (q.scale * math.sqrt(2 * math.pi)).log() + square


def _against_gamma(p, q, mean, mean_log):
    c = q.concentration
    return -p.entropy() + c.lgamma() - c * q.rate.log() - (c - 1) * mean_log + q.rate * mean


def _against_gumbel(p, q, mean, mean_exp):
    """`mean_exp` is E[exp(-x / scale of q)]."""
    return -p.entropy() + q.scale.log() + (mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_exp


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() - p.probs * q.rate.log() + q.rate


@register_kl(Uniform, Exponential)
def _uniform_exponential(p, q):
    return where(p.low >= 0, _against_exponential(p, q, p.mean), math.inf)


for _kind in (Beta, ContinuousBernoulli, Gamma, Pareto):
    @register_kl(_kind, Exponential)
    def _to_exponential(p, q):
        return _against_exponential(p, q, p.mean)


for _kind in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    @register_kl(_kind, Normal)
    def _to_normal(p, q):
        return _against_normal(p, q, p.mean, p.variance)


@register_kl(Pareto, Normal)
def _pareto_normal(p, q):
    return where(p.alpha > 2, _against_normal(p, q, p.mean, p.variance), math.inf)


# ------------------------------------------------------------------------------ from shares
@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p, q):
    return -p.entropy() - p.mean * q.logits + q._log_normalizer(q.logits)


@register_kl(Beta, Gamma)
def _beta_gamma(p, q):
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return _against_gamma(p, q, p.mean, mean_log)


def _inside(p_low, p_high, q, result):
    """`result` where [p_low, p_high] lies in the support of a uniform q, else infinity."""
    return where((q.low <= p_low) & (q.high >= p_high), result, math.inf)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _share_uniform(p, q):
    return _inside(0.0, 1.0, q, -p.entropy() + (q.high - q.low).log())


# ------------------------------------------------------------------------------ from waiting times
@register_kl(Exponential, Gamma)
def _exponential_gamma(p, q):
    return _against_gamma(p, q, p.mean, -p.rate.log() - EULER)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p, q):
    return _against_gumbel(p, q, p.mean, p.rate / (p.rate + 1 / q.scale))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p, q):
    return _against_gumbel(p, q, p.mean, (1 + 1 / (p.rate * q.scale)) ** -p.concentration)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p, q):
    return _against_gamma(p, q, p.mean, p.scale.log() + 1 / p.alpha)


# ------------------------------------------------------------------------------ from the whole line
@register_kl(Normal, Gumbel)
def _normal_gumbel(p, q):
    ratio = p.scale / q.scale
    return _against_gumbel(p, q, p.loc, (-p.loc / q.scale + 0.5 * ratio * ratio).exp())


@register_kl(Normal, Laplace)
def _normal_laplace(p, q):
    """E|x - loc of q| is that of a folded normal number."""
    shift = p.loc - q.loc
    apart = shift / (p.scale * math.sqrt(2))
    distance = p.scale * math.sqrt(2 / math.pi) * (-apart * apart).exp() + shift * apart.erf()
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


# ------------------------------------------------------------------------------ from an interval
@register_kl(Uniform, Beta)
def _uniform_beta(p, q):
    """Of log x and log(1 - x) over [low, high] the means are needed; 0 log 0 counts 0."""
    width = p.high - p.low
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low)) / width - 1
    mean_log_rest = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / width - 1
    a, b = q.concentration1, q.concentration0
    result = -width.log() - (a - 1) * mean_log - (b - 1) * mean_log_rest + q._log_normalizer(a, b)
    return where((p.low >= 0) & (p.high <= 1), result, math.inf)


def _x_log_x(x):
    return xlogy(x, x)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p, q):
    result = -p.entropy() - p.mean * q.logits + q._log_normalizer(q.logits)
    return where((p.low >= 0) & (p.high <= 1), result, math.inf)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p, q):
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1
    return where(p.low >= 0, _against_gamma(p, q, p.mean, mean_log), math.inf)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p, q):
    low, high = -p.low / q.scale, -p.high / q.scale
    mean_exp = q.scale * (low.exp() - high.exp()) / (p.high - p.low)
    return _against_gumbel(p, q, p.mean, mean_exp)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p, q):
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1
    result = -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * mean_log
    return where(p.low >= q.scale, result, math.inf)
