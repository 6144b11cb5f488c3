"""Distributions given by a probability or its log-odds: Bernoulli, continuous Bernoulli, geometric."""

import math

from flambeau.distributions import constraints, draws
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from flambeau.ops.activation import log_sigmoid, softplus
from flambeau.ops.arithmetic import xlog1py
from flambeau.ops.elementwise import where
from flambeau.tensor.create import arange, zeros_like
from flambeau.types.dtype import get_default_dtype


class FromProbsOrLogits:
    """What distributions share that take `probs` or else `logits` = log(probs / (1 - probs))."""

    def _take(self, probs, logits, *beside):
        """Set the one that is given, broadcast with other parameters; returns those."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = "probs" if logits is None else "logits"
        *others, value = broadcast_all(*beside, logits if probs is None else probs)
        self.__dict__[given] = value if value.is_floating_point() else value.to(get_default_dtype())
        return others

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @lazy_property
    def logits(self):
        """Log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self):
        """The shape of the parameter that was given."""
        return self._param.shape

    def _new(self, *args, **kwargs):
        return self._param.new_empty(*args, **kwargs)


def times(count, log_probability):
    """count * log_probability, 0 where the count is 0."""
    return where(count == 0, 0.0, count * log_probability)


def coin_entropy(logits, probs):
    """The entropy of a coin; 0 for a probability of 0 or 1."""
    return -times(probs, log_sigmoid(logits)) - times(1 - probs, log_sigmoid(-logits))


class Bernoulli(FromProbsOrLogits, ExponentialFamily):
    """1 with probability `probs`, else 0.

    Args:
        probs: probability of 1.
        logits: its log-odds, instead.

    >>> Bernoulli(0.25).log_prob(tensor([1.0, 0.0]))
    tensor([-1.3863, -0.2877])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _parameters = {"probs": 0, "logits": 0}
    _mean_carrier_measure = 0.0

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        return where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        probs = self.probs.detach()
        return (draws.uniform(self._extended_shape(sample_shape), probs.dtype) < probs).to(probs.dtype)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return times(value, log_sigmoid(self.logits)) + times(1 - value, log_sigmoid(-self.logits))

    def entropy(self):
        return coin_entropy(self.logits, self.probs)

    def enumerate_support(self, expand=True):
        values = arange(2, dtype=self._param.dtype).view((2,) + (1,) * len(self._batch_shape))
        return values.expand((2,) + tuple(self._batch_shape)) if expand else values

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        return softplus(x)


class Geometric(FromProbsOrLogits, Distribution):
    """The number of failures before the first success.

    Args:
        probs: probability of success, in (0, 1].
        logits: its log-odds, instead.

    >>> Geometric(0.25).mean
    tensor(3.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _parameters = {"probs": 0, "logits": 0}

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError("[Geometric] the probability of success must be positive")

    @property
    def mean(self):
        return 1 / self.probs - 1

    @property
    def mode(self):
        return zeros_like(self.probs)

    @property
    def variance(self):
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape=()):
        probs = self.probs.detach()
        waited = draws.trials_of(self._extended_shape(sample_shape), probs.dtype)
        return (waited / -(-probs).log1p()).floor()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self):
        return coin_entropy(self.logits, self.probs) / self.probs


# log(sinh(x/2) / (x/2)) = sum over k of B_2k x^2k / (2k (2k)!), B_2k the Bernoulli numbers
LOG_SINH = (1 / 24, -1 / 2880, 1 / 181440, -1 / 9676800, 1 / 479001600, -691 / 15692092416000,
            1 / 1046139494400)


def power_series(coefficients, x):
    result = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


class ContinuousBernoulli(FromProbsOrLogits, ExponentialFamily):
    """Numbers in [0, 1] with density proportional to probs^x (1 - probs)^(1 - x).

    With the log-odds t that is an exponential distribution cut off at 1: density exp(t x) t / (exp(t) - 1).
    Source: Loaiza-Ganem and Cunningham, "The continuous Bernoulli", NeurIPS 2019.

    Args:
        probs, logits: as for Bernoulli; probs is not the mean.
        lims: accepted as in PyTorch; here a series is used wherever |logits| < 1.

    >>> ContinuousBernoulli(0.5).variance
    tensor(0.0833)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = {"probs": 0, "logits": 0}
    _mean_carrier_measure = 0.0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def _log_sinh(self, t):
        """log(sinh(t/2) / (t/2))."""
        size = t.abs()
        far = size / 2 + (-(-size).expm1()).log() - size.log()
        return where(size < 1, t * t * power_series(LOG_SINH, t * t), far)

    def _log_sinh_slope(self, t):
        slopes = [2 * (k + 1) * c for k, c in enumerate(LOG_SINH)]
        return where(t.abs() < 1, t * power_series(slopes, t * t), 0.5 / (t / 2).tanh() - 1 / t)

    @property
    def mean(self):
        return 0.5 + self._log_sinh_slope(self.logits)

    @property
    def variance(self):
        t = self.logits
        curvatures = [2 * (k + 1) * (2 * k + 1) * c for k, c in enumerate(LOG_SINH)]
        far = 1 / (t * t) - 0.25 / (t / 2).sinh().square()
        return where(t.abs() < 1, power_series(curvatures, t * t), far)

    def rsample(self, sample_shape=()):
        return self.icdf(draws.uniform(self._extended_shape(sample_shape), self._param.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self.logits * (value - 0.5) - self._log_sinh(self.logits)

    def cdf(self, value):
        """The share of the area left of `value`, measured from the end with the higher density."""
        if self._validate_args:
            self._validate_sample(value)
        t = self.logits
        rate, rising = -t.abs(), t > 0
        inner = value.clamp(0, 1)
        part = where(rising, 1 - inner, inner)
        share = where(rate > -1e-6, part, (rate * part).expm1() / rate.expm1())
        return where(rising, 1 - share, share)

    def icdf(self, value):
        t = self.logits
        rate, rising = -t.abs(), t > 0
        share = where(rising, 1 - value, value)
        part = where(rate > -1e-6, share, (share * rate.expm1()).log1p() / rate).clamp(0, 1)
        return where(rising, 1 - part, part)

    def entropy(self):
        return self._log_sinh(self.logits) - self.logits * self._log_sinh_slope(self.logits)

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        return x / 2 + self._log_sinh(x)
