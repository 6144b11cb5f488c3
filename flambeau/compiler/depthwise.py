"""Depthwise convolution: each output channel sees one input channel, so vectors run along the rows.

    for each task: (image, channel, strip of rows, segment of columns):       the extent
        copy what the strip sees of the plane, zeros around it                packed[row][column]
        for each block of rows, for each vector of columns:
            sums[row] += packed[row moved by tap][column moved by tap] * weight[tap]     for all taps, in order

With a stride of s the columns of `packed` are parted into s *phases* (every s-th column), so that what
neighbours of a row see through one tap stands side by side. The gradient of the input is the same with the
gradient of the output packed and the window turned around; with a stride each residue of a place modulo the
stride has its own few taps. The gradient of the weight multiplies rows by rows, in LANES sums a tap, which
are added at the end of a plane; a second kernel adds the planes of all images, in order.

Sizes are params (SIZES); the window is part of the kernel. K may be a multiple of C.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.ir import loops as L

SIZES = ("N", "C", "H", "W", "K", "OH", "OW")
COLUMNS = 128               # of a segment at most
ROOM = 8192                 # elements of the packed rows, or more where a window needs it
ROWS = 4                    # rows whose sums are in registers together
MOST_TAPS = 128             # of a window that is written out tap by tap
SUMS_BYTES = 64             # a tap's sums of the gradient of the weight: part of the meaning


def suits(spec, weight_shape):
    """True if the kernels here do a convolution with a weight (K, C / groups, R, S)."""
    return spec.groups > 1 and weight_shape[1] == 1 and spec.taps <= MOST_TAPS


def depthwise_forward(spec, name="depthwise", target=None):
    """Buffers: input (N, C, H, W), weight (K, 1, R, S), bias (K,) if spec.bias, output (N, K, OH, OW). Params:
    SIZES. One step of the extent is a strip of a plane of the input."""
    writer = _Forward(spec, target)
    buffers = [L.Buffer(n, spec.dtype, "r") for n in ("input", "weight", "bias")[:2 + spec.bias]]
    return L.Kernel(name, (*buffers, L.Buffer("output", spec.dtype, "w")), SIZES, writer.extent(), writer.body())


def depthwise_backward_data(spec, name="depthwise_backward_data", target=None):
    """Buffers: grad_output (N, K, OH, OW), weight (K, 1, R, S), grad_input (N, C, H, W). Params: SIZES. One step
    of the extent is a strip of a plane of grad_input."""
    writer = _Data(spec, target)
    buffers = (L.Buffer("grad_output", spec.dtype, "r"), L.Buffer("weight", spec.dtype, "r"),
               L.Buffer("grad_input", spec.dtype, "w"))
    return L.Kernel(name, buffers, SIZES, writer.extent(), writer.body())


def depthwise_weight_sums(spec, name="depthwise_weight_sums", target=None):
    """Buffers: input, grad_output, partial (N, K, R, S) of the accumulator's dtype: the gradient of the weight,
    image by image. Params: SIZES. One step of the extent is a plane of grad_output."""
    writer = _Weight(spec, target)
    buffers = (L.Buffer("input", spec.dtype, "r"), L.Buffer("grad_output", spec.dtype, "r"),
               L.Buffer("partial", spec.accumulator, "w"))
    return L.Kernel(name, buffers, SIZES, writer.extent(), writer.body())


def depthwise_weight_fold(spec, name="depthwise_weight_fold"):
    """The sum over the images, one after the other. Buffers: partial (N, K, R, S), grad_weight (K, 1, R, S).
    Params: SIZES. One step of the extent is an output channel."""
    b, dtype, size = L.Builder("d"), spec.accumulator, I.mul(I.index("K"), spec.taps)
    with b.loop("k", L.BEGIN, L.END) as k, b.loop("tap", 0, spec.taps) as tap:
        total = b.declare(b.const(0.0, dtype))
        entry = b.let(I.add(I.mul(k, spec.taps), tap))
        with b.loop("n", 0, I.index("N")) as n:
            part = b.load("partial", I.add(I.mul(n, size), entry), dtype)
            b.assign(total, L.apply("add", total, part))
        b.store("grad_weight", entry, b.cast(total, spec.dtype))
    buffers = L.Buffer("partial", spec.accumulator, "r"), L.Buffer("grad_weight", spec.dtype, "w")
    return L.Kernel(name, buffers, SIZES, I.index("K"), b.body())


def launch(planner, which, inputs, out, spec, sizes, work):
    """The kernels of a product into a plan; `which` as of templates.convolution."""
    if which != "backward_weight":
        kernel = (depthwise_forward if which == "forward" else depthwise_backward_data)(spec)
        return planner.launch_template(kernel, [*inputs, out], sizes, work)
    partial = planner.recipe.buffer(spec.accumulator, (sizes["N"], *out.shape))
    planner.launch_template(depthwise_weight_sums(spec), [*inputs, partial], sizes, work)
    planner.launch_template(depthwise_weight_fold(spec), [partial, out], sizes, sizes["N"] * sizes["K"] * spec.taps)


# ---------------------------------------------------------------------------------------------- parts
class _Strips:
    """The walk over strips of planes: `height` and `width` of what is walked over, in windows or in places of
    equal residue; `steps`, how far neighbours are apart in the packed plane; `reach`, what one sees of it."""

    def __init__(self, spec, target, steps, reach):
        self.spec, self.dtype, self.steps, self.reach = spec, spec.accumulator, steps, reach
        self.lanes = (target or targets.current()).vector_bytes // self.dtype.itemsize
        self.n, self.c, self.h, self.w, self.k, self.oh, self.ow = map(I.index, SIZES)
        self.phase_room = -(-(COLUMNS + (reach[1] - 1) // steps[1]) // 16) * 16 + 16
        self.row_room = self.phase_room * steps[1]
        self.packed_rows = max(ROOM // self.row_room, reach[0] + (ROWS - 1) * steps[0])
        self.most_rows = (self.packed_rows - reach[0]) // steps[0] + 1

    def counts(self):
        """(strips of rows, segments of columns) of a plane."""
        return I.ceil_div(self.height, self.most_rows), I.ceil_div(self.width, COLUMNS)

    def start(self):
        self.b = L.Builder("d")
        self.multiple = self.b.let(I.div(self.k, self.c), "multiple")
        self.row_strips, self.segments = (self.b.let(c) for c in self.counts())
        self.rows_each = self.b.let(I.ceil_div(self.height, self.row_strips), "rows_each")
        self.columns_each = self.b.let(I.ceil_div(self.width, self.segments), "columns_each")

    def finish(self):
        self.b.local("packed", self.dtype, self.packed_rows * self.row_room + 16)
        if self.steps[1] > 1:
            self.b.local("line", self.dtype, self.row_room + 16 * self.steps[1])
        return self.b.body()

    def split(self, number, size):
        quotient = self.b.let(I.div(number, size))
        return quotient, self.b.let(I.sub(number, I.mul(quotient, size)))

    def strip(self, row_strip, segment):
        """Which rows and columns the strip has."""
        b = self.b
        self.row, self.column = b.let(I.mul(row_strip, self.rows_each)), b.let(I.mul(segment, self.columns_each))
        self.rows = b.let(I.maximum(I.minimum(self.rows_each, I.sub(self.height, self.row)), 0), "rows")
        columns = I.minimum(self.columns_each, I.sub(self.width, self.column))
        self.columns = b.let(I.maximum(columns, 0), "columns")

    def read(self, buffer, index, lanes=1, mask=None):
        other = None if mask is None else self.b.const(0.0, self.spec.dtype, lanes)
        return self.b.cast(self.b.load(buffer, index, self.spec.dtype, lanes, mask, other), self.dtype)

    def weights(self, channel):
        """The taps' weights, in all lanes."""
        b, first = self.b, self.b.let(I.mul(channel, self.spec.taps))
        return [b.let(L.splat(self.read("weight", I.add(first, tap)), self.lanes)) for tap in range(self.spec.taps)]

    # ---- packing
    def pack(self, buffer, plane, sizes, top, left):
        """The rows from `top` and columns from `left` on that the strip sees of a plane, zero outside of it."""
        b, lanes = self.b, self.lanes
        count = b.let(I.add(I.mul(I.sub(self.columns, 1), self.steps[1]), self.reach[1]), "seen")
        lines = I.add(I.mul(I.sub(self.rows, 1), self.steps[0]), self.reach[0])
        begin = b.let(I.minimum(I.maximum(I.sub(0, left), 0), count), "begin_inside")
        end = b.let(I.maximum(I.minimum(count, I.sub(sizes[1], left)), begin), "end_inside")
        whole = b.let(I.add(begin, I.mul(I.div(I.sub(end, begin), lanes), lanes)), "whole")
        mask = b.let(I.lanes_below(I.sub(end, whole), lanes))
        zero, into = b.const(0.0, self.dtype, lanes), "packed" if self.steps[1] == 1 else "line"
        with b.loop("packing", 0, lines) as number:
            row = b.let(I.mul(number, self.row_room))
            line = b.let(I.add(top, number), "line_number")
            source = b.let(I.add(I.mul(I.add(I.mul(plane, sizes[0]), line), sizes[1]), left), "source")
            target = row if self.steps[1] == 1 else L.as_index(0)
            with b.loop("z", 0, begin, lanes) as z:
                b.store(into, I.add(target, z), zero)
            with b.loop("z", end, count, lanes) as z:
                b.store(into, I.add(target, z), zero)
            inside = b.and_(L.apply("ge", line, L.as_index(0)), L.apply("lt", line, sizes[0]))
            with b.branch(inside):
                with b.loop("x", begin, whole, lanes) as x:
                    b.store(into, I.add(target, x), self.read(buffer, I.add(source, x), lanes))
                with b.branch(L.apply("lt", whole, end)):
                    values = self.read(buffer, I.add(source, whole), lanes, mask)
                    b.store(into, I.add(target, whole), values)
            with b.branch(b.not_(inside)):
                with b.loop("x", begin, end, lanes) as x:
                    b.store(into, I.add(target, x), zero)
            if self.steps[1] > 1:
                self.part_phases(row, count)

    def part_phases(self, row, count):
        """The line to every s-th of its elements, then every s-th from the second on, and so on."""
        b, lanes, step = self.b, self.lanes, self.steps[1]
        each = b.let(I.ceil_div(count, step))
        with b.loop("x", 0, each, lanes) as x:
            if step == 2:
                pair = [b.load("line", I.add(I.mul(x, 2), half * lanes), self.dtype, lanes) for half in (0, 1)]
                values = [b.call(op, *pair) for op in ("even", "odd")]
            else:
                places = L.apply("mul", L.Apply(x.dtype, lanes, "lane", ()), L.as_index(step))
                values = [b.load("line", L.apply("add", places, b.let(I.add(I.mul(x, step), phase))), self.dtype,
                                 lanes) for phase in range(step)]
            for phase, value in enumerate(values):
                b.store("packed", I.add(row, phase * self.phase_room, x), value)

    # ---- sums over taps
    def correlate(self, windows, weights, emit, mask_end=True):
        """For all places of the strip: emit(row, column, sums of the rows from there for each window, mask or
        None). A window is a list of taps: (row moved, phase, column moved, number of the weight), of the packed
        plane. mask_end=False: vectors may be stored whole, also beyond the last column."""
        b, lanes = self.b, self.lanes
        fits = b.let(L.apply("ge", self.columns, L.as_index(lanes)))
        mask = b.let(I.lanes_below(self.columns, lanes))
        last = b.let(I.maximum(I.sub(self.columns, lanes), 0))

        def block(row, count):
            first = b.let(I.mul(row, self.steps[0] * self.row_room))
            with b.loop("vector", 0, self.columns, lanes) as start:
                column = b.let(I.minimum(start, last))
                place = b.let(I.add(first, column))
                sums = [self.block_sums(place, sorted(taps), weights, count) for taps in windows]
                if not mask_end:
                    return emit(row, column, sums, None)
                with b.branch(fits):
                    emit(row, column, sums, None)
                with b.branch(b.not_(fits)):
                    emit(row, column, sums, mask)

        few = b.let(L.apply("lt", self.rows, L.as_index(ROWS)))
        with b.branch(few):
            with b.loop("row", 0, self.rows) as row:
                block(row, 1)
        with b.branch(b.not_(few)):
            with b.loop("rows_from", 0, self.rows, ROWS) as row:        # the last block may meet the one before
                block(b.let(I.minimum(row, I.sub(self.rows, ROWS))), ROWS)

    def block_sums(self, place, taps, weights, count):
        """The sums of `count` rows at one vector of columns; `place`: where the first one stands."""
        b, sums, users = self.b, [None] * count, {}
        for number in range(count):
            for tap_row, phase, tap_column, weight in taps:
                key = number * self.steps[0] + tap_row, phase, tap_column
                users.setdefault(key, []).append((number, weight))
        for (row, phase, column), places in sorted(users.items()):
            near = row * self.row_room + phase * self.phase_room + column
            seen = b.load("packed", I.add(place, near), self.dtype, self.lanes)
            for number, weight in places:
                old = sums[number]
                sums[number] = b.mul(seen, weights[weight]) if old is None else b.fma(seen, weights[weight], old)
        return [b.const(0.0, self.dtype, self.lanes) if total is None else total for total in sums]


class _Windows(_Strips):
    """Strips of the output; the input is packed."""

    def __init__(self, spec, target):
        reach = [(k - 1) * d + 1 for k, d in zip(spec.kernel, spec.dilation)]
        super().__init__(spec, target, spec.stride, reach)
        self.height, self.width = self.oh, self.ow

    def taps(self):
        spec, step = self.spec, self.steps[1]
        for row in range(spec.kernel[0]):
            for column in range(spec.kernel[1]):
                moved = column * spec.dilation[1]
                yield row * spec.dilation[0], moved % step, moved // step, row * spec.kernel[1] + column

    def pack_input(self, plane):
        (down, right), (top, left) = self.spec.stride, self.spec.padding
        top, left = I.sub(I.mul(self.row, down), top), I.sub(I.mul(self.column, right), left)
        self.pack("input", plane, (self.h, self.w), self.b.let(top, "top"), self.b.let(left, "left"))


class _Forward(_Windows):

    def extent(self):
        return I.mul(I.mul(self.n, self.c), I.mul(*self.counts()))

    def body(self):
        self.start()
        b = self.b
        with b.loop("task", L.BEGIN, L.END) as task:
            rest, segment = self.split(task, self.segments)
            plane, row_strip = self.split(rest, self.row_strips)
            self.strip(row_strip, segment)
            self.pack_input(plane)
            channel = b.let(I.rem(plane, self.c))
            with b.loop("output_of", 0, self.multiple) as number:
                outputs = b.let(I.add(I.mul(channel, self.multiple), number))
                plane_out = b.let(I.add(I.mul(plane, self.multiple), number))
                bias = None
                if self.spec.bias:
                    bias = b.let(L.splat(self.read("bias", outputs), self.lanes))
                self.correlate([list(self.taps())], self.weights(outputs), self.emitter(plane_out, bias))
        return self.finish()

    def emitter(self, plane, bias):
        b = self.b

        def emit(row, column, sums, mask):
            first = I.add(I.mul(I.add(I.mul(plane, self.oh), self.row, row), self.ow), self.column, column)
            first = b.let(first)
            for number, value in enumerate(sums[0]):
                value = value if bias is None else b.add(value, bias)
                b.store("output", I.add(first, I.mul(number, self.ow)), b.cast(value, self.spec.dtype), mask)
        return emit


class _Data(_Strips):
    """Strips of places of equal residues: padded row = down * row + residue, and so the columns."""

    def __init__(self, spec, target):
        self.far = [(k - 1) * d // s for k, d, s in zip(spec.kernel, spec.dilation, spec.stride)]
        super().__init__(spec, target, (1, 1), [f + 1 for f in self.far])
        self.from_row, self.from_column = (p // s for p, s in zip(spec.padding, spec.stride))
        self.height, self.width = (
            I.sub(I.add(I.div(I.add(size, p - 1), s), 1), p // s) for size, p, s in
            zip((self.h, self.w), spec.padding, spec.stride))
        self.tile_row = (COLUMNS + 16) * spec.stride[1]
        self.tile_size = self.most_rows * spec.stride[0] * self.tile_row + 16

    def extent(self):
        return I.mul(I.mul(self.n, self.c), I.mul(*self.counts()))

    def body(self):
        self.start()
        b = self.b
        with b.loop("task", L.BEGIN, L.END) as task:
            rest, segment = self.split(task, self.segments)
            plane, row_strip = self.split(rest, self.row_strips)
            self.strip(row_strip, segment)
            top = b.let(I.add(self.row, self.from_row - self.far[0]), "top")
            left = b.let(I.add(self.column, self.from_column - self.far[1]), "left")
            channel = b.let(I.rem(plane, self.c))
            with b.loop("output_of", 0, self.multiple) as number:
                weights = self.weights(b.let(I.add(I.mul(channel, self.multiple), number)))
                self.pack("grad_output", b.let(I.add(I.mul(plane, self.multiple), number)), (self.oh, self.ow),
                          top, left)
                self.each_residue(number, weights)
            self.copy_out(plane, I.rem(I.add(self.multiple, 1), 2))
        b.local("tile", self.dtype, 2 * self.tile_size)
        return self.finish()

    def taps_of(self, axis, residue):
        """(tap, moved in the packed plane) of the taps that reach places of a residue."""
        spec, stride = self.spec, self.spec.stride[axis]
        for tap in range(spec.kernel[axis]):
            moved = tap * spec.dilation[axis]
            if moved % stride == residue:
                yield tap, self.far[axis] - moved // stride

    def each_residue(self, number, weights):
        """Sums for all residues into the tile of this output channel, on top of that of the one before."""
        down, right = self.spec.stride
        width = self.spec.kernel[1]
        for row_residue in range(down):
            rows = list(self.taps_of(0, row_residue))
            windows = [[(y, 0, x, r * width + s) for r, y in rows for s, x in self.taps_of(1, residue)]
                       for residue in range(right)]
            self.correlate(windows, weights, self.emitter(number, row_residue), mask_end=False)

    def emitter(self, number, row_residue):
        b, (down, right) = self.b, self.spec.stride
        into = b.let(I.mul(I.rem(number, 2), self.tile_size))
        before = b.let(I.sub(self.tile_size, into))
        again = b.let(L.apply("gt", number, L.as_index(0)))

        def emit(row, column, sums, mask):
            first = I.add(I.mul(I.add(I.mul(row, down), row_residue), self.tile_row), I.mul(column, right))
            first, places = b.let(first), []
            for count, values in enumerate(zip(*sums)):
                places += self.side_by_side(I.add(first, count * down * self.tile_row), values)
            with b.branch(again):
                for place, value in places:
                    old = b.load("tile", L.apply("add", place, before), self.dtype, self.lanes)
                    b.store("tile", L.apply("add", place, into), b.add(old, value))
            with b.branch(b.not_(again)):
                for place, value in places:
                    b.store("tile", L.apply("add", place, into), value)
        return emit

    def side_by_side(self, first, values):
        """(index in the tile, vector) of the sums for neighbouring columns, one vector a residue."""
        b, right = self.b, len(values)
        if right == 1:
            return [(first, values[0])]
        if right == 2:
            return [(I.add(first, half * self.lanes), b.call(op, *values))
                    for half, op in enumerate(("zip_low", "zip_high"))]
        steps = b.let(L.apply("mul", L.Apply(first.dtype, self.lanes, "lane", ()), L.as_index(right)))
        return [(L.apply("add", steps, I.add(first, residue)), value) for residue, value in enumerate(values)]

    def copy_out(self, plane, half):
        """The places of the tile that exist, to grad_input."""
        b, lanes, (down, right), padding = self.b, self.lanes, self.spec.stride, self.spec.padding
        first_row = b.let(I.sub(I.mul(I.add(self.row, self.from_row), down), padding[0]))
        first = b.let(I.sub(I.mul(I.add(self.column, self.from_column), right), padding[1]))
        begin = b.let(I.maximum(I.sub(0, first), 0))
        end = b.let(I.minimum(I.mul(self.columns, right), I.sub(self.w, first)))
        whole = b.let(I.add(begin, I.mul(I.div(I.maximum(I.sub(end, begin), 0), lanes), lanes)))
        base = b.let(I.mul(half, self.tile_size))
        low = I.maximum(I.sub(0, first_row), 0)
        with b.loop("y", low, I.minimum(I.mul(self.rows, down), I.sub(self.h, first_row))) as y:
            source = b.let(I.add(base, I.mul(y, self.tile_row)))
            line = I.add(I.mul(plane, self.h), first_row, y)
            target = b.let(I.add(I.mul(line, self.w), first))

            def copy(x, mask=None):
                value = b.load("tile", I.add(source, x), self.dtype, lanes)
                b.store("grad_input", I.add(target, x), b.cast(value, self.spec.dtype), mask)

            with b.loop("x", begin, whole, lanes) as x:
                copy(x)
            with b.branch(L.apply("lt", whole, end)):
                copy(whole, b.let(I.lanes_below(I.sub(end, whole), lanes)))


class _Weight(_Windows):

    def __init__(self, spec, target):
        super().__init__(spec, target)
        self.sums = SUMS_BYTES // self.dtype.itemsize
        registers = self.sums // self.lanes
        self.group = {1: 12, 2: 5}.get(registers, 3)        # taps whose sums are in registers together

    def extent(self):
        return I.mul(self.n, self.k)

    def body(self):
        self.start()
        b, lanes = self.b, self.sums
        zero = b.const(0.0, self.dtype, lanes)
        with b.loop("plane", L.BEGIN, L.END) as plane:
            channel = I.div(I.rem(plane, self.k), self.multiple)
            input_plane = b.let(I.add(I.mul(I.div(plane, self.k), self.c), channel), "input_plane")
            for tap in range(self.spec.taps):
                b.store("sums", L.as_index(tap * lanes), zero)
            with b.loop("row_strip", 0, self.row_strips) as strip, b.loop("segment", 0, self.segments) as segment:
                self.strip(strip, segment)
                self.pack_input(input_plane)
                taps = list(self.taps())
                groups = -(-len(taps) // self.group)
                for group in range(groups):
                    chosen = taps[group * len(taps) // groups:(group + 1) * len(taps) // groups]
                    self.accumulate(plane, chosen)
            first = b.let(I.mul(plane, self.spec.taps))
            for tap in range(self.spec.taps):
                total = b.call("reduce_add", b.load("sums", L.as_index(tap * lanes), self.dtype, lanes))
                b.store("partial", I.add(first, tap), total)
        b.local("sums", self.dtype, self.spec.taps * lanes)
        return self.finish()

    def accumulate(self, plane, taps):
        """Add the strip's products to the sums of some taps."""
        b, lanes = self.b, self.sums
        totals = [b.declare(b.load("sums", L.as_index(t[3] * lanes), self.dtype, lanes)) for t in taps]
        whole = b.let(I.mul(I.div(self.columns, lanes), lanes))
        mask = b.let(I.lanes_below(I.sub(self.columns, whole), lanes))
        zero = b.const(0.0, self.dtype, lanes)
        with b.loop("y", 0, self.rows) as y:
            source = I.add(I.mul(I.add(I.mul(plane, self.oh), self.row, y), self.ow), self.column)
            source, place = b.let(source), b.let(I.mul(y, self.steps[0] * self.row_room))

            def add(x, mask=None):
                grad = self.read("grad_output", I.add(source, x), lanes, mask)
                at = b.let(I.add(place, x))
                for total, (row, phase, column, _) in zip(totals, taps):
                    near = row * self.row_room + phase * self.phase_room + column
                    seen = b.load("packed", I.add(at, near), self.dtype, lanes)
                    seen = seen if mask is None else L.apply("select", mask, seen, zero)
                    b.assign(total, L.apply("fma", grad, seen, total))

            with b.loop("x", 0, whole, lanes) as x:
                add(x)
            with b.branch(L.apply("lt", whole, self.columns)):
                add(whole, mask)
        for total, tap in zip(totals, taps):
            b.store("sums", L.as_index(tap[3] * lanes), total)
