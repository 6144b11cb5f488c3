"""Pooling over 2-d windows: maximum (value and place) and average, with their derivatives.

Tensors are contiguous planes: N * C planes of H x W in, OH x OW out. The window's numbers are part of the
kernel; PARAMS are: planes, H, W, OH, OW. How OH and OW were rounded (ceil_mode) does not matter here, as
windows may reach beyond the padded input. The lanes of a vector are neighbours in a row of the result.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.types.dtype import DType, float32, int32, int64

PARAMS = ("planes", "H", "W", "OH", "OW")
LANES = 16


@dataclass(frozen=True)
class Pooling:
    """Everything of a pooling but its sizes; pairs are (vertical, horizontal). Maximum ignores the last two
    fields, average the dilation. divisor_override=None divides by the number of elements."""

    kernel: tuple
    stride: tuple
    padding: tuple = (0, 0)
    dilation: tuple = (1, 1)
    dtype: DType = float32
    count_include_pad: bool = True
    divisor_override: int | None = None

    @property
    def accumulator(self):
        return float32 if self.dtype.kind == "f" and self.dtype.itemsize == 2 else self.dtype

    def output_size(self, height, width, ceil_mode=False):
        """(OH, OW) of an input of that height and width, as PyTorch counts."""
        return tuple(_output_size(*numbers, ceil_mode) for numbers in zip(
            (height, width), self.kernel, self.stride, self.padding, self.dilation))


def _output_size(size, kernel, stride, padding, dilation, ceil_mode):
    left = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (left + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1              # the last window would lie in the padding
    return count


def max_pool2d(spec, name="max_pool2d"):
    """The maximum of each window and its place row * W + column in the plane.

    Buffers: input (planes, H, W), output (planes, OH, OW), indices (planes, OH, OW) int64. Params: PARAMS.
    The first of equal maxima is taken; NaN is larger than all (the last NaN's place); padding is never taken.
    One step of the extent is a row of the output.
    """
    b, row = L.Builder(), _Row("OH", "OW")
    dtype = spec.accumulator
    is_float = dtype.kind == "f"
    with row.each(b):
        lanes = row.lanes
        best = b.declare(b.const(0.0 if is_float else 0, dtype, lanes), "best")
        place = b.declare(b.const(-1, int32, lanes), "place")
        with _taps(b, spec, row) as (height, across, index, inside):
            value = _read(b, spec, "input", index, inside)
            better = b.or_(b.gt(value, best), b.lt(place, b.const(0, int32)))
            if is_float:
                better = b.or_(better, b.ne(value, value))
            better = b.and_(better, inside)
            here = b.add(b.call("cast", I.mul(height, row.w), dtype=int32), across)
            b.assign(best, L.apply("select", better, value, best))
            b.assign(place, L.apply("select", better, here, place))
        address = b.let(I.add(I.mul(row.number, row.columns), row.first))
        b.store("output", address, b.cast(best, spec.dtype), row.mask)
        b.store("indices", address, b.cast(place, int64), row.mask)
    buffers = (L.Buffer("input", spec.dtype, "r"), L.Buffer("output", spec.dtype, "w"),
               L.Buffer("indices", int64, "w"))
    return _kernel(name, buffers, I.mul(I.index("planes"), I.index("OH")), b)


def max_pool2d_backward(spec, name="max_pool2d_backward"):
    """grad_input: each grad_output goes to the place of its maximum; where windows overlap, in the order of
    the output.

    Buffers: grad_output (planes, OH, OW), indices (planes, OH, OW) int64, grad_input (planes, H, W). Params:
    PARAMS. One step of the extent is a plane.
    """
    b = L.Builder()
    size, out_size = I.mul(I.index("H"), I.index("W")), I.mul(I.index("OH"), I.index("OW"))
    with b.loop("plane", L.BEGIN, L.END) as plane:
        base, out_base = b.let(I.mul(plane, size)), b.let(I.mul(plane, out_size))
        with b.loop("i", 0, size, kind="vector") as i:
            b.store("grad_input", I.add(base, i), b.const(0.0, spec.dtype))
        with b.loop("o", 0, out_size) as o:
            place = b.let(I.add(base, b.load("indices", I.add(out_base, o), int64)))
            old = b.cast(b.load("grad_input", place, spec.dtype), spec.accumulator)
            grad = b.cast(b.load("grad_output", I.add(out_base, o), spec.dtype), spec.accumulator)
            b.store("grad_input", place, b.cast(b.add(old, grad), spec.dtype))
    buffers = (L.Buffer("grad_output", spec.dtype, "r"), L.Buffer("indices", int64, "r"),
               L.Buffer("grad_input", spec.dtype, "rw"))
    return _kernel(name, buffers, I.index("planes"), b)


def avg_pool2d(spec, name="avg_pool2d"):
    """The mean of each window: its sum, row after row, divided by how many elements it has.

    Buffers: input (planes, H, W), output (planes, OH, OW). Params: PARAMS. One step of the extent is a row of
    the output.
    """
    b, row = L.Builder(), _Row("OH", "OW")
    dtype = spec.accumulator
    with row.each(b):
        total = b.declare(b.const(0.0, dtype, row.lanes), "total")
        with _taps(b, spec, row) as (_, _, index, inside):
            b.assign(total, L.apply("add", total, _read(b, spec, "input", index, inside)))
        divisor = _divisor(b, spec, b.call("cast", row.row, dtype=int32), row.lane_columns(b), row)
        mean = b.div(total, divisor)
        address = I.add(I.mul(row.number, row.columns), row.first)
        b.store("output", address, b.cast(mean, spec.dtype), row.mask)
    buffers = (L.Buffer("input", spec.dtype, "r"), L.Buffer("output", spec.dtype, "w"))
    return _kernel(name, buffers, I.mul(I.index("planes"), I.index("OH")), b)


def avg_pool2d_backward(spec, name="avg_pool2d_backward"):
    """grad_input: the sum of grad_output / divisor over the windows that hold an element, in the order of the
    output.

    Buffers: grad_output (planes, OH, OW), grad_input (planes, H, W). Params: PARAMS. One step of the extent
    is a row of the input.
    """
    b, row = L.Builder(), _Row("H", "W")
    dtype, (down, right), (top, left) = spec.accumulator, spec.stride, spec.padding
    with row.each(b):
        total = b.declare(b.const(0.0, dtype, row.lanes), "total")
        lowest = b.let(I.maximum(I.div(I.add(I.sub(I.add(row.row, top), spec.kernel[0]), down), down), 0))
        highest = b.let(I.minimum(I.div(I.add(row.row, top), down), I.sub(row.oh, 1)))
        padded = b.add(row.lane_columns(b), b.const(left, int32))
        # toward zero: a window that would start before the first is no lower than 0 either way
        before = b.sub(padded, b.const(spec.kernel[1] - right, int32))
        step = b.const(right, int32)
        first = b.max(b.idiv(before, step), b.const(0, int32))
        last = b.idiv(padded, step)
        with b.loop("from_row", lowest, I.add(highest, 1)) as out_row:
            index = b.let(I.mul(I.add(I.mul(row.plane, row.oh), out_row), row.ow))
            with b.loop("from_column", 0, -(-spec.kernel[1] // right)) as number:
                column = b.add(first, b.call("cast", number, dtype=int32))
                inside = b.and_(b.le(column, last), I.within(column, b.call("cast", row.ow, dtype=int32)))
                inside = b.and_(inside, row.mask)
                place = b.add(b.call("cast", column, dtype=int64), index)
                grad = _read(b, spec, "grad_output", place, inside)
                divisor = _divisor(b, spec, b.call("cast", out_row, dtype=int32), column, row)
                part = b.div(grad, divisor)
                b.assign(total, L.apply("select", inside, L.apply("add", total, part), total))
        address = I.add(I.mul(row.number, row.columns), row.first)
        b.store("grad_input", address, b.cast(total, spec.dtype), row.mask)
    buffers = (L.Buffer("grad_output", spec.dtype, "r"), L.Buffer("grad_input", spec.dtype, "w"))
    return _kernel(name, buffers, I.mul(I.index("planes"), I.index("H")), b)


def pool_work(spec, kind, planes, H, W, OH, OW):
    """About how many scalar operations a step of the extent takes; kind: 'max', 'max_backward', 'avg',
    'avg_backward'."""
    taps = spec.kernel[0] * spec.kernel[1]
    windows = -(-spec.kernel[0] // spec.stride[0]) * -(-spec.kernel[1] // spec.stride[1])
    return {"max": OW * taps * 2, "avg": OW * taps, "max_backward": H * W // 4 + 4 * OH * OW,
            "avg_backward": 2 * W * windows}[kind] + 1


# ---------------------------------------------------------------------------------------------- parts
def _kernel(name, buffers, extent, b):
    return L.Kernel(name, buffers, PARAMS, extent, b.body())


class _Row:
    """The walk over the rows of the result, LANES columns at a time: `number` counts rows of all planes,
    `first` is the first column of the vector and `mask` tells which of its columns exist."""

    def __init__(self, rows, columns):
        self.rows, self.columns, self.lanes = I.index(rows), I.index(columns), LANES
        self.h, self.w, self.oh, self.ow = map(I.index, PARAMS[1:])

    def each(self, b):
        return _Nested(b, self._open)

    def _open(self, b, enter):
        self.number = enter(b.loop("row_number", L.BEGIN, L.END))
        self.plane = b.let(I.div(self.number, self.rows), "plane")
        self.row = b.let(I.rem(self.number, self.rows), "row")
        self.first = enter(b.loop("first_column", 0, self.columns, self.lanes))
        self.mask = b.let(I.lanes_below(I.sub(self.columns, self.first), self.lanes), "inside_row")

    def lane_columns(self, b):
        """The columns of the lanes, i32."""
        return b.add(L.Apply(int32, self.lanes, "lane", ()), b.call("cast", self.first, dtype=int32))


class _Nested:
    """A `with` statement over several Builder blocks that `open(b, enter)` enters; its value is what that
    returns."""

    def __init__(self, b, open):
        self.b, self.open, self.entered = b, open, []

    def enter(self, block):
        self.entered.append(block)
        return block.__enter__()

    def __enter__(self):
        return self.open(self.b, self.enter)

    def __exit__(self, *error):
        for block in reversed(self.entered):
            block.__exit__(*error)


def _taps(b, spec, row):
    """A block that runs for each tap of the windows of `row`'s lanes that is in a row of the input. Its
    value: that row, the lanes' columns (i32), where the elements stand, and the mask of the lanes whose
    column is in the input."""
    (down, right), (top, left) = spec.stride, spec.padding

    def open(b, enter):
        starts = b.sub(b.mul(row.lane_columns(b), b.const(right, int32)), b.const(left, int32))
        first_start = b.let(I.sub(I.mul(row.first, right), left))
        first_row = b.let(I.sub(I.mul(row.row, down), top))
        tap_row = enter(b.loop("tap_row", 0, spec.kernel[0]))
        height = b.let(I.add(first_row, I.mul(tap_row, spec.dilation[0])), "height")
        enter(b.branch(L.apply("and", L.apply("ge", height, L.as_index(0)), L.apply("lt", height, row.h))))
        begin = b.let(I.mul(I.add(I.mul(row.plane, row.h), height), row.w))
        tap = enter(b.loop("tap_column", 0, spec.kernel[1]))
        moved = b.let(I.mul(tap, spec.dilation[1]))
        across = b.add(starts, b.call("cast", moved, dtype=int32))
        if right == 1:
            index = b.let(I.add(begin, first_start, moved))
        else:
            index = b.add(b.call("cast", across, dtype=int64), begin)
        return height, across, index, b.and_(I.within(across, b.call("cast", row.w, dtype=int32)), row.mask)
    return _Nested(b, open)


def _read(b, spec, buffer, index, inside):
    """The elements at `index`, a vector or the first of consecutive ones, zero where they are not
    `inside`."""
    zero = b.const(0.0 if spec.dtype.kind == "f" else 0, spec.dtype, inside.lanes)
    return b.cast(b.load(buffer, index, spec.dtype, inside.lanes, inside, zero), spec.accumulator)


def _divisor(b, spec, out_row, out_columns, row):
    """What the sums of the windows at `out_row` and `out_columns` (i32) are divided by."""
    dtype, lanes = spec.accumulator, out_columns.lanes
    if spec.divisor_override is not None:
        return b.const(float(spec.divisor_override), dtype, lanes)
    heights = _window_sizes(b, out_row, spec, 0, row.h)
    widths = _window_sizes(b, out_columns, spec, 1, row.w)
    return b.cast(b.mul(widths, L.splat(heights, lanes)), dtype)


def _window_sizes(b, places, spec, axis, size):
    """How many elements of an axis the windows at `places` have, with or without padding; at least 1."""
    kernel, stride, padding = spec.kernel[axis], spec.stride[axis], spec.padding[axis]
    start = b.sub(b.mul(places, b.const(stride, int32)), b.const(padding, int32))
    size = b.call("cast", size, dtype=int32)
    stop = b.min(b.add(start, b.const(kernel, int32)), b.add(size, b.const(padding, int32)))
    if not spec.count_include_pad:
        start, stop = b.max(start, b.const(0, int32)), b.min(stop, size)
    return b.max(b.sub(stop, start), b.const(1, int32))
