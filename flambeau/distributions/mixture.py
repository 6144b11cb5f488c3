"""Mixtures of distributions of one family."""

from flambeau.base.errors import fail
from flambeau.distributions import constraints
from flambeau.distributions.categorical import Categorical
from flambeau.distributions.distribution import Distribution
from flambeau.ops.normalize import log_softmax, logsumexp
from flambeau.runtime._core import Size
from flambeau.tensor.autograd import no_grad


class MixtureSameFamily(Distribution):
    """A draw from component i, where i has a categorical distribution.

    Args:
        mixture_distribution: a Categorical over the components.
        component_distribution: the components, along the last batch axis.

    >>> from flambeau.distributions import Normal
    >>> MixtureSameFamily(Categorical(tensor([0.5, 0.5])), Normal(tensor([-1.0, 1.0]), 1.0)).variance
    tensor(2.)
    """

    arg_constraints = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            fail("MixtureSameFamily", "The Mixture distribution needs to be an instance of Categorical",
                 type(mixture_distribution).__name__, kind=ValueError)
        if not isinstance(component_distribution, Distribution):
            fail("MixtureSameFamily", "The Component distribution needs to be a Distribution",
                 type(component_distribution).__name__, kind=ValueError)
        weights, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        if not components or any(w != c and w != 1 for w,
                                 c in zip(reversed(weights), reversed(components[:-1]))):
            fail("MixtureSameFamily", "the batch shapes do not fit", (tuple(weights), tuple(components)),
                 "the components' without its last axis", kind=ValueError)
        count = mixture_distribution.param_shape[-1]
        if components[-1] != count:
            fail("MixtureSameFamily", "the mixture has another number of components", count, components[-1],
                 kind=ValueError)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = count
        super().__init__(components[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape, _instance=None):
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape
                                                                          + Size((self._num_component,)))
        new._num_component = self._num_component
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mixture_distribution(self):
        """The distribution over the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self):
        """The components."""
        return self._component_distribution

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def _axis(self):
        """The axis of the components in what has event axes too."""
        return -1 - len(self._event_shape)

    def _weights(self):
        """Probabilities of the components, with axes of size 1 for the event."""
        probs = self._mixture_distribution.probs
        return probs.reshape(tuple(probs.shape) + (1,) * len(self._event_shape))

    @property
    def mean(self):
        return (self._weights() * self._component_distribution.mean).sum(self._axis)

    @property
    def variance(self):
        """The mean of the variances and the variance of the means."""
        means = self._component_distribution.mean
        apart = means - self.mean.unsqueeze(self._axis)
        return (self._weights() * (self._component_distribution.variance + apart * apart)).sum(self._axis)

    def cdf(self, value):
        parts = self._component_distribution.cdf(value.unsqueeze(self._axis))
        return (parts * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        parts = self._component_distribution.log_prob(value.unsqueeze(self._axis))
        return logsumexp(parts + log_softmax(self._mixture_distribution.logits, -1), -1)

    def sample(self, sample_shape=()):
        with no_grad():
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            all_drawn = self._component_distribution.sample(sample_shape)
            events = tuple(self._event_shape)
            index = chosen.reshape(tuple(chosen.shape) + (1,) * (1 + len(events)))
            index = index.expand(tuple(chosen.shape) + (1,) + events)
            return all_drawn.gather(self._axis, index).squeeze(self._axis)

    def __repr__(self):
        return f"{type(self).__name__}({self._mixture_distribution!r}, {self._component_distribution!r})"
