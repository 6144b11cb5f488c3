"""2-d convolution as implicit GEMM: compiler.gemm with loads that compute the element of the unfolded input.

Layout is NCHW, contiguous. The window's numbers are part of the kernel; sizes are params, always in the order
of PARAMS: N, C, H, W of the input, K (channels) and OH, OW of the output. A 1-d convolution has H = OH = 1.

What differs along the columns of a panel (which pixel or tap it is) stands in small tables that are filled
once a panel; what differs along k is worked out once a k. A mask keeps to the input: outside it there are
zeros. Where output and input have the same width and the stride is 1, neighbours in the panel are neighbours
in memory and are read as one vector, across the ends of rows too; elsewhere they are gathered.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler.gemm import gemm_kernel, gemm_work
from flambeau.ir import loops as L
from flambeau.types.dtype import DType, float32, int32, int64

PARAMS = ("N", "C", "H", "W", "K", "OH", "OW")
_OUTSIDE = -(1 << 30)       # a row that is outside of every image


@dataclass(frozen=True)
class Convolution:
    """Everything of a convolution but its sizes; pairs are (vertical, horizontal)."""

    kernel: tuple
    stride: tuple = (1, 1)
    padding: tuple = (0, 0)
    dilation: tuple = (1, 1)
    groups: int = 1
    bias: bool = False
    dtype: DType = float32

    @property
    def taps(self):
        return self.kernel[0] * self.kernel[1]

    @property
    def keeps_size(self):
        """True if the output is as large as the input because stride and padding make it so."""
        return self.stride == (1, 1) and all(
            2 * p == d * (k - 1) for p, d, k in zip(self.padding, self.dilation, self.kernel))

    @property
    def accumulator(self):
        return float32 if self.dtype.kind == "f" and self.dtype.itemsize == 2 else self.dtype

    def output_size(self, height, width):
        """(OH, OW) of an input of that height and width."""
        return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in
                     zip((height, width), self.padding, self.dilation, self.kernel, self.stride))


def conv2d_forward(spec, name="conv2d", epilogue=None, target=None):
    """output[n, k] = bias[k] + sum over c, r, s of input[n, c, moved by (r, s)] * weight[k, c, r, s].

    Buffers: input (N, C, H, W), weight (K, C / groups, R, S), bias (K,) if spec.bias, output (N, K, OH, OW).
    Params: PARAMS. epilogue(b, value): what happens to a finished element before it is stored, such as an
    activation.
    """
    sizes = _Sizes(spec)
    buffers = [_buffer("input", spec), _buffer("weight", spec)] + [_buffer("bias", spec)] * spec.bias
    window = _ForwardWindow(sizes)

    def load_a(b, batch, m, k, lanes):
        row = I.add(I.mul(I.rem(batch, spec.groups), sizes.group_outputs), m)
        return _read(b, spec, "weight", I.add(I.mul(row, sizes.patch), k), lanes,
                     _tail(sizes.patch, k, lanes))

    def store(b, batch, m, n, value, lanes, mask):
        channel = b.let(I.add(I.mul(I.rem(batch, spec.groups), sizes.group_outputs), m))
        if spec.bias:
            value = b.add(value, L.splat(_read(b, spec, "bias", channel), lanes))
        if epilogue is not None:
            value = epilogue(b, value)
        plane = I.add(I.mul(batch, sizes.group_outputs), m)
        b.store("output", I.add(I.mul(plane, sizes.out_plane), n), b.cast(value, spec.dtype), mask)

    return gemm_kernel(name, (*buffers, _buffer("output", spec, "w")), PARAMS, load_a, window.load, store,
                       spec.accumulator,
                       sizes=(sizes.images, sizes.group_outputs, sizes.out_plane, sizes.patch),
                       vector_a="masked", vector_b="masked", prepare_b=window.prepare, target=target)


def conv2d_backward_data(spec, name="conv2d_backward_data", target=None):
    """The gradient of the input.

    Buffers: grad_output (N, K, OH, OW), weight (K, C / groups, R, S), grad_input (N, C, H, W). Params:
    PARAMS.
    """
    sizes = _Sizes(spec)
    window = _TransposedWindow(sizes)

    def load_a(b, batch, m, k, lanes):
        channel, tap = b.let(I.div(k, spec.taps)), b.let(I.rem(k, spec.taps))
        row = I.add(I.mul(I.rem(batch, spec.groups), sizes.group_outputs), channel)
        address = b.let(I.add(I.mul(I.add(I.mul(row, sizes.group_inputs), m), spec.taps), tap))
        address = _strided(address, spec.taps, lanes)
        return _read(b, spec, "weight", address, lanes, _tail(sizes.group_inputs, m, lanes))

    def store(b, batch, m, n, value, lanes, mask):
        plane = I.add(I.mul(batch, sizes.group_inputs), m)
        b.store("grad_input", I.add(I.mul(plane, sizes.plane), n), b.cast(value, spec.dtype), mask)

    buffers = _buffer("grad_output", spec), _buffer("weight", spec), _buffer("grad_input", spec, "w")
    depth = I.mul(sizes.group_outputs, spec.taps)
    return gemm_kernel(name, buffers, PARAMS, load_a, window.load, store, spec.accumulator,
                       sizes=(sizes.images, sizes.group_inputs, sizes.plane, depth), unit_a="m",
                       vector_a="masked", vector_b="masked", prepare_b=window.prepare, target=target)


def conv2d_work(spec, kind, N, C, H, W, K, OH, OW, target=None):
    """About how many scalar operations a step of the extent takes; kind: 'forward' or 'data'."""
    inputs, outputs = C // spec.groups, K // spec.groups
    batch, m, n, k = {
        "forward": (N * spec.groups, outputs, OH * OW, inputs * spec.taps),
        "data": (N * spec.groups, inputs, H * W, outputs * spec.taps)}[kind]
    return gemm_work(batch, m, n, k, spec.accumulator, target)


# ---------------------------------------------------------------------------------------------- parts
def _buffer(name, spec, access="r"):
    return L.Buffer(name, spec.dtype, access)


def _read(b, spec, buffer, index, lanes=1, mask=None):
    """An element, or lanes, as the accumulator's dtype; zero where the mask is false."""
    other = None if mask is None else b.const(0.0, spec.dtype, lanes)
    return b.cast(b.load(buffer, index, spec.dtype, lanes, mask, other), spec.accumulator)


def _tail(size, first, lanes):
    """The mask of a vector that starts at `first` of an axis of `size`; none for a scalar."""
    return None if lanes == 1 else I.lanes_below(I.sub(size, first), lanes)


def _strided(first, stride, lanes):
    """The index `first`, or the vector first, first + stride, ..."""
    if lanes == 1:
        return first
    steps = L.apply("mul", L.Apply(int64, lanes, "lane", ()), L.as_index(stride))
    return L.apply("add", L.splat(first, lanes), steps)


def _split(b, k, size):
    """(k / size, k % size) with one division."""
    quotient = b.let(I.div(k, size))
    return quotient, b.let(I.sub(k, I.mul(quotient, size)))


class _Sizes:
    """The params and what follows from them, as index expressions. An image's group is a batch of the
    GEMM."""

    def __init__(self, spec):
        self.spec = spec
        self.n, self.c, self.h, self.w, self.k, self.oh, self.ow = map(I.index, PARAMS)
        self.images = I.mul(self.n, spec.groups)
        self.group_inputs, self.group_outputs = I.div(self.c, spec.groups), I.div(self.k, spec.groups)
        self.plane, self.out_plane = I.mul(self.h, self.w), I.mul(self.oh, self.ow)
        self.patch = I.mul(self.group_inputs, spec.taps)        # elements that meet in one output


class _Window:
    """B of one of the two products. For each column of a panel there is a row and a column of the image
    (i32; out of it beyond the last column of B), to which each k adds its own, and an address, likewise."""

    def __init__(self, sizes):
        self.sizes, self.spec = sizes, sizes.spec
        self.rows = self.columns = self.addresses = None         # names of the tables

    def prepare(self, b, batch, n, count):
        self.rows = b.local("window_rows", int32, count)
        self.columns = b.local("window_columns", int32, count)
        self.addresses = b.local("window_addresses", int64, count)
        with b.loop("entry", 0, count) as entry:
            number = b.let(I.add(n, entry))
            row, column, address = self.entry(b, number)
            inside = L.apply("lt", number, self.count)
            row = L.apply("select", inside, row, L.as_index(_OUTSIDE))
            b.store(self.rows, entry, L.apply("cast", row, dtype=int32))
            b.store(self.columns, entry, L.apply("cast", column, dtype=int32))
            b.store(self.addresses, entry, address)

    def tap(self, b, number):
        """(channel, row and column in the window) of a number that counts channels, rows and columns."""
        channel, tap = b.let(I.div(number, self.spec.taps)), b.let(I.rem(number, self.spec.taps))
        width = self.spec.kernel[1]
        vertical, horizontal = self.spec.dilation
        return channel, I.mul(I.div(tap, width), vertical), I.mul(I.rem(tap, width), horizontal)

    def place(self, b, table, lanes, column, moved):
        """The table's entries for `lanes` columns, moved by the index `moved`."""
        entries = b.load(table, column, int32, lanes)
        return b.let(L.apply("add", entries, L.apply("cast", b.let(moved), dtype=int32)))

    def inside(self, b, rows, columns, height, width):
        sizes = (b.call("cast", size, dtype=int32) for size in (height, width))
        return b.and_(*(I.within(place, size) for place, size in zip((rows, columns), sizes)))

    def read(self, b, buffer, base, mask, lanes, column):
        """The elements at `base` plus the table's addresses; where these are consecutive, as one vector."""
        if lanes > 1 and self.spec.keeps_size:
            address = b.let(I.add(base, b.load(self.addresses, column, int64)))
        else:
            address = b.let(L.apply("add", b.load(self.addresses, column, int64, lanes), b.let(base)))
        return _read(b, self.spec, buffer, address, lanes, mask)


class _ForwardWindow(_Window):
    """Columns are output pixels, k counts input channels and taps."""

    @property
    def count(self):
        return self.sizes.out_plane

    def entry(self, b, number):
        (down, right), (top, left) = self.spec.stride, self.spec.padding
        row, column = _split(b, number, self.sizes.ow)
        row, column = b.let(I.sub(I.mul(row, down), top)), b.let(I.sub(I.mul(column, right), left))
        return row, column, I.add(I.mul(row, self.sizes.w), column)

    def load(self, b, batch, k, n, lanes, column):
        sizes = self.sizes
        channel, down, right = self.tap(b, k)
        rows = self.place(b, self.rows, lanes, column, down)
        columns = self.place(b, self.columns, lanes, column, right)
        mask = self.inside(b, rows, columns, sizes.h, sizes.w)
        plane = I.mul(I.add(I.mul(batch, sizes.group_inputs), channel), sizes.plane)
        return self.read(b, "input", I.add(plane, I.mul(down, sizes.w), right), mask, lanes, column)


class _TransposedWindow(_Window):
    """Columns are input pixels, k counts output channels and taps: where (pixel - tap) is divisible by the
    stride, that output pixel saw this input pixel through this tap."""

    @property
    def count(self):
        return self.sizes.plane

    def entry(self, b, number):
        row, column = _split(b, number, self.sizes.w)
        top, left = self.spec.padding
        row, column = b.let(I.add(row, top)), b.let(I.add(column, left))
        return row, column, I.add(I.mul(row, self.sizes.ow), column)

    def load(self, b, batch, k, n, lanes, column):
        sizes = self.sizes
        channel, down, right = self.tap(b, k)
        rows = self.place(b, self.rows, lanes, column, I.mul(down, -1))
        columns = self.place(b, self.columns, lanes, column, I.mul(right, -1))
        plane = I.mul(I.add(I.mul(batch, sizes.group_outputs), channel), sizes.out_plane)
        if self.spec.stride == (1, 1):
            mask = self.inside(b, rows, columns, sizes.oh, sizes.ow)
            base = I.sub(I.sub(plane, I.mul(down, sizes.ow)), right)
            return self.read(b, "grad_output", base, mask, lanes, column)
        rows, row_hits = self.divided(b, rows, self.spec.stride[0])
        columns, column_hits = self.divided(b, columns, self.spec.stride[1])
        mask = b.and_(self.inside(b, rows, columns, sizes.oh, sizes.ow), b.and_(row_hits, column_hits))
        pixel = b.add(b.mul(rows, b.call("cast", sizes.ow, dtype=int32)), columns)
        address = b.add(b.call("cast", pixel, dtype=int64), b.let(plane))
        return _read(b, self.spec, "grad_output", address, lanes, mask)

    def divided(self, b, places, stride):
        """(places / stride, where that is exact)."""
        by = b.const(stride, int32, places.lanes)
        return b.idiv(places, by), b.eq(b.irem(places, by), b.const(0, int32))
