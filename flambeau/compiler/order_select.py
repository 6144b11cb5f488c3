"""Elements by rank without sorting their line: the first few in order, or the one of a given rank.

The elements are counted by the BIN_BITS (for few elements FEW_BITS) leading bits of their keys, behind those
bits that all keys have in common; only those in the bins that hold what is wanted are sorted. One step of the
extent of `select_kernel` takes some lines, one after the other; a long line, if there are few, is counted and
collected by all threads.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.order import FEW, PARAMS, by_lines, rank_elements, scratch_of, work_of
from flambeau.compiler.order_keys import (DIGIT, DIGITS, Numbers, count_up, extreme_keys, key_bits,
                                          outer_buffers, passes, scratch_buffers, sort_numbers)
from flambeau.ir import loops as L
from flambeau.types.dtype import int64, uint32, uint64

BIN_BITS, FEW_BITS = 11, 8
BINS = 1 << BIN_BITS
MANY = 1 << 13          # elements that are worth BIN_BITS, not FEW_BITS
LONG_PARAMS = ("lines", "size", "kept", "steps")
SHIFT, WANTED, RANK = range(3)          # what the table `chosen` has for a line


# ---------------------------------------------------------------------------------------------- many lines
def select_kernel(dtype, descending, one):
    """The first `kept` elements of each line in order or, with `one`, the element of the rank that `wanted`
    has for the line, counted from 0.

    Buffers: x (lines, size), `wanted` (lines,) with `one`, values and indices (lines, kept), scratch memory
    of 2 * size numbers for each `share` lines.
    """
    b = L.Builder()
    numbers, (size, kept, share) = Numbers(b, dtype, descending), map(I.index, ("size", "kept", "share"))
    select = _Select(b, numbers, dtype, descending, one)
    b.local("bins", int64, BINS)
    select.local_counts()
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
    extent = I.mul(I.ceil_div(I.index("lines"), share), I.index("short"))
    return L.Kernel(select.name("select"), select.buffers(), PARAMS, extent, b.body())


def _select_few(b, numbers, base, target, rank, one):
    """Write what is wanted of a line of up to FEW elements."""
    def write(mine, t):
        with b.branch(b.eq(mine, rank) if one else b.le(mine, rank)):
            numbers.write(base, target, L.as_index(0) if one else mine, t)

    rank_elements(b, numbers, base, I.index("size"), write)


def _select_line(b, select, here, base, target, rank):
    """Write what is wanted of a longer line."""
    numbers, size = select.numbers, I.index("size")
    end = b.let(I.add(base, size))
    shift = select.shift(*extreme_keys(b, numbers, base, end))
    select.count(base, end, shift, L.as_index(0))
    wanted, below = select.find(rank, lambda i: b.load("bins", i, int64))
    found = b.declare(b.const(0, int64), "found")
    with b.loop("collected", 0, size) as t:             # without a branch
        numbers.store(I.add(here, found), numbers.of_element(base, t))
        b.assign(found, b.add(found, b.cast(select.takes(base, t, shift, wanted), int64)))
    _write_sorted(b, select, here, base, target, found, b.let(I.sub(rank, below)))


def _write_sorted(b, select, here, base, target, found, rank):
    """Sort what was collected and write what is wanted of it."""
    numbers, size = select.numbers, I.index("size")
    done = b.let(I.add(here, select.sort(here, found, size)))
    if select.one:
        place = numbers.place(numbers.load(I.add(done, rank)))
        numbers.write(base, target, L.as_index(0), place)
    else:
        with b.loop("result", 0, I.index("kept"), kind="vector") as t:
            numbers.write(base, target, t, numbers.place(numbers.load(I.add(done, t))))


class _Select:
    """The parts of a selection."""

    def __init__(self, b, numbers, dtype, descending, one):
        self.b, self.numbers, self.dtype, self.descending, self.one = b, numbers, dtype, descending, one
        self.whole = uint64 if key_bits(dtype) == 64 else uint32
        many = b.let(L.apply("ge", I.index("size"), L.as_index(MANY)))
        self.bins = b.select(many, b.const(BINS, int64), b.const(1 << FEW_BITS, int64))

    def local_counts(self):
        self.b.local("counts", int64, passes(self.dtype) * DIGITS)

    def name(self, stem):
        return f"{stem}_{'one' if self.one else 'largest' if self.descending else 'smallest'}"

    def buffers(self):
        x, *results = outer_buffers(self.dtype)
        wanted = (L.Buffer("wanted", int64, "r"),) if self.one else ()
        return (x, *wanted, *results, *scratch_buffers(self.dtype))

    def bin(self, found, shift):
        b = self.b
        leading = b.shr(found, b.cast(shift, self.whole))
        return b.cast(b.and_(leading, b.cast(I.sub(self.bins, 1), self.whole)), int64)

    def shift(self, least, most):
        """The bits of a key behind those that name its bin; in front of those all keys are equal."""
        b, differing = self.b, self.b.xor(least, most)
        shift = b.declare(b.const(0, int64), b.fresh("shift"))
        with b.loop(b.fresh("bit"), 0, max(0, key_bits(self.dtype) - FEW_BITS)) as bit:
            more = b.ge(b.shr(differing, b.cast(bit, self.whole)), b.cast(self.bins, self.whole))
            b.assign(shift, b.select(more, b.let(I.add(bit, 1)), shift))
        return shift

    def count(self, low, high, shift, base):
        """Count the elements from `low` to `high` of x in the bins that start at `base`."""
        b = self.b
        with b.loop("fresh", 0, self.bins, kind="vector") as i:
            b.store("bins", b.let(I.add(base, i)), b.const(0, int64))
        with b.loop("counted", low, high) as t:
            count_up(b, "bins", I.add(base, self.bin(self.numbers.key(t), shift)))

    def find(self, rank, count_of):
        """(the bin that holds the element of this rank, how many elements are in bins before it)."""
        b = self.b
        total, wanted, below = (b.declare(b.const(0, int64)) for _ in range(3))
        with b.loop("bin", 0, self.bins) as i:
            here = b.le(total, rank)
            b.assign(wanted, b.select(here, i, wanted))
            b.assign(below, b.select(here, total, below))
            b.assign(total, b.add(total, count_of(i)))
        return wanted, below

    def takes(self, base, t, shift, wanted):
        """True for an element of the wanted bin or, without `one`, of one before it."""
        mine = self.bin(self.numbers.key(I.add(base, t)), shift)
        return self.b.eq(mine, wanted) if self.one else self.b.le(mine, wanted)

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


# ---------------------------------------------------------------------------------------------- long lines
class _Steps:
    """The walk over the steps of long lines.

    Tables: `range` (lines, steps, 2), the least and largest key of a step; `bins` (lines, steps, BINS);
    `starts` (lines, steps + 1), how many elements are collected before a step, and in all; `chosen` (lines,
    3): see SHIFT, WANTED, RANK.
    """

    TABLES = (("range", uint64), ("bins", int64), ("starts", int64), ("chosen", int64))

    def __init__(self, stem, dtype, descending, one):
        self.b = b = L.Builder()
        self.select = _Select(b, Numbers(b, dtype, descending), dtype, descending, one)
        self.stem, self.size, self.steps = stem, I.index("size"), I.index("steps")

    def each(self, body):
        """The kernel whose steps are `body(line, step, low, high)`, places in x."""
        b = self.b
        chunk = b.let(I.ceil_div(self.size, I.maximum(self.steps, 1)))
        with b.loop("number", L.BEGIN, L.END) as number:
            line, step = b.let(I.div(number, self.steps)), b.let(I.rem(number, self.steps))
            low = b.let(I.minimum(I.mul(step, chunk), self.size))
            high = b.let(I.minimum(I.add(low, chunk), self.size))
            base = b.let(I.mul(line, self.size))
            body(line, step, b.let(I.add(base, low)), b.let(I.add(base, high)))
        return self.kernel(I.mul(I.index("lines"), self.steps))

    def each_line(self, body):
        with self.b.loop("line", L.BEGIN, L.END) as line:
            body(line)
        return self.kernel(I.mul(I.index("lines"), I.minimum(self.steps, 1)))

    def kernel(self, extent):
        tables = tuple(L.Buffer(name, dtype, "rw") for name, dtype in self.TABLES)
        buffers = self.select.buffers() + tables
        return L.Kernel(self.select.name(self.stem), buffers, LONG_PARAMS, extent, self.b.body())

    def of_step(self, line, step, width):
        return self.b.let(I.mul(I.add(I.mul(line, self.steps), step), width))

    def start(self, line, step):
        return self.b.let(I.add(I.mul(line, I.add(self.steps, 1)), step))

    def chosen(self, line, which):
        return self.b.load("chosen", self.b.let(I.add(I.mul(line, 3), which)), int64)

    def room(self, line):
        return self.b.let(I.mul(I.mul(line, 2), self.size))


def long_range(dtype, descending, one):
    """The least and the largest key of each step."""
    walk = _Steps("select_range", dtype, descending, one)
    b = walk.b

    def body(line, step, low, high):
        at = walk.of_step(line, step, 2)
        for n, found in enumerate(extreme_keys(b, walk.select.numbers, low, high)):
            b.store("range", b.let(I.add(at, n)), b.cast(found, uint64))

    return walk.each(body)


def long_count(dtype, descending, one):
    """Each step's elements counted by bins."""
    walk = _Steps("select_count", dtype, descending, one)
    b, select = walk.b, walk.select

    def body(line, step, low, high):
        least = b.declare(b.const((1 << 64) - 1, uint64), "least")
        most = b.declare(b.const(0, uint64), "most")
        first = walk.of_step(line, L.as_index(0), 2)
        with b.loop("other", 0, walk.steps) as other:
            at = b.let(I.add(first, I.mul(other, 2)))
            b.assign(least, b.min(least, b.load("range", at, uint64)))
            b.assign(most, b.max(most, b.load("range", b.let(I.add(at, 1)), uint64)))
        shift = select.shift(b.cast(least, select.whole), b.cast(most, select.whole))
        with b.branch(L.apply("eq", step, L.as_index(0))):
            b.store("chosen", b.let(I.add(I.mul(line, 3), SHIFT)), shift)
        select.count(low, high, shift, walk.of_step(line, step, BINS))

    return walk.each(body)


def long_pick(dtype, descending, one):
    """The wanted bin, and where what each step collects goes. A step of the extent is a line."""
    walk = _Steps("select_pick", dtype, descending, one)
    b, select = walk.b, walk.select
    b.local("totals", int64, BINS)

    def body(line):
        with b.loop("fresh", 0, BINS, kind="vector") as i:
            b.store("totals", i, b.const(0, int64))
        with b.loop("step", 0, walk.steps) as step:
            bins = walk.of_step(line, step, BINS)
            with b.loop("i", 0, BINS, kind="vector") as i:
                here = b.load("bins", b.let(I.add(bins, i)), int64)
                b.store("totals", i, b.add(b.load("totals", i, int64), here))
        rank = b.load("wanted", line, int64) if one else b.let(I.sub(I.index("kept"), 1))
        wanted, below = select.find(rank, lambda i: b.load("totals", i, int64))
        at = b.let(I.mul(line, 3))
        b.store("chosen", b.let(I.add(at, WANTED)), wanted)
        b.store("chosen", b.let(I.add(at, RANK)), b.sub(rank, below))
        total = b.declare(b.const(0, int64), "total")
        with b.loop("taken", 0, walk.steps) as step:
            b.store("starts", walk.start(line, step), total)
            bins = walk.of_step(line, step, BINS)
            first = b.let(wanted) if one else L.as_index(0)
            with b.loop("bin_taken", first, b.let(I.add(wanted, 1))) as i:
                b.assign(total, b.add(total, b.load("bins", b.let(I.add(bins, i)), int64)))
        b.store("starts", walk.start(line, walk.steps), total)

    return walk.each_line(body)


def long_collect(dtype, descending, one):
    """The numbers of the wanted bins, in order."""
    walk = _Steps("select_collect", dtype, descending, one)
    b, select = walk.b, walk.select

    def body(line, step, low, high):
        shift, wanted = walk.chosen(line, SHIFT), walk.chosen(line, WANTED)
        goal = b.declare(b.add(walk.room(line), b.load("starts", walk.start(line, step), int64)), "goal")
        base = b.let(I.mul(line, walk.size))
        with b.loop("t", b.let(I.sub(low, base)), b.let(I.sub(high, base))) as t:
            with b.branch(select.takes(base, t, shift, wanted)):
                select.numbers.store(goal, select.numbers.of_element(base, t))
                b.assign(goal, b.add(goal, b.const(1, int64)))

    return walk.each(body)


def long_write(dtype, descending, one):
    """What was collected, sorted, and what is wanted of it. A step of the extent is a line."""
    walk = _Steps("select_write", dtype, descending, one)
    b, select = walk.b, walk.select
    select.local_counts()

    def body(line):
        found = b.load("starts", walk.start(line, walk.steps), int64)
        base, target = b.let(I.mul(line, walk.size)), b.let(I.mul(line, I.index("kept")))
        _write_sorted(b, select, walk.room(line), base, target, found, walk.chosen(line, RANK))

    return walk.each_line(body)


# ---------------------------------------------------------------------------------------------- launches
def launch_select(operands, sizes, largest, one):
    """Add a selection to a plan: operands are those of `select_kernel` but for the scratch memory."""
    dtype, steps = operands[0].dtype, I.index("steps")
    operands = [*operands, *scratch_of(sizes, dtype)]
    sizes.launch(select_kernel(dtype, largest, one), operands, work_of(30))
    if sizes.is_never("steps"):
        return
    widths = {"range": I.mul(2, steps), "bins": I.mul(BINS, steps), "starts": I.add(steps, 1), "chosen": 3}
    operands += [sizes.buffer(d, I.mul(widths[name], I.index("lines"), I.minimum(steps, 1)))
                 for name, d in _Steps.TABLES]
    for make in (long_range, long_count, long_pick, long_collect, long_write):
        sizes.launch(make(dtype, largest, one), operands)


def launch_at_rank(planner, operand, ranks, outputs, dim):
    """Add to a plan the element along `dim` of the rank, counted from 0, that `ranks` has for each line.

    ranks and outputs have size 1 along `dim`.
    """
    def launch(operand, results, sizes):
        launch_select([operand, planner.dense(ranks), *results], sizes, False, True)

    by_lines(planner, operand, outputs, dim, launch)
