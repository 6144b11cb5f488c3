"""Direct convolution as a Loops template: sums in registers, output channels along the lanes.

    for each tile: (image, group, class of rows, rows, columns, blocks of output channels)     the extent
        for each block of the source's channels:
            pack the strip of the source that the tile sees, zeros around the image, to [channel][row][column]
            for each block of output channels, row of the tile, and up to `pixels` pixels in it:
                registers of sums: + source (one element for all lanes) * packed weights, taps x channels
        turn the sums, [pixel][output channel], round and hand them to the splice `result`

Forward and backward differ in the `Axis`es (conv_schedule) and in how weights are packed (conv_pack). Order of
additions of a sum: blocks of channels, rows of the window, columns of the window, channels of the block; one
fma after another, from zero. All else (tiles, lanes, register blocks) may be chosen freely.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.conv_pack import transposed
from flambeau.compiler.conv_schedule import SCHEDULE, most
from flambeau.ir import loops as L
from flambeau.types.dtype import int32, int64

SIZES = ("N", "C", "H", "W", "K", "OH", "OW")      # C and K of a group: channels of the source and the result
PARAMS = (*SIZES, *SCHEDULE)


def direct_template(name, shape, kernel, rows, columns, groups, dtype, stored, source="source", weights="weights"):
    """The kernel with `result` unfilled: a SpliceStore of (plane, channel, place, value, mask).

    kernel: taps of the weight on both axes; shape, rows, columns: a Shape and the classes of both axes. Buffers: `source` (N, groups * C, H, W) of dtype
    `stored`; `weights` as packed by conv_pack, of `dtype`, in which sums are. Params: PARAMS.
    A result's element is number `place` of plane `plane` (image * groups * K + channel). `place` is the first of
    consecutive ones, or a vector.
    """
    writer = _Direct(shape, kernel, rows, columns, groups, dtype, stored, source, weights)
    n, row_tiles, column_tiles, block_tiles = (I.index(p) for p in ("N", "row_tiles", "column_tiles", "block_tiles"))
    extent = I.mul(n, groups * len(rows), row_tiles, column_tiles, block_tiles)
    buffers = L.Buffer(source, stored, "r"), L.Buffer(weights, dtype, "r")
    return L.Kernel(name, buffers, PARAMS, extent, writer.body())


class _Direct:
    def __init__(self, shape, kernel, rows, columns, groups, dtype, stored, source, weights):
        self.shape, self.rows, self.columns, self.groups = shape, rows, columns, groups
        self.dtype, self.stored, self.source, self.weights = dtype, stored, source, weights
        self.kernel, self.taps = kernel, kernel[0] * kernel[1]
        self.size = {name: I.index(name) for name in PARAMS}

    def body(self):
        self.b = b = L.Builder("c")
        shape = self.shape
        self.blocks = b.let(I.ceil_div(self.size["K"], shape.outputs), "blocks")
        self.pitch = b.let(I.add(I.mul(I.sub(self.size["tile_columns"], 1), most(self.columns, "stride")),
                                 most(self.columns, "span")), "pitch")
        with b.loop("tile_number", L.BEGIN, L.END) as number:
            self.place_tile(number)
            self.run_tile()
        b.local("sums", self.dtype, shape.tile)
        b.local("strip", self.dtype, shape.strip)
        b.local("turned", self.dtype, shape.lanes * shape.lanes * len(self.columns))
        return b.body()

    # ---- which tile
    def place_tile(self, number):
        """Take the tile's number apart."""
        b, size = self.b, self.size
        number, block = self.split(number, size["block_tiles"])
        number, column = self.split(number, size["column_tiles"])
        number, row = self.split(number, size["row_tiles"])
        number, phase = self.split(number, len(self.rows))
        self.image_group, self.row_class = number, phase
        self.group = b.let(I.rem(number, self.groups), "group")
        self.block = b.let(I.mul(block, size["tile_blocks"]), "first_block")
        self.tile_blocks = b.let(I.minimum(size["tile_blocks"], I.sub(self.blocks, self.block)), "blocks_here")
        self.x = b.let(I.mul(column, size["tile_columns"]), "first_column")
        self.y = b.let(I.mul(row, size["tile_rows"]), "first_row")
        self.row_axis = self.chosen(self.rows, phase)
        self.height = self.places(size["OH"], len(self.rows), phase)
        self.tile_rows = b.let(I.maximum(I.minimum(size["tile_rows"], I.sub(self.height, self.y)), 0), "rows_here")
        widest = self.places(size["OW"], len(self.columns), 0)
        self.tile_columns = b.let(I.minimum(size["tile_columns"], I.sub(widest, self.x)), "columns_here")
        self.pixels = b.let(I.mul(self.tile_rows, self.tile_columns), "pixels_here")
        self.strip_rows = b.let(I.add(I.mul(I.sub(self.tile_rows, 1), most(self.rows, "stride")),
                                      most(self.rows, "span")), "strip_rows")
        self.plane = b.let(I.mul(self.strip_rows, self.pitch), "strip_plane")
        self.part = b.let(I.mul(self.tile_blocks, self.pixels, self.shape.outputs), "part")

    def split(self, number, by):
        quotient = self.b.let(I.div(number, by))
        return quotient, self.b.let(I.sub(number, I.mul(quotient, by)))

    def places(self, size, classes, phase):
        """How many places of an axis are in a class."""
        return self.b.let(I.div(I.sub(I.add(size, classes - 1), phase), classes)) if classes > 1 else size

    def chosen(self, classes, phase):
        """The Axis of class number `phase`, a run-time index, as a dict of index expressions."""
        if len(classes) == 1 or isinstance(phase, int):
            axis = classes[phase if isinstance(phase, int) else 0]
            return {name: L.as_index(getattr(axis, name)) for name in ("count", "first", "origin")}
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
        zero = b.const(0.0, self.dtype, shape.lanes)
        with b.loop("z", 0, I.mul(self.part, len(self.columns)), shape.lanes) as z:
            b.store("sums", z, zero)
        with b.loop("c0", 0, self.size["C"], shape.channels) as c0:
            self.c0 = c0
            self.depth = b.let(I.minimum(I.sub(self.size["C"], c0), shape.channels), "depth")
            for number, axis in enumerate(self.columns):
                if axis.count:
                    self.column_axis, self.phase = axis, number
                    self.pack_strip()
                    with b.loop("block", 0, self.tile_blocks) as block:
                        self.each_register_block(block)
        self.finish()

    def pack_strip(self):
        """The strip's channels, one row after another: what a vector writes too much, the next row corrects."""
        b, lanes, size = self.b, self.shape.lanes, self.size
        top = b.let(I.add(I.mul(self.y, most(self.rows, "stride")), self.row_axis["origin"]))
        left = b.let(I.add(I.mul(self.x, self.column_axis.stride), self.column_axis.origin))
        first = b.let(I.add(I.mul(I.add(I.mul(self.image_group, size["C"]), self.c0), size["H"]), top))
        width = b.call("cast", size["W"], dtype=int32)
        numbers = L.Apply(int32, lanes, "lane", ())
        with b.loop("c", 0, self.depth) as c, b.loop("row", 0, self.strip_rows) as row:
            y = b.let(I.add(top, row))
            inside = b.and_(L.apply("ge", y, L.as_index(0)), L.apply("lt", y, size["H"]))
            there = b.let(L.apply("select", inside, width, b.const(0, int32)))
            line = b.let(I.add(I.mul(I.add(first, I.mul(c, size["H"]), row), size["W"]), left))
            to = b.let(I.add(I.mul(c, self.plane), I.mul(row, self.pitch)))
            with b.loop("column", 0, self.pitch, lanes) as column:
                start = L.apply("cast", b.let(I.add(left, column)), dtype=int32)
                mask = b.let(I.within(L.apply("add", L.splat(start, lanes), numbers), there))
                value = b.load(self.source, I.add(line, column), self.stored, lanes, mask,
                               b.const(0.0, self.stored, lanes))
                b.store("strip", I.add(to, column), b.cast(value, self.dtype))

    def each_register_block(self, block):
        """The rows of the tile, cut into the fewest pieces, as equal as they can be."""
        b, shape, size = self.b, self.shape, self.size
        left = b.let(I.sub(size["K"], I.mul(I.add(self.block, block), shape.outputs)))
        few = b.let(L.apply("le", left, L.as_index(shape.lanes)))
        start = I.mul(I.add(I.mul(self.group, self.blocks), self.block, block), size["C"], self.taps)
        start = I.add(start, I.mul(self.c0, self.taps))
        self.at_weights = b.let(I.mul(start, shape.outputs))
        pieces = b.let(I.ceil_div(self.tile_columns, shape.pixels))
        sums = b.let(I.add(I.mul(block, self.pixels, shape.outputs), I.mul(self.part, self.phase)))
        with b.loop("y", 0, self.tile_rows) as y, b.loop("piece", 0, pieces) as piece:
            x = b.let(I.div(I.mul(piece, self.tile_columns), pieces))
            stop = I.div(I.mul(I.add(piece, 1), self.tile_columns), pieces)
            width = b.let(I.sub(stop, x))
            at = b.let(I.add(sums, I.mul(I.add(I.mul(y, self.tile_columns), x), shape.outputs)))
            strip = b.let(I.add(I.mul(y, most(self.rows, "stride"), self.pitch),
                                I.mul(x, self.column_axis.stride)))
            with b.branch(few):
                self.widths(width, 1, at, strip)
            with b.branch(L.apply("eq", few, b.const(False, few.dtype))):
                self.widths(width, shape.vectors, at, strip)

    def widths(self, width, vectors, at, strip):
        for pixels in range(1, self.shape.pixels + 1):
            with self.b.branch(L.apply("eq", width, L.as_index(pixels))):
                self.register_block(pixels, vectors, at, strip)

    def register_block(self, pixels, vectors, at, strip):
        b, shape, dtype = self.b, self.shape, self.dtype
        lanes = shape.lanes
        places = [[I.add(at, p * shape.outputs + v * lanes) for v in range(vectors)] for p in range(pixels)]
        sums = [[b.declare(L.Load(dtype, lanes, "sums", place)) for place in row] for row in places]
        rows, columns = self.row_axis, self.column_axis
        line = b.let(I.mul(self.pitch, self.rows[0].step))
        step = b.let(I.mul(self.depth, shape.outputs))
        with b.loop("r", 0, rows["count"]) as r, b.loop("s", 0, columns.count) as s:
            tap = I.mul(I.add(rows["first"], I.mul(r, self.rows[0].tap_step)), self.kernel[1])
            tap = I.add(tap, columns.first, I.mul(s, columns.tap_step))
            weight = b.let(I.add(self.at_weights, I.mul(tap, step)))
            seen = b.let(I.add(strip, I.mul(r, line), I.mul(s, columns.step)))
            with b.loop("d", 0, self.depth) as d:
                w = b.let(I.add(weight, I.mul(d, shape.outputs)))
                x = b.let(I.add(seen, I.mul(d, self.plane)))
                right = [b.load(self.weights, I.add(w, v * lanes), dtype, lanes) for v in range(vectors)]
                for p in range(pixels):
                    left = b.let(L.splat(b.load("strip", I.add(x, p * columns.stride), dtype), lanes))
                    for v in range(vectors):
                        b.assign(sums[p][v], L.apply("fma", left, right[v], sums[p][v]))
        for row, variables in zip(places, sums):
            for place, variable in zip(row, variables):
                b.store("sums", place, variable)

    # ---- the finished tile
    def finish(self):
        b, shape = self.b, self.shape
        lanes = shape.lanes
        with b.loop("block_out", 0, self.tile_blocks) as block, b.loop("vector", 0, shape.vectors) as v:
            first = b.let(I.add(I.mul(I.add(self.block, block), shape.outputs), I.mul(v, lanes)))
            there = b.let(I.minimum(I.sub(self.size["K"], first), lanes))
            at = b.let(I.add(I.mul(block, self.pixels, shape.outputs), I.mul(v, lanes)))
            with b.branch(L.apply("gt", there, L.as_index(0))):
                if len(self.rows) == len(self.columns) == 1:
                    base = b.let(I.add(I.mul(self.y, self.size["OW"]), self.x))
                    with b.loop("pixel", 0, self.pixels, lanes) as pixel:
                        self.turn(I.add(at, I.mul(pixel, shape.outputs)))
                        self.hand_over(first, there, I.add(base, pixel), I.sub(self.pixels, pixel))
                else:
                    self.finish_rows(first, there, at)

    def finish_rows(self, first, there, at):
        """Row by row, as the classes of places lie between each other."""
        b, shape = self.b, self.shape
        with b.loop("y_out", 0, self.tile_rows) as y, b.loop("x_out", 0, self.tile_columns, shape.lanes) as x:
            pixel = I.add(at, I.mul(I.add(I.mul(y, self.tile_columns), x), shape.outputs))
            for number in range(len(self.columns)):
                self.turn(I.add(pixel, I.mul(self.part, number)), number * shape.lanes ** 2)
            row = b.let(I.add(I.mul(I.add(self.y, y), len(self.rows)), self.row_class))
            column = b.let(I.mul(I.add(self.x, x), len(self.columns)))
            last = I.minimum(I.mul(I.add(self.x, self.tile_columns), len(self.columns)), self.size["OW"])
            base = I.add(I.mul(row, self.size["OW"]), column)
            self.hand_over(first, there, base, I.sub(last, column))

    def turn(self, at, to=0):
        """`lanes` pixels x `lanes` output channels from `sums`, transposed, to `turned`."""
        b, shape = self.b, self.shape
        vectors = [b.load("sums", I.add(at, n * shape.outputs), self.dtype, shape.lanes) for n in range(shape.lanes)]
        for number, vector in enumerate(transposed(b, vectors)):
            b.store("turned", I.add(to, number * shape.lanes), vector)

    def hand_over(self, first, there, place, left):
        """Give the splice what `turned` holds of `left` places from `place` on, channel by channel."""
        b, lanes, classes = self.b, self.shape.lanes, len(self.columns)
        place, left = b.let(place), b.let(left)
        with b.loop("channel", 0, there) as k:
            channel = b.let(I.add(first, k))
            plane = b.let(I.add(I.mul(self.image_group, self.size["K"]), channel))
            channel = b.let(I.add(I.mul(self.group, self.size["K"]), channel))
            values = [b.load("turned", I.add(I.mul(k, lanes), n * lanes ** 2), self.dtype, lanes)
                      for n in range(classes)]
            if classes & (classes - 1):
                steps = b.let(I.mul(L.Apply(int64, lanes, "lane", ()), classes))
                for number, value in enumerate(values):
                    inside = L.apply("lt", steps, I.sub(left, number))
                    b.splice_store("result", plane, channel, b.let(I.add(place, number, steps)), value, inside)
            else:
                for number, value in enumerate(interleaved(b, values)):
                    inside = I.lanes_below(I.sub(left, number * lanes), lanes)
                    b.splice_store("result", plane, channel, b.let(I.add(place, number * lanes)), value, inside)


def interleaved(b, vectors):
    """Vectors whose elements, one after another, are the first of each, the second of each, ..."""
    count = len(vectors)
    if count == 1:
        return vectors
    low = [b.call("zip_low", x, y) for x, y in zip(vectors[:count // 2], vectors[count // 2:])]
    high = [b.call("zip_high", x, y) for x, y in zip(vectors[:count // 2], vectors[count // 2:])]
    return interleaved(b, low) + interleaved(b, high)
