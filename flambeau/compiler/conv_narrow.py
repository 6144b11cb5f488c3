"""Direct convolution with few output channels: pixels along the lanes.

Where a group has no more outputs than fill half a vector, register blocks of conv_direct would compute lanes
in vain. Here a block is up to four output channels x STEPS vectors of pixels, one below the other (or, of
images that are one row, one behind the other). The order of additions is the same, so are the bits.
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

OUTPUTS = (1, 4)        # of a block; two and three are done as four, the last ones in vain
STEPS = 4


class Narrow:
    """Writes the statements for a tile of `writer`, a conv_direct writer. Sums are [output][row][column],
    rows padded to whole vectors."""

    def __init__(self, writer):
        self.writer, self.b, self.shape, self.size = writer, writer.b, writer.shape, writer.size
        self.lanes, self.dtype = writer.shape.lanes, writer.dtype

    @staticmethod
    def most_outputs(shape):
        return shape.lanes // 2

    @staticmethod
    def sums(shape):
        """Elements for the sums of a tile's pixels, in rows however short."""
        return max(Narrow.most_outputs(shape), OUTPUTS[-1]) * shape.pixels * shape.lanes

    def start_tile(self):
        """Bind the sizes of the tile; returns how many sums a class of columns has."""
        w = self.writer
        self.width = self.b.let(I.round_up(w.tile_columns, self.lanes))
        self.plane = self.b.let(I.mul(self.width, w.tile_rows))
        return I.mul(self.plane, I.round_up(self.size["K"], OUTPUTS[-1]))

    def blocks(self):
        """Add the products of a block of channels to the sums."""
        b, w, lanes = self.b, self.writer, self.lanes
        outputs = self.size["K"]
        start = I.add(I.mul(w.group, w.blocks, self.size["C"]), w.c0)
        self.weights = b.let(I.mul(start, w.taps * self.shape.outputs))
        # one step: from a vector of pixels to the next of a block, in the sums and in the strip
        if w.in_place:
            lines, steps, hop, strip_hop = 1, I.div(self.width, lanes), lanes, lanes
        else:
            lines, steps, hop = I.div(self.width, lanes), w.tile_rows, self.width
            strip_hop = b.let(I.mul(w.pitch, w.rows[0].stride))
        self.hops = hop, strip_hop
        whole = b.let(I.mul(I.div(steps, STEPS), STEPS))
        with b.loop("k", 0, outputs, OUTPUTS[-1]) as k, b.loop("line", 0, lines) as line:
            sums = b.let(I.add(w.at_phase, I.mul(k, self.plane), I.mul(line, lanes)))
            strip = b.let(I.add(w.seen, I.mul(line, lanes * w.columns[0].stride)))
            left = b.let(I.sub(outputs, k))
            for fewer, count in zip((0, *OUTPUTS), OUTPUTS):
                this = b.call("gt", left, L.as_index(fewer))
                if count < OUTPUTS[-1]:
                    this = b.and_(this, L.apply("le", left, L.as_index(count)))
                with b.branch(this):
                    for start, stop, height in ((0, whole, STEPS), (whole, steps, 1)):
                        with b.loop("step", start, stop, height) as step:
                            at = b.let(I.add(sums, I.mul(step, hop)))
                            seen = b.let(I.add(strip, I.mul(step, strip_hop)))
                            self.register_block(count, height, k, at, seen, I.mul(step, lanes))

    def register_block(self, outputs, steps, k, at, strip, first):
        b, w, lanes, dtype = self.b, self.writer, self.lanes, self.dtype
        hop, strip_hop = self.hops
        mask = [None] * steps
        if w.in_place:
            left = b.let(I.sub(w.tile_columns, first))
            mask = [b.let(I.lanes_below(I.sub(left, n * lanes), lanes)) for n in range(steps)]
        places = [[b.let(I.add(at, I.mul(self.plane, o), I.mul(hop, n))) for n in range(steps)]
                  for o in range(outputs)]
        sums = [[b.declare(L.Load(dtype, lanes, "sums", place)) for place in row] for row in places]
        start = b.let(I.add(self.weights, k))
        with w.each_tap(strip) as (tap, seen), b.loop("d", 0, w.depth) as d:
            weight = b.let(I.add(start, tap, I.mul(d, self.shape.outputs)))
            x = b.let(I.add(seen, I.mul(d, w.plane)))
            right = [self.pixels(I.add(x, I.mul(strip_hop, n)), mask[n]) for n in range(steps)]
            for o in range(outputs):
                left = b.let(L.splat(b.load("weights", I.add(weight, o), dtype), lanes))
                for n in range(steps):
                    b.assign(sums[o][n], L.apply("fma", left, right[n], sums[o][n]))
        for row, variables in zip(places, sums):
            for place, variable in zip(row, variables):
                b.store("sums", place, variable)

    def pixels(self, at, mask):
        """What a vector of pixels sees: every stride-th element."""
        b, w, lanes, dtype = self.b, self.writer, self.lanes, self.dtype
        stride = w.columns[0].stride
        if mask is not None:
            return b.load("source", at, dtype, lanes, mask, b.const(0.0, dtype, lanes))
        if stride == 1:
            return b.load("strip", at, dtype, lanes)
        if stride == 2:
            return b.call("even", *(b.load("strip", I.add(at, n * lanes), dtype, lanes) for n in range(2)))
        places = L.apply("mul", L.Apply(int64, lanes, "lane", ()), L.as_index(stride))
        return b.load("strip", L.apply("add", L.splat(at, lanes), places), dtype, lanes)

    def finish(self):
        """Hand the rows over, channel by channel."""
        b, w, lanes = self.b, self.writer, self.lanes
        with b.loop("k_out", 0, self.size["K"]) as k, b.loop("y_out", 0, w.tile_rows) as y:
            row = b.let(I.add(I.mul(k, self.plane), I.mul(y, self.width)))
            with b.loop("x_out", 0, w.tile_columns, lanes) as x:
                def value(phase):
                    return b.load("sums", I.add(row, x, I.mul(phase, w.part)), self.dtype, lanes)
                w.give(k, value, *w.place(y, x))
