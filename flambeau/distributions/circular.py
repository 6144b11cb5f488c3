"""Angles: the von Mises distribution."""

import math

from flambeau.distributions import constraints, draws
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import broadcast_all
from flambeau.ops.special_bessel import _special_i0e, _special_i1e
from flambeau.tensor.autograd import no_grad


class VonMises(Distribution):
    """The normal distribution's kin on the circle: density proportional to exp(concentration cos(x - loc)).

    Draws come from NumPy (Best and Fisher, "Efficient simulation of the von Mises distribution", Applied
    Statistics 28, 1979), in [-pi, pi). The variance is the circular one, 1 - |mean of exp(i x)|.

    Args:
        loc: an angle in radians.
        concentration: > 0; the inverse of a variance where it is large.

    >>> VonMises(0.0, 1.0).log_prob(tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _parameters = {"loc": 0, "concentration": 0}

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.loc

    mode = mean

    @property
    def variance(self):
        return 1 - _special_i1e(self.concentration) / _special_i0e(self.concentration)

    def sample(self, sample_shape=()):
        with no_grad():
            angle = self.loc + draws.von_mises(self.concentration, self._extended_shape(sample_shape))
            return (angle + math.pi) % (2 * math.pi) - math.pi

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        # log I0(c) = log(I0(c) exp(-c)) + c
        return (self.concentration * ((value - self.loc).cos() - 1) - math.log(2 * math.pi)
                - _special_i0e(self.concentration).log())
