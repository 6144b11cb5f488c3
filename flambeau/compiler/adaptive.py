"""The maximum, and its place, of windows that cover a plane evenly: window i of `count` along an axis of
`size` reaches from floor(i * size / count) to ceil((i + 1) * size / count).

The lanes of a vector are results that follow one another, whichever planes they are of. A lane whose window
is smaller than its neighbours' looks at its last element again, which changes nothing.
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.types.dtype import float32, float64, int64

PARAMS = ("planes", "H", "W", "OH", "OW")
LANES = 16


def adaptive_max_pool2d(dtype, name="adaptive_max_pool2d"):
    """Buffers: input (planes, H, W), output (planes, OH, OW), indices (planes, OH, OW) int64: row * W +
    column. The first of equal maxima is taken; NaN is larger than all (the last NaN's place). Params:
    PARAMS. One step of the extent is LANES results."""
    b, wide = L.Builder("a"), float32 if dtype.itemsize == 2 else dtype
    planes, height, width, rows, columns = map(I.index, PARAMS)
    total = b.let(I.mul(planes, rows, columns), "total")
    with b.loop("vector", L.BEGIN, L.END) as vector:
        first = b.let(I.mul(vector, LANES))
        result = L.apply("add", L.Apply(int64, LANES, "lane", ()), first)
        result = L.apply("min", result, b.let(I.sub(total, 1)))
        line, column = _split(b, b.let(result), columns)
        plane, row = _split(b, line, rows)
        top, high = _window(b, row, height, rows)
        left, wide_by = _window(b, column, width, columns)
        base = b.mul(plane, b.let(I.mul(height, width)))
        best = b.declare(b.const(0.0, wide, LANES), "best")
        place = b.declare(b.const(-1, int64, LANES), "place")
        with b.loop("r", 0, b.reduce_max(high)) as r:
            line = b.mul(L.apply("add", top, _within(b, r, high)), width)
            with b.loop("s", 0, b.reduce_max(wide_by)) as s:
                here = b.let(L.apply("add", line, L.apply("add", left, _within(b, s, wide_by))))
                value = b.cast(b.load("input", L.apply("add", base, here), dtype, LANES), wide)
                better = b.or_(b.or_(b.gt(value, best), b.ne(value, value)), b.lt(place, b.const(0, int64)))
                b.assign(best, L.apply("select", better, value, best))
                b.assign(place, L.apply("select", better, here, place))
        mask = b.let(I.lanes_below(I.sub(total, first), LANES))
        b.store("output", first, b.cast(best, dtype), mask)
        b.store("indices", first, place, mask)
    buffers = L.Buffer("input", dtype, "r"), L.Buffer("output", dtype, "w"), L.Buffer("indices", int64, "w")
    return L.Kernel(name, buffers, PARAMS, I.ceil_div(I.mul(planes, rows, columns), LANES), b.body())


def _split(b, numbers, size):
    """(numbers / size, numbers % size), by float64: exact below 2 ** 52, and there is a vector
    instruction."""
    size = b.let(L.splat(size, LANES))
    quotient = b.cast(b.div(b.cast(numbers, float64), b.cast(size, float64)), int64)
    return quotient, b.sub(numbers, b.mul(quotient, size))


def _window(b, number, size, count):
    """(first element, how many) of the windows `number` along an axis."""
    start, _ = _split(b, b.mul(number, size), count)
    reach = b.let(I.add(size, I.sub(count, 1)))
    stop, _ = _split(b, b.add(b.mul(number, size), reach), count)
    return start, b.sub(stop, start)


def _within(b, number, counts):
    return b.min(L.splat(number, LANES), b.sub(counts, b.const(1, int64, LANES)))
