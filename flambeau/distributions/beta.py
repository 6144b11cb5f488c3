"""Distributions of shares: beta, Kumaraswamy, Dirichlet."""

import math

from flambeau.base.errors import fail
from flambeau.distributions import constraints, draws
from flambeau.distributions.distribution import ExponentialFamily
from flambeau.distributions.heavy_tailed import EULER, Uniform
from flambeau.distributions.transforms import AffineTransform, PowerTransform
from flambeau.distributions.transformed import TransformedDistribution
from flambeau.distributions.utils import broadcast_all
from flambeau.ops.activation import sigmoid
from flambeau.ops.arithmetic import xlog1py, xlogy
from flambeau.ops.elementwise import where
from flambeau.ops.join import stack
from flambeau.ops.normalize import softmax
from flambeau.tensor.create import zeros_like
from flambeau.types.info import finfo


class Beta(ExponentialFamily):
    """The beta distribution: density proportional to x^(concentration1 - 1) (1 - x)^(concentration0 - 1).

    Args:
        concentration1, concentration0: > 0.

    >>> Beta(2.0, 2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def _total(self):
        return self.concentration1 + self.concentration0

    @property
    def mean(self):
        return self.concentration1 / self._total

    @property
    def mode(self):
        return Dirichlet(stack([self.concentration1, self.concentration0], -1),
                         validate_args=False).mode.select(-1, 0)

    @property
    def variance(self):
        total = self._total
        return self.concentration1 * self.concentration0 / (total * total * (total + 1))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        one, other = draws.log_gamma_pairs(self.concentration1, self.concentration0, shape)
        log_odds = one - other
        limits = finfo(log_odds.dtype)
        return sigmoid(log_odds).clamp(limits.tiny, 1 - limits.eps / 2)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (xlogy(self.concentration1 - 1, value) + xlog1py(self.concentration0 - 1, -value)
                - self._log_normalizer(self.concentration1, self.concentration0))

    def entropy(self):
        a, b, total = self.concentration1, self.concentration0, self._total
        return (self._log_normalizer(a, b) - (a - 1) * a.digamma() - (b - 1) * b.digamma()
                + (total - 2) * total.digamma())

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return x.lgamma() + y.lgamma() - (x + y).lgamma()

    @property
    def _mean_carrier_measure(self):
        """The carrier measure is 1 / (x (1 - x))."""
        return 2 * self._total.digamma() - self.concentration1.digamma() - self.concentration0.digamma()


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy's distribution: cdf 1 - (1 - x^concentration1)^concentration0 on (0, 1).

    Source: Kumaraswamy, "A generalized probability density function for double-bounded random processes",
    Journal of Hydrology 46, 1980.

    >>> Kumaraswamy(1.0, 2.0).mean
    tensor(0.3333)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(zeros_like(self.concentration1), 1.0, validate_args=False)
        super().__init__(base, [PowerTransform(1 / self.concentration0), AffineTransform(1.0, -1.0),
                                PowerTransform(1 / self.concentration1)], validate_args=validate_args)

    def _log_moment(self, n):
        """log of the mean of x^n."""
        a, b = 1 + n / self.concentration1, self.concentration0
        return b.log() + a.lgamma() + b.lgamma() - (a + b).lgamma()

    @property
    def mean(self):
        return self._log_moment(1).exp()

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        inner = ((a - 1) / (a * b - 1)) ** (1 / a)
        return where((a < 1) | (b < 1), math.nan, inner)

    @property
    def variance(self):
        return self._log_moment(2).exp() - (2 * self._log_moment(1)).exp()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + xlogy(a - 1, value) + xlog1py(b - 1, -value ** a)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -xlog1py(self.concentration0, -value ** self.concentration1).expm1()

    def icdf(self, value):
        return (-((-value).log1p() / self.concentration0).expm1()) ** (1 / self.concentration1)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + EULER
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution over vectors of shares: density proportional to the product of
    x_i^(concentration_i - 1).

    Draws are gamma draws over their sum, taken in logarithms, so that tiny concentrations give no 0 / 0.

    Args:
        concentration: shape (..., n), > 0.

    >>> Dirichlet(tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = {"concentration": 1}

    def __init__(self, concentration, validate_args=None):
        if concentration.ndim < 1:
            fail("Dirichlet", "`concentration` parameter must be at least one-dimensional", kind=ValueError)
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        above = (self.concentration - 1).clamp(min=0)
        inner = above / above.sum(-1, True)
        corner = zeros_like(inner).scatter(-1, self.concentration.argmax(-1, True), 1.0)
        return where((self.concentration < 1).all(-1, True), corner, inner)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total * total * (total + 1))

    def rsample(self, sample_shape=()):
        drawn = draws.log_gamma(self.concentration, self._extended_shape(sample_shape))
        return softmax(drawn, -1).clamp(min=finfo(drawn.dtype).tiny)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return xlogy(self.concentration - 1, value).sum(-1) - self._log_normalizer(self.concentration)

    def entropy(self):
        c = self.concentration
        total = c.sum(-1)
        return (self._log_normalizer(c) + (total - c.shape[-1]) * total.digamma()
                - ((c - 1) * c.digamma()).sum(-1))

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()

    @property
    def _mean_carrier_measure(self):
        """The carrier measure is the product of 1 / x_i."""
        c = self.concentration
        return c.shape[-1] * c.sum(-1).digamma() - c.digamma().sum(-1)
