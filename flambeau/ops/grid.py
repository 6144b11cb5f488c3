"""Sampling of images at places, and its gradients; see `nn.functional.grid_sample`."""

import itertools
import math

from flambeau.base.lazy import LazyModule
from flambeau.ops.create import full
from flambeau.ops.elementwise import cast, maximum, minimum, where
from flambeau.ops.index import gather, gather_sum
from flambeau.ops.join import stack
from flambeau.ops.kinds import Window
from flambeau.ops.reduce import sum
from flambeau.ops.rounding import floor
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.ops.view import expand, flatten, reshape, unsqueeze
from flambeau.types.dtype import float32, float64, int64

numpy = LazyModule("numpy")
FORMULA = "mode, padding_mode, align_corners"


class OnGrid(Window):
    """What sampling and its gradients share: input (n, c, *sizes), grid (n, points, rank), result (n, c, points)."""

    internal = True
    dtypes = (float32, float64)
    tolerance = ulps(256)


@op
class GridSample(OnGrid):
    """The values of images at the places of a grid, -1 to 1 across them, the last axis first."""

    signature = f"input, grid, {FORMULA}"
    operands = ("input", "grid")
    cases = [{"mode": "bilinear", "padding_mode": "border", "align_corners": True},
             {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 3, 4, 5)), rng.uniform(-0.9, 0.9, (2, 7, 2))]

    def infer_shape(x, grid, **formula):
        return (*x[:2], grid[1])

    def lower(planner, inputs, outputs, **formula):
        planner.templates.grid.launch(planner, "values", inputs, outputs[0], inputs[0].shape, **formula)

    def derivative(grad, x, grid, *, mode, padding_mode, align_corners):
        formula = mode, padding_mode, align_corners
        of_image = grid_sample_image_gradient(grad, grid, tuple(x.shape), *formula)         # noqa: F821
        return of_image, gradient_of_places(grad, x, grid, *formula)

    def reference(input, grid, mode, padding_mode, align_corners):
        n, _, *sizes = input.shape
        result = numpy.zeros((*input.shape[:2], grid.shape[1]), input.dtype)
        for image, point in itertools.product(range(n), range(grid.shape[1])):
            places = [(grid[image, point, -1 - a] + 1) * (s - 1) / 2 if align_corners else
                      ((grid[image, point, -1 - a] + 1) * s - 1) / 2 for a, s in enumerate(sizes)]
            if padding_mode == "border":
                places = [min(max(p, 0), s - 1) for p, s in zip(places, sizes)]
            for corner in itertools.product((0, 1), repeat=len(sizes)):
                index = [math.floor(p) + c for p, c in zip(places, corner)]
                if all(0 <= i < s for i, s in zip(index, sizes)):
                    weight = math.prod(1 - abs(p - i) for p, i in zip(places, index))
                    result[image, :, point] += weight * input[(image, slice(None), *index)]
        return result


@op
class GridSampleImageGradient(OnGrid):
    """The gradient of the images, of shape `size`."""

    signature = f"grad, grid, size, {FORMULA}"
    operands = ("grad", "grid")

    def infer_shape(grad, grid, *, size, **formula):
        return tuple(size)

    def lower(planner, inputs, outputs, *, size, **formula):
        planner.templates.grid.launch(planner, "image", inputs, outputs[0], outputs[0].shape, **formula)

    def derivative(g, grad, grid, *, size, mode, padding_mode, align_corners):
        formula = mode, padding_mode, align_corners
        return grid_sample(g, grid, *formula), gradient_of_places(grad, g, grid, *formula)      # noqa: F821


@op
class GridSamplePlacesGradient(OnGrid):
    """The gradient of the grid."""

    signature = f"grad, input, grid, {FORMULA}"
    operands = ("grad", "input", "grid")

    def infer_shape(grad, x, grid, **formula):
        return grid

    def lower(planner, inputs, outputs, *, mode, **formula):
        planner.templates.grid.launch(planner, "places", inputs, outputs[0], inputs[1].shape, mode, **formula)

    def derivative(g, grad, x, grid, *, mode, padding_mode, align_corners):
        rank, sizes = x.ndim - 2, tuple(x.shape[2:])
        axes = [axis_taps(grid[..., rank - 1 - a], s, mode, padding_mode, align_corners) for a, s in enumerate(sizes)]
        slopes = [slope for _, slope in axes]
        moves = [g[..., rank - 1 - a] * slopes[a] for a in range(rank)]
        flat, count = flatten(x, 2), math.prod(sizes)
        of_grad = of_flat = 0.0
        of_places = [0.0] * rank
        for corner in itertools.product(*(taps for taps, _ in axes)):
            index, inside = corner_places(corner, sizes)
            index = expand(unsqueeze(index, 1), (*flat.shape[:2], index.shape[1]))
            value = where(unsqueeze(inside, 1), gather(flat, 2, index), 0.0)
            share = 0.0
            for a in range(rank):
                share = share + moves[a] * changed(corner, (a,))
            share = where(unsqueeze(inside, 1), unsqueeze(share, 1), 0.0)
            of_grad = of_grad + value * share
            of_flat = of_flat + gather_sum(grad * share, 2, index, count)
            dot = sum(grad * value, 1)
            for k, a in itertools.product(range(rank), repeat=2):
                of_places[k] = of_places[k] + dot * moves[a] * changed(corner, (a, k))
        of_grid = stack([of_places[a] * slopes[a] for a in reversed(range(rank))], -1)
        return of_grad, reshape(of_flat, tuple(x.shape)), of_grid


def gradient_of_places(grad, x, grid, mode, padding_mode, align_corners):
    if mode == "nearest":
        return full(tuple(grid.shape), 0.0, grid.dtype)
    return grid_sample_places_gradient(grad, x, grid, mode, padding_mode, align_corners)    # noqa: F821


# ------------------------------------------------------------------------------ formulas of the second derivative
def changed(corner, axes):
    """The derivative of a corner's weight by the places along `axes`."""
    product = 1.0
    for axis, (_, *weights) in enumerate(corner):
        product = product * weights[axes.count(axis)]
    return product


def corner_places(corner, sizes):
    """(the place in a plane, whether it is inside) of a tap of each axis."""
    index, inside = None, None
    for (place, *_), size in zip(corner, sizes):
        valid = (place >= 0) & (place <= size - 1)
        number = cast(where(valid, place, 0.0), int64)
        index = number if index is None else index * size + number
        inside = valid if inside is None else inside & valid
    return index, inside


def axis_taps(x, size, mode, padding_mode, align_corners):
    """([(place, weight, its first and second derivative)], slope of the place) of places -1 to 1; bilinear or
    bicubic."""
    slope = full((), 0.5, x.dtype) * (size - 1 if align_corners else size)
    place = (x + 1) * slope if align_corners else ((x + 1) * size - 1) * 0.5
    if mode == "bilinear":
        place, sign = bordered(place, size, padding_mode, align_corners)
        first = floor(place)
        share = place - first
        return [(first, 1.0 - share, -1.0, 0.0), (first + 1, share, 1.0, 0.0)], slope * sign
    first = floor(place)
    return [(bordered(first + tap, size, padding_mode, align_corners)[0], *weights)
            for tap, weights in zip((-1, 0, 1, 2), cubic_weights(place - first))], slope


def bordered(place, size, padding_mode, align_corners):
    """(places moved into the image, unless zeros are outside; by what that multiplies their slope)."""
    if padding_mode == "zeros":
        return place, 1.0
    sign = 1.0
    if padding_mode == "reflection":
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if isinstance(span, int) and span <= 0:
            return place * 0.0, 0.0
        away = abs(place - low)
        turns = floor(away / span)
        rest = away - turns * span
        odd = turns - floor(turns * 0.5) * 2 != 0
        sign = where(odd, -1.0, 1.0) * where(place < low, -1.0, 1.0)
        place = where(odd, span - rest + low, rest + low)
    sign = where((place <= 0) | (place >= size - 1), 0.0, 1.0) * sign
    return minimum(maximum(place, 0.0), size - 1), sign


def cubic_weights(t):
    """The weights of the four taps around a place at share t between the middle two, with two derivatives."""
    a = -0.75

    def near(d, sign):
        value = ((a + 2) * d - (a + 3)) * d * d + 1
        return value, sign * (3 * (a + 2) * d - 2 * (a + 3)) * d, 6 * (a + 2) * d - 2 * (a + 3)

    def far(d, sign):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, sign * ((3 * a * d - 10 * a) * d + 8 * a), 6 * a * d - 10 * a
    return far(t + 1, 1.0), near(t, 1.0), near(1 - t, -1.0), far(2 - t, -1.0)
