"""Continuous relaxations of Bernoulli and one-hot distributions, with gradients through draws.

Sources: Maddison, Mnih and Teh, "The concrete distribution", ICLR 2017; Jang, Gu and Poole, "Categorical
reparameterization with Gumbel-softmax", ICLR 2017.
"""

import math

from flambeau.distributions import constraints, draws
from flambeau.distributions.binary import FromProbsOrLogits
from flambeau.distributions.categorical import Categorical, WrappingCategorical
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transforms import ExpTransform, SigmoidTransform
from flambeau.distributions.transformed import TransformedDistribution
from flambeau.distributions.utils import as_parameter, clamp_probs, probs_to_logits
from flambeau.ops.activation import sigmoid, softplus
from flambeau.ops.normalize import log_softmax, logsumexp


class LogitRelaxedBernoulli(FromProbsOrLogits, Distribution):
    """The log-odds of RelaxedBernoulli: (logits + standard logistic number) / temperature.

    >>> LogitRelaxedBernoulli(tensor(0.5), probs=tensor(0.5)).log_prob(tensor(0.0))
    tensor(-2.0794)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True
    _parameters = {"temperature": None, "probs": 0, "logits": 0}

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = as_parameter(temperature)
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape=()):
        noise = draws.logistic(self._extended_shape(sample_shape), self._param.dtype)
        probs = clamp_probs(self.probs)
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        difference = self.logits - value * self.temperature
        return self.temperature.log() + difference - 2 * softplus(difference)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return sigmoid(value * self.temperature - self.logits)

    def icdf(self, value):
        return (probs_to_logits(value, is_binary=True) + self.logits) / self.temperature


class Relaxed(TransformedDistribution):
    """A transformed relaxed distribution, with the parameters of what it transforms."""

    @property
    def temperature(self):
        return self.base_dist.temperature

    @property
    def logits(self):
        return self.base_dist.logits

    @property
    def probs(self):
        return self.base_dist.probs


class RelaxedBernoulli(Relaxed):
    """Numbers in (0, 1) that come closer to a Bernoulli number's 0 and 1 as `temperature` falls.

    Args:
        temperature: > 0.
        probs, logits: as for Bernoulli.

    >>> RelaxedBernoulli(tensor(0.5), probs=tensor([0.1, 0.9])).rsample().shape
    flambeau.Size([2])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(),
                         validate_args=validate_args)


class ExpRelaxedCategorical(WrappingCategorical):
    """The logarithms of RelaxedOneHotCategorical: log softmax of (logits + Gumbel numbers) / temperature.

    >>> ExpRelaxedCategorical(tensor(0.5), probs=tensor([0.5, 0.5])).event_shape
    flambeau.Size([2])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        self.temperature = as_parameter(temperature)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape=()):
        noise = draws.gumbel(self._extended_shape(sample_shape), self.logits.dtype)
        return log_softmax((self.logits + noise) / self.temperature, -1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[0]
        scores = self.logits - value * self.temperature
        shares = (scores - logsumexp(scores, -1, True)).sum(-1)
        return shares + (n - 1) * self.temperature.log() + math.lgamma(n)


class RelaxedOneHotCategorical(Relaxed):
    """Vectors of the simplex that come closer to one-hot vectors as `temperature` falls.

    Args:
        temperature: > 0.
        probs, logits: as for Categorical, shape (..., n).

    >>> draw = RelaxedOneHotCategorical(tensor(0.5), probs=tensor([0.1, 0.9])).rsample()
    >>> round(draw.sum().item(), 4)
    1.0
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(),
                         validate_args=validate_args)
