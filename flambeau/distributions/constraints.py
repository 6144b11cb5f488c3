"""Constraints: which values a parameter or a sample may take.

`constraint.check(value)` gives a bool tensor with the event axes (`event_dim` of them) reduced.

>>> positive.check(tensor([1.0, -1.0]))
tensor([ True, False])
>>> simplex.check(tensor([[0.5, 0.5], [0.5, 0.6]]))
tensor([ True, False])
"""

from flambeau.base.errors import fail
from flambeau.ops.join import cat as joined, stack as stacked
from flambeau.ops.linalg import LinAlgError
from flambeau.ops.linalg_functions import cholesky_ex, eigvalsh
from flambeau.tensor.create import ones, tensor
from flambeau.types.dtype import bool_
from flambeau.types.info import finfo


class Constraint:
    """A region of values: `check(value)`, `event_dim` (axes of one event), `is_discrete`."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """A bool tensor: which events of `value` lie in the region."""
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__ + "()"


class Bounded(Constraint):
    """A region with bounds, shown in its repr."""

    bounds = ()

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self.bounds)})"


# ------------------------------------------------------------------------------ not known before the
# distribution
class Dependent(Constraint):
    """A support that depends on parameters: it can't be checked on its own.

    As a decorator, `dependent_property` makes a property of a distribution that gives the constraint.
    """

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self):
        return self._known(self._is_discrete, "is_discrete")

    @property
    def event_dim(self):
        return self._known(self._event_dim, "event_dim")

    @staticmethod
    def _known(value, name):
        if value is NotImplemented:
            raise NotImplementedError(f"{name} of this constraint depends on the distribution")
        return value

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        """The same with `is_discrete` or `event_dim` known."""
        return Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                         event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, value):
        raise ValueError("what depends on parameters is checked through the distribution's support")


class DependentProperty(property, Dependent):
    """A property of a distribution whose value is a constraint."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint):
    """True for a constraint that depends on parameters."""
    return isinstance(constraint, Dependent)


# ------------------------------------------------------------------------------ made of others
def all_rightmost(checks, count):
    """Whether all checks along the last `count` axes are true."""
    return checks if count == 0 else checks.all(tuple(range(-count, 0)))


class IndependentConstraint(Constraint):
    """`base_constraint` along the last `reinterpreted_batch_ndims` axes too, which become event axes."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            fail("check", "the value has fewer axes than an event", value.ndim, f"at least {self.event_dim}",
                 kind=ValueError)
        return all_rightmost(result, self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The constraint of a mixture's components, on values without the axis of components."""

    def __init__(self, base_constraint):
        if not isinstance(base_constraint, Constraint):
            fail("MixtureSameFamilyConstraint", "the base is no Constraint", type(base_constraint).__name__,
                 kind=AssertionError)
        self.base_constraint = base_constraint

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim

    def check(self, value):
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.ndim < self.event_dim:
            fail("check", "the value has fewer axes than an event", value.ndim, f"at least {self.event_dim}",
                 kind=ValueError)
        return all_rightmost(result, result.ndim - (value.ndim - self.event_dim))

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


class Joined(Constraint):
    """Several constraints, each for its part along an axis."""

    def __init__(self, cseq, dim=0):
        if not all(isinstance(c, Constraint) for c in cseq):
            fail(type(self).__name__, "a part is no Constraint", [type(c).__name__ for c in cseq],
                 kind=AssertionError)
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self):
        return any(c.is_discrete for c in self.cseq)

    def _axis(self, value):
        if not -value.ndim <= self.dim < value.ndim:
            fail("check", "the value has no such axis", self.dim, f"-{value.ndim} to {value.ndim - 1}",
                 kind=AssertionError)
        return self.dim % value.ndim


class Cat(Joined):
    """Constraint i for the next `lengths[i]` places along the axis `dim`."""

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            fail("cat", "one length for each constraint", len(self.lengths), len(self.cseq),
                 kind=AssertionError)

    @property
    def event_dim(self):
        return max(c.event_dim for c in self.cseq)

    def check(self, value):
        axis, start, checks = self._axis(value), 0, []
        for constraint, length in zip(self.cseq, self.lengths):
            checks.append(constraint.check(value.narrow(axis, start, length)))
            start += length
        return joined(checks, axis)


class Stack(Joined):
    """Constraint i for the place i along the axis `dim`."""

    @property
    def event_dim(self):
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value):
        axis = self._axis(value)
        if value.shape[axis] != len(self.cseq):
            fail("stack", "one constraint for each place along the axis", value.shape[axis], len(self.cseq),
                 kind=AssertionError)
        return stacked([c.check(value.select(axis, i)) for i, c in enumerate(self.cseq)], self.dim)


# ------------------------------------------------------------------------------ numbers
class Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class IntegerInterval(Bounded):
    """Whole numbers from `lower_bound` to `upper_bound`, both included."""

    is_discrete = True
    bounds = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class IntegerLessThan(Bounded):
    """Whole numbers up to `upper_bound`."""

    is_discrete = True
    bounds = ("upper_bound",)

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return (value % 1 == 0) & (value <= self.upper_bound)


class IntegerGreaterThan(Bounded):
    """Whole numbers from `lower_bound` on."""

    is_discrete = True
    bounds = ("lower_bound",)

    def __init__(self, lower_bound):
        self.lower_bound = lower_bound

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


class Real(Constraint):
    """Any number but NaN."""

    def check(self, value):
        return value == value


class GreaterThan(Bounded):
    """Numbers above `lower_bound`."""

    bounds = ("lower_bound",)

    def __init__(self, lower_bound):
        self.lower_bound = lower_bound

    def check(self, value):
        return self.lower_bound < value


class GreaterThanEq(GreaterThan):
    """Numbers from `lower_bound` on."""

    def check(self, value):
        return self.lower_bound <= value


class LessThan(Bounded):
    """Numbers below `upper_bound`."""

    bounds = ("upper_bound",)

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return value < self.upper_bound


class Interval(Bounded):
    """Numbers from `lower_bound` to `upper_bound`, both included."""

    bounds = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class HalfOpenInterval(Interval):
    """Numbers from `lower_bound`, included, to `upper_bound`, which is not."""

    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


# ------------------------------------------------------------------------------ vectors
class OneHot(Constraint):
    """Vectors with a single 1 among zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class Simplex(Constraint):
    """Vectors of numbers >= 0 whose sum is 1 within 1e-6."""

    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class Multinomial(Bounded):
    """Vectors of counts >= 0 whose sum is `upper_bound` at most."""

    is_discrete = True
    event_dim = 1
    bounds = ("upper_bound",)

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, value):
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# ------------------------------------------------------------------------------ matrices
class Matrix(Constraint):
    """A region of matrices."""

    event_dim = 2


class LowerTriangular(Matrix):
    """Square matrices with zeros above the diagonal."""

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class LowerCholesky(Matrix):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value):
        return lower_triangular.check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class CorrCholesky(Matrix):
    """Cholesky factors of correlation matrices: lower triangular, positive diagonal, rows of length 1."""

    def check(self, value):
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        lengths = (value * value).sum(-1).sqrt()
        return lower_cholesky.check(value) & ((lengths - 1).abs() < tolerance).all(-1)


class Square(Matrix):
    """Square matrices."""

    def check(self, value):
        return ones(*value.shape[:-2], dtype=bool_) * bool(value.shape[-2] == value.shape[-1])


class Symmetric(Square):
    """Symmetric matrices, within 1e-6."""

    def check(self, value):
        square_shape = super().check(value)
        if not bool(square_shape.all()):
            return square_shape
        return ((value - value.mT).abs() <= 1e-6 * (1 + value.mT.abs())).flatten(-2).all(-1)


class PositiveSemidefinite(Symmetric):
    """Symmetric matrices without a negative eigenvalue."""

    def check(self, value):
        symmetric_entries = super().check(value)
        if not bool(symmetric_entries.all()):
            return symmetric_entries
        return (eigvalsh(value) >= 0).all(-1)


class PositiveDefinite(Symmetric):
    """Symmetric matrices with a Cholesky factor."""

    def check(self, value):
        symmetric_entries = super().check(value)
        return symmetric_entries & has_cholesky(value) if bool(symmetric_entries.all()) else symmetric_entries


def has_cholesky(value):
    """Which matrices of a batch have a Cholesky factor."""
    matrices = value.detach().reshape(-1, *value.shape[-2:])
    found = tensor([_factors(m) for m in (matrices if _factors(matrices) is False else ())], dtype=bool_)
    return found.reshape(value.shape[:-2]) if found.numel() else ones(*value.shape[:-2], dtype=bool_)


def _factors(matrix):
    try:
        return bool((cholesky_ex(matrix)[1] == 0).all())
    except LinAlgError:
        return False


# ------------------------------------------------------------------------------ the public names
dependent = Dependent()
dependent_property = DependentProperty
independent, cat, stack = IndependentConstraint, Cat, Stack
boolean, one_hot, real, simplex = Boolean(), OneHot(), Real(), Simplex()
real_vector = IndependentConstraint(real, 1)
nonnegative_integer, positive_integer = IntegerGreaterThan(0), IntegerGreaterThan(1)
positive, nonnegative = GreaterThan(0.0), GreaterThanEq(0.0)
unit_interval = Interval(0.0, 1.0)
integer_interval, interval, half_open_interval = IntegerInterval, Interval, HalfOpenInterval
greater_than, greater_than_eq, less_than, multinomial = GreaterThan, GreaterThanEq, LessThan, Multinomial
lower_triangular, lower_cholesky, corr_cholesky = LowerTriangular(), LowerCholesky(), CorrCholesky()
square, symmetric = Square(), Symmetric()
positive_semidefinite, positive_definite = PositiveSemidefinite(), PositiveDefinite()

__all__ = ["Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
           "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
           "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
           "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
           "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
           "symmetric", "unit_interval"]
