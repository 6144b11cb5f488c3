"""The extreme of each line along an axis and the first place where it stands, in one pass.

Tensors are contiguous and seen as [outer, size, inner]; PARAMS are outer, size and inner. Where inner is 1
the lanes run along the line, each with the first extreme of its own elements, and are folded at its end;
otherwise, and where lines are short, the lanes are neighbouring lines. A NaN is the extreme; of equal elements the
first is.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.scan import BLOCK, split_axis
from flambeau.compiler.short_rows import LONGEST, ROWS, carrier, turn_in
from flambeau.ir import loops as L
from flambeau.types.dtype import bool_, float32, int32, int64

PARAMS = ("outer", "size", "inner")
LANES = 8
NOWHERE = (1 << 62) - 1         # a place behind every other


def extreme_kernel(compare, dtype, start):
    """Buffers: x (outer, size, inner), values and indices (outer, inner). `compare` is 'gt' or 'lt'."""
    b, inner = L.Builder(), I.index("inner")
    wide = int32 if dtype is bool_ else float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype
    walk = _Walk(b, compare, dtype, wide, start)
    b.local("bests", wide, BLOCK)
    b.local("places", int64, BLOCK)
    blocks = I.ceil_div(inner, BLOCK)
    single = b.let(L.apply("eq", inner, L.as_index(1)))
    short = b.and_(single, b.le(I.index("size"), L.as_index(LONGEST)))
    with b.loop("group", L.BEGIN, L.END, ROWS) as group:
        stop = b.let(L.add(group, ROWS))
        fits = b.and_(short, b.le(stop, L.END))
        with b.branch(fits):
            walk.short_lines(group)
        stop = b.call("min", stop, L.END)
        with b.loop("block", b.select(fits, stop, group), stop) as block:
            with b.branch(single):
                walk.line(block)
            with b.branch(L.apply("not", single)):
                first = b.let(I.mul(I.rem(block, blocks), BLOCK))
                stop = b.let(I.minimum(I.add(first, BLOCK), inner))
                walk.lines(b.let(I.div(block, blocks)), first, b.let(I.sub(stop, first)), inner)
    buffers = (L.Buffer("x", dtype, "r"), L.Buffer("values", dtype, "w"), L.Buffer("indices", int64, "w"))
    return L.Kernel(f"extreme_{compare}", buffers, PARAMS, I.mul(I.index("outer"), blocks), b.body())


class _Walk:
    """The loops over lines."""

    def __init__(self, b, compare, dtype, wide, start):
        self.b, self.compare, self.dtype, self.wide, self.start = b, compare, dtype, wide, start

    def better(self, x, best):
        """True where x is more extreme than best."""
        b = self.b
        found = b.call(self.compare, x, best)
        if self.wide.kind == "f":
            found = b.or_(found, b.and_(b.ne(x, x), b.eq(best, best)))
        return found

    def earlier(self, x, place, best, best_place):
        """True where x is more extreme, or as extreme and in front."""
        b = self.b
        same = b.eq(x, best)
        if self.wide.kind == "f":
            same = b.or_(same, b.and_(b.ne(x, x), b.ne(best, best)))
        return b.or_(self.better(x, best), b.and_(same, b.lt(place, best_place)))

    def line(self, o):
        """One line of consecutive elements."""
        b, size = self.b, I.index("size")
        base = b.let(I.mul(o, size))
        full = b.let(L.apply("and", size, L.as_index(-LANES)))
        lanes = L.Apply(int64, LANES, "lane", ())
        bests = b.declare(b.const(self.start, self.wide, LANES))
        places = b.declare(b.let(lanes))
        with b.loop("t", 0, full, LANES) as t:
            x = b.cast(b.load("x", I.add(base, t), self.dtype, LANES), self.wide)
            found = self.better(x, bests)
            b.assign(bests, L.apply("select", found, x, bests))
            b.assign(places, L.apply("select", found, b.add(lanes, L.splat(t, LANES)), places))
        b.store("bests", L.as_index(0), bests)
        b.store("places", L.as_index(0), places)
        best = b.declare(b.const(self.start, self.wide))
        place = b.declare(b.const(NOWHERE, int64))

        def fold(x, at):
            found = self.earlier(x, at, best, place)
            b.assign(best, L.apply("select", found, x, best))
            b.assign(place, L.apply("select", found, at, place))

        with b.loop("lane_number", 0, b.let(I.minimum(full, LANES))) as lane:
            fold(b.load("bests", lane, self.wide), b.load("places", lane, int64))
        with b.loop("rest", full, size) as t:
            fold(b.cast(b.load("x", I.add(base, t), self.dtype), self.wide), t)
        b.store("values", o, b.cast(best, self.dtype))
        b.store("indices", o, place)

    def short_lines(self, o):
        """ROWS lines of few consecutive elements, one a lane."""
        b, size, kept = self.b, I.index("size"), carrier(self.dtype)
        columns = b.local("columns", kept, ROWS * LONGEST)
        turn_in(b, "x", self.dtype, I.mul(o, size), size, size, columns)
        bests = b.declare(b.const(self.start, self.wide, ROWS))
        places = b.declare(b.const(0, int32, ROWS))
        with b.loop("s", 0, size) as t:
            x = b.load(columns, L.mul(t, ROWS), kept, ROWS)
            x = b.cast(b.cast(x, self.dtype), self.wide)
            found = self.better(x, bests)
            b.assign(bests, L.apply("select", found, x, bests))
            b.assign(places, L.apply("select", found, L.splat(b.cast(t, int32), ROWS), places))
        b.store("values", o, b.cast(bests, self.dtype))
        b.store("indices", o, b.cast(places, int64))

    def lines(self, o, first, count, inner):
        """`count` neighbouring lines from `first` on."""
        b = self.b
        with b.loop("fresh", 0, count, kind="vector") as i:
            b.store("bests", i, b.const(self.start, self.wide))
            b.store("places", i, b.const(0, int64))
        with b.loop("row", 0, I.index("size")) as t:
            base = b.let(I.add(I.mul(I.add(I.mul(o, I.index("size")), t), inner), first))
            with b.loop("i", 0, count, kind="vector") as i:
                x = b.cast(b.load("x", b.let(I.add(base, i)), self.dtype), self.wide)
                best, place = b.load("bests", i, self.wide), b.load("places", i, int64)
                found = self.better(x, best)
                b.store("bests", i, b.select(found, x, best))
                b.store("places", i, b.select(found, t, place))
        target = b.let(I.add(I.mul(o, inner), first))
        with b.loop("j", 0, count, kind="vector") as i:
            b.store("values", b.let(I.add(target, i)), b.cast(b.load("bests", i, self.wide), self.dtype))
            b.store("indices", b.let(I.add(target, i)), b.load("places", i, int64))


def launch_extreme(planner, compare, start, operand, outputs, dim):
    """Add the extremes along `dim` of a located tensor to a plan; outputs are values and indices."""
    operand = planner.dense(operand)
    outer, size, inner = split_axis(operand.shape, dim)
    params = {"outer": outer, "size": size, "inner": inner}
    planner.launch_template(extreme_kernel(compare, operand.dtype, start), [operand, *outputs], params,
                            2 * outer * size * inner)
