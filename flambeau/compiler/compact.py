"""Results whose size depends on the data: the places of what is true, in order; and counts of numbers.

A mask is cut into blocks of BLOCK elements. Their counts are added up to where each block's places start,
with the number of all behind the last; then each block collects its places in a small local array, without a
branch for each element, and copies them to where they belong.
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.ops.chosen import BLOCK, blocks_of
from flambeau.types.dtype import bool_, float64, int32, int64
from flambeau.types.shape import numel

LANES = 32              # elements that are looked at together


def counts_kernel():
    """How many elements of each block are true. Buffers: mask (size,), starts (blocks + 1,)."""
    b, size = L.Builder(), I.index("size")
    with b.loop("block", L.BEGIN, L.END) as block:
        low = b.let(I.mul(block, BLOCK))
        count = b.let(I.minimum(I.sub(size, low), BLOCK))
        total = b.declare(b.const(0, int32, LANES))
        full = b.let(L.apply("and", count, L.as_index(-LANES)))
        with b.loop("t", 0, full, LANES) as t:
            here = b.cast(b.load("mask", b.let(I.add(low, t)), bool_, LANES), int32)
            b.assign(total, b.add(total, here))
        rest = b.declare(b.cast(b.call("reduce_add", total), int64))
        with b.loop("tail", full, count) as t:
            b.assign(rest, b.add(rest, b.cast(b.load("mask", b.let(I.add(low, t)), bool_), int64)))
        b.store("starts", block, rest)
    buffers = L.Buffer("mask", bool_, "r"), L.Buffer("starts", int64, "w")
    return L.Kernel("true_counts", buffers, ("size",), I.ceil_div(size, BLOCK), b.body())


def starts_kernel():
    """Counts to what comes before each, and behind them the number of all."""
    b, count = L.Builder(), I.index("count")
    with b.loop("once", L.BEGIN, L.END):
        total = b.declare(b.const(0, int64))
        with b.loop("block", 0, count) as block:
            here = b.load("starts", block, int64)
            b.store("starts", block, total)
            b.assign(total, b.add(total, here))
        b.store("starts", count, total)
    return L.Kernel("true_starts", (L.Buffer("starts", int64, "rw"),), ("count",), L.as_index(1), b.body())


def places_kernel(rank):
    """The places of the true elements. Buffers: mask, starts, out (count, rank); `rank` 0 gives row-major
    numbers (count,)."""
    b, size = L.Builder(), I.index("size")
    b.local("found", int64, BLOCK + 1)
    with b.loop("block", L.BEGIN, L.END) as block:
        low = b.let(I.mul(block, BLOCK))
        high = b.let(I.minimum(I.add(low, BLOCK), size))
        number = b.declare(b.const(0, int64), "number")

        def collect(t):
            b.store("found", number, t)
            b.assign(number, b.add(number, b.cast(b.load("mask", t, bool_), int64)))

        full = b.let(I.sub(high, I.rem(I.sub(high, low), LANES)))
        with b.loop("t", low, full, LANES) as t:
            with b.branch(b.call("reduce_or", b.load("mask", t, bool_, LANES))):
                with b.loop("near", t, b.let(I.add(t, LANES))) as near:
                    collect(near)
        with b.loop("tail", full, high) as t:
            collect(t)
        start = b.load("starts", block, int64)
        with b.loop("i", 0, number, kind="vector") as i:
            _write_place(b, rank, b.let(I.add(start, i)), b.load("found", i, int64))
    buffers = L.Buffer("mask", bool_, "r"), L.Buffer("starts", int64, "r"), L.Buffer("out", int64, "w")
    params = ("size", *(f"size{a}" for a in range(1, rank)))
    return L.Kernel(f"true_places_{rank}", buffers, params, I.ceil_div(size, BLOCK), b.body())


def _write_place(b, rank, at, place):
    """A row-major number, or its coordinates. Numbers below 2**53 are divided as float64, which is exact then
    but for the fraction."""
    if rank == 0:
        b.store("out", at, place)
        return
    row = b.let(I.mul(at, rank))
    for axis in range(rank - 1, 0, -1):
        size = I.index(f"size{axis}")
        whole = b.cast(b.div(b.cast(place, float64), b.cast(size, float64)), int64)
        b.store("out", b.let(I.add(row, axis)), b.sub(place, b.mul(whole, size)))
        place = whole
    b.store("out", row, place)


def launch_starts(planner, mask, out):
    """Add to a plan: where each block's places start, and their number; out is (blocks + 1,)."""
    mask = planner.dense(mask)
    size = numel(mask.shape)
    planner.launch_template(counts_kernel(), [mask, out], {"size": size}, size // 4)
    planner.launch_template(starts_kernel(), [out], {"count": blocks_of(size)}, 2 * blocks_of(size))


def launch_places(planner, mask, starts, out, rank):
    """Add to a plan: the places of the true elements of a mask."""
    mask = planner.dense(mask)
    size = numel(mask.shape)
    params = {"size": size} | {f"size{a}": s for a, s in enumerate(mask.shape) if 0 < a < rank}
    planner.launch_template(places_kernel(rank), [mask, starts, out], params, 4 * size)


# ---------------------------------------------------------------------------------------------- counts
def tally_kernel(dtype):
    """How often each of 0, 1, ..., bins - 1 is in x, in `rows` tables of counts.

    Buffers: x (size,), whose elements are in range, and table (rows, bins) of int64. A step of the extent is
    a table, made from its share of x.
    """
    b, (size, rows, bins) = L.Builder(), map(I.index, ("size", "rows", "bins"))
    share = b.let(I.ceil_div(size, rows))
    with b.loop("row", L.BEGIN, L.END) as row:
        base = b.let(I.mul(row, bins))
        with b.loop("fresh", 0, bins, kind="vector") as i:
            b.store("table", b.let(I.add(base, i)), b.const(0, int64))
        low = b.let(I.minimum(I.mul(row, share), size))
        with b.loop("t", low, b.let(I.minimum(I.add(low, share), size))) as t:
            at = b.let(I.add(base, b.cast(b.load("x", t, dtype), int64)))
            b.store("table", at, b.add(b.load("table", at, int64), b.const(1, int64)))
    buffers = L.Buffer("x", dtype, "r"), L.Buffer("table", int64, "rw")
    return L.Kernel("tally", buffers, ("size", "rows", "bins"), rows, b.body())


def launch_tally(planner, x, table):
    """Add to a plan: counts of the numbers in x, in the rows of a table that are added up later."""
    x, (rows, bins) = planner.dense(x), table.shape
    params = {"size": x.shape[0], "rows": rows, "bins": bins}
    planner.launch_template(tally_kernel(x.dtype), [x, table], params, 8 * x.shape[0])
