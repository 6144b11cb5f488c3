"""Images in another size or order: resampling axis by axis, sampling on a grid, channels as pixels and
back."""

import itertools
import math

from flambeau.base.errors import ShapeError, fail
from flambeau.ops.create import iota
from flambeau.ops.elementwise import cast, maximum, minimum, where
from flambeau.ops.index import gather, index_select
from flambeau.ops.kinds import Window
from flambeau.ops.normalize import narrow as in_dtype, widen
from flambeau.ops.resample import resample_axis
from flambeau.ops.rounding import floor, round
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op, public
from flambeau.ops.view import expand, flatten, permute, reshape, unsqueeze
from flambeau.types.dtype import ALL, float32, int64
from flambeau.types.shape import numel, show_shape


# ------------------------------------------------------------------------------ channels and pixels
class PixelsAsRows(Window):
    """What `pixel_rows` and its inverse share."""

    internal = True
    dtypes = tuple(d for d in ALL if d.kind != "c")
    tolerance = ulps(0)


@op
class PixelRows(PixelsAsRows):
    """(planes, factor * factor, h, w) -> (planes, h * factor, w * factor)."""

    signature = "input, factor"
    operands = ("input",)
    cases = [{"factor": 2}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 4, 3, 5))]

    def infer_shape(x, *, factor):
        return x[0], x[2] * factor, x[3] * factor

    def lower(planner, inputs, outputs, *, factor):
        x = planner.dense(inputs[0])
        sizes = dict(zip(("planes", "H", "W"), (x.shape[0], x.shape[2], x.shape[3])))
        planner.launch_template(planner.templates.pixel_rows(x.dtype, factor), [x, outputs[0]], sizes,
                                numel(x.shape))

    def derivative(grad, x, *, factor):
        return pixel_rows_back(grad, factor)                                            # noqa: F821

    def reference(input, factor):
        planes, _, h, w = input.shape
        input = input.reshape(planes, factor, factor, h, w)
        return input.transpose(0, 3, 1, 4, 2).reshape(planes, h * factor, w * factor)


@op
class PixelRowsBack(PixelsAsRows):
    """The inverse of `pixel_rows`."""

    signature = "input, factor"
    operands = ("input",)
    cases = [{"factor": 2}, {"factor": 3}]

    def samples(rng, shape):
        return [rng.uniform(-1, 1, (2, 6, 12))]

    def infer_shape(x, *, factor):
        return x[0], factor * factor, x[1] // factor, x[2] // factor

    def lower(planner, inputs, outputs, *, factor):
        x, out = planner.dense(inputs[0]), outputs[0]
        sizes = dict(zip(("planes", "H", "W"), (out.shape[0], out.shape[2], out.shape[3])))
        planner.launch_template(planner.templates.pixel_rows(x.dtype, factor, back=True), [x, out], sizes,
                                numel(x.shape))

    def derivative(grad, x, *, factor):
        return pixel_rows(grad, factor)                                                 # noqa: F821

    def reference(input, factor):
        planes, height, width = input.shape
        input = input.reshape(planes, height // factor, factor, width // factor, factor)
        shape = planes, factor * factor, height // factor, width // factor
        return input.transpose(0, 2, 4, 1, 3).reshape(shape)


@public(method=False)
def pixel_shuffle(input, upscale_factor):
    """(..., c * r * r, h, w) -> (..., c, h * r, w * r)."""
    r = upscale_factor
    lead, (c, h, w) = image_sizes("pixel_shuffle", input, r)
    if c % (r * r):
        fail("pixel_shuffle", "pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
                              "square of "
             "upscale_factor", c, f"a multiple of {r * r}", kind=RuntimeError)
    if input.dtype.kind == "c":
        x = permute(reshape(input, (math.prod(lead) * (c // (r * r)), r, r, h, w)), (0, 3, 1, 4, 2))
        return reshape(x, (*lead, c // (r * r), h * r, w * r))
    x = reshape(input, (math.prod(lead) * (c // (r * r)), r * r, h, w))
    return reshape(pixel_rows(x, r), (*lead, c // (r * r), h * r, w * r))               # noqa: F821


@public(method=False)
def pixel_unshuffle(input, downscale_factor):
    """(..., c, h * r, w * r) -> (..., c * r * r, h, w)."""
    r = downscale_factor
    lead, (c, h, w) = image_sizes("pixel_unshuffle", input, r)
    if h % r or w % r:
        fail("pixel_unshuffle",
             "pixel_unshuffle expects height and width to be divisible by downscale_factor",
             (h, w), f"multiples of {r}", kind=RuntimeError)
    if input.dtype.kind == "c":
        x = permute(reshape(input, (math.prod(lead) * c, h // r, r, w // r, r)), (0, 2, 4, 1, 3))
        return reshape(x, (*lead, c * r * r, h // r, w // r))
    x = reshape(input, (math.prod(lead) * c, h, w))
    return reshape(pixel_rows_back(x, r), (*lead, c * r * r, h // r, w // r))           # noqa: F821


def image_sizes(name, input, factor):
    """(the leading sizes, (channels, height, width))."""
    if input.ndim < 3:
        fail(name, f"{name} expects input to have at least 3 dimensions", show_shape(input.shape),
             kind=RuntimeError)
    if factor <= 0:
        fail(name, f"{name} expects a positive factor", factor, kind=RuntimeError)
    return tuple(input.shape[:-3]), tuple(input.shape[-3:])


@public(method=False, aliases=("native_channel_shuffle",))
def channel_shuffle(input, groups):
    """(n, groups * c, ...) with the channels of the groups interleaved."""
    if input.ndim < 3:
        fail("channel_shuffle", "channel_shuffle expects input with > 2 dims", show_shape(input.shape),
             kind=RuntimeError)
    n, c = input.shape[:2]
    if groups < 1 or c % groups:
        fail("channel_shuffle", "Number of groups must divide the number of channels",
             f"{groups} groups of {c}",
             kind=RuntimeError)
    rest = tuple(input.shape[2:])
    x = reshape(input, (n, groups, c // groups, *rest))
    return reshape(permute(x, (0, 2, 1, *range(3, x.ndim))), (n, c, *rest))


# ------------------------------------------------------------------------------ resampling
def resample_nearest(x, axis, count, factor, exact):
    """Each element of the result is the one of the input that covers its left end (`exact`: its middle), in
    any dtype."""
    size = x.shape[axis]
    place = iota((count,), 0, float32)
    place = (place + 0.5 if exact else place) * (1.0 / factor if factor else size / count)
    return index_select(x, axis, minimum(cast(floor(place), int64), size - 1))


def cubic_weights(t):
    """The weights of the four taps around a place at share t between the middle two."""
    a = -0.75

    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def resample(input, sizes, factors, mode, align_corners):
    """The last axes in other sizes, the last one first; `factors` are what the caller gave, or None where
    sizes decide."""
    lead, out = input.ndim - len(sizes), input
    if input.dtype.kind != "f":
        for i, (count, factor) in enumerate(zip(sizes, factors)):
            out = resample_nearest(out, lead + i, count, factor, mode == "nearest-exact")
        return out
    kind = mode if mode.startswith("nearest") else "cubic" if mode == "bicubic" else "linear"
    out = widen(input)
    for i in reversed(range(len(sizes))):
        if kind == "linear" and sizes[i] == out.shape[lead + i] and factors[i] in (None, 1):
            continue
        numbers = (float(factors[i]),) if factors[i] else ()
        out = resample_axis(out, lead + i, sizes[i], kind, numbers, align_corners)
    return in_dtype(out, input.dtype)


# ------------------------------------------------------------------------------ sampling on a grid
def sample_on_grid(input, grid, mode, padding_mode, align_corners):
    """(n, c, *sizes) read at the places of grid (n, *out, rank), -1 to 1 across the input, last axis
    first."""
    rank = input.ndim - 2
    check_grid(input, grid, rank, mode)
    sizes = tuple(input.shape[2:])
    places = [grid[..., rank - 1 - i] for i in range(rank)]         # in the order of the axes
    places = [reshape(p, (p.shape[0], -1)) for p in places]         # (n, points)
    places = [unnormalized(p, s, align_corners) for p, s in zip(places, sizes)]
    if mode == "bicubic":
        taps = [cubic_taps(p, s, padding_mode, align_corners) for p, s in zip(places, sizes)]
    else:
        places = [bordered(p, s, padding_mode, align_corners) for p, s in zip(places, sizes)]
        taps = [nearest_tap(p) if mode == "nearest" else linear_taps(p) for p in places]
    flat = flatten(input, 2)
    out = None
    for corner in itertools.product(*taps):
        part = read_corner(flat, corner, sizes)
        out = part if out is None else out + part
    return reshape(out, (*input.shape[:2], *grid.shape[1:-1]))


def check_grid(input, grid, rank, mode):
    fits = grid.ndim == input.ndim and grid.shape[-1] == rank and grid.shape[0] == input.shape[0]
    if rank not in (2, 3) or not fits:
        fail("grid_sample", "input and grid do not fit",
             f"input {show_shape(input.shape)}, grid {show_shape(grid.shape)}",
             "(n, c, h, w) with (n, h', w', 2) or (n, c, d, h, w) with (n, d', h', w', 3)", kind=ShapeError)
    if mode == "bicubic" and rank == 3:
        fail("grid_sample", "bicubic interpolation only supports 4D input", show_shape(input.shape),
             kind=RuntimeError)


def unnormalized(place, size, align_corners):
    """-1 to 1 as places of elements."""
    return (place + 1) * ((size - 1) / 2) if align_corners else ((place + 1) * size - 1) * 0.5


def bordered(place, size, padding_mode, align_corners):
    """Places moved into the input, unless zeros are outside."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        span = high - low
        if span <= 0:
            return place * 0.0
        away = abs(place - low)
        turns = floor(away / span)
        rest = away - turns * span
        odd = turns - floor(turns * 0.5) * 2
        place = where(odd == 0, rest + low, span - rest + low)
    return minimum(maximum(place, 0.0), size - 1.0)


def nearest_tap(place):
    """[(place of the nearest element, its weight 1)]; the grid's gradient is zero."""
    return [(round(place.detach()), place * 0.0 + 1.0 if place.requires_grad else None)]


def linear_taps(place):
    """[(place of an element, its weight)]."""
    first = floor(place.detach())
    share = place - first
    return [(first, 1.0 - share), (first + 1, share)]


def cubic_taps(place, size, padding_mode, align_corners):
    first = floor(place.detach())
    return [(bordered(first + tap, size, padding_mode, align_corners), weight)
            for tap, weight in zip((-1, 0, 1, 2), cubic_weights(place - first))]


def read_corner(flat, corner, sizes):
    """The elements at one tap of each axis times their weights, zero where they are outside."""
    index, inside, weight = None, None, None
    for (place, share), size in zip(corner, sizes):
        valid = (place >= 0) & (place <= size - 1)
        number = cast(where(valid, place, 0.0), int64)
        index = number if index is None else index * size + number
        inside = valid if inside is None else inside & valid
        if share is not None:
            weight = share if weight is None else weight * share
    shape = (*flat.shape[:2], index.shape[1])
    values = gather(flat, 2, expand(unsqueeze(index, 1), shape))
    if weight is not None:
        values = values * unsqueeze(weight, 1)
    return where(unsqueeze(inside, 1), values, 0.0)


def grid_of(theta, size, align_corners):
    """The grid (n, *out, rank) of affine maps theta (n, rank, rank + 1) for results of `size` (n, c,
    *out)."""
    from flambeau.ops.join import stack
    from flambeau.ops.matmul import matmul
    rank = len(size) - 2
    axes = []
    for i in range(rank):
        count = size[2 + i]
        place = iota(tuple(size[2:]), i, theta.dtype)
        if align_corners:
            axes.append(place * (2.0 / (count - 1)) - 1.0 if count > 1 else place * 0.0)
        else:
            axes.append((place * 2.0 + 1.0) / count - 1.0)
    points = stack((*reversed(axes), axes[0] * 0.0 + 1.0), rank)
    points = reshape(points, (1, math.prod(size[2:]), rank + 1))
    out = matmul(expand(points, (size[0], *points.shape[1:])), permute(theta, (0, 2, 1)))
    return reshape(out, (size[0], *size[2:], rank))
