"""Sorting along an axis: a stable merge sort of integer keys, and the best k of a line.

Tensors are contiguous and seen as [outer, size, inner]; one step of the extent is a line. Elements become
signed integers whose order is the wanted one (`_key`: NaN largest, -0 equal to 0, inverted where descending).
A key of 32 bits and the element's place make one 64-bit number, so comparing two of them also keeps equal
elements in order; 64-bit keys carry their places beside them. Runs of RUN elements are ranked by counting,
then merged without branches, back and forth between two halves of scratch memory. PARAMS: `padded` is the
size rounded up to a multiple of RUN, `kept` how many elements of each sorted line are written. A packed line
has at most 2**32 elements.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.scan import split_axis
from flambeau.ir import loops as L
from flambeau.types.dtype import float32, int32, int64, uint32, uint64

PARAMS = ("outer", "size", "inner", "padded", "kept")
RUN = 8
MAX_PASSES = 40
FEW = 64                # `best` holds at most so many elements
_LAST = (1 << 63) - 1   # a key behind all others
_LOW = (1 << 32) - 1


def is_packed(dtype):
    """True where key and place fit into one number."""
    return dtype.itemsize <= 4


def _key(b, x, descending):
    """The signed integer, int32 or int64, that orders `x`."""
    whole, bits = (int64, 64) if x.dtype.itemsize == 8 else (int32, 32)
    if x.dtype.kind == "f":
        x = b.cast(x, float32) if x.dtype.itemsize == 2 else x
        raw = b.call("bitcast", b.add(x, b.const(0.0, x.dtype)), dtype=whole)       # -0 + 0 = 0
        sign = b.shr(raw, b.const(bits - 1, whole))
        key = b.xor(raw, b.and_(sign, b.const((1 << (bits - 1)) - 1, whole)))
        key = b.select(b.ne(x, x), b.const((1 << (bits - 1)) - 1, whole), key)
    else:
        key = b.cast(x, whole)
        if x.dtype in (uint32, uint64):
            key = b.xor(key, b.const(-(1 << (bits - 1)), whole))
    return b.not_(key) if descending else key


class _Lines:
    """The walk over lines: where a line's elements stand in the operand and in the results."""

    def __init__(self, b, dtype, descending):
        self.b, self.dtype, self.descending = b, dtype, descending
        self.size, self.inner, self.kept = I.index("size"), I.index("inner"), I.index("kept")

    def start(self, line):
        b = self.b
        o, i = b.let(I.div(line, self.inner)), b.let(I.rem(line, self.inner))
        self.base = b.let(I.add(I.mul(I.mul(o, self.size), self.inner), i))
        self.target = b.let(I.add(I.mul(I.mul(o, self.kept), self.inner), i))

    def key(self, t, inner):
        """The key of element `t` of the line, int32 or int64."""
        b = self.b
        return _key(b, b.load("x", b.let(I.add(self.base, I.mul(t, inner))), self.dtype), self.descending)

    def packed(self, t, inner):
        """Key and place of element `t` as one number."""
        b = self.b
        high = b.shl(b.cast(self.key(t, inner), int64), b.const(32, int64))
        return b.or_(high, t)

    def write(self, t, place):
        """Result `t` of the line is the element at `place`."""
        b = self.b
        value = b.load("x", b.let(I.add(self.base, I.mul(place, self.inner))), self.dtype)
        target = b.let(I.add(self.target, I.mul(t, self.inner)))
        b.store("values", target, value)
        b.store("indices", target, place)


# ---------------------------------------------------------------------------------------------- merge sort
class _Scratch:
    """Two halves of `padded` numbers a line: packed ones, or keys and places in two buffers."""

    def __init__(self, b, packed):
        self.b, self.names = b, ("packed",) if packed else ("keys", "places")

    def load(self, at):
        at = self.b.let(at)
        return [self.b.load(name, at, int64) for name in self.names]

    def store(self, at, numbers):
        at = self.b.let(at)
        for name, number in zip(self.names, numbers):
            self.b.store(name, at, number)

    def place(self, numbers):
        """The element's place."""
        if len(numbers) == 2:
            return numbers[1]
        return self.b.and_(numbers[0], self.b.const(_LOW, int64))


def sort_kernel(dtype, descending):
    """Buffers: x (outer, size, inner), values and indices (outer, kept, inner), then scratch of 2 * padded
    int64 a line: one buffer, or two for dtypes of 64 bits."""
    b, packed = L.Builder(), is_packed(dtype)
    lines, scratch, padded = _Lines(b, dtype, descending), _Scratch(b, packed), I.index("padded")
    with b.loop("line", L.BEGIN, L.END) as line:
        lines.start(line)
        here = b.let(I.mul(I.mul(line, 2), padded))
        _fill(b, lines, scratch, here, padded)
        _rank_runs(b, scratch, here, padded)
        source = b.declare(padded, "source")
        with b.loop("turn", 0, MAX_PASSES) as turn:
            width = b.shl(b.const(RUN, int64), turn)
            with b.branch(L.apply("lt", width, padded)):
                target = b.let(I.sub(padded, source))
                _merge_runs(b, scratch, b.let(I.add(here, source)), b.let(I.add(here, target)), width, padded)
                b.assign(source, target)
        done = b.let(I.add(here, source))
        with b.loop("result", 0, lines.kept) as t:
            lines.write(t, scratch.place(scratch.load(I.add(done, t))))
    names = ("packed",) if packed else ("keys", "places")
    buffers = (L.Buffer("x", dtype, "r"), L.Buffer("values", dtype, "w"), L.Buffer("indices", int64, "w"),
               *(L.Buffer(name, int64, "rw") for name in names))
    name = "sort_descending" if descending else "sort"
    return L.Kernel(name, buffers, PARAMS, I.mul(I.index("outer"), I.index("inner")), b.body())


def _fill(b, lines, scratch, here, padded):
    """Numbers for all elements, and behind them such as sort last."""
    def numbers(t, inner):
        if len(scratch.names) == 1:
            return [lines.packed(t, inner)]
        return [lines.key(t, inner), t]

    single = b.let(L.apply("eq", lines.inner, L.as_index(1)))
    for condition, inner in ((single, L.as_index(1)), (L.apply("not", single), lines.inner)):
        with b.branch(condition):
            with b.loop("t_one" if condition is single else "t", 0, lines.size, kind="vector") as t:
                scratch.store(I.add(here, t), numbers(t, inner))
    with b.loop("behind", lines.size, padded) as t:
        scratch.store(I.add(here, t), [b.const(_LAST, int64), t])


def _rank_runs(b, scratch, here, padded):
    """Each run of RUN numbers of the first half, sorted, in the second: the rank is how many are less."""
    second = b.let(I.add(here, padded))
    with b.loop("run", 0, padded, RUN) as run:
        first = b.let(I.add(here, run))
        others = [scratch.load(I.add(first, j))[0] for j in range(RUN)]
        with b.loop("member", 0, RUN, kind="vector") as i:
            mine = scratch.load(I.add(first, i))
            rank = b.const(0, int64)
            for j, other in enumerate(others):
                less = b.lt(other, mine[0])
                if len(scratch.names) == 2:
                    less = b.or_(less, b.and_(b.eq(other, mine[0]), b.lt(b.const(j, int64), i)))
                rank = b.add(rank, b.cast(less, int64))
            scratch.store(I.add(second, run, rank), mine)


def _merge_runs(b, scratch, source, target, width, padded):
    """Merge pairs of sorted runs of `width` numbers; of equal ones the left comes first."""
    pairs = b.let(I.ceil_div(padded, I.mul(width, 2)))
    with b.loop("pair", 0, pairs) as pair:
        low = b.let(I.mul(pair, I.mul(width, 2)))
        middle = b.let(I.minimum(I.add(low, width), padded))
        high = b.let(I.minimum(I.add(middle, width), padded))
        left, right = b.declare(low), b.declare(middle)
        with b.loop("merged", low, high) as k:
            ours = scratch.load(I.add(source, I.minimum(left, I.sub(middle, 1))))
            theirs = scratch.load(I.add(source, I.minimum(right, I.sub(high, 1))))
            spent = L.apply("ge", left, middle)
            take = b.and_(b.let(L.apply("lt", right, high)), b.or_(b.let(spent), b.lt(theirs[0], ours[0])))
            scratch.store(I.add(target, k), [b.select(take, t, o) for t, o in zip(theirs, ours)])
            step = b.cast(take, int64)
            b.assign(right, L.apply("add", right, step))
            b.assign(left, L.apply("add", left, L.apply("sub", L.as_index(1), step)))


def launch_sort(planner, operand, outputs, dim, descending):
    """Add the sorting of a located tensor along `dim` to a plan; values and indices may be shorter."""
    operand = planner.dense(operand)
    outer, size, inner = split_axis(operand.shape, dim)
    padded = (size + RUN - 1) // RUN * RUN
    params = {"outer": outer, "size": size, "inner": inner, "padded": padded,
              "kept": split_axis(outputs[0].shape, dim)[1]}
    count = 1 if is_packed(operand.dtype) else 2
    scratch = [planner.recipe.buffer(int64, (outer * inner * 2 * padded,)) for _ in range(count)]
    planner.launch_template(sort_kernel(operand.dtype, descending), [operand, *outputs, *scratch], params,
                            100 * outer * size * inner)


# ---------------------------------------------------------------------------------------------- the best few
def best_kernel(dtype, descending):
    """The first `kept` (at most FEW) of each line in order, in one pass over it; for dtypes up to 32 bits.

    Buffers: x (outer, size, inner), values and indices (outer, kept, inner).
    """
    b = L.Builder()
    lines = _Lines(b, dtype, descending)
    b.local("best", int64, FEW)
    with b.loop("line", L.BEGIN, L.END) as line:
        lines.start(line)
        with b.loop("fresh", 0, FEW) as i:
            b.store("best", i, b.const(_LAST, int64))
        worst, last = b.declare(b.const(_LAST, int64), "worst"), b.let(I.sub(lines.kept, 1))
        with b.loop("t", 0, lines.size) as t:
            number = lines.packed(t, lines.inner)
            with b.branch(L.apply("lt", number, worst)):
                with b.loop("moved", 0, last) as moved:
                    at = b.let(I.sub(last, moved))
                    before = b.load("best", b.let(I.sub(at, 1)), int64)
                    b.store("best", at, b.min(b.load("best", at, int64), b.max(before, number)))
                b.store("best", L.as_index(0), b.min(b.load("best", L.as_index(0), int64), number))
                b.assign(worst, b.load("best", last, int64))
        with b.loop("result", 0, lines.kept) as t:
            lines.write(t, b.and_(b.load("best", t, int64), b.const(_LOW, int64)))
    buffers = (L.Buffer("x", dtype, "r"), L.Buffer("values", dtype, "w"), L.Buffer("indices", int64, "w"))
    name = "largest" if descending else "smallest"
    return L.Kernel(name, buffers, PARAMS, I.mul(I.index("outer"), I.index("inner")), b.body())


def launch_best(planner, operand, outputs, dim, kept, largest):
    """Add the `kept` largest or smallest elements along `dim`, in order, to a plan."""
    if kept > FEW or not is_packed(operand.dtype):
        launch_sort(planner, operand, outputs, dim, largest)
        return
    operand = planner.dense(operand)
    outer, size, inner = split_axis(operand.shape, dim)
    params = {"outer": outer, "size": size, "inner": inner, "padded": size, "kept": kept}
    planner.launch_template(best_kernel(operand.dtype, largest), [operand, *outputs], params,
                            8 * outer * size * inner)
