"""Transforms of numbers; and the names of all transforms, with `transform` and `vector_transforms`."""

import math
from numbers import Number

from flambeau.distributions import constraints
from flambeau.distributions.transform import (CatTransform, ComposeTransform, IndependentTransform,
                                              InverseTransform,
                                              ReshapeTransform, StackTransform, Transform, identity_transform)
from flambeau.distributions.utils import sum_rightmost
from flambeau.distributions.vector_transforms import (CorrCholeskyTransform, LowerCholeskyTransform,
                                                      PositiveDefiniteTransform, SoftmaxTransform,
                                                      StickBreakingTransform, clipped_sigmoid)
from flambeau.ops.activation import softplus
from flambeau.tensor.create import full
from flambeau.types.info import finfo
from flambeau.types.shape import broadcast_shapes


class OfNumbers(Transform):
    """An increasing bijection of single numbers."""

    domain = codomain = constraints.real
    bijective = True
    sign = 1

    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(OfNumbers):
    """y = exp(x), from the reals to the positive numbers.

    >>> ExpTransform().inv(tensor([1.0, 2.0]))
    tensor([0.0000, 0.6931])
    """

    codomain = constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive numbers.

    >>> PowerTransform(2.0)(tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent = exponent

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self):
        return math.copysign(1, self.exponent) if isinstance(self.exponent, Number) else self.exponent.sign()

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and _same(self.exponent, other.exponent)

    __hash__ = object.__hash__

    def _call(self, x):
        return x ** self.exponent

    def _inverse(self, y):
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return broadcast_shapes(shape, _shape(self.exponent))

    inverse_shape = forward_shape


def _shape(value):
    return getattr(value, "shape", ())


def _same(a, b):
    """True for equal numbers and for tensors of equal elements."""
    if isinstance(a, Number) and isinstance(b, Number):
        return a == b
    same = a == b
    return bool(same.all())


class SigmoidTransform(OfNumbers):
    """y = 1 / (1 + exp(-x)), from the reals to (0, 1); results are kept inside.

    >>> SigmoidTransform()(tensor([0.0, 200.0]))
    tensor([0.5000, 1.0000])
    """

    codomain = constraints.unit_interval

    def _call(self, x):
        return clipped_sigmoid(x)

    def _inverse(self, y):
        kept = y.clamp(finfo(y.dtype).tiny, 1 - finfo(y.dtype).eps)
        return kept.log() - (-kept).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x) - softplus(x)


class SoftplusTransform(OfNumbers):
    """y = log(1 + exp(x)), from the reals to the positive numbers.

    >>> SoftplusTransform()(tensor(0.0))
    tensor(0.6931)
    """

    codomain = constraints.positive

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x)


class TanhTransform(OfNumbers):
    """y = tanh(x), from the reals to (-1, 1). With `cache_size=1` values rounded to 1 have their inverse.

    >>> TanhTransform().log_abs_det_jacobian(tensor(20.0), None)
    tensor(-38.6137)
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        # log(1 - tanh(x)^2) without cancellation
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; not bijective, its inverse gives the positive one.

    >>> AbsTransform()(tensor(-2.0))
    tensor(2.)
    """

    domain, codomain = constraints.real, constraints.positive

    def __eq__(self, other):
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale * x.

    Args:
        loc, scale: tensors or numbers.
        event_dim: number of event axes.

    >>> AffineTransform(1.0, 2.0)(tensor([0.0, 1.0]))
    tensor([1., 3.])
    """

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self):
        return self._event_dim

    @property
    def domain(self):
        return constraints.independent(constraints.real,
                                       self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    @property
    def sign(self):
        if isinstance(self.scale, Number):
            return 1 if self.scale > 0 else -1 if self.scale < 0 else 0
        return self.scale.sign()

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else AffineTransform(self.loc, self.scale,
                                                                           self._event_dim,
                                                                           cache_size)

    def __eq__(self, other):
        return isinstance(other, AffineTransform) and _same(self.loc, other.loc) and _same(self.scale,
                                                                                           other.scale)

    __hash__ = object.__hash__

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, Number):
            slope = full(tuple(x.shape), math.log(abs(self.scale)), dtype=x.dtype)
        else:
            slope = self.scale.abs().log()
        if self._event_dim == 0:
            return slope.expand(broadcast_shapes(slope.shape, x.shape))
        slope = slope.expand(broadcast_shapes(slope.shape, x.shape[x.ndim - self._event_dim:]))
        return sum_rightmost(slope, self._event_dim).expand(x.shape[:x.ndim - self._event_dim])

    def forward_shape(self, shape):
        return broadcast_shapes(shape, _shape(self.loc), _shape(self.scale))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution of single numbers.

    >>> from flambeau.distributions import Normal
    >>> CumulativeDistributionTransform(Normal(0.0, 1.0))(tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        return self.distribution.support

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else CumulativeDistributionTransform(self.distribution,
                                                                                           cache_size)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "InverseTransform",
           "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
           "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
           "StickBreakingTransform",
           "TanhTransform", "Transform", "identity_transform"]
