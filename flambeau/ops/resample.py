"""Sums of a few neighbours along one axis: resampling and means of windows; several axes one by one."""

from flambeau.base.lazy import LazyModule
from flambeau.ops.kinds import Window
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.types.dtype import FLOATING

numpy = LazyModule("numpy")

FORMULA = "mode, numbers=(), align_corners=False, include_pad=True"


class AlongAxis(Window):
    """What resampling an axis and its gradient share. mode: see compiler.band.Band; numbers: (factor,), ()
    where the sizes decide, or (window, stride, padding)."""

    internal = True
    dtypes = FLOATING
    tolerance = ulps(64)


def lower(planner, x, out, axis, transposed, mode, numbers, align_corners, include_pad):
    band = planner.templates.Band(mode, x.dtype, align_corners, len(numbers) == 1, include_pad)
    names = ("factor",) if len(numbers) == 1 else ("window", "stride", "padding")
    planner.templates.band(planner, band, planner.dense(x), out, axis, dict(zip(names, numbers)), transposed)


@op
class ResampleAxis(AlongAxis):
    """An axis of `count` elements in place of one, each a weighted sum of neighbours."""

    signature = f"input, axis, count, {FORMULA}"
    operands = ("input",)
    cases = [{"axis": 1, "count": 5, "mode": "linear"}, {"axis": 2, "count": 4, "mode": "even"}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 3, 7))]

    def infer_shape(x, *, axis, count, **formula):
        return (*x[:axis], count, *x[axis + 1:])

    def lower(planner, inputs, outputs, *, axis, count, **formula):
        lower(planner, inputs[0], outputs[0], axis, False, **formula)

    def derivative(grad, x, *, axis, count, mode, numbers, align_corners, include_pad):
        formula = mode, numbers, align_corners, include_pad
        return resample_axis_gradient(grad, axis, x.shape[axis], *formula)              # noqa: F821

    def reference(input, axis, count, mode, **formula):
        size, result = input.shape[axis], []
        for i in range(count):
            if mode == "even":
                window = range(i * size // count, -(-(i + 1) * size // count))
                result.append(numpy.take(input, window, axis).mean(axis))
            else:
                place = max((i + 0.5) * size / count - 0.5, 0)
                low, high = int(place), min(int(place) + 1, size - 1)
                share = place - low
                low, high = (numpy.take(input, at, axis) for at in (low, high))
                result.append(low * (1 - share) + high * share)
        return numpy.stack(result, axis)


@op
class ResampleAxisGradient(AlongAxis):
    """The gradient of the input, of `size` along the axis, of `resample_axis`."""

    signature = f"grad, axis, size, {FORMULA}"
    operands = ("grad",)

    def infer_shape(grad, *, axis, size, **formula):
        return (*grad[:axis], size, *grad[axis + 1:])

    def lower(planner, inputs, outputs, *, axis, size, **formula):
        lower(planner, inputs[0], outputs[0], axis, True, **formula)

    def derivative(g, grad, *, axis, size, mode, numbers, align_corners, include_pad):
        formula = mode, numbers, align_corners, include_pad
        return resample_axis(g, axis, grad.shape[axis], *formula)                       # noqa: F821
