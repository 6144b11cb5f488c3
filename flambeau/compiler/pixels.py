"""Channels as pixels and back: r * r planes (H, W) are the pixels of one plane (H * r, W * r).

A row of the large plane is r rows of small ones in turn. With r = 2 vectors are interleaved in registers,
else elements are written, or read, r apart.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

PARAMS = ("planes", "H", "W")


def pixel_rows(dtype, factor, back=False, name="pixel_rows", target=None):
    """Buffers: input (planes, factor * factor, H, W), output (planes, H * factor, W * factor); if `back`
    the other way round. Params: PARAMS, of the small planes. One step of the extent is a row of the large
    plane."""
    planes, height, width = map(I.index, PARAMS)
    b, lanes = L.Builder("p"), min((target or targets.current()).vector_bytes // dtype.itemsize, 16)
    whole = b.let(L.apply("ge", width, L.as_index(lanes)))
    last, mask = b.let(I.maximum(I.sub(width, lanes), 0)), b.let(I.lanes_below(width, lanes))
    with b.loop("row", L.BEGIN, L.END) as row:
        line = b.let(I.div(row, factor))
        plane, own = b.let(I.div(line, height)), b.let(I.sub(row, I.mul(line, factor)))
        first = I.add(I.mul(plane, factor * factor), I.mul(own, factor))
        small = [I.add(I.mul(I.add(first, j), height), I.rem(line, height)) for j in range(factor)]
        small = [b.let(I.mul(s, width)) for s in small]
        large = b.let(I.mul(row, width, factor))
        with b.loop("vector", 0, width, lanes) as vector:
            x = b.let(I.minimum(vector, last))              # the last vector may meet the one before
            move = _Move(b, dtype, lanes, [I.add(s, x) for s in small], I.add(large, I.mul(x, factor)))
            with b.branch(whole):
                move.run(back)
            with b.branch(b.not_(whole)):
                double = I.mul(width, 2)
                move.run(back, mask, [I.lanes_below(I.sub(double, start), lanes) for start in (0, lanes)])
    buffers = L.Buffer("input", dtype, "r"), L.Buffer("output", dtype, "w")
    return L.Kernel(name + "_back" * back, buffers, PARAMS, I.mul(planes, height, factor), b.body())


class _Move:
    """A vector of each small row from `small`, and what they are together from `large` on."""

    def __init__(self, b, dtype, lanes, small, large):
        self.b, self.dtype, self.lanes, self.small, self.large = b, dtype, lanes, small, large

    def run(self, back, mask=None, halves=(None, None)):
        """`mask`: of a small row's vector; `halves`: of the two vectors that two of them make."""
        b, factor = self.b, len(self.small)
        pair = [(b.let(I.add(self.large, half * self.lanes)), halves[half]) for half in (0, 1)]
        if not back:
            values = [self.read(s, mask) for s in self.small]
            if factor == 2:
                for op, (index, half) in zip(("zip_low", "zip_high"), pair):
                    b.store("output", index, b.call(op, *values), half)
            else:
                for index, value in zip(self.apart(), values):
                    b.store("output", index, value, mask)
            return
        if factor == 2:
            parts = [self.read(*p) for p in pair]
            values = [b.call(op, *parts) for op in ("even", "odd")]
        else:
            values = [self.read(index, mask) for index in self.apart()]
        for s, value in zip(self.small, values):
            b.store("output", s, value, mask)

    def read(self, index, mask):
        zero = False if self.dtype.kind == "b" else 0.0 if self.dtype.kind == "f" else 0
        other = None if mask is None else self.b.const(zero, self.dtype, self.lanes)
        return self.b.load("input", index, self.dtype, self.lanes, mask, other)

    def apart(self):
        """Where in the large row the elements of each small one stand."""
        b, factor = self.b, len(self.small)
        steps = b.let(L.apply("mul", L.Apply(int64, self.lanes, "lane", ()), L.as_index(factor)))
        return [b.let(L.apply("add", steps, b.let(I.add(self.large, j)))) for j in range(factor)]
