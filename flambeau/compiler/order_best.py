"""The best few elements of a line in order, and the element of a given rank, without sorting the line.

`best_kernel` keeps a sorted list of at most FEW numbers and looks at VECTORS vectors of keys at once: most
hold nothing better than the worst of the list. `select_kernel` counts the elements by the BIN_BITS leading
bits of their keys, behind those that all have in common, and sorts only those of the bins that hold what is
wanted.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.order import FEW, PARAMS, SHARES, by_lines, launch_sort, rank_elements
from flambeau.compiler.order_keys import (DIGIT, DIGITS, Numbers, count_up, is_packed, key, key_bits,
                                          outer_buffers, passes, scratch_buffers, sort_numbers)
from flambeau.ir import loops as L
from flambeau.types.dim import maximum, minimum
from flambeau.types.dtype import int64, uint32, uint64

GROUP = 8               # numbers of the list of `best_kernel` in a vector; the list has at most FEW
LANES, VECTORS = 16, 4  # keys that are compared at once
BIN_BITS = 11
BINS = 1 << BIN_BITS
ALL = (1 << 64) - 1     # behind all numbers

BEST_PARAMS = ("lines", "size", "kept")


# ---------------------------------------------------------------------------------------------- the best few
def best_kernel(dtype, descending):
    """The first `kept` (at most FEW) of each line in order, in one pass over it; for dtypes up to 32 bits.

    Buffers: x (lines, size), values and indices (lines, kept). A step of the extent is a line.
    """
    b = L.Builder()
    numbers, size, kept = Numbers(b, dtype, descending), I.index("size"), I.index("kept")
    b.local("best", uint64, GROUP + FEW)
    with b.loop("line", L.BEGIN, L.END) as line:
        base, target = b.let(I.mul(line, size)), b.let(I.mul(line, kept))
        with b.loop("fresh", 0, FEW, kind="vector") as i:
            b.store("best", I.add(i, GROUP), b.const(ALL, uint64))
        b.store("best", L.as_index(GROUP - 1), b.const(0, uint64))      # in front of the first
        groups = b.let(I.ceil_div(kept, GROUP))
        last = b.let(I.add(kept, GROUP - 1))
        worst = b.declare(b.const(ALL, uint64), "worst")

        def offer(t):
            number = numbers.of_element(base, t)[0]
            with b.branch(b.lt(number, worst)):
                _insert(b, number, groups)
                b.assign(worst, b.load("best", last, uint64))

        with b.loop("first", 0, kept) as t:
            offer(t)
        step = LANES * VECTORS
        full = b.let(I.add(kept, L.apply("and", I.sub(size, kept), L.as_index(-step))))
        with b.loop("t", kept, full, step) as t:
            limit = b.cast(b.shr(worst, b.const(32, uint64)), uint32)
            better = None
            for n in range(VECTORS):
                x = b.load("x", b.let(I.add(base, t, LANES * n)), dtype, LANES)
                found = b.lt(key(b, x, descending), L.splat(limit, LANES))
                better = found if better is None else b.or_(better, found)
            with b.branch(b.call("reduce_or", better)):
                with b.loop("near", t, b.let(I.add(t, step))) as near:
                    offer(near)
        with b.loop("rest", full, size) as t:
            offer(t)
        with b.loop("result", 0, kept) as t:
            numbers.write(base, target, t, numbers.place([b.load("best", b.let(I.add(t, GROUP)), uint64)]))
    name = "largest" if descending else "smallest"
    return L.Kernel(name, outer_buffers(dtype), BEST_PARAMS, I.index("lines"), b.body())


def _insert(b, number, groups):
    """Put a number into the list: what is worse moves one place on, the last groups first."""
    wide = b.let(L.splat(number, GROUP))
    with b.loop(b.fresh("group"), 0, groups) as group:
        at = b.let(I.mul(I.sub(groups, group), GROUP))
        mine = b.load("best", at, uint64, GROUP)
        before = b.load("best", b.let(I.sub(at, 1)), uint64, GROUP)
        b.store("best", at, b.min(mine, b.max(before, wide)))


# ---------------------------------------------------------------------------------------------- by rank
def select_kernel(dtype, descending, one):
    """The first `kept` elements of each line in order or, with `one`, the element of the rank that `ranks`
    has for the line, counted from 0.

    Buffers: x (lines, size), ranks (lines,) with `one`, values and indices (lines, kept), and scratch memory
    of 2 * size numbers for each `share` lines.
    """
    b = L.Builder()
    numbers, (size, kept, share) = Numbers(b, dtype, descending), map(I.index, ("size", "kept", "share"))
    select = _Select(b, numbers, dtype, descending, one)
    with b.loop("step", L.BEGIN, L.END) as step:
        here = b.let(I.mul(I.mul(step, 2), size))
        first = b.let(I.mul(step, share))
        with b.loop("line", first, b.let(I.minimum(I.add(first, share), I.index("lines")))) as line:
            base, target = b.let(I.mul(line, size)), b.let(I.mul(line, kept))
            rank = b.load("wanted", line, int64) if one else b.let(I.sub(kept, 1))
            few = b.let(L.apply("le", size, L.as_index(FEW)))
            with b.branch(few):
                _select_few(b, numbers, base, target, rank, one)
            with b.branch(L.apply("not", few)):
                _select_line(b, select, here, base, target, rank)
    buffers = outer_buffers(dtype) + scratch_buffers(dtype)
    if one:
        buffers = (buffers[0], L.Buffer("wanted", int64, "r"), *buffers[1:])
    extent = I.mul(I.ceil_div(I.index("lines"), share), I.index("short"))
    name = "select_one" if one else "select_largest" if descending else "select_smallest"
    return L.Kernel(name, buffers, PARAMS, extent, b.body())


def _select_few(b, numbers, base, target, rank, one):
    """Write what is wanted of a line of up to FEW elements."""
    def write(mine, t):
        with b.branch(b.eq(mine, rank) if one else b.le(mine, rank)):
            numbers.write(base, target, L.as_index(0) if one else mine, t)

    rank_elements(b, numbers, base, I.index("size"), write)


def _select_line(b, select, here, base, target, rank):
    """Write what is wanted of a longer line."""
    numbers, size = select.numbers, I.index("size")
    shift = select.shift(base, size)
    select.count(base, size, shift)
    wanted, below = select.find(rank)
    found = select.collect(base, size, shift, wanted, here)
    done = b.let(I.add(here, select.sort(here, found, size)))
    if select.one:
        place = numbers.place(numbers.load(I.add(done, b.let(I.sub(rank, below)))))
        numbers.write(base, target, L.as_index(0), place)
    else:
        with b.loop("result", 0, I.index("kept"), kind="vector") as t:
            numbers.write(base, target, t, numbers.place(numbers.load(I.add(done, t))))


class _Select:
    """The steps of a selection on one line."""

    def __init__(self, b, numbers, dtype, descending, one):
        self.b, self.numbers, self.dtype, self.descending, self.one = b, numbers, dtype, descending, one
        self.whole = uint64 if key_bits(dtype) == 64 else uint32
        self.lanes = LANES * 4 // self.whole.itemsize
        b.local("bins", int64, BINS)
        b.local("counts", int64, passes(dtype) * DIGITS)

    def key(self, at, lanes=1):
        b = self.b
        return key(b, b.load("x", b.let(at), self.dtype, lanes), self.descending)

    def bin(self, found, shift):
        b = self.b
        leading = b.shr(found, b.cast(shift, self.whole))
        return b.cast(b.and_(leading, b.const(BINS - 1, self.whole)), int64)

    def shift(self, base, size):
        """The bits of a key behind those that name its bin; in front of those all keys are equal."""
        b, lanes, whole = self.b, self.lanes, self.whole
        ones, zero = b.const((1 << 8 * whole.itemsize) - 1, whole), b.const(0, whole)
        low, high = b.declare(L.splat(ones, lanes)), b.declare(L.splat(zero, lanes))
        full = b.let(L.apply("and", size, L.as_index(-lanes)))
        with b.loop("wide_t", 0, full, lanes) as t:
            found = self.key(I.add(base, t), lanes)
            b.assign(low, b.min(low, found))
            b.assign(high, b.max(high, found))
        least, most = b.declare(b.call("reduce_min", low)), b.declare(b.call("reduce_max", high))
        with b.loop("narrow_t", full, size) as t:
            found = self.key(I.add(base, t))
            b.assign(least, b.min(least, found))
            b.assign(most, b.max(most, found))
        differing, shift = b.xor(least, most), b.declare(b.const(0, int64))
        with b.loop("bit", 0, max(0, key_bits(self.dtype) - BIN_BITS)) as bit:
            more = b.ge(b.shr(differing, b.cast(bit, whole)), b.const(BINS, whole))
            b.assign(shift, b.select(more, b.let(I.add(bit, 1)), shift))
        return shift

    def count(self, base, size, shift):
        b = self.b
        with b.loop("fresh", 0, BINS, kind="vector") as i:
            b.store("bins", i, b.const(0, int64))
        with b.loop("counted", 0, size) as t:
            count_up(b, "bins", self.bin(self.key(I.add(base, t)), shift))

    def find(self, rank):
        """(the bin that holds the element of this rank, how many elements are in bins before it)."""
        b = self.b
        total, wanted, below = (b.declare(b.const(0, int64)) for _ in range(3))
        with b.loop("bin", 0, BINS) as i:
            here = b.le(total, rank)
            b.assign(wanted, b.select(here, i, wanted))
            b.assign(below, b.select(here, total, below))
            b.assign(total, b.add(total, b.load("bins", i, int64)))
        return wanted, below

    def collect(self, base, size, shift, wanted, here):
        """The numbers of the wanted bin (and, without `one`, of the bins before it), in order; how many."""
        b, count = self.b, self.b.declare(self.b.const(0, int64), "found")
        with b.loop("collected", 0, size) as t:
            self.numbers.store(I.add(here, count), self.numbers.of_element(base, t))
            mine = self.bin(self.key(I.add(base, t)), shift)
            taken = b.eq(mine, wanted) if self.one else b.le(mine, wanted)
            b.assign(count, b.add(count, b.cast(taken, int64)))
        return count

    def sort(self, here, found, size):
        """Sort what was collected; the offset from `here` where it ends."""
        b, numbers = self.b, self.numbers
        with b.loop("fresh_count", 0, passes(self.dtype) * DIGITS, kind="vector") as i:
            b.store("counts", i, b.const(0, int64))
        with b.loop("digits_t", 0, found) as t:
            mine = numbers.load(I.add(here, t))
            for turn in range(passes(self.dtype)):
                digit = numbers.digit(mine, numbers.lowest + DIGIT * turn)
                count_up(b, "counts", I.add(digit, DIGITS * turn))
        return sort_numbers(b, numbers, here, found, size, passes(self.dtype))


# ---------------------------------------------------------------------------------------------- launches
def launch_best(planner, operand, outputs, dim, kept, largest):
    """Add the `kept` largest or smallest elements along `dim`, in order, to a plan."""
    def launch(operand, results, lines, size, kept):
        if isinstance(kept, int) and kept <= FEW and is_packed(operand.dtype):
            kernel = best_kernel(operand.dtype, largest)
            params = {"lines": lines, "size": size, "kept": kept}
            planner.launch_template(kernel, [operand, *results], params, 2 * lines * size)
        else:
            _launch_select(planner, [operand, *results], (lines, size, kept), largest, False)

    if operand.shape and kept == operand.shape[dim]:
        launch_sort(planner, operand, outputs, dim, largest)
    else:
        by_lines(planner, operand, outputs, dim, launch)


def _launch_select(planner, operands, sizes, largest, one):
    (lines, size, kept), dtype = sizes, operands[0].dtype
    room = 2 * minimum(lines, SHARES) * size
    scratch = [planner.recipe.buffer(b.dtype, (room,)) for b in scratch_buffers(dtype)]
    params = {"lines": lines, "size": size, "kept": kept,
              "share": maximum((lines + SHARES - 1) // SHARES, 1), "short": 1}
    kernel = select_kernel(dtype, largest, one)
    planner.launch_template(kernel, [*operands, *scratch], params, 8 * lines * size)


def launch_at_rank(planner, operand, ranks, outputs, dim):
    """Add to a plan the element along `dim` of the rank, counted from 0, that `ranks` has for each line.

    ranks and outputs have size 1 along `dim`.
    """
    def launch(operand, results, lines, size, kept):
        ranked = planner.dense(ranks)
        _launch_select(planner, [operand, ranked, *results], (lines, size, kept), False, True)

    by_lines(planner, operand, outputs, dim, launch)
