"""Resampling that does not alias: each result is a weighted mean of all elements under a filter that widens
as the axis shrinks.

An axis of `size` elements becomes one of `count` by a matrix (count, size) of weights, so that one matrix
product does an axis. The filters are a triangle ('linear') and Keys' cubic with a = -1/2 ('cubic'), as image
libraries use them.
"""

from flambeau.base.errors import DTypeError, fail
from flambeau.ops.create import iota
from flambeau.ops.elementwise import cast, maximum, minimum, where
from flambeau.ops.matmul import matmul
from flambeau.ops.normalize import narrow as in_dtype, widen
from flambeau.ops.reduce import sum
from flambeau.ops.rounding import floor, round
from flambeau.ops.view import contiguous, transpose, unsqueeze
from flambeau.types.dtype import float32, float64, uint8

REACH = {"linear": 1.0, "cubic": 2.0}  # half the width of a filter


def triangle(d):
    return maximum(1.0 - abs(d), 0.0)


def keys(d):
    a, x = -0.5, abs(d)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return where(x < 1, near, where(x < 2, far, 0.0))


def step_of(size, count, factor, align_corners):
    """How many elements of the input an element of the result is apart from the next."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1.0 / factor if factor else size / count


def weights(size, count, kind, factor, align_corners):
    """The matrix (count, size), rows of sum 1, in float64."""
    step = step_of(size, count, factor, align_corners)
    wide = max(step, 1.0)
    middle = unsqueeze((iota((count,), 0, float64) + 0.5) * step, 1)
    place = unsqueeze(iota((size,), 0, float64), 0)
    first = maximum(floor(middle - REACH[kind] * wide + 0.5), 0.0)
    last = minimum(floor(middle + REACH[kind] * wide + 0.5), float(size))
    d = (place - middle + 0.5) * (1.0 / wide)
    found = where((place >= first) & (place < last), triangle(d) if kind == "linear" else keys(d), 0.0)
    return found / sum(found, 1, True)


def antialiased(input, sizes, factors, kind, align_corners):
    """The last axes of a floating point or uint8 tensor in other sizes, the last one first."""
    if input.dtype.kind != "f" and input.dtype is not uint8:
        fail(
            "interpolate", "antialias=True takes floating point or uint8 images", input.dtype, kind=DTypeError
        )
    out = cast(input, float32) if input.dtype is uint8 else widen(input)
    lead = input.ndim - len(sizes)
    for i in reversed(range(len(sizes))):
        axis = lead + i
        table = cast(weights(out.shape[axis], sizes[i], kind, factors[i], align_corners), out.dtype)
        out = transpose(matmul(transpose(out, axis, -1), transpose(table, 0, 1)), axis, -1)
    out = contiguous(out)
    if input.dtype is uint8:
        return cast(minimum(maximum(round(out), 0.0), 255.0), uint8)
    return in_dtype(out, input.dtype)
