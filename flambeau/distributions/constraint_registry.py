"""From a constraint to a transform of the unconstrained space onto it: `biject_to` and `transform_to`.

`biject_to(constraint)` gives a bijection with its Jacobian, as inference needs; `transform_to(constraint)`
may be overparametrised (a softmax for the simplex) and so serves optimisation.

    scale = transform_to(constraints.positive)(unconstrained)
"""

from flambeau.distributions import constraints, transforms


class ConstraintRegistry:
    """Constraint classes and the functions (constraint -> Transform) registered for them.

    >>> transform_to(constraints.positive)(tensor(0.0))
    tensor(1.)
    """

    def __init__(self):
        self._registry = {}

    def register(self, constraint, factory=None):
        """Register `factory` for a constraint class, or an object's class; without it, a decorator."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"a Constraint class or object is registered, got {kind!r}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint):
        """The transform for a constraint; NotImplementedError where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"no transform is registered for {type(constraint).__name__}")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds):
    def declare(function):
        for kind in kinds:
            biject_to.register(kind, function)
            transform_to.register(kind, function)
        return function
    return declare


@_both(constraints.Real)
def _to_real(constraint):
    return transforms.identity_transform


@biject_to.register(constraints.IndependentConstraint)
def _biject_to_independent(constraint):
    return transforms.IndependentTransform(biject_to(constraint.base_constraint),
                                           constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.IndependentConstraint)
def _transform_to_independent(constraint):
    return transforms.IndependentTransform(transform_to(constraint.base_constraint),
                                           constraint.reinterpreted_batch_ndims)


@_both(constraints.GreaterThan, constraints.GreaterThanEq)
def _to_above(constraint):
    bound = constraint.lower_bound
    if isinstance(bound, (int, float)) and bound == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(bound, 1)])


@_both(constraints.LessThan)
def _to_below(constraint):
    return transforms.ComposeTransform([transforms.ExpTransform(),
                                        transforms.AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.Interval, constraints.HalfOpenInterval)
def _to_interval(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(),
                                        transforms.AffineTransform(low, high - low)])


@biject_to.register(constraints.Simplex)
def _biject_to_simplex(constraint):
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.Simplex)
def _transform_to_simplex(constraint):
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.LowerCholesky)
def _to_lower_cholesky(constraint):
    return transforms.LowerCholeskyTransform()


for _kind in (constraints.PositiveDefinite, constraints.PositiveSemidefinite):
    @transform_to.register(_kind)
    def _to_positive_definite(constraint):
        return transforms.PositiveDefiniteTransform()


@_both(constraints.CorrCholesky)
def _to_corr_cholesky(constraint):
    return transforms.CorrCholeskyTransform()


def _joined(registry, constraint):
    """The transforms of the parts, as `cat` or `stack` of constraints wants them."""
    parts = [registry(part) for part in constraint.cseq]
    if isinstance(constraint, constraints.Cat):
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)
    return transforms.StackTransform(parts, constraint.dim)


for _kind in (constraints.Cat, constraints.Stack):
    biject_to.register(_kind, lambda constraint: _joined(biject_to, constraint))
    transform_to.register(_kind, lambda constraint: _joined(transform_to, constraint))

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
