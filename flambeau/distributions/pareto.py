"""Distributions above a threshold: Weibull, Pareto and its generalisation."""

import math

from flambeau.distributions import constraints, draws
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.gamma import Exponential
from flambeau.distributions.heavy_tailed import EULER
from flambeau.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from flambeau.distributions.transformed import TransformedDistribution
from flambeau.distributions.utils import broadcast_all
from flambeau.ops.arithmetic import xlogy
from flambeau.ops.elementwise import where
from flambeau.tensor.create import ones_like


class Weibull(TransformedDistribution):
    """scale * x^(1 / concentration) of an exponential x.

    >>> Weibull(1.0, 2.0).mean
    tensor(0.8862)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _parameters = {"scale": 0, "concentration": 0}

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(ones_like(self.scale), validate_args=False)
        super().__init__(base, [PowerTransform(1 / self.concentration), AffineTransform(0.0, self.scale)],
                         validate_args=validate_args)

    @property
    def mean(self):
        return self.scale * (1 + 1 / self.concentration).lgamma().exp()

    @property
    def mode(self):
        c = self.concentration
        return self.scale * ((c - 1).clamp(min=0) / c) ** (1 / c)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        c, z = self.concentration, value / self.scale
        return (c / self.scale).log() + xlogy(c - 1, z) - z ** c

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -(-(value / self.scale) ** self.concentration).expm1()

    @property
    def variance(self):
        inverse = 1 / self.concentration
        return self.scale * self.scale * ((1 + 2 * inverse).lgamma().exp()
                                          - (2 * (1 + inverse).lgamma()).exp())

    def entropy(self):
        return EULER * (1 - 1 / self.concentration) + (self.scale / self.concentration).log() + 1


class Pareto(TransformedDistribution):
    """scale * exp(x / alpha) of an exponential x: cdf 1 - (scale / y)^alpha for y >= scale.

    Args:
        scale: the smallest value, > 0.
        alpha: how fast the tail falls, > 0.

    >>> Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _parameters = {"scale": 0, "alpha": 0}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args=False),
                         [ExpTransform(), AffineTransform(0.0, self.scale)],
                         validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self):
        return where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    @property
    def mode(self):
        return self.scale

    @property
    def variance(self):
        below = self.scale / (self.alpha - 1)
        return where(self.alpha > 2, below * below * self.alpha / (self.alpha - 2), math.inf)

    def entropy(self):
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class GeneralizedPareto(Distribution):
    """What exceeds a high threshold: survival (1 + concentration (x - loc) / scale)^(-1 / concentration).

    For concentration 0 it is exponential; below 0 values end at loc - scale / concentration.
    Source: Pickands, "Statistical inference using extreme order statistics", Annals of Statistics 3, 1975.

    >>> GeneralizedPareto(0.0, 1.0, 0.5).mean
    tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive,
                       "concentration": constraints.real}
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, where(self.concentration < 0, end, math.inf))

    @property
    def mean(self):
        return where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.inf)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        below = self.scale / (1 - self.concentration)
        return where(self.concentration < 0.5, below * below / (1 - 2 * self.concentration), math.inf)

    def rsample(self, sample_shape=()):
        return self.icdf(draws.uniform(self._extended_shape(sample_shape), self.loc.dtype))

    def _waited(self, value):
        """The exponential waiting time that corresponds to `value`: log(1 + c z) / c, or z for c = 0."""
        z = (value - self.loc) / self.scale
        s = self.concentration * z
        near = z * (1 - s * (1 / 2 - s * (1 / 3 - s / 4)))
        return where(self._is_near(s), near, s.log1p() / self.concentration)

    @staticmethod
    def _is_near(s):
        """Where four terms of a series in s are exact, and the quotient would have poor derivatives."""
        return s.abs() < (1e-2 if s.dtype.itemsize <= 4 else 1e-4)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        density = -(1 + self.concentration) * self._waited(value) - self.scale.log()
        return where(self.support.check(value), density, -math.inf)

    def log_survival_function(self, value):
        """log of the probability of more than `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return -self._waited(value)

    def log_cdf(self, value):
        """log of the probability of at most `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value):
        return -self.log_survival_function(value).expm1()

    def icdf(self, value):
        waited = -(-value).log1p()
        s = self.concentration * waited
        near = waited * (1 + s * (1 / 2 + s * (1 / 6 + s / 24)))
        return self.loc + self.scale * where(self._is_near(s), near, s.expm1() / self.concentration)

    def entropy(self):
        return self.scale.log() + self.concentration + 1
