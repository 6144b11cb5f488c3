"""Losses over classes. The logit of the target class is picked by comparing an index along the classes with
the
target, inside the pass that looks for the largest logit: no gather, and no probabilities in memory.

In the formulas below axis 1 of (batch, classes, ...) holds the classes (axis 0 of a single sample
(classes)), and a row is what belongs to one target.
"""

import math

from flambeau.base.errors import ArgumentError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.create import full, iota
from flambeau.ops.elementwise import cast, maximum, where
from flambeau.ops.kinds import Composite
from flambeau.ops.mathematics import exp, log, log1p
from flambeau.ops.normalize import along, drop, narrow, require_floating, widen
from flambeau.ops.reduce import amax, sum
from flambeau.ops.samples import ulps
from flambeau.ops.wrapped import elements_of
from flambeau.ops.spec import op
from flambeau.ops.view import unsqueeze
from flambeau.runtime._core import Tensor
from flambeau.types.dim import Dim
from flambeau.types.dtype import FLOATING, int32

numpy = LazyModule("numpy")
REDUCTIONS = ("mean", "sum", "none")


def class_axis(x):
    return 0 if x.ndim == 1 else 1


def same_sizes(a, b):
    """True if two shapes may be equal; symbolic sizes are unified where they meet."""
    return len(a) == len(b) and all(isinstance(s, Dim) or isinstance(t, Dim) or s == t for s, t in zip(a, b))


class ClassLoss(Composite):
    """What losses over classes check."""

    internal = True
    looks_at_sizes = True
    shapes = ((5, 7), (2, 33, 3))
    dtypes = FLOATING
    tolerance = ulps(64)
    operands = ("input", "target", "weight")

    def prepare(self, values):
        x, target, weight = (values[n] for n in ("input", "target", "weight"))
        for name in ("input", "target"):
            if not isinstance(values[name], Tensor):
                fail(self.name, f"argument {name!r} must be a Tensor", type(values[name]).__name__,
                     kind=ArgumentError)
        require_floating(self.name, x)
        if x.ndim == 0:
            fail(self.name, "the input has no class axis", tuple(x.shape),
                 "(classes) or (batch, classes, ...)",
                 kind=ShapeError)
        axis = class_axis(x)
        self.check_target(x, target, axis)
        if weight is not None and (weight.ndim != 1 or not same_sizes(weight.shape, (x.shape[axis],))):
            fail(self.name, f"weight must be defined either for all {x.shape[axis]} classes or no classes",
                 tuple(weight.shape), (x.shape[axis],),
                 kind=ShapeError)
        if values["reduction"] not in REDUCTIONS:
            fail(self.name, "unknown reduction", repr(values["reduction"]),
                 " or ".join(map(repr, REDUCTIONS)), kind=ValueError)
        smoothing = values.get("label_smoothing", 0.0)
        if not 0.0 <= smoothing <= 1.0:
            fail(self.name, "label_smoothing must be between 0.0 and 1.0", smoothing)
        return values

    def check_target(self, x, target, axis):
        wanted = tuple(s for a, s in enumerate(x.shape) if a != axis)
        if not same_sizes(tuple(target.shape), wanted):
            fail(self.name, "the target does not fit the input",
                 f"input {tuple(x.shape)}, target {tuple(target.shape)}", f"target {wanted}",
                 hint="input is (batch, classes, ...) and target holds class numbers (batch, ...)",
                 kind=ValueError)
        if target.dtype.kind not in "iu":
            fail(self.name, "the target does not hold class numbers", target.dtype, "an integer dtype",
                 hint="target.long() converts")


# ------------------------------------------------------------------------------ parts of the formulas
class Rows:
    """What the target says of each row: `hit` marks its class, `weight` is its weight (0: ignored)."""

    def __init__(self, x, target, weight, ignore_index):
        axis = class_axis(x)
        self.axis, self.classes = axis, x.shape[axis]
        self.others = tuple(a for a in range(x.ndim) if a != axis)
        target = cast(unsqueeze(target, axis), int32)
        index = iota(tuple(self.classes if a == axis else 1 for a in range(x.ndim)), axis, int32)
        self.hit = index == target
        self.valid = target != ignore_index
        self.inside = (target >= 0) & (target < self.classes)
        chosen = 1.0 if weight is None else sum(where(self.hit, along(weight, x, axis), 0.0), axis, True)
        self.weight = cast(self.valid, x.dtype) * chosen

    def finish(self, rows, reduction, dtype):
        """Reduce the loss of each row; a target that is no class makes NaN."""
        rows = where(self.valid, where(self.inside, rows, math.nan), 0.0)
        return narrow(reduced(rows, self.axis, reduction, sum(self.weight)), dtype)

    def share(self, grad, reduction):
        """The gradient of each row's loss from that of the reduced loss: (batch, 1, ...)."""
        grad = widen(grad)
        if reduction == "none":
            grad = unsqueeze(grad, self.axis)
        elif reduction == "mean":
            grad = grad / sum(self.weight)
        return where(self.valid, grad, 0.0)


def gradient_of_weight(rows, of_row, missing, loss, reduction, label_smoothing=0.0):
    """The gradient of the class weights; `missing` is minus each log-probability, `loss` the op's result."""
    each = where(rows.hit, missing, 0.0)
    if label_smoothing:
        each = each * (1.0 - label_smoothing) + missing * label_smoothing / rows.classes
    if reduction == "mean":
        each = each - where(rows.hit, widen(loss), 0.0)
    return sum(each * of_row, rows.others) if rows.others else each * of_row


def reduced(rows, axis, reduction, count):
    if reduction == "none":
        return drop(rows, (axis,), False)
    return sum(rows) / count if reduction == "mean" else sum(rows)


def log_sum_exp(x, axis):
    top = amax(x, axis, True)
    return log(sum(exp(x - top), axis, True)) + top


def class_weights(weight, x, axis):
    """(the weight along the classes or 1, their sum)."""
    if weight is None:
        return 1.0, x.shape[axis]
    return along(weight, x, axis), sum(widen(weight))


# ------------------------------------------------------------------------------ ops
def class_samples(rng, shape):
    """(batch, classes) logits with targets and weights; a single sample for one axis."""
    logits = rng.uniform(-3, 3, shape)
    axis = 0 if logits.ndim == 1 else 1
    rest = [s for a, s in enumerate(shape) if a != axis]
    return [logits, rng.integers(0, shape[axis], rest), rng.uniform(0.5, 1, shape[axis])]


@op
class CrossEntropyLoss(ClassLoss):
    """(loss, log of the sum of exp of the logits) for targets that are class numbers; see `cross_entropy`."""

    signature = "input, target, weight=None, ignore_index=-100, reduction='mean', label_smoothing=0.0"
    outputs = ("loss", "log_sum")
    samples = class_samples
    cases = ({}, {"reduction": "sum", "weight": None}, {"reduction": "none", "label_smoothing": 0.1})

    def compute(input, target, weight, ignore_index, reduction, label_smoothing):
        x = widen(input)
        rows = Rows(x, target, weight, ignore_index)
        log_sum = log_sum_exp(x, rows.axis)
        picked = sum(where(rows.hit, x, 0.0), rows.axis, True)
        loss = rows.weight * (log_sum - picked)
        if label_smoothing:
            each, total = class_weights(weight, x, rows.axis)
            spread_out = log_sum * total - sum(x * each, rows.axis, True)
            loss = loss * (1.0 - label_smoothing) + spread_out * label_smoothing / rows.classes
        return rows.finish(loss, reduction, input.dtype), log_sum

    def reference(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        axis = 0 if input.ndim == 1 else 1
        return numpy_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing, axis)

    def derivative(grad, out, x, target, weight, *, ignore_index, reduction, label_smoothing):
        wide = widen(x)
        rows = Rows(wide, target, weight, ignore_index)
        of_row = rows.share(grad[0], reduction)
        of_target = of_row * rows.weight * (1.0 - label_smoothing)
        of_weight = None
        if weight is not None:
            of_weight = gradient_of_weight(rows, of_row, out[1] - wide, out[0], reduction, label_smoothing)
        if not label_smoothing:
            result = exp(wide - out[1]) * (of_target + grad[1])
            return result - where(rows.hit, of_target, 0.0), None, of_weight
        each, total = class_weights(weight, wide, rows.axis)
        of_class = of_row * label_smoothing / rows.classes
        result = exp(wide - out[1]) * (of_target + of_class * total + grad[1])
        return result - where(rows.hit, of_target, 0.0) - of_class * each, None, of_weight


def numpy_cross_entropy(x, target, weight, ignore_index, reduction, label_smoothing, axis):
    """(loss, log_sum) in NumPy."""
    top = x.max(axis=axis, keepdims=True)
    log_sum = numpy.log(numpy.exp(x - top).sum(axis=axis, keepdims=True)) + top
    valid = target != ignore_index
    safe = numpy.where(valid, target, 0)
    weight = numpy.ones(x.shape[axis]) if weight is None else weight
    each = weight.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    missing = log_sum - x
    picked = numpy.take_along_axis(missing, numpy.expand_dims(safe, axis), axis).squeeze(axis)
    rows = (1 - label_smoothing) * weight[safe] * picked
    rows = numpy.where(valid, rows + label_smoothing / x.shape[axis] * (missing * each).sum(axis=axis), 0.0)
    if reduction == "none":
        return rows, log_sum
    return (rows.sum() / (weight[safe] * valid).sum() if reduction == "mean" else rows.sum()), log_sum


@op
class CrossEntropyOfProbabilities(ClassLoss):
    """Cross entropy for targets that are probabilities in the shape of the input; see `cross_entropy`."""

    signature = "input, target, weight=None, reduction='mean', label_smoothing=0.0"
    cases = ({}, {"reduction": "sum", "weight": None}, {"reduction": "none", "label_smoothing": 0.1})

    def samples(rng, shape):
        logits, _, weight = class_samples(rng, shape)
        return [logits, rng.uniform(0, 1, shape), weight]

    def reference(input, target, scale=1.0, weight=None, reduction="mean", label_smoothing=0.0):
        axis = 0 if input.ndim == 1 else 1
        along_classes = [-1 if a == axis else 1 for a in range(input.ndim)]
        each = scale if numpy.ndim(scale) == 0 else scale.reshape(along_classes)
        share = (target * (1 - label_smoothing) + label_smoothing / input.shape[axis]) * each
        rows = (share * (numpy.log(numpy.exp(input).sum(axis=axis, keepdims=True)) - input)).sum(axis=axis)
        return rows if reduction == "none" else rows.mean() if reduction == "mean" else rows.sum()

    def check_target(self, x, target, axis):
        if not same_sizes(tuple(target.shape), tuple(x.shape)) or target.dtype.kind != "f":
            fail(self.name, "the target does not fit the input", f"{target.dtype} {tuple(target.shape)}",
                 f"floating point {tuple(x.shape)}", kind=ValueError)

    def compute(input, target, weight, reduction, label_smoothing):
        x, share = widen(input), widen(target)
        axis = class_axis(x)
        if label_smoothing:
            share = share * (1.0 - label_smoothing) + full((), label_smoothing, x.dtype) / x.shape[axis]
        if weight is not None:
            share = share * along(weight, x, axis)
        rows = sum(share * (log_sum_exp(x, axis) - x), axis, True)
        count = 1
        for a, s in enumerate(x.shape):
            count = count if a == axis else count * s
        return narrow(reduced(rows, axis, reduction, count), input.dtype)


@op
class NllLoss(ClassLoss):
    """Minus the log-probability of the target: (batch, classes, ...), (batch, ...) -> () or (batch, ...).

    weight: weight of each class (classes). ignore_index: a target that counts nothing. reduction: 'mean'
        divides by
    the sum of the weights of the targets; 'sum'; 'none'.
    """

    signature = "input, target, weight=None, ignore_index=-100, reduction='mean'"
    samples = class_samples
    cases = ({}, {"reduction": "none", "weight": None})

    def compute(input, target, weight, ignore_index, reduction):
        x = widen(input)
        rows = Rows(x, target, weight, ignore_index)
        picked = sum(where(rows.hit, x, 0.0), rows.axis, True)
        return rows.finish(-picked * rows.weight, reduction, input.dtype)

    def reference(input, target, weight=None, ignore_index=-100, reduction="mean"):
        axis = 0 if input.ndim == 1 else 1
        valid = target != ignore_index
        safe = numpy.where(valid, target, 0)
        each = valid * (1.0 if weight is None else weight[safe])
        rows = -each * numpy.take_along_axis(input, numpy.expand_dims(safe, axis), axis).squeeze(axis)
        return rows if reduction == "none" else rows.sum() / (each.sum() if reduction == "mean" else 1)

    def derivative(grad, out, x, target, weight, *, ignore_index, reduction):
        wide = widen(x)
        rows = Rows(wide, target, weight, ignore_index)
        of_row = rows.share(grad, reduction)
        of_weight = None if weight is None else gradient_of_weight(rows, of_row, -wide, out, reduction)
        return where(rows.hit, -(of_row * rows.weight), 0.0), None, of_weight


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Minus the log of the softmax of `input` at the target, weighted and reduced.

    Args:
        input: logits (batch, classes, ...) or (classes).
        target: class numbers (batch, ...), or probabilities in the shape of `input`.
        weight: weight of each class (classes).
        ignore_index: a target that counts nothing.
        reduction: 'mean' divides by the sum of the targets' weights (probabilities: by their number), 'sum',
            'none'.
        label_smoothing: share of the target, 0 to 1, spread evenly over all classes.

    Raises IndexError for a target that is no class.
    """
    if isinstance(target, Tensor) and target.dtype.kind == "f":
        if ignore_index >= 0:
            fail("cross_entropy", "ignore_index is not supported for floating point target", ignore_index)
        return cross_entropy_of_probabilities(input, target, weight, reduction,     # noqa: F821
                                              label_smoothing)
    loss = cross_entropy_loss(input, target, weight, ignore_index, reduction,       # noqa: F821
                              label_smoothing)[0]
    return checked_loss("cross_entropy", loss, input, target, ignore_index)


def checked_loss(name, loss, input, target, ignore_index):
    """The loss of class numbers, which is NaN where a target is none; then the eager call is refused."""
    if not getattr(type(loss), "is_traced", False) and not loss.is_shape_only:
        values = elements_of(loss)
        if values.ndim == 0:
            value = values.item()
            wrong = value != value
        else:
            wrong = numpy.isnan(widen(values.detach()).numpy()).any()
        if wrong:
            check_classes(name, input, target, ignore_index)
    return loss


def check_classes(name, input, target, ignore_index):
    """Raise IndexError if some target is neither a class nor the ignored one."""
    classes = input.shape[class_axis(input)]
    if target.numel() == 0:
        return
    numbers = elements_of(target).detach().numpy()
    wrong = (numbers != ignore_index) & ((numbers < 0) | (numbers >= classes))
    if wrong.any():
        place = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        fail(name, "a target is out of bounds",
             f"{numbers[place]} at position {place[0] if len(place) == 1 else place}",
             f"0 to {classes - 1}, or {ignore_index} to ignore", kind=IndexError)


# ------------------------------------------------------------------------------ probabilities
@op
class BinaryEntropy(Composite):
    """Cross entropy of each probability and its target in 0..1; logarithms are at least -100."""

    internal = True
    signature = "probability, target"
    operands = ("probability", "target")
    dtypes = FLOATING
    tolerance = ulps(64)

    def samples(rng, shape):
        return [rng.uniform(0.05, 0.95, shape), rng.uniform(0, 1, shape)]

    def compute(probability, target):
        x, t = widen(probability), widen(target)
        loss = (t - 1.0) * maximum(log1p(-x), -100.0) - t * maximum(log(x), -100.0)
        return narrow(loss, probability.dtype)

    def reference(probability, target):
        with numpy.errstate(divide="ignore"):
            missing, hit = (numpy.maximum(numpy.log(p), -100) for p in (1 - probability, probability))
        return (target - 1) * missing - target * hit

    def derivative(grad, x, t):
        wide = widen(x)
        of_target = maximum(log1p(-wide), -100.0) - maximum(log(wide), -100.0)
        return grad * ((wide - widen(t)) / maximum((1.0 - wide) * wide, 1e-12)), grad * of_target
