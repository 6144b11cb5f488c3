"""Direct convolution as a Loops template: sums in registers, output channels along the lanes.

    for each step of a strip: (images, group, depth, class of rows, blocks of output channels, columns, rows)
        for each tile of the strip, rows that lie one above the other or whole images:
            for each block of the source's channels, depth of the window:
                pack the strip of the source that the tile sees: [channel][image][row][column], zeros outside
                for each block of output channels:
                    pack its weights, where they are not packed yet
                    for each class of columns, a few pixels at a time (their places in the strip are a table):
                        registers of sums: + source (one element for all lanes) * weights, taps x channels
            turn the sums, [pixel][output channel], round and hand them to the splice `result`

Forward and backward differ in the `Axis`es (conv_schedule) and in how weights are packed (conv_pack). Order
of additions of a sum: blocks of channels, depths of the window, its rows, its columns, channels of the block;
one fma after another, from zero. All else (tiles, lanes, register blocks) may be chosen freely: mostly rows
are the unit of the extent, so that threads get equal shares.
"""

from contextlib import contextmanager
from math import prod

from flambeau.compiler import index_math as I
from flambeau.compiler.conv_narrow import Narrow
from flambeau.compiler.conv_pack import Pack
from flambeau.compiler.conv_schedule import FLAT, first_seen
from flambeau.compiler.conv_strip import PARAMS, Strips, strips
from flambeau.compiler.gemm_pack import turned
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

AHEAD = 32          # elements: how far in front the source is fetched where it is read in place
LEFT = (1, 4)       # pixels of the register blocks for what whole ones leave, some done in vain


def direct_template(name, shape, kernel, axes, groups, dtype, stored, backward=False, in_place=False):
    """The kernel with `result` unfilled: a SpliceStore of (plane, channel, place, value, mask).

    shape: a Shape; kernel: taps of the weight on the three axes; axes: the classes of depths, rows, columns.
    Buffers: `source` (N, groups * C, D, H, W) of dtype `stored`; `weight` likewise, and `weights`, as packed
    by conv_pack or room to pack them (`region` elements a strip), of `dtype`, in which sums are. Params:
    PARAMS. An element of the result (N, groups * K, OD, OH, OW) is number `place`
    of plane number `plane`; `place` is the first of consecutive ones, or a vector. in_place: the source is
    read where it is, not packed: for windows of one tap, without stride and padding, of images of one row.
    """
    writer = _Direct(shape, kernel, axes, groups, dtype, stored, backward, in_place)
    extent = I.mul(strips(), I.index("steps"), groups * len(axes[1]))
    buffers = (L.Buffer("source", stored, "r"), L.Buffer("weight", stored, "r"),
               L.Buffer("weights", dtype, "rw"))
    return L.Kernel(name, buffers, PARAMS, extent, writer.body())


def region(shape, taps):
    """Elements of the room where a strip packs its weights."""
    return shape.channels * taps * shape.outputs


class _Direct(Strips):
    def __init__(self, shape, kernel, axes, groups, dtype, stored, backward, in_place):
        self.shape, self.groups, self.kernel, self.backward = shape, groups, kernel, backward
        self.depths, self.rows, self.columns = axes
        self.dtype, self.stored, self.in_place = dtype, stored, in_place
        self.taps = prod(kernel)
        self.size = {name: I.index(name) for name in PARAMS}
        self.down, self.across = self.size["OH"], self.size["OW"]

    def body(self):
        self.b = b = L.Builder("c")
        shape = self.shape
        self.start()
        self.narrow = b.let(L.apply("le", self.size["K"], L.as_index(Narrow.most_outputs(shape))), "narrow")
        self.inside = b.let(L.apply("gt", self.size["inside"], L.as_index(0)), "packs_inside")
        size = {**self.size, "taps": L.as_index(self.taps)}
        self.weights = Pack(b, shape, self.backward, self.dtype, self.stored, size, "weights", True)
        self.each_tile()
        wide_sums = shape.sums + shape.block_pixels * shape.outputs * len(self.columns)
        most_sums = max(wide_sums, Narrow.sums(shape) * len(self.columns))
        b.local("sums", self.dtype, most_sums + shape.lanes * shape.outputs)
        b.local("places", int64, shape.pixels + shape.block_pixels)
        if not self.in_place:       # vectors reach beyond the end of a row
            b.local("strip", self.dtype, shape.strip + shape.lanes * (self.columns[0].stride + 1))
        b.local("turned", self.dtype, shape.lanes ** 2 * len(self.columns))
        return b.body()

    # ---- one tile
    def run_tile(self):
        b, shape = self.b, self.shape
        self.measure_tile()
        if self.in_place:
            self.plane = self.size["W"]
            self.image_step = b.let(I.mul(self.size["C"], self.groups, self.plane), "image_step")
        else:
            self.pack_planes()
        self.note_places()
        narrow, wide_part = Narrow(self), I.mul(self.tile_blocks, self.room, shape.outputs)
        self.part = b.let(L.apply("select", self.narrow, narrow.start_tile(), wide_part), "part")
        zero = b.const(0.0, self.dtype, shape.lanes)
        with b.loop("z", 0, I.mul(self.part, len(self.columns)), shape.lanes) as z:
            b.store("sums", z, zero)
        channels = self.size["C"]
        if min(axis.count for axis in self.rows) == 0:      # some rows see nothing
            sees = L.apply("gt", self.row_axis["count"], L.as_index(0))
            channels = b.let(L.apply("select", sees, channels, L.as_index(0)))
        with b.loop("c0", 0, channels, shape.channels) as c0:
            self.c0 = c0
            self.depth = b.let(I.minimum(I.sub(self.size["C"], c0), shape.channels), "depth")
            self.each_depth(narrow)
        with b.branch(self.narrow):
            self.image = self.image_group
            narrow.finish()
        with b.branch(b.not_(self.narrow)):
            self.finish()

    def each_depth(self, narrow):
        """Loop over the depths of the window that lie in the source."""
        b, size = self.b, self.size
        if self.depths == (FLAT,):
            self.source_depth, self.depth_tap = self.depth_place, L.as_index(0)
            return self.add_products(narrow)
        t, phase = self.split(self.depth_place, len(self.depths))
        axis, first = self.chosen(self.depths, phase), self.depths[0]
        with b.loop("q", 0, axis["count"]) as q:
            at = I.add(I.mul(t, first.stride), axis["origin"], I.mul(q, first.step))
            self.source_depth = b.let(at)
            self.depth_tap = b.let(I.add(axis["first"], I.mul(q, first.tap_step)))
            below = b.call("lt", self.source_depth, size["D"])
            with b.branch(b.and_(below, L.apply("ge", self.source_depth, L.as_index(0)))):
                self.add_products(narrow)

    def add_products(self, narrow):
        """A block of channels, one depth of the window: to all sums of the tile."""
        b = self.b
        if self.in_place:
            channel = I.add(I.mul(self.image_group, self.size["C"]), self.c0)
            self.strip_start = b.let(I.add(I.mul(channel, self.size["W"]), self.x))
        else:
            self.strip_start = L.as_index(0)
            self.pack_strip()
        with b.branch(self.narrow):
            self.each_phase(narrow.blocks)
        with b.branch(b.not_(self.narrow)), b.loop("block", 0, self.tile_blocks) as block:
            self.take_block(block)
            self.each_phase(self.register_blocks)

    def each_phase(self, add):
        """Call add() for each class of columns that sees something."""
        b = self.b
        with b.loop("phase", 0, len(self.columns)) as phase:
            self.column_axis = self.chosen(self.columns, phase)
            self.at_phase = b.let(I.mul(self.part, phase))
            moved = I.sub(self.column_axis["origin"], first_seen(self.columns))
            self.seen = b.let(I.add(self.strip_start, moved))
            if min(axis.count for axis in self.columns) > 0:
                add()
            else:
                with b.branch(L.apply("gt", self.column_axis["count"], L.as_index(0))):
                    add()

    def take_block(self, block):
        """Find the weights of a block of outputs, or pack them."""
        b, shape, size = self.b, self.shape, self.size
        block = b.let(I.add(self.block, block), "this_block")
        left = b.let(I.sub(size["K"], I.mul(block, shape.outputs)))
        few = b.let(L.apply("le", left, L.as_index(shape.lanes)))
        start = I.mul(I.add(I.mul(self.group, self.blocks), block), size["C"])
        start = b.let(I.mul(I.add(start, self.c0), self.taps * shape.outputs))
        here = b.let(I.mul(self.strip_number, region(shape, self.taps)))
        self.at_weights = b.let(L.apply("select", self.inside, here, start), "at_weights")
        with b.branch(self.inside):
            self.pack_weights(I.mul(block, shape.outputs))
        sums = I.mul(I.sub(block, self.block), self.room, shape.outputs)
        self.few, self.block_sums = few, b.let(sums)

    def register_blocks(self):
        """Whole register blocks, then one for the pixels that are left."""
        b, shape, few = self.b, self.shape, self.few
        sums = b.let(I.add(self.block_sums, self.at_phase))
        whole = b.let(I.mul(I.div(self.pixels, shape.block_pixels), shape.block_pixels))
        rest = b.let(I.sub(self.pixels, whole))
        for vectors, this in ((1, few), (shape.vectors, b.not_(few))):
            with b.branch(this):
                with b.loop("pixel", 0, whole, shape.block_pixels) as pixel:
                    self.register_block(shape.block_pixels, vectors, sums, pixel)
                sizes = (*(n for n in LEFT if n < shape.block_pixels), shape.block_pixels)
                for fewer, count in zip((0, *sizes), sizes):
                    more = b.call("gt", rest, L.as_index(fewer))
                    with b.branch(b.and_(more, L.apply("le", rest, L.as_index(count)))):
                        self.register_block(count, vectors, sums, whole)

    def pack_weights(self, first):
        """A block of outputs from the group's output `first` on, the block of channels, all taps."""
        b, lanes = self.b, self.shape.lanes
        with b.loop("vector", 0, self.shape.vectors) as v:
            self.weights.choose_outputs(self.group, b.let(I.add(first, I.mul(v, lanes)), "first_output"))
            self.weights.pack(self.c0, self.depth, b.let(I.add(self.at_weights, I.mul(v, lanes))))

    def register_block(self, pixels, vectors, sums, pixel):
        """Adds to the sums of `pixels` pixels from number `pixel` on."""
        b, shape, dtype = self.b, self.shape, self.dtype
        lanes, strip_name = shape.lanes, "source" if self.in_place else "strip"
        at = b.let(I.add(sums, I.mul(pixel, shape.outputs)))
        seen = [b.load("places", I.add(pixel, p), int64) for p in range(pixels)]
        places = [[I.add(at, p * shape.outputs + v * lanes) for v in range(vectors)] for p in range(pixels)]
        sums = [[b.declare(L.Load(dtype, lanes, "sums", place)) for place in row] for row in places]
        with self.each_tap(self.seen) as (tap, moved), b.loop("d", 0, self.depth) as d:
            weight = b.let(I.add(self.at_weights, tap, I.mul(d, shape.outputs)))
            x = b.let(I.add(moved, I.mul(d, self.plane)))
            right = [b.load("weights", I.add(weight, v * lanes), dtype, lanes) for v in range(vectors)]
            if self.in_place:
                b.prefetch("source", I.add(seen[0], x, AHEAD))
            for p in range(pixels):
                left = b.let(L.splat(b.load(strip_name, I.add(seen[p], x), dtype), lanes))
                for v in range(vectors):
                    b.assign(sums[p][v], L.apply("fma", left, right[v], sums[p][v]))
        for row, variables in zip(places, sums):
            for place, variable in zip(row, variables):
                b.store("sums", place, variable)

    @contextmanager
    def each_tap(self, strip):
        """Loops over the window: (where a tap's weights begin, where in the strip it begins to see)."""
        b, rows, columns = self.b, self.row_axis, self.column_axis
        line = b.let(I.mul(self.pitch, 1 if self.shape.apart else self.rows[0].step))
        step = b.let(I.mul(self.depth, self.shape.outputs))
        with b.loop("r", 0, rows["count"]) as r, b.loop("s", 0, columns["count"]) as s:
            tap = I.add(I.mul(self.depth_tap, self.kernel[1]), rows["first"], I.mul(r, self.rows[0].tap_step))
            tap = I.add(I.mul(tap, self.kernel[2]), columns["first"], I.mul(s, self.columns[0].tap_step))
            seen = b.let(I.add(strip, I.mul(r, line), I.mul(s, self.columns[0].step)))
            yield b.let(I.mul(tap, step)), seen

    # ---- the finished tile
    def finish(self):
        b, shape = self.b, self.shape
        lanes = shape.lanes
        with b.loop("block_out", 0, self.tile_blocks) as block, b.loop("vector", 0, shape.vectors) as v:
            first = b.let(I.add(I.mul(I.add(self.block, block), shape.outputs), I.mul(v, lanes)))
            there = b.let(I.minimum(I.sub(self.size["K"], first), lanes))
            first_sum = b.let(I.add(I.mul(block, self.room, shape.outputs), I.mul(v, lanes)))
            with b.branch(L.apply("gt", there, L.as_index(0))), b.loop("image", 0, self.images) as image:
                at = b.let(I.add(first_sum, I.mul(image, self.image_pixels, shape.outputs)))
                self.image = b.let(I.add(self.image_group, I.mul(image, self.groups)))
                if len(self.rows) == len(self.columns) == 1:    # the image's pixels are neighbours
                    base = b.let(I.add(I.mul(self.y, self.size["OW"]), self.x))
                    with b.loop("pixel_out", 0, self.image_pixels, lanes) as pixel:
                        place = I.add(base, pixel), I.sub(self.image_pixels, pixel)
                        self.hand_over(first, there, I.add(at, I.mul(pixel, shape.outputs)), *place)
                else:
                    columns = self.tile_columns
                    with b.loop("y_out", 0, self.tile_rows) as y, b.loop("x_out", 0, columns, lanes) as x:
                        pixel = I.mul(I.add(I.mul(y, columns), x), shape.outputs)
                        self.hand_over(first, there, I.add(at, pixel), *self.place(y, x))

    def place(self, y, x):
        """(the place of the pixel in row y, column x of the tile, how many places there are from it on)."""
        classes, width = len(self.columns), self.size["OW"]
        row = I.add(I.mul(I.add(self.y, y), len(self.rows)), self.row_class)
        column = self.b.let(I.mul(I.add(self.x, x), classes))
        last = I.minimum(I.mul(I.add(self.x, self.tile_columns), classes), width)
        return I.add(I.mul(row, width), column), I.sub(last, column)

    def hand_over(self, first, there, at, place, left):
        """Turn `lanes` pixels x `lanes` output channels of the sums and give them away."""
        b, shape = self.b, self.shape
        lanes = shape.lanes
        place, left = b.let(place), b.let(left)
        with b.loop("turning", 0, len(self.columns)) as phase:
            start, to = b.let(I.add(at, I.mul(self.part, phase))), b.let(I.mul(phase, lanes ** 2))
            vectors = [b.load("sums", I.add(start, n * shape.outputs), self.dtype, lanes)
                       for n in range(lanes)]
            for number, vector in enumerate(turned(b, vectors)):
                b.store("turned", I.add(to, number * lanes), vector)
        with b.loop("channel", 0, there) as k:
            def value(phase):
                return b.load("turned", I.add(I.mul(k, lanes), I.mul(phase, lanes ** 2)), self.dtype, lanes)
            self.give(I.add(first, k), value, place, left)

    def give(self, k, value, place, left):
        """Hand the splice a vector of each class of columns, value(class), for output k of the group."""
        b, lanes, classes = self.b, self.shape.lanes, len(self.columns)
        k, place, left = b.let(k), b.let(place), b.let(left)
        plane = I.add(I.mul(self.image, self.size["K"]), k)
        plane = b.let(I.add(I.mul(plane, self.size["OD"]), self.depth_place))
        channel = b.let(I.add(I.mul(self.group, self.size["K"]), k))
        if classes in (1, 2, 4):
            for number, vector in enumerate(interleaved(b, [value(n) for n in range(classes)])):
                inside = I.lanes_below(I.sub(left, number * lanes), lanes)
                b.splice_store("result", plane, channel, b.let(I.add(place, number * lanes)), vector, inside)
        else:
            steps = b.let(I.mul(L.Apply(int64, lanes, "lane", ()), classes))
            with b.loop("giving", 0, classes) as phase:
                inside = L.apply("lt", steps, b.let(I.sub(left, phase)))
                places = b.let(I.add(place, phase, steps))
                b.splice_store("result", plane, channel, places, value(phase), inside)


def interleaved(b, vectors):
    """Vectors whose elements, one after another, are the first of each, the second of each, ..."""
    count = len(vectors)
    if count == 1:
        return vectors
    low = [b.call("zip_low", x, y) for x, y in zip(vectors[:count // 2], vectors[count // 2:])]
    high = [b.call("zip_high", x, y) for x, y in zip(vectors[:count // 2], vectors[count // 2:])]
    return interleaved(b, low) + interleaved(b, high)
