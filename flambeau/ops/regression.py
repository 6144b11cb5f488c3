"""Losses of each element, reduced in the same pass: 'mean', 'sum' or 'none'."""

from flambeau.base.lazy import LazyModule
from flambeau.ops.activation import log_sigmoid
from flambeau.ops.elementwise import where
from flambeau.ops.kinds import Composite, promoted_dtype
from flambeau.ops.normalize import narrow, widen
from flambeau.ops.reduce import mean, sum
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.types.dtype import FLOATING

numpy = LazyModule("numpy")


class ElementLoss(Composite):
    """States `each`, the loss of an element, and `reference`, the same in NumPy and reduced.

    Half precision is computed in float32 and rounded once.
    """

    internal = True
    signature = "input, target, reduction='mean'"
    operands = ("input", "target")
    dtypes = FLOATING
    tolerance = ulps(64)
    cases = ({}, {"reduction": "sum"}, {"reduction": "none"})
    each = None

    def samples(rng, shape):
        return [rng.uniform(-2, 2, shape), rng.uniform(-2, 2, shape)]

    @property
    def compute(self):
        """`each` of the operands, reduced."""
        def function(*, reduction, **values):
            given = {name: values[name] for name in self.operands if values[name] is not None}
            loss = type(self).each(**values | {name: widen(value) for name, value in given.items()})
            loss = mean(loss) if reduction == "mean" else sum(loss) if reduction == "sum" else loss
            return narrow(loss, promoted_dtype(list(given.values())))
        return function


def numpy_reduced(loss, reduction):
    return loss if reduction == "none" else getattr(loss, reduction)()


@op
class MseLoss(ElementLoss):
    """The squared difference."""

    def each(input, target):
        difference = input - target
        return difference * difference

    def reference(input, target, reduction="mean"):
        return numpy_reduced((input - target) ** 2, reduction)


@op
class L1Loss(ElementLoss):
    """The absolute difference."""

    def each(input, target):
        return abs(input - target)

    def reference(input, target, reduction="mean"):
        return numpy_reduced(abs(input - target), reduction)


@op
class SmoothL1Loss(ElementLoss):
    """Squares of differences below `beta`, divided by 2 * beta; above it the difference less beta / 2."""

    signature = "input, target, reduction='mean', beta=1.0"

    def each(input, target, beta):
        difference = input - target
        size = abs(difference)
        return where(size < beta, difference * difference * (0.5 / beta), size - 0.5 * beta)

    def reference(input, target, reduction="mean", beta=1.0):
        size = abs(input - target)
        return numpy_reduced(numpy.where(size < beta, size * size / (2 * beta), size - 0.5 * beta), reduction)


@op
class HuberLoss(ElementLoss):
    """Half the squares of differences up to `delta`; above it `delta * (difference - delta / 2)`."""

    signature = "input, target, reduction='mean', delta=1.0"

    def each(input, target, delta):
        difference = input - target
        size = abs(difference)
        return where(size <= delta, difference * difference * 0.5, (size - 0.5 * delta) * delta)

    def reference(input, target, reduction="mean", delta=1.0):
        size = abs(input - target)
        return numpy_reduced(numpy.where(size <= delta, size * size / 2, delta * (size - delta / 2)), reduction)


@op
class BinaryEntropyOfLogits(ElementLoss):
    """Cross entropy of the probability `sigmoid(input)` and the target in 0..1, without overflow."""

    signature = "input, target, weight=None, pos_weight=None, reduction='mean'"
    operands = ("input", "target", "weight", "pos_weight")

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), *(rng.uniform(low, 1, shape) for low in (0, 0.5, 0.5))]

    def each(input, target, weight, pos_weight):
        missing = -log_sigmoid(input)
        if pos_weight is not None:
            missing = missing * ((pos_weight - 1.0) * target + 1.0)
        loss = (1.0 - target) * input + missing
        return loss if weight is None else loss * weight

    def reference(input, target, weight=None, pos_weight=None, reduction="mean"):
        weight, pos_weight = (1.0 if w is None else w for w in (weight, pos_weight))
        chance = 1 / (1 + numpy.exp(-input))
        loss = pos_weight * target * numpy.log(chance) + (1 - target) * numpy.log(1 - chance)
        return numpy_reduced(-loss * weight, reduction)
