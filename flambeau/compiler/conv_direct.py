"""Direct convolution as a Loops template: sums in registers, output channels along the lanes.

    for each row of the result: (image, group, depth, class of rows, blocks of output channels, columns, row)
        for each tile of such rows that lie one above the other:
            for each class of columns, block of the source's channels, depth of the window:
                pack the strip of the source that the tile sees: [channel][row][column], zeros outside
                for each block of output channels, row of the tile, and few pixels in it:
                    registers of sums: + source (one element for all lanes) * packed weights, taps x channels
            turn the sums, [pixel][output channel], round and hand them to the splice `result`

Forward and backward differ in the `Axis`es (conv_schedule) and in how weights are packed (conv_pack). Order
of additions of a sum: blocks of channels, depths of the window, its rows, its columns, channels of the block;
one fma after another, from zero. All else (tiles, lanes, register blocks) may be chosen freely: rows are the
unit of the extent, so that threads get equal shares.
"""

from contextlib import contextmanager
from math import prod

from flambeau.compiler import index_math as I
from flambeau.compiler.conv_narrow import Narrow
from flambeau.compiler.conv_pack import transposed
from flambeau.compiler.conv_schedule import FLAT, SCHEDULE, most
from flambeau.ir import loops as L
from flambeau.types.dtype import int32, int64

SIZES = ("N", "C", "D", "H", "W", "K", "OD", "OH", "OW")    # C, K: channels of source and result, of a group
PARAMS = (*SIZES, *SCHEDULE)
AHEAD = 32          # elements: how far in front the source is fetched where it is read in place


def direct_template(name, shape, kernel, axes, groups, dtype, stored, in_place=False):
    """The kernel with `result` unfilled: a SpliceStore of (plane, channel, place, value, mask).

    shape: a Shape; kernel: taps of the weight on the three axes; axes: the classes of depths, rows, columns.
    Buffers: `source` (N, groups * C, D, H, W) of dtype `stored`; `weights` as packed by conv_pack, `dtype`,
    in which sums are. Params: PARAMS. An element of the result (N, groups * K, OD, OH, OW) is number `place`
    of plane number `plane`; `place` is the first of consecutive ones, or a vector. in_place: the source is
    read where it is, not packed: for windows of one tap, without stride and padding, of images of one row.
    """
    writer = _Direct(shape, kernel, axes, groups, dtype, stored, in_place)
    parts = (I.index(p) for p in ("N", "OD", "block_tiles", "column_tiles", "height"))
    extent = I.mul(*parts, groups * len(axes[1]))
    buffers = L.Buffer("source", stored, "r"), L.Buffer("weights", dtype, "r")
    return L.Kernel(name, buffers, PARAMS, extent, writer.body())


class _Direct:
    def __init__(self, shape, kernel, axes, groups, dtype, stored, in_place):
        self.shape, self.groups, self.kernel = shape, groups, kernel
        self.depths, self.rows, self.columns = axes
        self.dtype, self.stored, self.in_place = dtype, stored, in_place
        self.taps = prod(kernel)
        self.size = {name: I.index(name) for name in PARAMS}

    def body(self):
        self.b = b = L.Builder("c")
        shape = self.shape
        self.blocks = b.let(I.ceil_div(self.size["K"], shape.outputs), "blocks")
        self.pitch = b.let(I.add(I.mul(I.sub(self.size["tile_columns"], 1), self.columns[0].stride),
                                 most(self.columns, "span")), "pitch")
        self.narrow = b.let(L.apply("le", self.size["K"], L.as_index(Narrow.most_outputs(shape))), "narrow")
        height = self.size["height"]
        with b.loop("strip_number", I.div(L.BEGIN, height), I.ceil_div(L.END, height)) as number:
            self.place_strip(number)
            begin = b.let(I.mul(number, height))
            start = b.let(I.maximum(I.sub(L.BEGIN, begin), 0), "strip_start")
            there = self.places(self.size["OH"], len(self.rows), self.row_class)
            stop = I.minimum(I.sub(L.END, begin), there)
            count = b.let(I.maximum(I.sub(stop, start), 0), "strip_height")
            tiles = b.let(I.ceil_div(count, self.size["tile_rows"]), "tiles")
            with b.loop("tile_number", 0, tiles) as tile:
                first, after = (I.div(I.mul(t, count), tiles) for t in (tile, I.add(tile, 1)))
                self.y = b.let(I.add(start, first), "first_row")
                self.tile_rows = b.let(I.sub(I.add(start, after), self.y), "rows_here")
                self.run_tile()
        most_sums = max(shape.sums, Narrow.sums(shape) * len(self.columns))
        b.local("sums", self.dtype, most_sums + shape.lanes * shape.outputs)
        if not self.in_place:       # vectors reach beyond the end of a row
            b.local("strip", self.dtype, shape.strip + shape.lanes * (self.columns[0].stride + 1))
        b.local("turned", self.dtype, shape.lanes ** 2 * len(self.columns))
        return b.body()

    # ---- which tile
    def place_strip(self, number):
        """Take the number of a strip of rows apart."""
        b, size = self.b, self.size
        number, column = self.split(number, size["column_tiles"])
        number, block = self.split(number, size["block_tiles"])
        number, self.row_class = self.split(number, len(self.rows))
        self.image_group, self.depth_place = self.split(number, size["OD"])
        self.group = b.let(I.rem(self.image_group, self.groups), "group")
        self.block = b.let(I.mul(block, size["tile_blocks"]), "first_block")
        blocks = I.minimum(size["tile_blocks"], I.sub(self.blocks, self.block))
        self.tile_blocks = b.let(blocks, "blocks_here")
        self.x = b.let(I.mul(column, size["tile_columns"]), "first_column")
        self.row_axis = self.chosen(self.rows, self.row_class)
        widest = self.places(size["OW"], len(self.columns), 0)
        columns = I.minimum(size["tile_columns"], I.sub(widest, self.x))
        self.tile_columns = b.let(I.maximum(columns, 0), "columns_here")

    def split(self, number, by):
        quotient = self.b.let(I.div(number, by))
        return quotient, self.b.let(I.sub(number, I.mul(quotient, by)))

    def places(self, size, classes, phase):
        """How many places of an axis are in a class."""
        return self.b.let(I.div(I.sub(I.add(size, classes - 1), phase), classes)) if classes > 1 else size

    def chosen(self, classes, phase):
        """The Axis of class number `phase`, a run-time index, as a dict of index expressions."""
        if len(classes) == 1:
            return {name: L.as_index(getattr(classes[0], name)) for name in ("count", "first", "origin")}
        chosen = {}
        for name in ("count", "first", "origin"):
            value = L.as_index(getattr(classes[-1], name))
            for number, axis in reversed(tuple(enumerate(classes[:-1]))):
                here = L.apply("eq", phase, L.as_index(number))
                value = L.apply("select", here, L.as_index(getattr(axis, name)), value)
            chosen[name] = self.b.let(value)
        return chosen

    # ---- one tile
    def run_tile(self):
        b, shape = self.b, self.shape
        self.pixels = b.let(I.mul(self.tile_rows, self.tile_columns), "pixels_here")
        below = I.mul(I.sub(self.tile_rows, 1), self.rows[0].stride)
        self.strip_rows = b.let(I.add(below, shape.tall), "strip_rows")
        plane = self.size["W"] if self.in_place else I.mul(self.strip_rows, self.pitch)
        self.plane = b.let(plane, "strip_plane")
        narrow, wide_part = Narrow(self), I.mul(self.tile_blocks, self.pixels, shape.outputs)
        self.part = b.let(L.apply("select", self.narrow, narrow.start_tile(), wide_part), "part")
        zero = b.const(0.0, self.dtype, shape.lanes)
        with b.loop("z", 0, I.mul(self.part, len(self.columns)), shape.lanes) as z:
            b.store("sums", z, zero)
        with b.loop("phase", 0, len(self.columns)) as phase:
            self.column_axis = self.chosen(self.columns, phase)
            self.at_phase = b.let(I.mul(self.part, phase))
            with b.loop("c0", 0, self.size["C"], shape.channels) as c0:
                self.c0 = c0
                self.depth = b.let(I.minimum(I.sub(self.size["C"], c0), shape.channels), "depth")
                self.each_depth(narrow)
        with b.branch(self.narrow):
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
            self.seen = b.let(I.add(I.mul(channel, self.size["W"]), self.x))
        else:
            self.seen = L.as_index(0)
            self.pack_strip()
        with b.branch(self.narrow):
            narrow.blocks()
        with b.branch(b.not_(self.narrow)), b.loop("block", 0, self.tile_blocks) as block:
            self.each_register_block(block)

    def pack_strip(self):
        """The strip's channels, row after row: what a vector writes too much, the next row corrects."""
        b, size, lanes = self.b, self.size, self.shape.lanes
        top = b.let(I.add(I.mul(self.y, self.rows[0].stride), self.row_axis["origin"]))
        left = b.let(I.add(I.mul(self.x, self.columns[0].stride), self.column_axis["origin"]))
        channel = I.add(I.mul(self.image_group, size["C"]), self.c0)
        first = I.mul(I.add(I.mul(channel, size["D"]), self.source_depth), size["H"])
        first, channel_rows = b.let(I.add(first, top)), b.let(I.mul(size["D"], size["H"]))
        # vectors from `whole` to `rest` lie in the image
        whole = b.let(I.mul(I.ceil_div(I.maximum(I.mul(left, -1), 0), lanes), lanes))
        inside = I.maximum(I.sub(I.sub(size["W"], left), whole), 0)
        rest = b.let(I.add(whole, I.mul(I.div(inside, lanes), lanes)))
        whole, rest = (b.let(I.minimum(end, I.round_up(self.pitch, lanes))) for end in (whole, rest))
        with b.loop("c", 0, self.depth) as c, b.loop("row", 0, self.strip_rows) as row:
            down = I.mul(row, self.rows[0].step if self.shape.apart else 1)
            y = b.let(I.add(top, down))
            there = b.and_(L.apply("ge", y, L.as_index(0)), L.apply("lt", y, size["H"]))
            line = b.let(I.add(I.mul(I.add(first, I.mul(c, channel_rows), down), size["W"]), left))
            to = b.let(I.add(I.mul(c, self.plane), I.mul(row, self.pitch)))
            with b.branch(there):
                self.pack_edge(0, whole, line, left, to)
                with b.loop("column", whole, rest, lanes) as column:
                    value = b.load("source", I.add(line, column), self.stored, lanes)
                    b.store("strip", I.add(to, column), b.cast(value, self.dtype))
                self.pack_edge(rest, self.pitch, line, left, to)
            with b.branch(b.not_(there)):
                with b.loop("column", 0, self.pitch, lanes) as column:
                    b.store("strip", I.add(to, column), b.const(0.0, self.dtype, lanes))

    def pack_edge(self, start, stop, line, left, to):
        """Columns of a row that may lie outside of the image."""
        b, lanes = self.b, self.shape.lanes
        width = b.call("cast", self.size["W"], dtype=int32)
        with b.loop("column", start, stop, lanes) as column:
            begin = L.apply("cast", b.let(I.add(left, column)), dtype=int32)
            places = L.apply("add", L.splat(begin, lanes), L.Apply(int32, lanes, "lane", ()))
            mask = b.let(I.within(places, width))
            value = b.load("source", I.add(line, column), self.stored, lanes, mask,
                           b.const(0.0, self.stored, lanes))
            b.store("strip", I.add(to, column), b.cast(value, self.dtype))

    def each_register_block(self, block):
        """The rows of the tile, cut into the fewest pieces, as equal as they can be."""
        b, shape, size = self.b, self.shape, self.size
        left = b.let(I.sub(size["K"], I.mul(I.add(self.block, block), shape.outputs)))
        few = b.let(L.apply("le", left, L.as_index(shape.lanes)))
        start = I.mul(I.add(I.mul(self.group, self.blocks), self.block, block), size["C"])
        self.at_weights = b.let(I.mul(I.add(start, self.c0), self.taps * shape.outputs))
        pieces = b.let(I.ceil_div(self.tile_columns, shape.block_pixels))
        sums = b.let(I.add(I.mul(block, self.pixels, shape.outputs), self.at_phase))
        with b.loop("y", 0, self.tile_rows) as y, b.loop("piece", 0, pieces) as piece:
            x = b.let(I.div(I.mul(piece, self.tile_columns), pieces))
            stop = I.div(I.mul(I.add(piece, 1), self.tile_columns), pieces)
            width = b.let(I.sub(stop, x))
            at = b.let(I.add(sums, I.mul(I.add(I.mul(y, self.tile_columns), x), shape.outputs)))
            strip = I.add(I.mul(y, self.rows[0].stride, self.pitch), I.mul(x, self.columns[0].stride))
            strip = b.let(I.add(self.seen, strip))
            with b.branch(few):
                self.widths(width, 1, at, strip)
            with b.branch(b.not_(few)):
                self.widths(width, shape.vectors, at, strip)

    def widths(self, width, vectors, at, strip):
        for pixels in range(1, self.shape.block_pixels + 1):
            with self.b.branch(L.apply("eq", width, L.as_index(pixels))):
                self.register_block(pixels, vectors, at, strip)

    def register_block(self, pixels, vectors, at, strip):
        b, shape, dtype = self.b, self.shape, self.dtype
        lanes, strip_name = shape.lanes, "source" if self.in_place else "strip"
        places = [[I.add(at, p * shape.outputs + v * lanes) for v in range(vectors)] for p in range(pixels)]
        sums = [[b.declare(L.Load(dtype, lanes, "sums", place)) for place in row] for row in places]
        with self.each_tap(strip) as (tap, seen), b.loop("d", 0, self.depth) as d:
            weight = b.let(I.add(self.at_weights, tap, I.mul(d, shape.outputs)))
            x = b.let(I.add(seen, I.mul(d, self.plane)))
            right = [b.load("weights", I.add(weight, v * lanes), dtype, lanes) for v in range(vectors)]
            if self.in_place:
                b.prefetch("source", I.add(x, AHEAD))
            for p in range(pixels):
                left = b.let(L.splat(b.load(strip_name, I.add(x, p * self.columns[0].stride), dtype), lanes))
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
            at = b.let(I.add(I.mul(block, self.pixels, shape.outputs), I.mul(v, lanes)))
            with b.branch(L.apply("gt", there, L.as_index(0))):
                if len(self.rows) == len(self.columns) == 1:    # the tile's pixels are neighbours
                    base = b.let(I.add(I.mul(self.y, self.size["OW"]), self.x))
                    with b.loop("pixel", 0, self.pixels, lanes) as pixel:
                        place = I.add(base, pixel), I.sub(self.pixels, pixel)
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
            for number, vector in enumerate(transposed(b, vectors)):
                b.store("turned", I.add(to, number * lanes), vector)
        with b.loop("channel", 0, there) as k:
            def value(phase):
                return b.load("turned", I.add(I.mul(k, lanes), I.mul(phase, lanes ** 2)), self.dtype, lanes)
            self.give(I.add(first, k), value, place, left)

    def give(self, k, value, place, left):
        """Hand the splice a vector of each class of columns, value(class), for output k of the group."""
        b, lanes, classes = self.b, self.shape.lanes, len(self.columns)
        k, place, left = b.let(k), b.let(place), b.let(left)
        plane = I.add(I.mul(self.image_group, self.size["K"]), k)
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
