"""Weights of a convolution, packed for conv_direct: [group][block of outputs][channels, by blocks: tap, channel][output].

Outputs lie along the lanes. Squares of lanes x lanes elements are read as rows, turned in registers and stored.
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L

PARAMS = ("C", "K")     # of a group: channels of the source and of the result


def pack_weights(name, shape, taps, groups, backward, dtype, stored):
    """The kernel. Buffers: weight, of dtype `stored`, (groups * K, C, taps) or, backward, (groups * C, K, taps);
    packed, of `dtype`, groups * packed_blocks * C * taps * shape.outputs elements. Params: PARAMS.
    """
    writer = _Pack(shape, taps, groups, backward, dtype, stored)
    blocks = I.ceil_div(I.index("K"), shape.outputs)
    extent = I.mul(groups, blocks, I.ceil_div(I.index("C"), shape.channels))
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
        parts = b.let(I.ceil_div(self.channels, shape.channels), "parts")
        blocks = b.let(I.ceil_div(self.outputs, shape.outputs), "blocks")
        with b.loop("number", L.BEGIN, L.END) as number:
            strip = b.let(I.div(number, parts))
            self.c0 = b.let(I.mul(I.rem(number, parts), shape.channels), "first_channel")
            self.depth = b.let(I.minimum(I.sub(self.channels, self.c0), shape.channels), "depth")
            self.group = b.let(I.div(strip, blocks), "group")
            first = b.let(I.mul(I.rem(strip, blocks), shape.outputs), "first_output")
            to = b.let(I.mul(I.add(I.mul(strip, self.channels), self.c0), self.taps * shape.outputs), "to")
            with b.loop("vector", 0, shape.vectors) as v:
                self.vector(b.let(I.add(first, I.mul(v, shape.lanes))), b.let(I.add(to, I.mul(v, shape.lanes))))
        b.local("turned", self.dtype, shape.lanes * shape.lanes)
        return b.body()

    def vector(self, output, to):
        """The channels' taps for `lanes` outputs. Outputs beyond the last are copies of it: nobody stores theirs."""
        b = self.b
        last = I.sub(self.outputs, 1)
        outputs = [b.let(I.minimum(I.add(output, n), last)) for n in range(self.shape.lanes)]
        if not self.backward:
            rows = [I.add(I.mul(self.group, self.outputs), k) for k in outputs]
            rows = [b.let(I.mul(I.add(I.mul(row, self.channels), self.c0), self.taps)) for row in rows]
            return self.runs(rows, I.mul(self.depth, self.taps), 0, to)
        with b.loop("channel", 0, self.depth) as c:
            row = b.let(I.mul(I.add(I.mul(self.group, self.channels), self.c0, c), self.outputs))
            if self.taps == 1:
                mask = I.lanes_below(I.sub(self.outputs, output), self.shape.lanes)
                value = self.read(I.add(row, output), mask)
                return b.store("packed", I.add(to, I.mul(c, self.shape.outputs)), value)
            rows = [b.let(I.mul(I.add(row, k), self.taps)) for k in outputs]
            self.runs(rows, L.as_index(self.taps), c, to)

    def read(self, at, mask):
        lanes = self.shape.lanes
        return self.b.cast(self.b.load("weight", at, self.stored, lanes, mask, self.b.const(0.0, self.stored, lanes)),
                           self.dtype)

    def runs(self, rows, length, channel, to):
        """Each row is a run of `length` elements (channel, tap), from `channel` on."""
        b, lanes = self.b, self.shape.lanes
        length = b.let(length)
        with b.loop("run", 0, length, lanes) as start:
            mask = b.let(I.lanes_below(I.sub(length, start), lanes))
            vectors = [self.read(I.add(row, start), mask) for row in rows]
            for number, vector in enumerate(transposed(b, vectors)):
                b.store("turned", L.as_index(number * lanes), vector)
            with b.loop("entry", 0, I.minimum(I.sub(length, start), lanes)) as entry:
                place = b.let(I.add(start, entry))
                c = b.let(I.div(place, self.taps))
                tap = b.let(I.sub(place, I.mul(c, self.taps)))
                at = I.add(I.mul(tap, self.depth), c, channel)
                value = b.load("turned", I.mul(entry, lanes), self.dtype, lanes)
                b.store("packed", I.add(to, I.mul(at, self.shape.outputs)), value)
