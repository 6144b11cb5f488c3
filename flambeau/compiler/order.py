"""Sorting along an axis: a stable radix sort of integer keys, least digit first.

One step of the extent of `sort_kernel` sorts some lines, one after the other in the same scratch memory.
Lines of up to FEW elements are ranked by counting: an element's place is how many come before it. A line
longer than LONG elements, if there are few such, is sorted by all threads: it is cut into blocks, and each
pass counts the digits of the blocks, adds up where each block's elements of each digit start, and moves them.
The result is the same whatever the blocks, since equal keys keep their order.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.order_keys import (DIGIT, DIGITS, Numbers, count_up, extreme_keys, is_packed,
                                          is_rebased, lowest_bit, outer_buffers, passes, scratch_buffers,
                                          sort_numbers)
from flambeau.compiler.sizes import Sizes
from flambeau.ir import loops as L
from flambeau.types.dtype import int64, uint32, uint64
from flambeau.types.shape import numel

FEW = 64                # elements of a line that are ranked by counting
AT_ONCE = 8             # of them compared with all others in one loop
SHARES = 64             # at most so many steps sort lines at the same time, each with scratch memory
LONG = 1 << 15          # elements of a line that is worth all threads
MOST_LONG = 16          # lines, if there are no more than so many
STEP, MOST_STEPS = 1 << 14, 64          # of its elements that one step of the extent has; steps of a line

PARAMS = ("lines", "size", "kept", "share", "short")
LONG_PARAMS = ("lines", "size", "kept", "steps", "shift")


# ---------------------------------------------------------------------------------------------- many lines
def sort_kernel(dtype, descending):
    """Buffers: x (lines, size), values and indices (lines, kept), and scratch of 2 * size uint64 for each
    `share` lines: one buffer, or two for dtypes of 64 bits. `short` is 1, or 0 to do nothing."""
    b = L.Builder()
    numbers, (size, kept, share) = Numbers(b, dtype, descending), map(I.index, ("size", "kept", "share"))
    b.local("counts", int64, passes(dtype) * DIGITS)
    with b.loop("step", L.BEGIN, L.END) as step:
        here = b.let(I.mul(I.mul(step, 2), size))
        first = b.let(I.mul(step, share))
        with b.loop("line", first, b.let(I.minimum(I.add(first, share), I.index("lines")))) as line:
            base, target = b.let(I.mul(line, size)), b.let(I.mul(line, kept))
            few = b.let(L.apply("le", size, L.as_index(FEW)))
            with b.branch(few):
                def write(rank, t):
                    with b.branch(b.lt(rank, kept)):
                        numbers.write(base, target, rank, t)

                rank_elements(b, numbers, base, size, write)
            with b.branch(L.apply("not", few)):
                _sort_line(b, numbers, here, base, target, size, kept, dtype)
    extent = I.mul(I.ceil_div(I.index("lines"), share), I.index("short"))
    name = "sort_descending" if descending else "sort"
    return L.Kernel(name, outer_buffers(dtype) + scratch_buffers(dtype), PARAMS, extent, b.body())


def rank_elements(b, numbers, base, size, write):
    """`write(rank, t)` for each element t of a line of up to FEW; its rank is how many sort before it."""
    b.local("ranked", uint64, FEW + AT_ONCE)
    b.local("ranks", int64, FEW)
    with b.loop("few_t", 0, size, kind="vector") as t:
        b.store("ranked", t, numbers.of_element(base, t)[0])
        b.store("ranks", t, b.const(0, int64))
    behind = b.let(I.round_up(size, AT_ONCE))
    with b.loop("behind", size, behind) as t:
        b.store("ranked", t, b.const((1 << 64) - 1, uint64))
    with b.loop("others", 0, behind, AT_ONCE) as j:
        others = [b.load("ranked", b.let(I.add(j, n)), uint64) for n in range(AT_ONCE)]
        with b.loop("member", 0, size, kind="vector") as i:
            mine, rank = b.load("ranked", i, uint64), b.load("ranks", i, int64)
            for n, other in enumerate(others):
                before = b.lt(other, mine)
                if not numbers.packed:
                    before = b.or_(before, b.and_(b.eq(other, mine), b.lt(b.let(I.add(j, n)), i)))
                rank = b.add(rank, b.cast(before, int64))
            b.store("ranks", i, rank)
    with b.loop("ranked_t", 0, size) as t:
        write(b.load("ranks", t, int64), t)


def _sort_line(b, numbers, here, base, target, size, kept, dtype):
    """One line by all its digits; their counts come from one pass over the line."""
    with b.loop("fresh", 0, passes(dtype) * DIGITS, kind="vector") as i:
        b.store("counts", i, b.const(0, int64))
    origin = extreme_keys(b, numbers, base, b.let(I.add(base, size)))[0] if is_rebased(dtype) else None
    with b.loop("t", 0, size) as t:
        mine = numbers.of_element(base, t, origin)
        numbers.store(I.add(here, t), mine)
        for turn in range(passes(dtype)):
            count_up(b, "counts", I.add(numbers.digit(mine, numbers.lowest + DIGIT * turn), DIGITS * turn))
    source = sort_numbers(b, numbers, here, size, size, passes(dtype))
    done = b.let(I.add(here, source))
    with b.loop("result", 0, kept, kind="vector") as t:
        numbers.write(base, target, t, numbers.place(numbers.load(I.add(done, t))))


# ---------------------------------------------------------------------------------------------- long lines
def chains_of(dtype):
    """Blocks in a step: with two buffers for numbers one is enough to keep a processor's caches busy."""
    return 2 if is_packed(dtype) else 1


class _Blocks:
    """The walk over the blocks of long lines. A step of the extent has one block, or two which take turns,
    since each has to wait for its own counts only.

    Buffers beside scratch memory: `counts`, (lines, DIGITS, blocks) int64; `state`, (lines, 2) int64: the
    halves of scratch memory before and after the pass; `varying`, (lines, steps) uint64: the bits in which a
    step's keys differ from the line's first key, those of all steps from the first pass on; `least` (lines,
    steps) uint64: the least key of a step.
    """

    def __init__(self, name, dtype, descending, outer=False):
        self.b, self.name = L.Builder(), name
        self.numbers = Numbers(self.b, dtype, descending)
        self.buffers = (outer_buffers(dtype) if outer else ()) + scratch_buffers(dtype)
        self.size, self.steps = I.index("size"), I.index("steps")
        self.chains = chains_of(dtype)
        self.blocks = I.mul(self.steps, self.chains)
        self.b.local("counted", int64, self.chains * DIGITS)

    def each(self, body):
        """The kernel whose steps are `body(line, step, here, low, high)`."""
        b = self.b
        self.chunk = b.let(I.ceil_div(self.size, I.maximum(self.blocks, 1)))
        with b.loop("number", L.BEGIN, L.END) as number:
            line, step = b.let(I.div(number, self.steps)), b.let(I.rem(number, self.steps))
            low = b.let(I.minimum(I.mul(step, self.chunk, self.chains), self.size))
            high = b.let(I.minimum(I.add(low, I.mul(self.chunk, self.chains)), self.size))
            body(line, step, b.let(I.mul(I.mul(line, 2), self.size)), low, high)
        return self.kernel(I.mul(I.index("lines"), self.steps))

    def kernel(self, extent):
        tables = (("counts", int64), ("state", int64), ("varying", uint64), ("least", uint64))
        buffers = self.buffers + tuple(L.Buffer(name, dtype, "rw") for name, dtype in tables)
        return L.Kernel(self.name, buffers, LONG_PARAMS, extent, self.b.body())

    def in_turns(self, low, high, body):
        """`body(chain, t)` for the elements of a step's blocks, the blocks side by side."""
        b = self.b
        starts = [b.let(I.minimum(I.add(low, I.mul(self.chunk, n)), high)) for n in range(self.chains)]
        starts.append(high)
        together = b.let(I.sub(high, starts[-2]))       # no block is shorter than the last
        with b.loop(b.fresh("t"), 0, together) as t:
            for n in range(self.chains):
                body(n, b.let(I.add(starts[n], t)))
        for n in range(self.chains - 1):
            with b.loop(b.fresh("t"), b.let(I.add(starts[n], together)), starts[n + 1]) as t:
                body(n, t)

    def row(self, line, digit, block):
        """Where the counts of a line's digit and block stand."""
        return self.b.let(I.add(I.mul(I.add(I.mul(line, DIGITS), digit), self.blocks), block))

    def fresh_counts(self):
        with self.b.loop(self.b.fresh("fresh"), 0, self.chains * DIGITS, kind="vector") as i:
            self.b.store("counted", i, self.b.const(0, int64))

    def count_digit(self, chain, mine):
        """Count a number's digit; returns how many there were before."""
        digit = self.numbers.digit(mine, I.index("shift"))
        return count_up(self.b, "counted", I.add(digit, chain * DIGITS))

    def copy_counts(self, line, step, write):
        """The counts of a step's blocks from the table or, with `write`, to it."""
        b = self.b
        for chain in range(self.chains):
            block = b.let(I.add(I.mul(step, self.chains), chain))
            with b.loop(b.fresh("digit"), 0, DIGITS) as d:
                places = ("counted", b.let(I.add(d, chain * DIGITS))), ("counts", self.row(line, d, block))
                source, target = places if write else places[::-1]
                b.store(*target, b.load(*source, int64))

    def differs(self, line):
        """True if not all of a line's elements have the same digit."""
        found = self.numbers.digit([self.b.load("varying", self.b.let(I.mul(line, self.steps)), uint64)],
                                   I.index("shift"))
        return self.b.ne(found, self.b.const(0, int64))

    def origin(self, line):
        """The least key of a line, where keys count from it."""
        if not is_rebased(self.numbers.dtype):
            return None
        b, whole = self.b, uint64 if self.numbers.dtype.itemsize == 8 else uint32
        least, first = b.declare(b.const((1 << 64) - 1, uint64)), b.let(I.mul(line, self.steps))
        with b.loop("other", 0, self.steps) as other:
            b.assign(least, b.min(least, b.load("least", b.let(I.add(first, other)), uint64)))
        return b.cast(b.let(least), whole)

    def state(self, line, which):
        return self.b.load("state", self.b.let(I.add(I.mul(line, 2), which)), int64)


def long_least(dtype, descending):
    """The least key of each step, for `is_rebased` dtypes."""
    walk = _Blocks("sort_least_descending" if descending else "sort_least", dtype, descending, outer=True)
    b = walk.b

    def body(line, step, here, low, high):
        base = b.let(I.mul(line, walk.size))
        least, _ = extreme_keys(b, walk.numbers, b.let(I.add(base, low)), b.let(I.add(base, high)))
        b.store("least", b.let(I.add(I.mul(line, walk.steps), step)), b.cast(b.let(least), uint64))

    return walk.each(body)


def long_look(dtype, descending):
    """The counts of the last digits, and the bits that vary."""
    walk = _Blocks("sort_look_descending" if descending else "sort_look", dtype, descending, outer=True)
    b, numbers = walk.b, walk.numbers

    def body(line, step, here, low, high):
        base = b.let(I.mul(line, walk.size))
        origin = walk.origin(line)
        first = numbers.of_element(base, L.as_index(0), origin)[0]
        varying = b.declare(b.const(0, uint64), "varies")
        walk.fresh_counts()

        def look(chain, t):
            mine = numbers.of_element(base, t, origin)
            walk.count_digit(chain, mine)
            b.assign(varying, b.or_(varying, b.xor(mine[0], first)))

        walk.in_turns(low, high, look)
        walk.copy_counts(line, step, write=True)
        b.store("varying", b.let(I.add(I.mul(line, walk.steps), step)), varying)

    return walk.each(body)


def long_take(dtype, descending):
    """The first pass: numbers of all elements to where those of their last digit stand."""
    walk = _Blocks("sort_take_descending" if descending else "sort_take", dtype, descending, outer=True)
    b, numbers = walk.b, walk.numbers

    def body(line, step, here, low, high):
        base, origin = b.let(I.mul(line, walk.size)), walk.origin(line)
        walk.copy_counts(line, step, write=False)

        def take(chain, t):
            mine = numbers.of_element(base, t, origin)
            numbers.store(I.add(here, walk.count_digit(chain, mine)), mine)

        walk.in_turns(low, high, take)

    return walk.each(body)


def long_count(dtype):
    """The counts of a digit in each block."""
    walk = _Blocks("sort_count", dtype, False)
    b, numbers = walk.b, walk.numbers

    def body(line, step, here, low, high):
        start = b.let(I.add(here, walk.state(line, 1)))
        with b.branch(walk.differs(line)):
            walk.fresh_counts()
            walk.in_turns(low, high, lambda chain, t: walk.count_digit(chain, numbers.load(I.add(start, t))))
            walk.copy_counts(line, step, write=True)

    return walk.each(body)


def long_starts(dtype):
    """Where each block's elements of each digit start. A pass but the first in which all have the same digit
    moves nothing: the state says so. One step of the extent is a line."""
    walk = _Blocks("sort_starts", dtype, False)
    b, steps, size = walk.b, walk.steps, walk.size
    with b.loop("line", L.BEGIN, L.END) as line:
        at, begins = b.let(I.mul(line, 2)), b.eq(I.index("shift"), b.const(walk.numbers.lowest, int64))
        before = b.select(begins, size, walk.state(line, 1))
        b.store("state", at, before)
        bits, all_bits = b.let(I.mul(line, steps)), b.declare(b.const(0, uint64), "all_bits")
        with b.loop("step", 0, steps) as step:
            b.assign(all_bits, b.or_(all_bits, b.load("varying", b.let(I.add(bits, step)), uint64)))
        b.store("varying", bits, all_bits)
        with b.branch(b.or_(begins, walk.differs(line))):
            running, rows = b.declare(b.const(0, int64), "running"), walk.row(line, 0, 0)
            with b.loop("entry", rows, b.let(I.add(rows, I.mul(walk.blocks, DIGITS)))) as entry:
                count = b.load("counts", entry, int64)
                b.store("counts", entry, running)
                b.assign(running, b.add(running, count))
            b.store("state", b.let(I.add(at, 1)), b.let(I.sub(size, before)))
    return walk.kernel(I.mul(I.index("lines"), I.minimum(steps, 1)))


def long_move(dtype):
    """Each block's elements to where those of their digit stand."""
    walk = _Blocks("sort_move", dtype, False)
    b, numbers = walk.b, walk.numbers

    def body(line, step, here, low, high):
        before, after = walk.state(line, 0), walk.state(line, 1)
        start, goal = b.let(I.add(here, before)), b.let(I.add(here, after))

        def move(chain, t):
            mine = numbers.load(I.add(start, t))
            numbers.store(I.add(goal, walk.count_digit(chain, mine)), mine)

        with b.branch(b.ne(before, after)):
            walk.copy_counts(line, step, write=False)
            walk.in_turns(low, high, move)

    return walk.each(body)


def long_finish(dtype):
    """Values and indices from the sorted numbers."""
    walk = _Blocks("sort_finish", dtype, False, outer=True)
    b, numbers, kept = walk.b, walk.numbers, I.index("kept")

    def body(line, step, here, low, high):
        base, target = b.let(I.mul(line, walk.size)), b.let(I.mul(line, kept))
        start = b.let(I.add(here, walk.state(line, 1)))
        with b.loop("result", low, b.let(I.minimum(high, kept)), kind="vector") as t:
            numbers.write(base, target, t, numbers.place(numbers.load(I.add(start, t))))

    return walk.each(body)


# ---------------------------------------------------------------------------------------------- launches
def line_sizes(recipe, lines, size, kept):
    """The sizes of an operation on lines, with those that follow from them.

    `steps`: how many steps take a part of each line, for few long lines, else 0; `short` is 1 where it is 0.
    `shares`: steps that take whole lines at the same time; `share`: how many lines each has.
    """
    sizes = Sizes(recipe, lines=lines, size=size, kept=kept)
    lines, size = I.index("lines"), I.index("size")
    is_long = I.mul(I.minimum(1, I.div(size, LONG)), I.minimum(1, I.div(MOST_LONG, I.maximum(lines, 1))))
    sizes.define("steps", I.mul(I.minimum(MOST_STEPS, I.div(size, STEP)), is_long))
    sizes.define("short", I.sub(1, I.minimum(1, I.index("steps"))))
    sizes.define("shares", I.minimum(lines, SHARES))
    sizes.define("share", I.maximum(I.ceil_div(lines, SHARES), 1))
    return sizes


def scratch_of(sizes, dtype):
    """Room for two numbers for each element of the lines that are taken at the same time."""
    room = I.mul(2, I.index("shares"), I.index("size"))
    return [sizes.buffer(b.dtype, room) for b in scratch_buffers(dtype)]


def work_of(each):
    """Scalar operations in all, so many for each element."""
    return I.mul(each, I.index("lines"), I.index("size"))


def moved(located, dim):
    """The same memory with the axis `dim` last."""
    if not located.shape:
        return located
    shape, strides = ((*s[:dim], *s[dim + 1:], s[dim]) for s in (located.shape, located.strides))
    return located.part(shape, strides, located.offset)


def by_lines(planner, operand, outputs, dim, launch):
    """`launch(operand, outputs, sizes)` on row-major tensors whose lines lie along the last axis; elsewhere
    they are copied there and back."""
    last = dim >= len(operand.shape) - 1
    shape = (*operand.shape[:dim], *operand.shape[dim + 1:])
    size, kept = ((t.shape[dim] if t.shape else 1) for t in (operand, outputs[0]))
    results = outputs if last else [planner.recipe.buffer(o.dtype, (*shape, kept)) for o in outputs]
    sizes = line_sizes(planner.recipe, numel(shape), size, kept)
    launch(planner.dense(moved(operand, dim)), results, sizes)
    for result, output in zip(results, outputs):
        if not last:
            planner.copy(result, moved(output, dim))


def launch_sort(planner, operand, outputs, dim, descending):
    """Add the sorting of a located tensor along `dim` to a plan; values and indices may be shorter."""
    dtype = operand.dtype

    def launch(operand, results, sizes):
        scratch = scratch_of(sizes, dtype)
        whole = [operand, *results, *scratch]
        sizes.launch(sort_kernel(dtype, descending), whole, work_of(8 * passes(dtype)))
        if not sizes.is_never("steps"):
            _launch_long(sizes, dtype, descending, whole, scratch)

    by_lines(planner, operand, outputs, dim, launch)


def _launch_long(sizes, dtype, descending, whole, scratch):
    """The passes over few long lines; where there are none each launch has an extent of 0."""
    lines, steps = I.index("lines"), I.index("steps")
    tables = [sizes.buffer(int64, I.mul(lines, DIGITS * chains_of(dtype), steps)),
              sizes.buffer(int64, I.mul(2, lines)), sizes.buffer(uint64, I.mul(lines, steps)),
              sizes.buffer(uint64, I.mul(lines, steps))]
    first, inner = lowest_bit(dtype), [*scratch, *tables]
    count, starts, move = long_count(dtype), long_starts(dtype), long_move(dtype)
    if is_rebased(dtype):
        sizes.launch(long_least(dtype, descending), [*whole, *tables], shift=first)
    sizes.launch(long_look(dtype, descending), [*whole, *tables], shift=first)
    sizes.launch(starts, inner, shift=first)
    sizes.launch(long_take(dtype, descending), [*whole, *tables], shift=first)
    for shift in range(first + DIGIT, first + DIGIT * passes(dtype), DIGIT):
        for kernel in (count, starts, move):
            sizes.launch(kernel, inner, shift=shift)
    sizes.launch(long_finish(dtype), [*whole, *tables], shift=first)
