"""What every distribution is: shapes, checked arguments, `expand`; and the exponential family."""

import warnings

from flambeau.base.errors import fail
from flambeau.distributions import constraints
from flambeau.distributions.utils import lazy_property, sum_rightmost
from flambeau.runtime._core import Size, Tensor
from flambeau.tensor.autograd import enable_grad, grad, no_grad


class Distribution:
    """The base of all distributions.

    A distribution holds a batch of independent distributions (`batch_shape`), each over events of shape
    `event_shape`; a sample has the shape sample_shape + batch_shape + event_shape, and `log_prob` of it
    sample_shape + batch_shape.

    A subclass states `arg_constraints` (name of a parameter -> constraint), `support`, `has_rsample`, and
    `rsample` or `sample`, `log_prob` and what else there is. `_parameters` (name -> number of its event axes,
    or None for what is no tensor to expand) gives it `expand`.

    Args:
        batch_shape: shape of the batch.
        event_shape: shape of one event.
        validate_args: whether arguments and values are checked; None: as `set_default_validate_args` says.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _parameters = {}

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_arguments()

    @staticmethod
    def set_default_validate_args(value):
        """Switch checks on or off for distributions made without `validate_args`."""
        if value not in (True, False):
            raise ValueError(f"validation is switched by True or False, got {value!r}")
        Distribution._validate_args = value

    # ------------------------------------------------------------------ shapes
    @property
    def batch_shape(self):
        """Shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self):
        """Shape of one event."""
        return self._event_shape

    def expand(self, batch_shape, _instance=None):
        """The same distribution with its batch expanded to `batch_shape`; no memory is copied.

        >>> from flambeau.distributions import Normal
        >>> Normal(0.0, 1.0).expand((2, 3)).sample().shape
        flambeau.Size([2, 3])
        """
        if not self._parameters:
            raise NotImplementedError(f"{type(self).__name__} has no expand")
        new = self._get_checked_instance(self._built_in_class(), _instance)
        batch_shape = Size(batch_shape)
        self._expand_parameters(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_parameters(self, new, batch_shape):
        """Put the parameters, expanded to a batch, into the instance `new`."""
        for name, event_axes in self._parameters.items():
            value = self.__dict__.get(name)
            if value is not None and event_axes is not None:
                value = value.expand(batch_shape + value.shape[value.ndim - event_axes:])
            if value is not None:
                new.__dict__[name] = value

    def _built_in_class(self):
        """The nearest class that this package declares."""
        return next(kind for kind in type(self).__mro__ if kind.__module__.startswith(__package__))

    def _get_checked_instance(self, cls, _instance=None):
        """An empty instance for `expand`; refused for subclasses with their own __init__ but no expand."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(f"{type(self).__name__} has an __init__ of its own: it must define "
                                      "expand too")
        return object.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape=()):
        """The shape of a sample."""
        return Size(sample_shape) + self._batch_shape + self._event_shape

    # ------------------------------------------------------------------ what subclasses state
    @property
    def arg_constraints(self):
        """Parameter name -> constraint that it satisfies."""
        raise NotImplementedError

    @property
    def support(self):
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self):
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self):
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self):
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self):
        """The standard deviation."""
        return self.variance.sqrt()

    def rsample(self, sample_shape=()):
        """Draws through which gradients flow into the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample")

    def sample(self, sample_shape=()):
        """Draws of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n):
        """n draws (an old name of `sample((n,))`)."""
        warnings.warn("sample_n(n) is now sample((n,))", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value):
        """log of the density, or of the probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value):
        """The probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value):
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values, along a new first axis; axes of the batch have size 1 unless `expand`."""
        raise NotImplementedError

    def entropy(self):
        """The entropy in nats, of shape batch_shape."""
        raise NotImplementedError

    def perplexity(self):
        """exp(entropy)."""
        return self.entropy().exp()

    # ------------------------------------------------------------------ checks
    def _check_arguments(self):
        try:
            stated = self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define arg_constraints: its arguments are not checked (see "
                          "validate_args=False)", stacklevel=4)
            return
        for name, constraint in stated.items():
            given = name in self.__dict__ or not isinstance(getattr(type(self), name, None), lazy_property)
            if not given or constraints.is_dependent(constraint):
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                fail(type(self).__name__, f"parameter {name} of shape {tuple(value.shape)} breaks its "
                     "constraint", value, constraint, kind=ValueError)

    def _validate_sample(self, value):
        """ValueError where `value` cannot be one of this distribution: type, shape or support."""
        name = type(self).__name__
        if not isinstance(value, Tensor):
            fail(name, "The value argument to log_prob must be a Tensor", type(value).__name__,
                 kind=ValueError)
        event_start = value.ndim - len(self._event_shape)
        if value.shape[max(event_start, 0):] != self._event_shape:
            fail(name, "the right-most size of the value must match the event_shape", tuple(value.shape),
                 tuple(self._event_shape), kind=ValueError)
        for have, want in zip(reversed(value.shape), reversed(self._batch_shape + self._event_shape)):
            if have != 1 and want != 1 and have != want:
                fail(name, "the value is not broadcastable with batch_shape + event_shape",
                     tuple(value.shape),
                     tuple(self._batch_shape + self._event_shape), kind=ValueError)
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define its support, so values are not checked (see "
                          "validate_args=False)", stacklevel=3)
            return
        if not bool(support.check(value).all()):
            fail(name, f"the value of shape {tuple(value.shape)} is not within the support", value, support,
                 kind=ValueError)

    def __repr__(self):
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value if value.numel() == 1 else value.shape}")
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Distributions with density exp(<t(x), natural parameters> - log_normalizer + log carrier measure).

    A subclass states `_natural_params`, `_log_normalizer(*natural_params)` and `_mean_carrier_measure`, the
    mean of the log carrier measure. `entropy` and `kl_divergence` of two members of one family follow from
    these with automatic differentiation (Nielsen and Nock, "Entropies and cross-entropies of exponential
    families", ICIP 2010).
    """

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def _expected_statistics(self):
        """(natural parameters, log_normalizer there, its gradients: the means of t(x))."""
        keep = any(p.requires_grad for p in self._natural_params)
        with enable_grad():
            parameters = [p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*parameters)
            slopes = grad(normalizer.sum(), parameters, create_graph=keep)
        if not keep:
            parameters, normalizer = [p.detach() for p in parameters], normalizer.detach()
        return parameters, normalizer, slopes

    def entropy(self):
        """log_normalizer - <natural parameters, its gradient> - mean log carrier measure."""
        parameters, result, slopes = self._expected_statistics()
        for parameter, slope in zip(parameters, slopes):
            product = parameter * slope
            result = result - sum_rightmost(product, product.ndim - len(self._batch_shape))
        return result - self._mean_carrier_measure
