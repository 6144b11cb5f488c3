"""The gamma distribution and its kin: exponential, chi-square, inverse gamma, Fisher and Snedecor's F."""

import math

from flambeau.distributions import constraints, draws
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.transforms import PowerTransform
from flambeau.distributions.transformed import TransformedDistribution
from flambeau.distributions.utils import as_parameter, broadcast_all
from flambeau.ops.arithmetic import xlogy
from flambeau.ops.elementwise import where
from flambeau.ops.special_host import igamma
from flambeau.tensor.create import zeros_like
from flambeau.types.info import finfo


class Exponential(ExponentialFamily):
    """Waiting times between events that come at `rate` per unit of time.

    >>> Exponential(2.0).cdf(tensor(1.0))
    tensor(0.8647)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = {"rate": 0}
    _mean_carrier_measure = 0.0

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self):
        return zeros_like(self.rate)

    @property
    def variance(self):
        return 1 / (self.rate * self.rate)

    def rsample(self, sample_shape=()):
        return draws.exponential(self._extended_shape(sample_shape), self.rate.dtype) / self.rate

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value):
        return -(-value).log1p() / self.rate

    def entropy(self):
        return 1 - self.rate.log()

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -(-x).log()


class Gamma(ExponentialFamily):
    """The gamma distribution: density proportional to x^(concentration - 1) exp(-rate x).

    Gradients flow through draws by implicit reparameterisation (`ops/gamma_slope.py`).

    Args:
        concentration: the shape, > 0.
        rate: the inverse of the scale, > 0.

    >>> Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = {"concentration": 0, "rate": 0}
    _mean_carrier_measure = 0.0

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        return self.concentration / (self.rate * self.rate)

    def rsample(self, sample_shape=()):
        drawn = draws.log_gamma(self.concentration, self._extended_shape(sample_shape))
        return (drawn.exp() / self.rate).clamp(min=finfo(self.rate.dtype).tiny)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return (xlogy(self.concentration, self.rate) + xlogy(self.concentration - 1, value)
                - self.rate * value
                - self.concentration.lgamma())

    def cdf(self, value):
        """The probability of at most `value`; without gradient into the concentration."""
        if self._validate_args:
            self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self):
        c = self.concentration
        return c - self.rate.log() + c.lgamma() + (1 - c) * c.digamma()

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return (x + 1).lgamma() - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The chi-square distribution: the sum of the squares of `df` standard normal numbers.

    >>> Chi2(3.0).variance
    tensor(6.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        super().__init__(as_parameter(df) * 0.5, 0.5, validate_args=validate_args)

    @property
    def df(self):
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """1 / x of a gamma x.

    Args:
        concentration, rate: those of x, > 0.

    >>> InverseGamma(3.0, 2.0).mean
    tensor(1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        super().__init__(Gamma(concentration, rate, validate_args=validate_args), PowerTransform(-1.0),
                         validate_args=validate_args)

    @property
    def concentration(self):
        return self.base_dist.concentration

    @property
    def rate(self):
        return self.base_dist.rate

    @property
    def mean(self):
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        c = self.concentration
        below = self.rate / (c - 1)
        return where(c > 2, below * below / (c - 2), math.inf)

    def entropy(self):
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()


class FisherSnedecor(Distribution):
    """Fisher and Snedecor's F: the ratio of two chi-square numbers, each over its degrees of freedom.

    Args:
        df1, df2: degrees of freedom of numerator and denominator, > 0.

    >>> FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = {"df1": 0, "df2": 0}

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self):
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self):
        return where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self):
        mean = self.df2 / (self.df2 - 2)
        finite = 2 * mean * mean * (self.df1 + self.df2 - 2) / (self.df1 * (self.df2 - 4))
        return where(self.df2 > 4, finite, math.nan)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        above, below = self.df1 / 2, self.df2 / 2
        log_ratio = draws.log_gamma(above, shape) - above.log() - draws.log_gamma(below, shape) + below.log()
        return log_ratio.exp().clamp(min=finfo(self.df1.dtype).tiny)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        return (a * ratio.log() + xlogy(a - 1, value) - (a + b) * (ratio * value).log1p()
                + (a + b).lgamma() - a.lgamma() - b.lgamma())
