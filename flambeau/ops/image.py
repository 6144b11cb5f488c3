"""Images in another size or order: resampling axis by axis, sampling on a grid, channels as pixels and
back."""

import math

from flambeau.base.errors import ShapeError, fail
from flambeau.ops.create import iota
from flambeau.ops.elementwise import cast, minimum
from flambeau.ops.grid import grid_sample
from flambeau.ops.index import index_select
from flambeau.ops.kinds import Window
from flambeau.ops.normalize import narrow as in_dtype, widen
from flambeau.ops.resample import resample_axis
from flambeau.ops.rounding import floor
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op, public
from flambeau.ops.structure import LARGE, repeat_interleave
from flambeau.ops.view import expand, permute, reshape
from flambeau.runtime import _core
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


def _times(x, sizes, factors):
    """How often the nearest neighbours are written along each axis, where these are copies of x and no call is
    recorded: by 1, 2, 4 or 8, whose reciprocals are exact. Else None.
    """
    if not _core.writes_directly((x,)) or x.numel() < LARGE:
        return None
    times = tuple(count // size for count, size in zip(sizes, x.shape[x.ndim - len(sizes):]))
    fits = all(t in (1, 2, 4, 8) and t * size == count and factor in (None, t)
               for t, size, count, factor in zip(times, x.shape[x.ndim - len(sizes):], sizes, factors))
    return times if fits and max(times) > 1 else None


def resample(input, sizes, factors, mode, align_corners):
    """The last axes in other sizes, the last one first; `factors` are what the caller gave, or None where
    sizes decide."""
    lead, out = input.ndim - len(sizes), input
    if input.dtype.kind != "f":
        for i, (count, factor) in enumerate(zip(sizes, factors)):
            out = resample_nearest(out, lead + i, count, factor, mode == "nearest-exact")
        return out
    if mode.startswith("nearest") and (times := _times(input, sizes, factors)):
        for axis, count in reversed(tuple(enumerate(times, lead))):
            out = repeat_interleave(out, count, axis) if count > 1 else out
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
    places = reshape(widen(grid), (grid.shape[0], math.prod(grid.shape[1:-1]), rank))
    out = grid_sample(widen(input), places, mode, padding_mode, align_corners)
    return in_dtype(reshape(out, (*input.shape[:2], *grid.shape[1:-1])), input.dtype)


def check_grid(input, grid, rank, mode):
    fits = grid.ndim == input.ndim and grid.shape[-1] == rank and grid.shape[0] == input.shape[0]
    if rank not in (2, 3) or not fits:
        fail("grid_sample", "input and grid do not fit",
             f"input {show_shape(input.shape)}, grid {show_shape(grid.shape)}",
             "(n, c, h, w) with (n, h', w', 2) or (n, c, d, h, w) with (n, d', h', w', 3)", kind=ShapeError)
    if input.dtype is not grid.dtype or input.dtype.kind != "f":
        fail("grid_sample", "expected input and grid to have the same floating point dtype",
             f"input {input.dtype}, grid {grid.dtype}", hint="grid.to(input.dtype) converts", kind=RuntimeError)
    if 0 in tuple(input.shape[2:]):
        fail("grid_sample", "expected input to have non-empty spatial dimensions", show_shape(input.shape),
             kind=RuntimeError)
    if mode == "bicubic" and rank == 3:
        fail("grid_sample", "bicubic interpolation only supports 4D input", show_shape(input.shape),
             kind=RuntimeError)


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
