"""Pooling over 2-d windows: maximum (value and place) and average, with their derivatives.

Tensors are contiguous planes: N * C planes of H x W in, OH x OW out. The window's numbers are part of the
kernel; PARAMS are: planes, H, W, OH, OW. How OH and OW were rounded (ceil_mode) does not matter here, as
windows may reach beyond the padded input. Windows of few elements are written out, tap by tap, over strips of
rows (compiler.strips); of large ones (`is_large`) the taps are loops, and gradients are added place by place.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler.strips import Places, Windows, suits
from flambeau.ir import loops as L
from flambeau.types.dtype import DType, float32, int32, int64

PARAMS = ("planes", "H", "W", "OH", "OW")
LANES = 16
MOST_TAPS = 32              # of a window that is written out


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


def max_pool2d(spec, name="max_pool2d", target=None):
    """The maximum of each window and its place row * W + column in the plane.

    Buffers: input (planes, H, W), output (planes, OH, OW), indices (planes, OH, OW) int64. Params: PARAMS.
    The first of equal maxima is taken; NaN is larger than all (the last NaN's place); padding is never taken.
    One step of the extent is a strip, of large windows a row of the output.
    """
    buffers = (L.Buffer("input", spec.dtype, "r"), L.Buffer("output", spec.dtype, "w"),
               L.Buffer("indices", int64, "w"))
    if is_large(spec):
        rows = I.mul(I.index("planes"), I.index("OH"))
        return _kernel(name + "_large", buffers, rows, _large_maximum(spec))
    return _strips(name, buffers, _Maximum(spec, target))


def max_pool2d_values(spec, name="max_pool2d_values", target=None):
    """`max_pool2d` of a small window without the places. Buffers: input, output. One step of the extent is a
    strip."""
    buffers = L.Buffer("input", spec.dtype, "r"), L.Buffer("output", spec.dtype, "w")
    return _strips(name, buffers, _Maximum(spec, target, places=False))


def max_pool2d_backward(spec, name="max_pool2d_backward", target=None):
    """grad_input: each grad_output goes to the place of its maximum; where windows overlap, in the order of
    the output.

    Buffers: grad_output (planes, OH, OW), indices (planes, OH, OW) int64, grad_input (planes, H, W).
    Params: PARAMS. One step of the extent is a strip, of large windows and those of no fixed size (kernel
    None) a plane.
    """
    buffers = L.Buffer("grad_output", spec.dtype, "r"), L.Buffer("indices", int64, "r")
    if is_large(spec):
        body, result = _scattered_gradient(spec), L.Buffer("grad_input", spec.dtype, "rw")
        return _kernel(name + "_large", (*buffers, result), I.index("planes"), body)
    return _strips(name, (*buffers, L.Buffer("grad_input", spec.dtype, "w")), _MaximumGradient(spec, target))


def avg_pool2d(spec, name="avg_pool2d", target=None):
    """The mean of each window: its sum, row after row, divided by how many elements it has.

    Buffers: input (planes, H, W), output (planes, OH, OW). Params: PARAMS. One step of the extent is a
    strip of the output.
    """
    buffers = L.Buffer("input", spec.dtype, "r"), L.Buffer("output", spec.dtype, "w")
    return _strips(name, buffers, _Average(spec, target))


def avg_pool2d_backward(spec, name="avg_pool2d_backward", target=None):
    """grad_input: the sum of grad_output / divisor over the windows that hold an element, in the order of the
    output.

    Buffers: grad_output (planes, OH, OW), grad_input (planes, H, W). Params: PARAMS. One step of the extent
    is a strip of the input.
    """
    buffers = L.Buffer("grad_output", spec.dtype, "r"), L.Buffer("grad_input", spec.dtype, "w")
    return _strips(name, buffers, _AverageGradient(spec, target))


def is_large(spec):
    """True if the taps of the window are not written out, or it is of no fixed size."""
    return spec.kernel is None or spec.kernel[0] * spec.kernel[1] > MOST_TAPS or not suits(spec)


# ---------------------------------------------------------------------------------------------- strips
def _strips(name, buffers, strips):
    b = strips.b
    strips.start()
    with b.loop("task", L.BEGIN, L.END) as task:
        strips.strip(strips.take(task))
    return L.Kernel(name, buffers, PARAMS, strips.extent(I.index("planes")), strips.finish())


class _Maximum(Windows):

    def __init__(self, spec, target, places=True):
        super().__init__(spec, target)
        self.places = places

    def strip(self, plane):
        b, dtype = self.b, self.dtype
        self.lowest = {"f": -float("inf"), "u": 0}.get(dtype.kind, -(1 << 8 * dtype.itemsize - 1))
        self.pack("input", plane, (self.h, self.w), self.corner(), fill=self.lowest)
        width, whole_or_masked = b.call("cast", self.w, dtype=int32), self.whole_or_masked()

        def block(row, column, count, place):
            results = self.maxima(row, column, count, place, width)
            first = self.output_index(plane, row, column)

            def store(mask):
                for number, (value, at) in enumerate(results):
                    address = I.add(first, I.mul(number, self.ow))
                    b.store("output", address, b.cast(value, self.spec.dtype), mask)
                    if self.places:
                        b.store("indices", address, b.cast(at, int64), mask)
            whole_or_masked(store)
        self.each_block(block)

    def maxima(self, row, column, count, place, width):
        """(maxima, their places) of `count` rows."""
        b, seen, results = self.b, {}, []
        (down, right), (top, left), dilation = self.spec.stride, self.spec.padding, self.spec.dilation
        columns = self.lane_columns(I.sub(I.mul(I.add(self.column, column), right), left), int32, right)
        for number in range(count):
            start = I.sub(I.mul(I.add(self.row, row, number), down), top)
            start = b.call("cast", b.let(start), dtype=int32)
            best = b.const(self.lowest, self.dtype, self.lanes)
            here = b.add(columns, b.mul(start, width))
            at = b.add(_inside(b, columns, dilation[1]), b.mul(_inside(b, start, dilation[0]), width))
            for moved, phase, tap_column, tap in self.taps():
                key = number * down + moved, phase, tap_column
                if key not in seen:
                    seen[key] = b.load("packed", I.add(place, self.near(*key)), self.dtype, self.lanes)
                if not self.places:
                    best = b.max(best, seen[key])
                    continue
                better = b.gt(seen[key], best)
                if self.dtype.kind == "f":
                    better = b.or_(better, b.ne(seen[key], seen[key]))
                away = b.add(b.mul(b.const(moved, int32), width),
                             b.const(tap % self.spec.kernel[1] * dilation[1], int32))
                best = b.select(better, seen[key], best)
                at = b.select(better, b.add(here, away), at)
            results.append((best, at))
        return results


def _inside(b, start, dilation):
    """The first of start, start + dilation, ... that is not negative (i32)."""
    if dilation == 1:
        return b.max(start, b.const(0, int32))
    missing = b.max(b.neg(start), b.const(0, int32))
    steps = b.idiv(b.add(missing, b.const(dilation - 1, int32)), b.const(dilation, int32))
    return b.add(start, b.mul(steps, b.const(dilation, int32)))


class _MaximumGradient(Places):

    def strip(self, plane):
        b, corner, sizes = self.b, self.corner(), (self.oh, self.ow)
        self.pack("grad_output", plane, sizes, corner)
        self.pack("indices", plane, sizes, corner, "packed_places", -1, int64, int32)
        (down, right), (first_row, first_column) = self.spec.stride, self.first_place()
        width = b.call("cast", self.w, dtype=int32)
        for residue in range(down):
            windows = self.windows(residue)

            def block(row, column, count, place):
                rows = [I.add(first_row, I.mul(I.add(row, number), down), residue) for number in range(count)]
                rows = [b.mul(b.call("cast", b.let(r), dtype=int32), width) for r in rows]
                sums = []
                for right_by, taps in enumerate(windows):
                    first = I.add(first_column, I.mul(column, right), right_by)
                    columns = self.lane_columns(first, int32, right)
                    here = [b.add(columns, r) for r in rows]
                    sums.append(self.sums(place, taps, here))
                for index, value in self.side_by_side(row, residue, column, sums):
                    b.store("tile", index, value)
            self.each_block(block)
        self.copy_out(plane, "grad_input")
        self.locals["tile"] = self.dtype, self.tile_size

    def sums(self, place, taps, here):
        """For each row the sum of the gradients whose place is `here`."""
        b, zero = self.b, self.b.const(0.0, self.dtype, self.lanes)
        sums = [zero] * len(here)
        for tap, users in self.shared_taps(taps, len(here)):
            address = I.add(place, self.near(*tap))
            grad = b.load("packed", address, self.dtype, self.lanes)
            at = b.load("packed_places", address, int32, self.lanes)
            for number, _ in users:
                sums[number] = b.add(sums[number], b.select(b.eq(at, here[number]), grad, zero))
        return sums


class _Average(Windows):

    def strip(self, plane):
        b, taps = self.b, list(self.taps())
        self.pack("input", plane, (self.h, self.w), self.corner())
        whole_or_masked = self.whole_or_masked()

        def block(row, column, count, place):
            first, results, seen = self.output_index(plane, row, column), [], {}
            columns = self.lane_columns(I.add(self.column, column), int32)
            for number in range(count):
                total = b.const(0.0, self.dtype, self.lanes)
                for moved, phase, tap_column, _ in taps:
                    key = number * self.steps[0] + moved, phase, tap_column
                    if key not in seen:
                        seen[key] = b.load("packed", I.add(place, self.near(*key)), self.dtype, self.lanes)
                    total = b.add(total, seen[key])
                line = b.call("cast", b.let(I.add(self.row, row, number)), dtype=int32)
                results.append(b.div(total, _divisor(b, self.spec, line, columns, self)))

            def store(mask):
                for number, value in enumerate(results):
                    address = I.add(first, I.mul(number, self.ow))
                    b.store("output", address, b.cast(value, self.spec.dtype), mask)
            whole_or_masked(store)
        self.each_block(block)


class _AverageGradient(Places):

    def strip(self, plane):
        b = self.b

        def share(value, line, column):
            """The gradient of each element of the window."""
            columns = self.lane_columns(column, int32)
            return b.div(value, _divisor(b, self.spec, b.call("cast", line, dtype=int32), columns, self))

        self.pack("grad_output", plane, (self.oh, self.ow), self.corner(), change=share)
        for residue in range(self.spec.stride[0]):
            windows = self.windows(residue)

            def block(row, column, count, place):
                sums = [self.sums(place, taps, count) for taps in windows]
                for index, value in self.side_by_side(row, residue, column, sums):
                    b.store("tile", index, value)
            self.each_block(block)
        self.copy_out(plane, "grad_input")
        self.locals["tile"] = self.dtype, self.tile_size

    def sums(self, place, taps, count):
        b, sums = self.b, [self.b.const(0.0, self.dtype, self.lanes)] * count
        for tap, users in self.shared_taps(taps, count):
            seen = b.load("packed", I.add(place, self.near(*tap)), self.dtype, self.lanes)
            for number, _ in users:
                sums[number] = b.add(sums[number], seen)
        return sums


# ---------------------------------------------------------------------------------------------- large windows
def _large_maximum(spec):
    """The body of `max_pool2d` with loops over the taps."""
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
    return b


def _scattered_gradient(spec):
    """The body of `max_pool2d_backward` that adds to the places one after the other."""
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
    return b


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
