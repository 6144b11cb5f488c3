"""Distributions of numbers around a location: uniform, Laplace, Cauchy and its half, Student's t, Gumbel."""

import math

from flambeau.distributions import constraints, draws
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.normal import Half
from flambeau.distributions.transforms import AffineTransform, ExpTransform
from flambeau.distributions.transformed import TransformedDistribution
from flambeau.distributions.utils import broadcast_all, standard_normal
from flambeau.ops.elementwise import where
from flambeau.tensor.create import full_like
from flambeau.types.info import finfo

EULER = 0.57721566490153286060


class Uniform(Distribution):
    """The uniform distribution over [low, high).

    >>> Uniform(0.0, 2.0).log_prob(tensor(1.0))
    tensor(-0.6931)
    """

    has_rsample = True
    _parameters = {"low": 0, "high": 0}

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self):
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def mode(self):
        return full_like(self.low, math.nan)

    @property
    def stddev(self):
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self):
        width = self.high - self.low
        return width * width / 12

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.low + draws.uniform(shape, self.low.dtype) * (self.high - self.low)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return where((self.low <= value) & (value < self.high), -(self.high - self.low).log(), -math.inf)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return (self.high - self.low).log()


class Laplace(Distribution):
    """The Laplace distribution: density exp(-|x - loc| / scale) / (2 scale).

    >>> Laplace(0.0, 1.0).cdf(tensor(1.0))
    tensor(0.8161)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.loc

    mode = mean

    @property
    def stddev(self):
        return self.scale * math.sqrt(2)

    @property
    def variance(self):
        return self.scale * self.scale * 2

    def rsample(self, sample_shape=()):
        dtype = self.loc.dtype
        u = draws.uniform(self._extended_shape(sample_shape), dtype) * 2 - 1
        u = u.clamp(min=finfo(dtype).eps - 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value):
        beside = value - 0.5
        return self.loc - self.scale * beside.sign() * (-2 * beside.abs()).log1p()

    def entropy(self):
        return (2 * self.scale).log() + 1


class Cauchy(Distribution):
    """The Cauchy distribution; it has no mean, and its variance is infinite.

    Args:
        loc: the median.
        scale: half the width at half of the largest density, > 0.

    >>> Cauchy(0.0, 1.0).cdf(tensor(1.0))
    tensor(0.7500)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self):
        return full_like(self.loc, math.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape=()):
        return self.loc + self.scale * draws.cauchy(self._extended_shape(sample_shape), self.loc.dtype)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (distance * distance).log1p()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value):
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self):
        return (4 * math.pi * self.scale).log()


class HalfCauchy(Half):
    """|x| of a Cauchy x around 0.

    >>> HalfCauchy(1.0).cdf(tensor(1.0))
    tensor(0.5000)
    """

    whole = Cauchy

    @property
    def mean(self):
        return full_like(self.scale, math.inf)

    @property
    def variance(self):
        return self.base_dist.variance

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (value / self.scale).atan() * (2 / math.pi)

    def icdf(self, value):
        return (math.pi / 2 * value).tan() * self.scale


class StudentT(Distribution):
    """Student's t distribution: a normal number over the root of an independent chi-square number per degree
    of freedom.

    Args:
        df: degrees of freedom, > 0.
        loc, scale: location and scale of the result.

    >>> StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"df": 0, "loc": 0, "scale": 0}

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self):
        return where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        finite = self.scale * self.scale * self.df / (self.df - 2)
        return where(self.df > 2, finite, where(self.df > 1, math.inf, full_like(self.df, math.nan)))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        half_df, normal = self.df / 2, standard_normal(shape, self.df.dtype)
        log_ratio = draws.log_gamma(half_df, shape) - half_df.log()         # of chi-square / df
        return self.loc + self.scale * normal * (-0.5 * log_ratio).exp()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) / self.scale
        return (-0.5 * (self.df + 1) * (distance * distance / self.df).log1p() - self.scale.log()
                - 0.5 * self.df.log() - self._log_beta())

    def _log_beta(self):
        """log of the beta function at (1/2, df/2)."""
        return 0.5 * math.log(math.pi) + (self.df / 2).lgamma() - ((self.df + 1) / 2).lgamma()

    def entropy(self):
        above = (self.df + 1) / 2
        return (self.scale.log() + above * (above.digamma() - (self.df / 2).digamma()) + 0.5 * self.df.log()
                + self._log_beta())


class Gumbel(TransformedDistribution):
    """The Gumbel distribution, of the largest of many draws: cdf exp(-exp(-(x - loc) / scale)).

    >>> Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        base = Uniform(full_like(self.loc, limits.tiny), full_like(self.loc, 1 - limits.eps),
                       validate_args=False)
        log = ExpTransform().inv
        super().__init__(base, [log, AffineTransform(0.0, -1.0), log, AffineTransform(self.loc, -self.scale)],
                         validate_args=validate_args)

    @property
    def mean(self):
        return self.loc + self.scale * EULER

    @property
    def mode(self):
        return self.loc

    @property
    def stddev(self):
        return self.scale * (math.pi / math.sqrt(6))

    @property
    def variance(self):
        return self.scale * self.scale * (math.pi * math.pi / 6)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value):
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self):
        return self.scale.log() + (1 + EULER)
