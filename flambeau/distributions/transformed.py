"""Distributions made of others: more event axes (`Independent`), and a transform of the samples."""

from flambeau.base.errors import fail
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.transform import ComposeTransform, Transform
from flambeau.distributions.utils import sum_rightmost
from flambeau.runtime._core import Size
from flambeau.tensor.autograd import no_grad


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch axes count as event axes: `log_prob` sums
    over them.

    >>> from flambeau.distributions import Normal
    >>> diagonal = Independent(Normal(tensor([0.0, 1.0]), 1.0), 1)
    >>> diagonal.log_prob(tensor([0.0, 1.0]))
    tensor(-1.8379)
    """

    arg_constraints = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            fail("Independent", "more batch axes are reinterpreted than there are", reinterpreted_batch_ndims,
                 f"at most {len(batch)}", kind=ValueError)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        kept = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:kept], batch[kept:] + base_distribution.event_shape, validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = Size(batch_shape)
        moved = self._event_shape[:self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(batch_shape + moved)
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self):
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        own, more = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(own, more) if more else own

    @property
    def mean(self):
        return self.base_dist.mean

    @property
    def mode(self):
        return self.base_dist.mode

    @property
    def variance(self):
        return self.base_dist.variance

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("the values of several axes together are not enumerated")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of y = f(x), where x has the base distribution and f is a transform, or a list of them
    in order.

    log_prob(y) = log_prob of the base at x - log |dy/dx|; a base of fewer event axes than the transform takes
    becomes Independent.

    >>> from flambeau.distributions import AffineTransform, SigmoidTransform, Uniform
    >>> transforms = [SigmoidTransform().inv, AffineTransform(1.0, 2.0)]
    >>> logistic = TransformedDistribution(Uniform(0.0, 1.0), transforms)
    >>> logistic.cdf(tensor(1.0))
    tensor(0.5000)
    """

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not (isinstance(self.transforms, list) and all(isinstance(t, Transform) for t in self.transforms)):
            fail("TransformedDistribution", "transforms must be a Transform or list", transforms,
                 kind=ValueError)
        whole = ComposeTransform(self.transforms)
        taken, given = whole.domain.event_dim, whole.codomain.event_dim
        base = base_distribution
        before = base.batch_shape + base.event_shape
        if len(before) < taken:
            fail("TransformedDistribution",
                 "base_distribution needs to have as many axes as the transform takes",
                 tuple(before), f"at least {taken} axes", kind=ValueError)
        after = whole.forward_shape(before)
        broadcast = Size(whole.inverse_shape(after))        # the transform's parameters may bring batch axes
        base_events = len(base.event_shape)
        if broadcast != before:
            base = base.expand(broadcast[:len(broadcast) - base_events])
        self.base_dist = Independent(base, taken - base_events) if taken > base_events else base
        events = max(given, base_events + given - taken)
        kept = len(after) - events
        super().__init__(after[:kept], after[kept:], validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(self._built_in_class(), _instance)
        batch_shape = Size(batch_shape)
        shape = Size(ComposeTransform(self.transforms).inverse_shape(batch_shape + self._event_shape))
        new.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        self._expand_parameters(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        own = self.transforms[-1].codomain
        missing = len(self._event_shape) - own.event_dim
        return constraints.independent(own, missing) if missing > 0 else own

    def sample(self, sample_shape=()):
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=()):
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        events, slopes, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            slopes = slopes + sum_rightmost(slope, events - transform.domain.event_dim)
            y = x
        return sum_rightmost(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape)) - slopes

    def _reflected(self, probability):
        """The probability itself for increasing transforms, 1 minus it for decreasing ones."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return probability if isinstance(sign, (int, float)) and sign == 1 else sign * (probability
                                                                                        - 0.5) + 0.5

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._reflected(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._forward(self.base_dist.icdf(self._reflected(value)))

    def __repr__(self):
        if self.arg_constraints:
            return super().__repr__()
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms!r})"
