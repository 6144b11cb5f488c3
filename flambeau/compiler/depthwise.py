"""Depthwise convolution: each output channel sees one input channel, so vectors run along the rows.

    for each task: a strip of a plane of the input                            the extent (compiler.strips)
        copy what the strip sees of the plane, zeros around it                packed[row][column]
        for each block of rows, for each vector of columns:
            sums[row] += packed[row moved by tap][column moved by tap] * weight[tap]      for each tap

The gradient of the input is the same with the gradient of the output packed and the window turned around.
The gradient of the weight multiplies rows by rows, in a vector of sums a tap, which are added at the end of
a plane; a second kernel adds the planes of all images, in order.

Sizes are params (SIZES); the window is part of the kernel. K may be a multiple of C.
"""

from flambeau.compiler import index_math as I, strips
from flambeau.compiler.strips import Places, Windows
from flambeau.ir import loops as L

SIZES = ("N", "C", "H", "W", "K", "OH", "OW")
MOST_TAPS = 128             # of a window that is written out tap by tap
SUMS_BYTES = 64             # a tap's sums of the gradient of the weight: part of the meaning


def suits(spec, weight_shape):
    """True if the kernels here do a convolution with a weight (K, C / groups, R, S)."""
    return spec.groups > 1 and weight_shape[1] == 1 and spec.taps <= MOST_TAPS and strips.suits(spec)


def depthwise_forward(spec, name="depthwise", target=None):
    """Buffers: input (N, C, H, W), weight (K, 1, R, S), bias (K,) if spec.bias, output (N, K, OH, OW).
    Params: SIZES. One step of the extent is a strip of a plane of the input."""
    writer = _Forward(spec, target)
    buffers = [L.Buffer(n, spec.dtype, "r") for n in ("input", "weight", "bias")[:2 + spec.bias]]
    buffers.append(L.Buffer("output", spec.dtype, "w"))
    return L.Kernel(name, tuple(buffers), SIZES, writer.extent(_planes("C")), writer.body())


def depthwise_backward_data(spec, name="depthwise_backward_data", target=None):
    """Buffers: grad_output (N, K, OH, OW), weight (K, 1, R, S), grad_input (N, C, H, W). Params: SIZES. One
    step of the extent is a strip of a plane of grad_input."""
    writer = _Data(spec, target)
    buffers = (L.Buffer("grad_output", spec.dtype, "r"), L.Buffer("weight", spec.dtype, "r"),
               L.Buffer("grad_input", spec.dtype, "w"))
    return L.Kernel(name, buffers, SIZES, writer.extent(_planes("C")), writer.body())


def depthwise_weight_sums(spec, name="depthwise_weight_sums", target=None):
    """Buffers: input, grad_output, partial (N, K, R, S) of the accumulator's dtype: the gradient of the
    weight, image by image. Params: SIZES. One step of the extent is a plane of grad_output."""
    writer = _Weight(spec, target)
    buffers = (L.Buffer("input", spec.dtype, "r"), L.Buffer("grad_output", spec.dtype, "r"),
               L.Buffer("partial", spec.accumulator, "w"))
    return L.Kernel(name, buffers, SIZES, _planes("K"), writer.body())


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


def _planes(channels):
    return I.mul(I.index("N"), I.index(channels))


def launch(planner, which, inputs, out, spec, sizes, work):
    """The kernels of a product into a plan; `which` as of templates.convolution."""
    if which != "backward_weight":
        kernel = (depthwise_forward if which == "forward" else depthwise_backward_data)(spec)
        return planner.launch_template(kernel, [*inputs, out], sizes, work)
    partial = planner.recipe.buffer(spec.accumulator, (sizes["N"], *out.shape))
    planner.launch_template(depthwise_weight_sums(spec), [*inputs, partial], sizes, work)
    work = sizes["N"] * sizes["K"] * spec.taps
    planner.launch_template(depthwise_weight_fold(spec), [partial, out], sizes, work)


# ---------------------------------------------------------------------------------------------- parts
def _weights(walk, channel):
    """The taps' weights, in all lanes."""
    b, spec = walk.b, walk.spec
    first = b.let(I.mul(channel, spec.taps))
    weights = (walk.read("weight", I.add(first, tap)) for tap in range(spec.taps))
    return [b.let(L.splat(weight, walk.lanes)) for weight in weights]


def _sums(walk, place, taps, weights, count):
    """For `count` rows at one vector of columns the sum of what the taps see, times their weights."""
    b, sums = walk.b, [None] * count
    for tap, users in walk.shared_taps(taps, count):
        seen = b.load("packed", I.add(place, walk.near(*tap)), walk.dtype, walk.lanes)
        for number, (*_, weight) in users:
            old = sums[number]
            sums[number] = b.mul(seen, weights[weight]) if old is None else b.fma(seen, weights[weight], old)
    return [b.const(0.0, walk.dtype, walk.lanes) if total is None else total for total in sums]


class _Forward(Windows):

    def body(self):
        b, c = self.b, I.index("C")
        self.start()
        multiple = b.let(I.div(I.index("K"), c))
        with b.loop("task", L.BEGIN, L.END) as task:
            plane = self.take(task)
            self.pack("input", plane, (self.h, self.w), self.corner())
            channel = b.let(I.mul(I.rem(plane, c), multiple))
            with b.loop("output_of", 0, multiple) as number:
                output = b.let(I.add(channel, number))
                bias = b.let(L.splat(self.read("bias", output), self.lanes)) if self.spec.bias else None
                self.walk(b.let(I.add(I.mul(plane, multiple), number)), _weights(self, output), bias)
        return self.finish()

    def walk(self, plane, weights, bias):
        b, taps, whole_or_masked = self.b, list(self.taps()), self.whole_or_masked()

        def block(row, column, count, place):
            sums = _sums(self, place, taps, weights, count)
            first = self.output_index(plane, row, column)

            def store(mask):
                for number, value in enumerate(sums):
                    value = value if bias is None else b.add(value, bias)
                    address = I.add(first, I.mul(number, self.ow))
                    b.store("output", address, b.cast(value, self.spec.dtype), mask)
            whole_or_masked(store)
        self.each_block(block)


class _Data(Places):

    def body(self):
        b, c = self.b, I.index("C")
        self.start()
        multiple = b.let(I.div(I.index("K"), c))
        with b.loop("task", L.BEGIN, L.END) as task:
            plane = self.take(task)
            corner, channel = self.corner(), b.let(I.mul(I.rem(plane, c), multiple))
            with b.loop("output_of", 0, multiple) as number:
                weights = _weights(self, b.let(I.add(channel, number)))
                outputs = b.let(I.add(I.mul(plane, multiple), number))
                self.pack("grad_output", outputs, (self.oh, self.ow), corner)
                for residue in range(self.spec.stride[0]):
                    self.walk(residue, number, weights)
            half = b.let(I.mul(I.rem(I.add(multiple, 1), 2), self.tile_size))
            self.copy_out(plane, "grad_input", half)
        self.locals["tile"] = self.dtype, 2 * self.tile_size
        return self.finish()

    def walk(self, residue, number, weights):
        """Sums into the tile of this output channel, on top of the other tile: that of the channel before."""
        b, windows = self.b, self.windows(residue)
        into = b.let(I.mul(I.rem(number, 2), self.tile_size))
        other = b.let(I.sub(self.tile_size, into))
        again = b.let(L.apply("gt", number, L.as_index(0)))

        def block(row, column, count, place):
            sums = [_sums(self, place, taps, weights, count) for taps in windows]
            places = self.side_by_side(row, residue, column, sums)
            with b.branch(again):
                for place, value in places:
                    old = b.load("tile", L.apply("add", place, other), self.dtype, self.lanes)
                    b.store("tile", L.apply("add", place, into), b.add(old, value))
            with b.branch(b.not_(again)):
                for place, value in places:
                    b.store("tile", L.apply("add", place, into), value)
        self.each_block(block)


class _Weight(Windows):

    def __init__(self, spec, target):
        super().__init__(spec, target)
        self.sums = SUMS_BYTES // self.dtype.itemsize
        self.group = {1: 12, 2: 5}.get(self.sums // self.lanes, 3)      # taps with sums in registers together

    def body(self):
        b, c, k = self.b, I.index("C"), I.index("K")
        self.start()
        multiple = b.let(I.div(k, c))
        zero, taps = b.const(0.0, self.dtype, self.sums), list(self.taps())
        with b.loop("plane", L.BEGIN, L.END) as plane:
            channel = I.div(I.rem(plane, k), multiple)
            input_plane = b.let(I.add(I.mul(I.div(plane, k), c), channel), "input_plane")
            for tap in range(self.spec.taps):
                b.store("sums", L.as_index(tap * self.sums), zero)
            with b.loop("row_strip", 0, self.row_strips) as strip, \
                    b.loop("segment", 0, self.segments) as segment:
                self.go(strip, segment)
                self.pack("input", input_plane, (self.h, self.w), self.corner())
                groups = -(-len(taps) // self.group)
                borders = [group * len(taps) // groups for group in range(groups + 1)]
                for begin, end in zip(borders, borders[1:]):
                    self.accumulate(plane, taps[begin:end])
            first = b.let(I.mul(plane, self.spec.taps))
            for tap in range(self.spec.taps):
                total = b.load("sums", L.as_index(tap * self.sums), self.dtype, self.sums)
                b.store("partial", I.add(first, tap), b.reduce_add(total))
        self.locals["sums"] = self.dtype, self.spec.taps * self.sums
        return self.finish()

    def accumulate(self, plane, taps):
        """Add the strip's products to the sums of some taps."""
        b, lanes = self.b, self.sums
        totals = [b.declare(b.load("sums", L.as_index(t[3] * lanes), self.dtype, lanes)) for t in taps]
        whole = b.let(I.mul(I.div(self.columns, lanes), lanes))
        mask = b.let(I.lanes_below(I.sub(self.columns, whole), lanes))
        zero = b.const(0.0, self.dtype, lanes)
        with b.loop("y", 0, self.rows) as y:
            source, place = self.output_index(plane, y, 0), b.let(I.mul(y, self.steps[0] * self.row_room))

            def add(x, mask=None):
                grad = self.read("grad_output", I.add(source, x), lanes, mask)
                at = b.let(I.add(place, x))
                for total, tap in zip(totals, taps):
                    seen = b.load("packed", I.add(at, self.near(*tap[:3])), self.dtype, lanes)
                    seen = seen if mask is None else L.apply("select", mask, seen, zero)
                    b.assign(total, L.apply("fma", grad, seen, total))

            with b.loop("x", 0, whole, lanes) as x:
                add(x)
            with b.branch(L.apply("lt", whole, self.columns)):
                add(whole, mask)
        for total, tap in zip(totals, taps):
            b.store("sums", L.as_index(tap[3] * lanes), total)
