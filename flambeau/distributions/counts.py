"""Counts: binomial, negative binomial, Poisson."""

from flambeau.distributions import constraints, draws
from flambeau.distributions.binary import FromProbsOrLogits, times
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.utils import broadcast_all
from flambeau.ops.activation import log_sigmoid
from flambeau.ops.arithmetic import xlogy
from flambeau.ops.elementwise import where
from flambeau.tensor import draws as plain_draws
from flambeau.tensor.autograd import no_grad
from flambeau.tensor.create import arange


class Binomial(FromProbsOrLogits, Distribution):
    """The number of successes in `total_count` trials.

    Args:
        total_count: number of trials.
        probs: probability of success.
        logits: its log-odds, instead.

    >>> Binomial(4, probs=tensor(0.5)).log_prob(tensor(2.0)).exp()
    tensor(0.3750)
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}
    has_enumerate_support = True
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.total_count, = self._take(probs, logits, total_count)
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        shape = tuple(self._extended_shape(sample_shape))
        with no_grad():
            return plain_draws.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        rest = self.total_count - value
        return (times(value, log_sigmoid(self.logits)) + times(rest, log_sigmoid(-self.logits))
                + (self.total_count + 1).lgamma() - (value + 1).lgamma() - (rest + 1).lgamma())

    def entropy(self):
        """The entropy in nats, summed over all values; total_count must be the same everywhere."""
        logs = self.log_prob(self.enumerate_support(False))
        return -times(logs.exp(), logs).sum(0)

    def enumerate_support(self, expand=True):
        count = int(self.total_count.max())
        if not bool((self.total_count == count).all()):
            raise NotImplementedError("inhomogeneous total_count: the values are not enumerated")
        values = arange(count + 1, dtype=self._param.dtype).view((count + 1,) + (1,) * len(self._batch_shape))
        return values.expand((count + 1,) + tuple(self._batch_shape)) if expand else values


class NegativeBinomial(FromProbsOrLogits, Distribution):
    """The number of successes before `total_count` failures: a Poisson number whose rate has a gamma
    distribution.

    Args:
        total_count: failures to stop at, >= 0, not necessarily whole.
        probs: probability of success, in [0, 1).
        logits: its log-odds, instead.

    >>> NegativeBinomial(3.0, probs=tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints = {"total_count": constraints.greater_than_eq(0),
                       "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self.total_count, = self._take(probs, logits, total_count)
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * self.logits.exp()

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self):
        odds = self.logits.exp()
        return self.total_count * odds * (1 + odds)

    def sample(self, sample_shape=()):
        with no_grad():
            drawn = draws.log_gamma(self.total_count, self._extended_shape(sample_shape))
            rate = where(self.total_count > 0, (drawn + self.logits).exp(), 0.0)
            return plain_draws.poisson(rate)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        count = self.total_count
        ways = (count + value).lgamma() - (value + 1).lgamma() - count.lgamma()
        return (times(count, log_sigmoid(-self.logits)) + times(value, log_sigmoid(self.logits))
                + where(count + value == 0, 0.0, ways))


class Poisson(ExponentialFamily):
    """The number of events where `rate` are expected.

    >>> Poisson(2.0).log_prob(tensor(0.0))
    tensor(-2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = {"rate": 0}

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return self.rate.floor()

    variance = mean

    def sample(self, sample_shape=()):
        with no_grad():
            return plain_draws.poisson(self.rate.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return xlogy(value, self.rate) - self.rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, x):
        return x.exp()
