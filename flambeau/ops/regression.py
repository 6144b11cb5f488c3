"""Losses of each element, reduced in the same pass: 'mean', 'sum' or 'none'; margins between classes."""

import math

from flambeau.base.lazy import LazyModule
from flambeau.ops.activation import log_sigmoid
from flambeau.ops.create import iota
from flambeau.ops.elementwise import where
from flambeau.ops.index import gather
from flambeau.ops.kinds import Composite, promoted_dtype
from flambeau.ops.mathematics import exp, log
from flambeau.ops.normalize import narrow, widen
from flambeau.ops.reduce import any as some, mean, sum
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.ops.view import unsqueeze
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
            dtype = promoted_dtype(list(given.values()))
            return narrow(loss, dtype) if dtype.kind == "f" else loss
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


@op
class PoissonNllLoss(ElementLoss):
    """Minus the log-likelihood of Poisson counts; `full` adds Stirling's terms for targets above 1."""

    signature = "input, target, reduction='mean', log_input=True, full=False, eps=1e-8"
    cases = ({}, {"reduction": "none", "full": True}, {"log_input": False, "full": True})

    def samples(rng, shape):
        return [rng.uniform(0.2, 2, shape), rng.uniform(0, 3, shape)]

    def each(input, target, log_input, full, eps):
        loss = exp(input) - target * input if log_input else input - target * log(input + eps)
        if full:
            safe = where(target > 1, target, 1.0)
            stirling = safe * log(safe) - safe + log(safe * (2 * math.pi)) * 0.5
            loss = loss + where(target > 1, stirling, 0.0)
        return loss

    def reference(input, target, reduction="mean", log_input=True, full=False, eps=1e-8):
        loss = numpy.exp(input) - target * input if log_input else input - target * numpy.log(input + eps)
        safe = numpy.maximum(target, 1)
        stirling = safe * numpy.log(safe) - safe + numpy.log(2 * math.pi * safe) / 2
        return numpy_reduced(loss + full * (target > 1) * stirling, reduction)


@op
class GaussianNllLoss(ElementLoss):
    """Minus the log-likelihood of normal numbers with variance `var`; `full` adds the constant."""

    signature = "input, target, var, reduction='mean', full=False"
    cases = ({}, {"reduction": "sum", "full": True}, {"reduction": "none"})
    operands = ("input", "target", "var")

    def samples(rng, shape):
        return [*ElementLoss.samples(rng, shape), rng.uniform(0.5, 2, shape)]

    def each(input, target, var, full):
        difference = input - target
        return (log(var) + difference * difference / var) * 0.5 + full * 0.5 * math.log(2 * math.pi)

    def reference(input, target, var, reduction="mean", full=False):
        loss = (numpy.log(var) + (input - target) ** 2 / var) / 2 + full * math.log(2 * math.pi) / 2
        return numpy_reduced(loss, reduction)


@op
class MultilabelMargins(Composite):
    """For each row of scores (batch, classes) the margins between the classes of `target` (batch, most; -1: none) and
    all others that are below 1, summed and divided by the number of classes."""

    internal = True
    signature = "input, target"
    operands = ("input", "target")
    shapes = ((3, 5),)
    dtypes = FLOATING
    tolerance = ulps(64)

    def samples(rng, shape):
        return [rng.uniform(-1, 1, shape), rng.integers(-1, shape[1], (shape[0], 2))]

    def compute(input, target):
        x, classes = widen(input), input.shape[1]
        there = unsqueeze(target >= 0, 2)                                       # (batch, most, 1)
        marks = unsqueeze(target, 2) == iota((1, 1, classes), 2, target.dtype)
        scores = gather(x, 1, where(target >= 0, target, 0))
        short = 1.0 - unsqueeze(scores, 2) + unsqueeze(x, 1)                    # (batch, most, classes)
        counted = there & ~some(marks, 1, True) & (short > 0)
        return narrow(sum(where(counted, short, 0.0), (1, 2)) / classes, input.dtype)

    def reference(input, target):
        rows = []
        for row, chosen in zip(input, target):
            chosen = chosen[chosen >= 0]
            others = numpy.delete(row, chosen)
            rows.append(numpy.maximum(1 - row[chosen][:, None] + others, 0).sum() / len(row))
        return numpy.array(rows)
