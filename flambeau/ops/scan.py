"""Scans: running sums, products and extremes along an axis, and the linear recurrence behind their gradients.

The derivative of a scan is a scan the other way. That of a running product is y = x + factor * (the y
before), so no element is divided by another and zeros need no case of their own; a recurrence's own
derivatives are recurrences again, so gradients of every order are exact.
"""

import math

from flambeau.base.errors import ArgumentError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import EVERY, NUMBERS, cast, where
from flambeau.ops.index import gather_sum
from flambeau.ops.kinds import Template
from flambeau.ops.mathematics import exp
from flambeau.ops.normalize import require_floating, widen
from flambeau.ops.reduce import highest, lowest
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import INPLACE, op
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import FLOATING, category, int64
from flambeau.types.shape import normalize_axis

numpy = LazyModule("numpy")


class Scan(Template):
    """Takes `dim`; each element of the result depends on the elements before it."""

    kind = "scan"
    looks_at_sizes = False
    signature = "input, dim"
    dtypes = NUMBERS
    samples = unary_samples()
    tolerance = ulps(64)
    cases = ({"dim": -1}, {"dim": 0})
    floating = False

    def prepare(self, values):
        x = values["input"]
        if not isinstance(x, Tensor):
            fail(self.name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        if self.floating:
            require_floating(self.name, x)
        return values | {"dim": normalize_axis(values["dim"], x.ndim, self.name)}

    def infer_shape(x, *others, **attributes):
        return x


# ------------------------------------------------------------------------------ running sum and product
class Fold(Scan):
    """A running sum or product; bools and integers run in int64, `dtype` is that of the result."""

    signature = "input, dim, *, dtype=None"

    def infer_dtype(x, *, dim, dtype):
        return dtype or (int64 if category(x) < 2 else x)


def _lower_fold(combine, reverse=False):
    def lower(planner, inputs, outputs, *, dim, dtype):
        scans = planner.templates.scan
        scan = scans.fold_scan(combine, inputs[0].dtype, outputs[0].dtype)
        scans.launch_scan(planner, scan, inputs, outputs, dim, reverse)
    return lower


@op
class Cumsum(Fold):
    """The sum of the elements up to each one along `dim`."""

    lower = _lower_fold("add")

    def reference(input, dim, dtype=None):
        return numpy.cumsum(input, axis=dim)

    def derivative(grad, *, dim):
        return suffix_sum(grad, dim)            # noqa: F821


@op
class SuffixSum(Fold):
    """The sum of the elements from each one on along `dim`."""

    internal = True
    lower = _lower_fold("add", reverse=True)

    def reference(input, dim, dtype=None):
        return numpy.flip(numpy.cumsum(numpy.flip(input, dim), axis=dim), dim)

    def derivative(grad, *, dim):
        return cumsum(grad, dim)                # noqa: F821


@op
class Cumprod(Fold):
    """The product of the elements up to each one along `dim`."""

    lower = _lower_fold("mul")

    def reference(input, dim, dtype=None):
        return numpy.cumprod(input, axis=dim)

    def derivative(grad, out, x, *, dim):
        x = cast(x, out.dtype)
        return recurrence(grad, x, dim, True, True) * delay(out, dim, False, 1)     # noqa: F821


@op
class Logcumsumexp(Scan):
    """log(sum(exp(elements up to each one))) along `dim`, without overflow."""

    dtypes, floating = FLOATING, True

    def lower(planner, inputs, outputs, *, dim):
        scans = planner.templates.scan
        scans.launch_scan(planner, scans.log_sum_scan(inputs[0].dtype), inputs, outputs, dim)

    def reference(input, dim):
        return numpy.logaddexp.accumulate(input, axis=dim)

    def derivative(grad, out, x, *, dim):
        wide = widen(x)
        total = out if wide is x else logcumsumexp(wide, dim)   # noqa: F821 - half has lost the differences
        following = delay(total, dim, True, math.inf)       # noqa: F821
        ratio = where(total == -math.inf, 0.0, exp(total - following))
        share = where(total == -math.inf, 0.0, exp(wide - total))
        return recurrence(widen(grad), ratio, dim, True, False) * share             # noqa: F821


# ------------------------------------------------------------------------------ running extremes
class RunningExtreme(Scan):
    """(values, indices): the extreme of the elements up to each one, and the last place where it stands."""

    dtypes = EVERY
    tolerance = ulps(0)
    outputs = ("values", "indices")

    def infer_shape(x, *, dim):
        return x, x

    def infer_dtype(x, *, dim):
        return x, int64

    def derivative(grads, out, x, *, dim):
        return gather_sum(grads[0], dim, out[1], x.shape[dim]) if x.ndim else grads[0]


def _lower_extreme(compare, start):
    def lower(planner, inputs, outputs, *, dim):
        scans = planner.templates.scan
        dtype = inputs[0].dtype
        scans.launch_scan(planner, scans.extreme_scan(compare, dtype, start(dtype)), inputs, outputs, dim)
    return lower


def _places(input, dim, better):
    """NumPy's answer for the indices of a running extreme."""
    places = numpy.empty(input.shape, "int64")
    lines, targets = numpy.moveaxis(input, dim, 0), numpy.moveaxis(places, dim, 0)
    best, place = lines[0] if len(lines) else None, numpy.zeros(lines.shape[1:], "int64")
    for position, line in enumerate(lines):
        take = better(line, best) | (line != line)
        best, place = numpy.where(take, line, best), numpy.where(take, position, place)
        targets[position] = place
    return places


@op
class Cummax(RunningExtreme):
    """(values, indices) of the largest element up to each one along `dim`; NaN counts as largest."""

    lower = _lower_extreme("ge", lowest)

    def reference(input, dim):
        return numpy.maximum.accumulate(input, axis=dim), _places(input, dim, numpy.greater_equal)


@op
class Cummin(RunningExtreme):
    """(values, indices) of the smallest element up to each one along `dim`; NaN counts as smallest."""

    lower = _lower_extreme("le", highest)

    def reference(input, dim):
        return numpy.minimum.accumulate(input, axis=dim), _places(input, dim, numpy.less_equal)


# ------------------------------------------------------------------------------ what derivatives are made of
@op
class Recurrence(Scan):
    """result = input + factor * (the result before) along `dim`, from the end with `reverse`.

    The factor is that of the element itself or, with `late`, of the element whose result it multiplies.
    """

    internal = True
    signature = "input, factor, dim, reverse=False, late=False"
    operands = ("input", "factor")
    dtypes = FLOATING
    cases = tuple({"dim": 0, "reverse": r, "late": late} for r in (False, True) for late in (False, True))

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), rng.uniform(-1, 1, shape)]

    def lower(planner, inputs, outputs, *, dim, reverse, late):
        scans = planner.templates.scan
        scans.launch_scan(planner, scans.linear_scan(outputs[0].dtype, late), inputs, outputs, dim, reverse)

    def reference(input, factor, dim, reverse=False, late=False):
        out = numpy.zeros_like(input)
        lines, factors, targets = (numpy.moveaxis(a, dim, 0) for a in (input, factor, out))
        before, at = 0, numpy.arange(len(lines))
        for number, position in enumerate(at[::-1] if reverse else at):
            source = position if not late else position + 1 if reverse else position - 1
            before = lines[position] + (factors[source] * before if number else 0)
            targets[position] = before
        return out

    def derivative(grad, out, x, factor, *, dim, reverse, late):
        slope = recurrence(grad, factor, dim, not reverse, not late)            # noqa: F821
        if late:
            return slope, delay(slope, dim, not reverse, 0) * out               # noqa: F821
        return slope, slope * delay(out, dim, reverse, 0)                       # noqa: F821


@op
class Delay(Scan):
    """The element before each one along `dim`, from the end with `reverse`; the first becomes `start`."""

    internal = True
    signature = "input, dim, reverse, start"
    tolerance = ulps(0)
    cases = ({"dim": 0, "reverse": False, "start": 0}, {"dim": -1, "reverse": True, "start": 1})

    def lower(planner, inputs, outputs, *, dim, reverse, start):
        scans = planner.templates.scan
        dtype = inputs[0].dtype
        number = float(start) if dtype.kind == "f" else int(start)
        scans.launch_scan(planner, scans.delay_scan(dtype, number), inputs, outputs, dim, reverse)

    def reference(input, dim, reverse, start):
        out = numpy.full_like(input, start)
        lines, targets = numpy.moveaxis(input, dim, 0), numpy.moveaxis(out, dim, 0)
        if reverse:
            targets[:-1] = lines[1:]
        else:
            targets[1:] = lines[:-1]
        return out

    def derivative(grad, *, dim, reverse):
        return delay(grad, dim, not reverse, 0)     # noqa: F821


for _name in ("cumsum", "cumprod"):
    INPLACE[_name + "_"] = globals()[_name]
