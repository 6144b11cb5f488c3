"""Weights of a convolution, packed for conv_direct.

They go to [group][block of outputs][block of channels][tap][channel][output]: outputs lie along the lanes.
Squares of lanes x lanes elements are read as rows, turned in registers and stored. The window's numbers are
params, so that all convolutions share the kernel. Where each weight meets one tile of pixels (`inside`), it
does nothing: the tiles pack the weights that they are about to use.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.gemm_pack import turned
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

# channels of the source and of the result in a group, groups, taps of the window, channels of a block
PARAMS = ("C", "K", "groups", "taps", "channels", "inside")
PART = 8                # blocks of channels that a step of the extent packs


def pack_weights(shape, backward, dtype, stored):
    """The kernel. Buffers: weight, of dtype `stored`, (groups * K, C, taps) or, backward, (groups * C, K,
    taps); packed, of `dtype`, `packed_size` elements. Params: PARAMS.
    """
    writer = _Kernel(shape, backward, dtype, stored)
    blocks = I.ceil_div(I.index("K"), shape.outputs)
    parts = I.ceil_div(I.index("C"), I.mul(PART, I.index("channels")))
    extent = I.mul(I.index("groups"), shape.vectors, I.mul(blocks, parts, I.sub(1, I.index("inside"))))
    buffers = L.Buffer("weight", stored, "r"), L.Buffer("packed", dtype, "w")
    name = "conv_weights_backward" if backward else "conv_weights"
    return L.Kernel(name, buffers, PARAMS, extent, writer.body())


def packed_size(shape, taps, groups, channels, outputs):
    """Elements of the packed weights; channels and outputs of a group."""
    blocks = (outputs + shape.outputs - 1) // shape.outputs
    return blocks * channels * (groups * taps * shape.outputs)


class Pack:
    """Writes the statements that pack a block of channels for a vector of outputs. `size`: the index
    expressions of C, K and taps; `packed`: the buffer; `fetches`: whether the block of channels that comes
    next, after other work, is fetched."""

    def __init__(self, b, shape, backward, dtype, stored, size, packed, fetches=False):
        self.b, self.shape, self.backward, self.dtype, self.stored = b, shape, backward, dtype, stored
        self.channels, self.outputs, self.taps = size["C"], size["K"], size["taps"]
        self.packed, self.fetches = packed, fetches

    def pack(self, c0, depth, to):
        """Channels from c0 on, `depth` of them, for the chosen outputs."""
        self.c0, self.depth, self.to = c0, depth, to
        self.pack_backward() if self.backward else self.pack_forward()

    def choose_outputs(self, group, first):
        """`lanes` outputs of a group. Those beyond the last are copies of it: nobody stores their sums."""
        b, lanes, last, self.group = self.b, self.shape.lanes, I.sub(self.outputs, 1), group
        chosen = [b.let(I.minimum(I.add(first, n), last)) for n in range(lanes)]
        if self.backward:
            self.first, self.rows = first, [b.let(I.mul(k, self.taps)) for k in chosen]
        else:
            patch = b.let(I.mul(self.channels, self.taps))
            self.rows = [b.let(I.mul(I.add(I.mul(self.group, self.outputs), k), patch)) for k in chosen]

    def pack_forward(self):
        """Rows of (channel, tap), one row an output. The last square overlaps the one before it; where a row
        is shorter than a square, what is behind its end goes to the last place first, and is overwritten."""
        b, lanes = self.b, self.shape.lanes
        length, base = b.let(I.mul(self.depth, self.taps)), b.let(I.mul(self.c0, self.taps))
        last, end = b.let(I.maximum(I.sub(length, lanes), 0)), b.let(I.sub(length, 1))
        with b.loop("run", 0, length, lanes) as run:
            start = b.let(I.minimum(run, last))
            channel = b.let(I.div(start, self.taps))
            tap, places = b.let(I.sub(start, I.mul(channel, self.taps))), []
            for number in range(lanes):     # in arithmetic: a select may become a branch that is missed often
                place = b.let(I.add(I.mul(tap, self.depth), channel))
                behind = b.cast(b.call("gt", I.add(start, number), end), int64)
                places.append(b.let(I.add(place, I.mul(behind, I.sub(end, place)))))
                over = b.cast(b.call("eq", I.add(tap, 1), self.taps), int64)
                channel = b.let(I.add(channel, over))
                tap = b.let(I.sub(I.add(tap, 1), I.mul(over, self.taps)))
            vectors = self.square([I.add(row, base, start) for row in self.rows], length, length)
            for place, vector in reversed(tuple(zip(places, vectors))):
                self.put(place, vector)

    def pack_backward(self):
        """For each channel rows of taps, one row an output; what is behind a row's end as in pack_forward."""
        b, lanes = self.b, self.shape.lanes
        ahead = b.let(I.mul(self.depth, self.outputs, self.taps))
        with b.loop("channel", 0, self.depth) as c:
            base = b.let(I.mul(I.add(I.mul(self.group, self.channels), self.c0, c), self.outputs))
            single = b.call("eq", self.taps, L.as_index(1))
            with b.branch(single):          # outputs lie side by side already
                self.put(c, self.read(I.add(base, self.first), I.sub(self.outputs, self.first)))
            with b.branch(b.not_(single)):
                base, last = b.let(I.mul(base, self.taps)), b.let(I.sub(self.taps, 1))
                with b.loop("run", 0, self.taps, lanes) as start:
                    rows = [I.add(row, base, start) for row in self.rows]
                    vectors = self.square(rows, I.sub(self.taps, start), ahead)
                    for number, vector in reversed(tuple(enumerate(vectors))):
                        tap = I.minimum(I.add(start, number), last)
                        self.put(b.let(I.add(I.mul(tap, self.depth), c)), vector)

    def put(self, place, vector):
        self.b.store(self.packed, I.add(self.to, I.mul(place, self.shape.outputs)), vector)

    def read(self, at, left, mask=None):
        """A vector from `at` on, of which `left` elements are there."""
        b, lanes = self.b, self.shape.lanes
        mask = I.lanes_below(left, lanes) if mask is None else mask
        value = b.load("weight", at, self.stored, lanes, mask, b.const(0.0, self.stored, lanes))
        return b.cast(value, self.dtype)

    def square(self, rows, left, ahead):
        """`left` elements of each row, at most `lanes`, turned; fetches what is `ahead`."""
        for row in rows if self.fetches else ():
            self.b.prefetch("weight", I.add(row, ahead))
        mask = self.b.let(I.lanes_below(left, self.shape.lanes))
        return turned(self.b, [self.read(row, left, mask) for row in rows])


class _Kernel:
    def __init__(self, shape, backward, dtype, stored):
        self.shape, self.backward, self.dtype, self.stored = shape, backward, dtype, stored

    def body(self):
        b, shape = L.Builder("p"), self.shape
        size = {name: I.index(name) for name in PARAMS}
        channels, outputs, taps, most = (size[name] for name in ("C", "K", "taps", "channels"))
        writer = Pack(b, shape, self.backward, self.dtype, self.stored, size, "packed")
        part = b.let(I.mul(PART, most), "part")
        parts = b.let(I.ceil_div(channels, part), "parts")
        blocks = b.let(I.ceil_div(outputs, shape.outputs), "blocks")
        with b.loop("number", L.BEGIN, L.END) as number:
            strip = b.let(I.div(number, parts))
            start = b.let(I.mul(I.rem(number, parts), part), "first_channel")
            stop = b.let(I.minimum(I.add(start, part), channels), "last_channel")
            vector, strip = b.let(I.rem(strip, shape.vectors)), b.let(I.div(strip, shape.vectors))
            group = b.let(I.div(strip, blocks), "group")
            first = I.add(I.mul(I.rem(strip, blocks), shape.outputs), I.mul(vector, shape.lanes))
            writer.choose_outputs(group, b.let(first, "first_output"))
            to = b.let(I.add(I.mul(strip, channels, taps, shape.outputs), I.mul(vector, shape.lanes)))
            count = b.let(I.ceil_div(I.sub(stop, start), most))
            with b.loop("block", 0, count) as block:
                c0 = b.let(I.add(start, I.mul(block, most)), "c0")
                depth = b.let(I.minimum(I.sub(stop, c0), most), "depth")
                writer.pack(c0, depth, b.let(I.add(to, I.mul(c0, taps, shape.outputs)), "block_to"))
        return b.body()
