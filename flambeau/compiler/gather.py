"""Reading and adding rows or elements that an int tensor chooses along one axis.

Tensors are contiguous and seen as [outer, size, inner], where size is the indexed axis; PARAMS are outer,
size, count, inner, and count is how many indices there are. Indices are in 0 .. size - 1: checked and made
non-negative before the kernel. Sums have one order, that of the index; what runs in parallel never shares an
element.
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.types.dtype import float32, int64

PARAMS = ("outer", "size", "count", "inner")
BLOCK = 64          # elements of the inner axis that one step of a scatter-add owns
FEW = 4             # elements of the inner axis that are worth no vector


def gather_rows(dtype, index_dtype=int64, name="gather_rows"):
    """out[o, c, i] = x[o, index[c], i] (index_select, embedding).

    Buffers: x (outer, size, inner), index (count,), out (outer, count, inner). One step of the extent is a
    pair (o, c).
    """
    return _gather(name, dtype, index_dtype, _Places.of_rows)


def gather_elements(dtype, index_dtype=int64, name="gather_elements"):
    """out[o, c, i] = x[o, index[o, c, i], i] (gather).

    Buffers: x (outer, size, inner), index and out (outer, count, inner). One step of the extent is a pair (o,
    c).
    """
    return _gather(name, dtype, index_dtype, _Places.of_elements)


def scatter_add_rows(dtype, index_dtype=int64, name="scatter_add_rows", combine="add"):
    """out[o, index[c], i] += source[o, c, i], in the order of c (index_add, the derivative of gather_rows).

    `combine` names another operation in place of the sum: mul, max, min, or set, which writes the source.

    Buffers: out (outer, size, inner), index (count,), source (outer, count, inner). One step of the extent is
    BLOCK elements of the inner axis. Half precision is added in float32 and rounded after each addition.
    """
    return _scatter(name, dtype, index_dtype, _Places.of_rows, combine)


def scatter_add_elements(dtype, index_dtype=int64, name="scatter_add_elements", combine="add"):
    """out[o, index[o, c, i], i] += source[o, c, i], in the order of c (scatter_add, the derivative of
    gather_elements).

    `combine` as in `scatter_add_rows`.

    Buffers: out (outer, size, inner), index and source (outer, count, inner). One step of the extent is BLOCK
    elements of the inner axis.
    """
    return _scatter(name, dtype, index_dtype, _Places.of_elements, combine)


def gather_work(outer, size, count, inner):
    """About how many scalar operations a step of a gather's extent takes."""
    return 2 * inner + 4


def scatter_add_work(outer, size, count, inner):
    """About how many scalar operations a step of a scatter-add's extent takes."""
    return count * (4 * min(inner, BLOCK) + 4) + 1


# ---------------------------------------------------------------------------------------------- inside
class _Places:
    """Where elements stand; `inner` and `count` are the params, or 1 where that is known, so that vectors may
    lie along c or o."""

    def __init__(self, inner, count=None):
        self.inner, self.count = inner, I.index("count") if count is None else count

    def of_rows(self, o, c, i):
        """In a tensor (count,)."""
        return c

    def of_elements(self, o, c, i):
        """In a tensor (outer, count, inner)."""
        return I.add(I.mul(I.add(I.mul(o, self.count), c), self.inner), i)

    def chosen(self, b, o, row, i):
        """In a tensor (outer, size, inner); `row` is an element of index."""
        row = b.cast(row, int64)
        return b.let(I.add(I.mul(I.add(I.mul(o, I.index("size")), row), self.inner), i))


def _gather(name, dtype, index_dtype, place):
    b = L.Builder()
    count, inner = I.index("count"), I.index("inner")

    def copy(places, o, c, i):
        row = b.load("index", place(places, o, c, i), index_dtype)
        b.store("out", places.of_elements(o, c, i), b.load("x", places.chosen(b, o, row, i), dtype))

    lone = b.let(L.apply("eq", I.mul(count, inner), L.as_index(1)))
    with b.branch(lone):
        with b.loop("o_lane", L.BEGIN, L.END, kind="vector") as o:
            copy(_Places(L.as_index(1), L.as_index(1)), o, L.as_index(0), L.as_index(0))
    first, last = b.let(I.div(L.BEGIN, count)), b.let(I.ceil_div(L.END, count))
    with b.loop("o", first, b.let(L.apply("select", lone, first, last))) as o:
        start = b.let(I.maximum(I.sub(L.BEGIN, I.mul(o, count)), 0))
        stop = b.let(I.minimum(I.sub(L.END, I.mul(o, count)), count))
        single = b.let(L.apply("eq", inner, L.as_index(1)))
        with b.branch(single):
            with b.loop("c_lane", start, stop, kind="vector") as c:
                copy(_Places(L.as_index(1)), o, c, L.as_index(0))
        with b.branch(L.apply("not", single)):
            with b.loop("c", start, stop) as c, b.loop("i", 0, inner, kind="vector") as i:
                copy(_Places(inner), o, c, i)
    buffers = (L.Buffer("x", dtype, "r"), L.Buffer("index", index_dtype, "r"), L.Buffer("out", dtype, "w"))
    return L.Kernel(name, buffers, PARAMS, I.mul(I.index("outer"), count), b.body())


def _scatter(name, dtype, index_dtype, place, combine):
    b = L.Builder()
    inner, count = I.index("inner"), I.index("count")
    wide = float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype
    blocks = I.ceil_div(inner, BLOCK)

    def put(places, o, c, i):
        row = b.load("index", place(places, o, c, i), index_dtype)
        target = places.chosen(b, o, row, i)
        new = b.cast(b.load("source", places.of_elements(o, c, i), dtype), wide)
        if combine != "set":
            old = b.cast(b.load("out", target, dtype), wide)
            new = getattr(b, combine)(old, new)
        b.store("out", target, b.cast(new, dtype))

    with b.loop("block", L.BEGIN, L.END) as block:
        o = b.let(I.div(block, blocks))
        start = b.let(I.mul(I.rem(block, blocks), BLOCK))
        stop = b.let(I.minimum(I.add(start, BLOCK), inner))
        single, few = (b.let(L.apply("le", inner, L.as_index(n))) for n in (1, FEW))
        with b.branch(single):
            with b.loop("c_single", 0, count) as c:
                put(_Places(L.as_index(1)), o, c, L.as_index(0))
        with b.branch(L.apply("gt", few, single)):
            with b.loop("c_few", 0, count) as c, b.loop("i_few", 0, inner) as i:
                put(_Places(inner), o, c, i)
        with b.branch(L.apply("not", few)):
            with b.loop("c", 0, count) as c, b.loop("i", start, stop, kind="vector") as i:
                put(_Places(inner), o, c, i)
    buffers = (L.Buffer("out", dtype, "rw"), L.Buffer("index", index_dtype, "r"),
               L.Buffer("source", dtype, "r"))
    return L.Kernel(name, buffers, PARAMS, I.mul(I.index("outer"), blocks), b.body())
