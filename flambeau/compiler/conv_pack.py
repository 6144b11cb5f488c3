"""Weights of a convolution, packed for conv_direct: [group][block of outputs][block of channels][tap][channel][output].

Outputs lie along the lanes. Squares of lanes x lanes elements are read as rows, turned in registers and stored.
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L

PARAMS = ("C", "K")     # of a group: channels of the source and of the result
PART = 8                # blocks of channels that a step of the extent packs


def pack_weights(name, shape, taps, groups, backward, dtype, stored):
    """The kernel. Buffers: weight, of dtype `stored`, (groups * K, C, taps) or, backward, (groups * C, K, taps);
    packed, of `dtype`, groups * packed_blocks * C * taps * shape.outputs elements. Params: PARAMS.
    """
    writer = _Pack(shape, taps, groups, backward, dtype, stored)
    blocks = I.ceil_div(I.index("K"), shape.outputs)
    extent = I.mul(groups * shape.vectors, blocks, I.ceil_div(I.index("C"), PART * shape.channels))
    buffers = L.Buffer("weight", stored, "r"), L.Buffer("packed", dtype, "w")
    return L.Kernel(name, buffers, PARAMS, extent, writer.body())


def packed_size(shape, taps, groups, channels, outputs):
    """Elements of the packed weights; channels and outputs of a group."""
    blocks = (outputs + shape.outputs - 1) // shape.outputs
    return blocks * channels * (groups * taps * shape.outputs)


def transposed(b, vectors):
    """A square of vectors, turned: element j of vector i becomes element i of vector j."""
    count = len(vectors)
    half = count // 2
    for _ in range(count.bit_length() - 1):     # each round moves the bits of (vector, lane) round by one
        pairs = [(vectors[n], vectors[n + half]) for n in range(half)]
        vectors = [b.call(op, *pair) for pair in pairs for op in ("zip_low", "zip_high")]
    return vectors


class _Pack:
    def __init__(self, shape, taps, groups, backward, dtype, stored):
        self.shape, self.taps, self.groups, self.backward = shape, taps, groups, backward
        self.dtype, self.stored = dtype, stored
        self.channels, self.outputs = I.index("C"), I.index("K")

    def body(self):
        self.b = b = L.Builder("p")
        shape = self.shape
        parts = b.let(I.ceil_div(self.channels, PART * shape.channels), "parts")
        blocks = b.let(I.ceil_div(self.outputs, shape.outputs), "blocks")
        with b.loop("number", L.BEGIN, L.END) as number:
            strip = b.let(I.div(number, parts))
            start = b.let(I.mul(I.rem(number, parts), PART * shape.channels), "first_channel")
            stop = I.minimum(I.add(start, PART * shape.channels), self.channels)
            vector, strip = b.let(I.rem(strip, shape.vectors)), b.let(I.div(strip, shape.vectors))
            self.group = b.let(I.div(strip, blocks), "group")
            first = I.add(I.mul(I.rem(strip, blocks), shape.outputs), I.mul(vector, shape.lanes))
            self.choose_outputs(b.let(first, "first_output"))
            to = b.let(I.add(I.mul(strip, self.channels, self.taps * shape.outputs), I.mul(vector, shape.lanes)))
            with b.loop("c0", start, stop, shape.channels) as c0:
                self.c0, self.to = c0, b.let(I.add(to, I.mul(c0, self.taps * shape.outputs)))
                self.depth = b.let(I.minimum(I.sub(stop, c0), shape.channels), "depth")
                self.pack_backward() if self.backward else self.pack_forward()
        return b.body()

    def choose_outputs(self, first):
        """`lanes` outputs. Those beyond the last are copies of it: nobody stores their sums."""
        b, lanes, last = self.b, self.shape.lanes, I.sub(self.outputs, 1)
        chosen = [b.let(I.minimum(I.add(first, n), last)) for n in range(lanes)]
        if self.backward:
            self.first, self.rows = first, [b.let(I.mul(k, self.taps)) for k in chosen]
        else:
            patch = b.let(I.mul(self.channels, self.taps))
            self.rows = [b.let(I.mul(I.add(I.mul(self.group, self.outputs), k), patch)) for k in chosen]

    def pack_forward(self):
        """Rows of (channel, tap), one row an output. The last square overlaps the one before it; where a row is
        shorter than a square, what is behind its end goes to the last place first, and is overwritten."""
        b, lanes = self.b, self.shape.lanes
        length, base = b.let(I.mul(self.depth, self.taps)), b.let(I.mul(self.c0, self.taps))
        last = b.let(I.maximum(I.sub(length, lanes), 0))
        with b.loop("run", 0, length, lanes) as run:
            start = b.let(I.minimum(run, last))
            vectors = self.square([I.add(row, base, start) for row in self.rows], length)
            for number, vector in reversed(tuple(enumerate(vectors))):
                place = b.let(I.minimum(I.add(start, number), I.sub(length, 1)))
                c = b.let(I.div(place, self.taps))
                self.put(c, I.sub(place, I.mul(c, self.taps)), vector)

    def pack_backward(self):
        """For each channel rows of taps, one row an output."""
        b, lanes = self.b, self.shape.lanes
        with b.loop("channel", 0, self.depth) as c:
            base = b.let(I.mul(I.add(I.mul(self.group, self.channels), self.c0, c), self.outputs))
            if self.taps == 1:
                mask = I.lanes_below(I.sub(self.outputs, self.first), lanes)
                return self.put(c, 0, self.read(I.add(base, self.first), mask))
            base = b.let(I.mul(base, self.taps))
            for start in range(0, self.taps, lanes):
                left = min(self.taps - start, lanes)
                vectors = self.square([I.add(row, base, start) for row in self.rows], left)
                for number, vector in enumerate(vectors[:left]):
                    self.put(c, start + number, vector)

    def put(self, channel, tap, vector):
        place = I.mul(I.add(I.mul(tap, self.depth), channel), self.shape.outputs)
        self.b.store("packed", I.add(self.to, place), vector)

    def read(self, at, mask):
        other = None if mask is None else self.b.const(0.0, self.stored, self.shape.lanes)
        return self.b.cast(self.b.load("weight", at, self.stored, self.shape.lanes, mask, other), self.dtype)

    def square(self, rows, left):
        """`left` elements of each row, at most `lanes`, turned."""
        mask = None if left == self.shape.lanes else self.b.let(I.lanes_below(L.as_index(left), self.shape.lanes))
        return transposed(self.b, [self.read(row, mask) for row in rows])
