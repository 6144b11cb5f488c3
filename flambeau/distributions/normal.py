"""The normal distribution and those made from it: half normal, log normal, logistic normal."""

import math

from flambeau.distributions import constraints
from flambeau.distributions.distribution import ExponentialFamily
from flambeau.distributions.transforms import AbsTransform, ExpTransform, StickBreakingTransform
from flambeau.distributions.transformed import TransformedDistribution
from flambeau.distributions.utils import broadcast_all, standard_normal
from flambeau.ops.elementwise import where
from flambeau.ops.special import _special_ndtr, _special_ndtri
from flambeau.tensor.create import zeros_like

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Normal(ExponentialFamily):
    """The normal (Gaussian) distribution.

    Args:
        loc: the mean.
        scale: the standard deviation, > 0.

    >>> Normal(0.0, 1.0).log_prob(tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}
    _mean_carrier_measure = 0.0

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.loc

    mode = mean

    @property
    def stddev(self):
        return self.scale

    @property
    def variance(self):
        return self.scale * self.scale

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.loc + standard_normal(shape, self.loc.dtype) * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) / self.scale
        return distance * distance * -0.5 - self.scale.log() - HALF_LOG_TAU

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return _special_ndtr((value - self.loc) / self.scale)

    def icdf(self, value):
        return self.loc + self.scale * _special_ndtri(value)

    def entropy(self):
        return self.scale.log() + (0.5 + HALF_LOG_TAU)

    @property
    def _natural_params(self):
        return self.loc / self.variance, -0.5 / self.variance

    def _log_normalizer(self, x, y):
        return -0.25 * x * x / y + 0.5 * (-math.pi / y).log()


class Half(TransformedDistribution):
    """|x| of an x around 0 of the distribution `whole(0, scale)`."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    whole = None

    def __init__(self, scale, validate_args=None):
        super().__init__(self.whole(0.0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self):
        return self.base_dist.scale

    @property
    def mode(self):
        return zeros_like(self.scale)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """|x| of a normal x with mean 0.

    Args:
        scale: the standard deviation of x, > 0.

    >>> HalfNormal(1.0).mean
    tensor(0.7979)
    """

    whole = Normal

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale * self.scale * (1 - 2 / math.pi)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (value / (self.scale * math.sqrt(2))).erf()

    def icdf(self, value):
        return self.base_dist.icdf((value + 1) / 2)


class LogNormal(TransformedDistribution):
    """exp(x) of a normal x.

    Args:
        loc, scale: mean and standard deviation of x; scale > 0.

    >>> LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(),
                         validate_args=validate_args)

    @property
    def loc(self):
        return self.base_dist.loc

    @property
    def scale(self):
        return self.base_dist.scale

    @property
    def mean(self):
        return (self.loc + self.scale * self.scale / 2).exp()

    @property
    def mode(self):
        return (self.loc - self.scale * self.scale).exp()

    @property
    def variance(self):
        square = self.scale * self.scale
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Vectors of n normal numbers taken onto the simplex of n + 1 by StickBreakingTransform.

    Args:
        loc, scale: means and standard deviations of the numbers, shape (..., n).

    >>> LogisticNormal(tensor([0.0, 0.0, 0.0]), 1.0).event_shape
    flambeau.Size([4])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self):
        return self.base_dist.base_dist.loc

    @property
    def scale(self):
        return self.base_dist.base_dist.scale
