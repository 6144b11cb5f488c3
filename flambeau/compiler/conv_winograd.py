"""Convolution by Winograd's minimal algorithm F(2 x 2, 3 x 3) as a Loops template: 16 products for four
results that take 36 directly (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, §4.1).

    for each tile: squares of 2 x 2 results, from rows one above the other or whole images
        for each block of the source's channels:
            for each vector of them: pack their strip, turn it to [place][channel], and for each square
                V[16][square][channel]       the 4 x 4 places that it sees, transformed
            for each block of output channels, each of the 16:
                M[16][square][output] += V * U       U: the transformed weights, packed ahead
        for each vector of outputs: transform M to the results, turn and hand them to the splice `result`

Order of additions: for each of the 16 the source's channels one after another, by fma from zero; then the
transforms, written out below. Squares begin at the result's first row and column, so the bits do not depend on
tiles. What is not finite is computed again, directly: an infinite pixel becomes what it would be in plain
arithmetic, and only where it is seen (decision 0022, also for accuracy).
"""

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.compiler.conv_pack import Pack
from flambeau.compiler.conv_schedule import Axis, Shape, maximum, minimum, register_pixels
from flambeau.compiler.conv_strip import PARAMS, Strips, strips
from flambeau.compiler.gemm_pack import turned
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

PARTS = 16              # products of a square
TAPS = 9
SQUARES = 64            # of a tile, at most
CHANNELS = 64           # of the source that are added up between two visits to the sums
OUTPUTS = 128           # of a tile, at most
STRIP = 16384           # elements of a vector of channels' strip
SHARES = 4              # at least so many parts of the work: each transforms the source on its own
PAD = 16                # elements behind a row of V, so that rows do not meet in one cache set
LEAST_CHANNELS = 16     # of source and result, below which the transforms cost more than they save
LEAST_SAVED = 256       # products of each pair of channels, below which transforming its weight costs more
LEAST_WORK = 1 << 25    # products saved in all, below which no program gains what compiling kernels takes


def suits(spec):
    """True for the windows that this template knows."""
    return spec.kernel == (3, 3) and spec.stride == spec.dilation == (1, 1)


def winograd_shape(dtype, target=None):
    """The conv_schedule.Shape: places are squares, and a strip has one vector of channels."""
    target = target or targets.current()
    lanes = target.vector_bytes // dtype.itemsize
    blocks = max(OUTPUTS // (2 * lanes), 1)
    pixels = register_pixels(target)
    sums = (SQUARES + pixels) * 2 * lanes * blocks
    return Shape(lanes, 2, pixels, lanes, SQUARES, STRIP, sums, 4, False, blocks, SHARES, SHARES, True)


def squares_axis(axis):
    """What squares see of an axis, from what single results see."""
    return Axis(4, 0, 1, axis.origin, 2, 1)


def worth(batch, channels, outputs, height, width):
    """1 where the algorithm saves time, else 0, for the sizes of a group and of the result: ints or Registers.
    Squares that hang over the border compute results in vain: without them it takes 16 / 36 of the products.
    """
    squares = (height + 1) // 2 * ((width + 1) // 2)
    filled = minimum(45 * height * width // maximum(112 * squares, 1), 1)      # takes 5/7 of the products at most
    saved = maximum(TAPS * height * width - PARTS * squares, 0) * batch
    enough = minimum(saved // LEAST_SAVED, 1) * minimum(saved * channels * outputs // LEAST_WORK, 1)
    return filled * enough * minimum(minimum(channels, outputs) // LEAST_CHANNELS, 1)


# ---------------------------------------------------------------------------------------------- transforms
def seen(b, d):
    """What four places of an axis give to the products."""
    return [b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])]


def weighed(b, g):
    """What three taps give to the products."""
    half = b.const(0.5, g[0].dtype, g[0].lanes)
    ends, middle = b.mul(b.add(g[0], g[2]), half), b.mul(g[1], half)
    return [g[0], b.add(ends, middle), b.sub(ends, middle), g[2]]


def results(b, m):
    """The two results of four products."""
    return [b.add(b.add(m[0], m[1]), m[2]), b.sub(b.sub(m[1], m[2]), m[3])]


def both_axes(b, transform, square):
    """A transform of a square of values, [row][column], along columns and then along rows."""
    columns = [transform(b, column) for column in zip(*square)]         # [column][row of the result]
    return [transform(b, row) for row in zip(*columns)]


# ---------------------------------------------------------------------------------------------- weights
PACK_PARAMS = ("C", "K", "groups", "taken")


def packed_size(shape, groups, channels, outputs):
    """Elements of the transformed weights; channels and outputs of a group."""
    return (outputs + shape.outputs - 1) // shape.outputs * channels * (groups * PARTS * shape.outputs)


def pack_weights(shape, backward, dtype, stored):
    """The kernel that transforms the weights to [group][block of outputs][block of channels][16][channel][output].

    Buffers: weight, of dtype `stored`, (groups * K, C, 3, 3) or, backward, (groups * C, K, 3, 3), whose window
    is turned round; packed, of `dtype`. Params: PACK_PARAMS; nothing is done where `taken` is 0.
    """
    b, size = L.Builder("p"), {name: I.index(name) for name in PACK_PARAMS[:2]}
    blocks, parts = I.ceil_div(size["K"], shape.outputs), I.ceil_div(size["C"], CHANNELS)
    extent = I.mul(I.index("groups"), I.index("taken"), shape.vectors, I.mul(blocks, parts))
    writer = Pack(b, shape, backward, dtype, stored, {**size, "taps": L.as_index(TAPS)}, "packed")
    with b.loop("number", L.BEGIN, L.END) as number:
        strip, first = b.let(I.div(number, parts)), b.let(I.mul(I.rem(number, parts), CHANNELS))
        depth = b.let(I.minimum(CHANNELS, I.sub(size["C"], first)))
        vector, block = b.let(I.rem(strip, shape.vectors)), b.let(I.div(strip, shape.vectors))
        group, inner = b.let(I.div(block, blocks)), b.let(I.mul(vector, shape.lanes))
        output = b.let(I.add(I.mul(I.rem(block, blocks), shape.outputs), inner))
        writer.choose_outputs(group, output)
        to = b.let(I.add(I.mul(I.add(I.mul(block, size["C"]), first), PARTS * shape.outputs), inner))
        step = b.let(I.mul(depth, shape.outputs))
        with b.loop("channel", 0, depth) as inside:
            c = b.let(I.add(first, inside))
            base = I.mul(c, TAPS)
            if backward:
                base = I.mul(I.add(I.mul(group, size["C"]), c), size["K"], TAPS)
            taps = _taps(b, writer, b.let(base), shape.lanes)
            square = [taps[n:n + 3] for n in (0, 3, 6)]
            if backward:
                square = [row[::-1] for row in square[::-1]]
            here = b.let(I.add(to, I.mul(inside, shape.outputs)))
            values = [v for row in both_axes(b, weighed, square) for v in row]
            for part, value in enumerate(values):
                b.store("packed", I.add(here, I.mul(part, step)), value)
    buffers = L.Buffer("weight", stored, "r"), L.Buffer("packed", dtype, "w")
    name = "winograd_weights_backward" if backward else "winograd_weights"
    return L.Kernel(name, buffers, PACK_PARAMS, extent, b.body())


def _taps(b, writer, base, lanes):
    """Nine vectors, one a tap, over the chosen outputs."""
    taps = []
    for run in range(0, TAPS, lanes):
        rows = [I.add(row, base, run) for row in writer.rows]
        taps += writer.square(rows, L.as_index(TAPS - run), 0)
    return taps[:TAPS]


# ---------------------------------------------------------------------------------------------- template
def winograd_template(name, shape, axes, groups, dtype, stored, backward=False):
    """The kernel with `result` unfilled, as conv_direct.direct_template; `axes`: those of rows and columns as
    `squares_axis` makes them. Buffers: source, weight (as stored), weights (as packed here).
    """
    writer = _Winograd(shape, axes, groups, dtype, stored, backward)
    extent = I.mul(strips(), I.index("steps"), groups)
    buffers = (L.Buffer("source", stored, "r"), L.Buffer("weight", stored, "r"),
               L.Buffer("weights", dtype, "r"))
    return L.Kernel(name, buffers, PARAMS, extent, writer.body())


class Squares(Strips):
    """Strips whose places are squares. Writes what they see to the local buffer `seen`, [16][square][channel],
    with `row_step` from square to square and `part_step` from one of the 16 to the next."""

    def see(self, first, count):
        """`count` channels from `first` of the group on; the tile's places are noted."""
        b, lanes = self.b, self.shape.lanes
        with b.loop("inner", 0, count, lanes) as inner:
            self.c0 = b.let(I.add(first, inner), "c0")
            self.depth = b.let(I.minimum(I.sub(count, inner), lanes), "depth")
            self.pack_strip()
            self.turn_strip()
            self.transform(inner)

    def turn_strip(self):
        """From [channel][place] to [place][channel]."""
        b, lanes = self.b, self.shape.lanes
        with b.loop("place", 0, self.plane, lanes) as place:
            rows = [b.load("strip", I.add(place, I.mul(self.plane, n)), self.dtype, lanes)
                    for n in range(lanes)]
            at = b.let(I.mul(place, lanes))
            for number, vector in enumerate(turned(b, rows)):
                b.store("turned", I.add(at, number * lanes), vector)

    def transform(self, channel):
        """A vector of channels from `channel` of the block on: what the squares see, in 16 parts."""
        b, lanes = self.b, self.shape.lanes
        line = b.let(I.mul(self.pitch, lanes))
        with b.loop("square", 0, self.pixels) as square:
            at = b.let(I.mul(b.load("places", square, int64), lanes))
            lines = [b.let(I.add(at, I.mul(line, row))) for row in range(4)]
            values = [[b.load("turned", I.add(start, column * lanes), self.dtype, lanes)
                       for column in range(4)] for start in lines]
            to = b.let(I.add(I.mul(square, self.row_step), channel))
            for number, value in enumerate(v for row in both_axes(b, seen, values) for v in row):
                b.store("seen", I.add(to, number * self.part_step), value)


class _Winograd(Squares):
    def __init__(self, shape, axes, groups, dtype, stored, backward):
        self.shape, self.groups, self.backward = shape, groups, backward
        self.rows, self.columns = ((axis,) for axis in axes)
        self.dtype, self.stored = dtype, stored
        self.size = {name: I.index(name) for name in PARAMS}
        self.down, self.across = (I.ceil_div(self.size[name], 2) for name in ("OH", "OW"))
        self.row_step = CHANNELS + PAD                              # from square to square in V
        self.part_step = (SQUARES + shape.block_pixels) * self.row_step

    def body(self):
        self.b = b = L.Builder("w")
        shape, lanes = self.shape, self.shape.lanes
        self.start()
        self.each_tile()
        squares = SQUARES + shape.block_pixels
        b.local("seen", self.dtype, PARTS * self.part_step)
        b.local("products", self.dtype, PARTS * shape.sums)
        b.local("places", int64, squares)
        b.local("strip", self.dtype, STRIP + lanes * lanes)
        b.local("turned", self.dtype, STRIP + lanes * lanes)
        b.local("sums", self.dtype, (6 * SQUARES + 2 * lanes) * lanes)
        return b.body()

    # ---- one tile
    def run_tile(self):
        b, size = self.b, self.size
        self.measure_tile()
        self.pack_planes()
        self.note_places()
        self.source_depth = self.depth_place
        with b.loop("channels", 0, size["C"], CHANNELS) as first:
            depth = b.let(I.minimum(I.sub(size["C"], first), CHANNELS), "channels_here")
            self.see(first, depth)
            with b.loop("block", 0, self.tile_blocks) as block:
                self.multiply(block, first, depth)
        self.finish()

    # ---- products
    def multiply(self, block, first, depth):
        """Add the products of a block of channels, from `first` on, for a block of outputs."""
        b, shape, size = self.b, self.shape, self.size
        number = b.let(I.add(self.block, block))
        left = b.let(I.sub(size["K"], I.mul(number, shape.outputs)))
        few = b.let(L.apply("le", left, L.as_index(shape.lanes)))
        begins = b.let(L.apply("eq", first, L.as_index(0)))
        number = I.add(I.mul(self.group, self.blocks), number)
        number = b.let(I.mul(I.add(I.mul(number, size["C"]), first), PARTS))
        with b.loop("part", 0, PARTS) as part:
            weights = b.let(I.mul(I.add(number, I.mul(part, depth)), shape.outputs))
            sums = b.let(I.mul(I.add(I.mul(block, PARTS), part), self.room, shape.outputs))
            values = b.let(I.mul(part, self.part_step))
            for vectors, this in ((1, few), (shape.vectors, b.not_(few))):
                with b.branch(this), b.loop("square", 0, self.pixels, shape.block_pixels) as square:
                    at = b.let(I.add(sums, I.mul(square, shape.outputs)))
                    start = b.let(I.add(values, I.mul(square, self.row_step)))
                    self.register_block(vectors, depth, begins, weights, start, at)

    def register_block(self, vectors, depth, begins, weights, values, at):
        b, shape, dtype, lanes = self.b, self.shape, self.dtype, self.shape.lanes
        squares = range(shape.block_pixels)
        places = [[I.add(at, p * shape.outputs + v * lanes) for v in range(vectors)] for p in squares]
        sums = [[b.declare(b.const(0.0, dtype, lanes)) for _ in row] for row in places]
        with b.branch(b.not_(begins)):
            for row, variables in zip(places, sums):
                for place, variable in zip(row, variables):
                    b.assign(variable, L.Load(dtype, lanes, "products", place))
        with b.loop("d", 0, depth) as d:
            weight = b.let(I.add(weights, I.mul(d, shape.outputs)))
            right = [b.load("weights", I.add(weight, v * lanes), dtype, lanes) for v in range(vectors)]
            value = b.let(I.add(values, d))
            for p in squares:
                left = b.let(L.splat(b.load("seen", I.add(value, p * self.row_step), dtype), lanes))
                for v in range(vectors):
                    b.assign(sums[p][v], L.apply("fma", left, right[v], sums[p][v]))
        for row, variables in zip(places, sums):
            for place, variable in zip(row, variables):
                b.store("products", place, variable)

    # ---- the finished tile
    def finish(self):
        """Results of each vector of outputs, as [pixel][output]: the pixels of the tile that lie in the image."""
        b, shape, size = self.b, self.shape, self.size
        self.top, self.left = b.let(I.mul(self.y, 2)), b.let(I.mul(self.x, 2))
        self.height = b.let(I.minimum(I.mul(self.tile_rows, 2), I.sub(size["OH"], self.top)))
        self.width = b.let(I.minimum(I.mul(self.tile_columns, 2), I.sub(size["OW"], self.left)))
        self.area = b.let(I.mul(self.height, self.width))
        # pixels of an image that stand side by side in the result: all, or those of a row
        whole = L.apply("eq", self.width, size["OW"])
        self.line = b.let(L.apply("select", whole, self.area, self.width))
        lines = b.let(L.apply("select", whole, L.as_index(1), self.height))
        with b.loop("block_out", 0, self.tile_blocks) as block, b.loop("vector", 0, shape.vectors) as v:
            first = I.add(I.mul(I.add(self.block, block), shape.outputs), I.mul(v, shape.lanes))
            self.first = b.let(first)
            self.there = b.let(I.minimum(I.sub(size["K"], self.first), shape.lanes))
            with b.branch(L.apply("gt", self.there, L.as_index(0))):
                at = I.add(I.mul(block, PARTS, self.room, shape.outputs), I.mul(v, shape.lanes))
                self.transform_back(b.let(at))
                with b.loop("image_out", 0, self.images) as image, b.loop("line", 0, lines) as line:
                    self.hand_over(image, line)

    def transform_back(self, at):
        """Squares from the last of a row to its first: what one writes beyond its row, the next corrects."""
        b, lanes, dtype = self.b, self.shape.lanes, self.dtype
        zero = b.const(0.0, dtype, lanes)
        bad, part_step = b.declare(zero), b.let(I.mul(self.room, self.shape.outputs))
        with b.loop("i", 0, self.images) as i, b.loop("y", 0, self.tile_rows) as y, \
                b.loop("x", 0, self.tile_columns) as x:
            column = b.let(I.sub(I.sub(self.tile_columns, 1), x))
            square = I.add(I.mul(i, self.image_pixels), I.mul(y, self.tile_columns), column)
            place = b.let(I.add(at, I.mul(square, self.shape.outputs)))
            values = [[b.load("products", I.add(place, I.mul(part_step, 4 * r + s)), dtype, lanes)
                       for s in range(4)] for r in range(4)]
            pixel = I.add(I.mul(i, self.area), I.mul(y, 2, self.width), I.mul(column, 2))
            pixel = b.let(I.mul(pixel, lanes))
            below = b.let(I.add(pixel, I.mul(self.width, lanes)))
            for start, row in zip((pixel, below), both_axes(b, results, values)):
                for number, value in enumerate(row):
                    b.assign(bad, L.apply("fma", value, zero, bad))
                    b.store("sums", I.add(start, number * lanes), value)
        total = b.let(L.apply("reduce_add", bad))
        with b.branch(L.apply("ne", total, total)):
            self.correct()

    def correct(self):
        """Compute the results that are not finite again, one by one."""
        b, lanes, dtype = self.b, self.shape.lanes, self.dtype
        with b.loop("i", 0, self.images) as i, b.loop("y", 0, self.height) as y, \
                b.loop("x", 0, self.width) as x, b.loop("k", 0, self.there) as k:
            pixel = I.add(I.mul(i, self.area), I.mul(y, self.width), x)
            place = b.let(I.add(I.mul(pixel, lanes), k))
            value = b.load("sums", place, dtype)
            gone = b.let(L.apply("sub", value, value))
            with b.branch(L.apply("ne", gone, gone)):
                b.store("sums", place, self.single(i, I.add(self.top, y), I.add(self.left, x), k))

    def single(self, image, y, x, k):
        """One result, in plain arithmetic; what is NaN stays so."""
        b, size, dtype = self.b, self.size, self.dtype
        zero, output = b.const(0.0, dtype), b.let(I.add(self.first, k))
        image = b.let(I.mul(I.add(self.image_group, I.mul(image, self.groups)), size["C"]))
        total = b.declare(zero)
        with b.loop("c", 0, size["C"]) as c, b.branch(L.apply("eq", total, total)):
            if self.backward:
                weight = I.add(I.mul(I.add(I.mul(self.group, size["C"]), c), size["K"]), output)
            else:
                weight = I.add(I.mul(I.add(I.mul(self.group, size["K"]), output), size["C"]), c)
            weight, plane = b.let(I.mul(weight, TAPS)), b.let(I.mul(I.add(image, c), size["H"]))
            with b.loop("r", 0, 3) as r, b.loop("s", 0, 3) as s:
                row = b.let(I.add(y, r, self.rows[0].origin))
                column = b.let(I.add(x, s, self.columns[0].origin))
                low = L.apply("ge", I.minimum(row, column), L.as_index(0))
                high = b.and_(L.apply("lt", row, size["H"]), L.apply("lt", column, size["W"]))
                value = b.declare(zero)
                with b.branch(b.and_(low, high)):
                    place = I.add(I.mul(I.add(plane, row), size["W"]), column)
                    b.assign(value, b.cast(b.load("source", place, self.stored), dtype))
                tap = I.add(I.mul(r, 3), s)
                tap = I.sub(TAPS - 1, tap) if self.backward else tap
                factor = b.cast(b.load("weight", b.let(I.add(weight, tap)), self.stored), dtype)
                b.assign(total, L.apply("fma", value, factor, total))
        return b.let(total)

    def hand_over(self, image, line):
        """Turn a line of pixels of an image, `lanes` of them at a time, and give them away."""
        b, lanes, size = self.b, self.shape.lanes, self.size
        number = I.add(self.image_group, I.mul(image, self.groups))
        number = b.let(I.mul(number, size["K"]))
        channel = b.let(I.add(I.mul(self.group, size["K"]), self.first))
        plane = b.let(I.add(number, self.first))
        start = b.let(I.add(I.mul(image, self.area), I.mul(line, self.line)))
        base = b.let(I.add(I.mul(I.add(self.top, line), size["OW"]), self.left))
        with b.loop("pixel_out", 0, self.line, lanes) as pixel:
            at = b.let(I.mul(I.add(start, pixel), lanes))
            vectors = [b.load("sums", I.add(at, n * lanes), self.dtype, lanes) for n in range(lanes)]
            for n, vector in enumerate(turned(b, vectors)):
                b.store("strip", L.as_index(n * lanes), vector)
            inside = b.let(I.lanes_below(I.sub(self.line, pixel), lanes))
            place = b.let(I.add(base, pixel))
            with b.loop("channel_out", 0, self.there) as k:
                value = b.load("strip", I.mul(k, lanes), self.dtype, lanes)
                b.splice_store("result", b.let(I.add(plane, k)), b.let(I.add(channel, k)), place, value, inside)
