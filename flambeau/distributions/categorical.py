"""One of several classes: categorical, one-hot and multinomial distributions."""

import math

from flambeau.base.errors import fail
from flambeau.distributions import constraints, draws
from flambeau.distributions.binary import times
from flambeau.distributions.counts import Binomial
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import lazy_property, logits_to_probs, probs_to_logits
from flambeau.ops.normalize import log_softmax
from flambeau.runtime._core import Size
from flambeau.tensor.autograd import no_grad
from flambeau.tensor.create import arange, eye, full, ones_like, zeros_like
from flambeau.types.dtype import int64
from flambeau.types.shape import broadcast_shapes


class Categorical(Distribution):
    """A class of 0 ... n - 1.

    Args:
        probs: weights of the classes, shape (..., n), >= 0; they are divided by their sum.
        logits: their logarithms, up to a constant, instead.

    >>> weather = Categorical(probs=tensor([1.0, 3.0]))
    >>> weather.log_prob(tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _parameters = {"probs": 1, "logits": 1}

    def __init__(self, probs=None, logits=None, validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        if given.ndim < 1:
            fail("Categorical", "the parameter must be at least one-dimensional", given.ndim, kind=ValueError)
        if probs is not None:
            self.probs = probs / probs.sum(-1, True)
        else:
            self.logits = log_softmax(logits, -1)
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @lazy_property
    def logits(self):
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        """Probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._param.shape

    @property
    def _num_events(self):
        return self._param.shape[-1]

    def _new(self, *args, **kwargs):
        return self._param.new_empty(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self):
        return full(tuple(self._extended_shape()), math.nan, dtype=self.probs.dtype)

    variance = mean

    @property
    def mode(self):
        return self._param.argmax(-1)

    def sample(self, sample_shape=()):
        sample_shape = Size(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        count = sample_shape.numel()
        if not count or not rows.shape[0]:
            return full(tuple(self._extended_shape(sample_shape)), 0, dtype=int64)
        return draws.category(rows, count).reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        shape = broadcast_shapes(tuple(value.shape), tuple(self._batch_shape))
        index = value.to(int64).expand(shape).unsqueeze(-1)
        return self.logits.expand((*shape, self._num_events)).gather(-1, index).squeeze(-1)

    def entropy(self):
        return -times(self.probs, self.logits).sum(-1)

    def enumerate_support(self, expand=True):
        values = arange(self._num_events).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((self._num_events,) + tuple(self._batch_shape)) if expand else values


class WrappingCategorical(Distribution):
    """What distributions share that hold a Categorical in `_categorical`."""

    @property
    def _param(self):
        return self._categorical._param

    @property
    def probs(self):
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self):
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self):
        """The shape of the parameter."""
        return self._categorical.param_shape

    def _new(self, *args, **kwargs):
        return self._categorical._new(*args, **kwargs)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(self._built_in_class(), _instance)
        new._categorical = self._categorical.expand(batch_shape)
        if "total_count" in self.__dict__:
            new.total_count = self.total_count
        Distribution.__init__(new, Size(batch_shape), self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new


class OneHotCategorical(WrappingCategorical):
    """A class as a vector with a single 1.

    Args:
        probs, logits: as for Categorical, shape (..., n).

    >>> OneHotCategorical(tensor([0.5, 0.5])).enumerate_support()
    tensor([[1., 0.],
            [0., 1.]])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        return one_hot(self._categorical.mode, self.probs)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        return one_hot(self._categorical.sample(sample_shape), self._param)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self._event_shape[0]
        values = eye(n, dtype=self._param.dtype).view((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n,) + tuple(self._batch_shape) + (n,)) if expand else values


def one_hot(index, like):
    """Vectors, as long as those of `like`, with a 1 at `index`."""
    places = arange(like.shape[-1])
    return (index.unsqueeze(-1) == places).to(like.dtype)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose draws pass gradients to `probs` as if they were the probabilities.

    Source: Bengio, Leonard and Courville, "Estimating or propagating gradients through stochastic neurons",
    2013.

    >>> OneHotCategoricalStraightThrough(tensor([0.5, 0.5])).rsample((3,)).shape
    flambeau.Size([3, 2])
    """

    has_rsample = True

    def rsample(self, sample_shape=()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(WrappingCategorical):
    """How often each class comes in `total_count` draws.

    Args:
        total_count: number of draws, one int for the whole batch.
        probs, logits: as for Categorical, shape (..., n).

    >>> Multinomial(4, tensor([1.0, 3.0])).mean
    tensor([1., 3.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        with no_grad():
            drawn = self._categorical.sample(Size((self.total_count,)) + Size(sample_shape))
            drawn = drawn.movedim(0, -1)            # (..., total_count)
            counts = zeros_like(self._param.expand(tuple(shape)).contiguous())
            return counts.scatter_add(-1, drawn, ones_like(drawn, dtype=counts.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + times(value, self.logits).sum(-1)

    def entropy(self):
        """n times that of one draw - log n! + the mean of the sum of log x_i!, x_i being binomial."""
        n = self.total_count
        one = Binomial(n, probs=self.probs, validate_args=False)
        values = one.enumerate_support(False)
        probabilities = one.log_prob(values).exp()
        ways = (probabilities * (values + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + ways
