"""Sorting along an axis: a stable radix sort of integer keys, least digit first.

One step of the extent of `sort_kernel` sorts some lines, one after the other in the same scratch memory.
Lines of up to FEW elements are ranked by counting: an element's place is how many come before it. A line
longer than LONG elements, if there are few such, is sorted by all threads: it is cut into blocks, and each
pass counts the digits of the blocks, adds up where each block's elements of each digit start, and moves them.
The result is the same whatever the blocks, since equal keys keep their order.
"""

from flambeau.compiler import index_math as I, pipeline
from flambeau.compiler.order_keys import (DIGIT, DIGITS, Numbers, count_up, lowest_bit, outer_buffers, passes,
                                          scratch_buffers, sort_numbers)
from flambeau.ir import loops as L
from flambeau.types.dim import maximum, minimum
from flambeau.types.dtype import int64, uint64

FEW = 64                # elements of a line that are ranked by counting
AT_ONCE = 8             # of them compared with all others in one loop
SHARES = 64             # at most so many steps sort lines at the same time, each with scratch memory
LONG = 1 << 15          # elements of a line that is worth all threads
MOST_LONG = 16          # lines, if there are no more than so many
BLOCK, MOST_BLOCKS = 1 << 14, 64

PARAMS = ("lines", "size", "kept", "share", "short")
LONG_PARAMS = ("lines", "size", "kept", "blocks", "shift")


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
    with b.loop("t", 0, size) as t:
        mine = numbers.of_element(base, t)
        numbers.store(I.add(here, t), mine)
        for turn in range(passes(dtype)):
            count_up(b, "counts", I.add(numbers.digit(mine, numbers.lowest + DIGIT * turn), DIGITS * turn))
    source = sort_numbers(b, numbers, here, size, size, passes(dtype))
    done = b.let(I.add(here, source))
    with b.loop("result", 0, kept, kind="vector") as t:
        numbers.write(base, target, t, numbers.place(numbers.load(I.add(done, t))))


# ---------------------------------------------------------------------------------------------- long lines
class _Blocks:
    """The walk over the blocks of long lines.

    Buffers beside scratch memory: `counts`, (lines, DIGITS, blocks) int64; `state`, (lines, 2) int64: the
    halves of scratch memory before and after the pass; `varying`, (lines, blocks) uint64: the bits in which a
    block's keys differ from the line's first, those of all blocks from the first pass on.
    """

    def __init__(self, name, dtype, descending, outer=False):
        self.b, self.name = L.Builder(), name
        self.numbers = Numbers(self.b, dtype, descending)
        self.buffers = (outer_buffers(dtype) if outer else ()) + scratch_buffers(dtype)
        self.size, self.blocks = I.index("size"), I.index("blocks")
        self.b.local("counted", int64, DIGITS)

    def each(self, body):
        """The kernel whose steps are pairs of a line and a block: `body(line, block, here, low, high)`."""
        b = self.b
        chunk = b.let(I.ceil_div(self.size, I.maximum(self.blocks, 1)))
        with b.loop("step", L.BEGIN, L.END) as step:
            line, block = b.let(I.div(step, self.blocks)), b.let(I.rem(step, self.blocks))
            low = b.let(I.minimum(I.mul(block, chunk), self.size))
            high = b.let(I.minimum(I.add(low, chunk), self.size))
            body(line, block, b.let(I.mul(I.mul(line, 2), self.size)), low, high)
        return self.kernel(I.mul(I.index("lines"), self.blocks))

    def kernel(self, extent):
        tables = (("counts", int64), ("state", int64), ("varying", uint64))
        buffers = self.buffers + tuple(L.Buffer(name, dtype, "rw") for name, dtype in tables)
        return L.Kernel(self.name, buffers, LONG_PARAMS, extent, self.b.body())

    def row(self, line, digit, block):
        """Where the counts of a line's digit and block stand."""
        return self.b.let(I.add(I.mul(I.add(I.mul(line, DIGITS), digit), self.blocks), block))

    def fresh_counts(self):
        with self.b.loop(self.b.fresh("fresh"), 0, DIGITS, kind="vector") as i:
            self.b.store("counted", i, self.b.const(0, int64))

    def count_digit(self, mine):
        """Count a number's digit; returns how many there were before."""
        return count_up(self.b, "counted", self.numbers.digit(mine, I.index("shift")))

    def read_counts(self, line, block):
        with self.b.loop(self.b.fresh("digit"), 0, DIGITS) as d:
            self.b.store("counted", d, self.b.load("counts", self.row(line, d, block), int64))

    def write_counts(self, line, block):
        with self.b.loop(self.b.fresh("digit"), 0, DIGITS) as d:
            self.b.store("counts", self.row(line, d, block), self.b.load("counted", d, int64))

    def differs(self, line):
        """True if not all of a line's elements have the same digit."""
        found = self.numbers.digit([self.b.load("varying", self.b.let(I.mul(line, self.blocks)), uint64)],
                                   I.index("shift"))
        return self.b.ne(found, self.b.const(0, int64))

    def state(self, line, which):
        return self.b.load("state", self.b.let(I.add(I.mul(line, 2), which)), int64)


def long_look(dtype, descending):
    """The counts of the last digits, and the bits that vary."""
    walk = _Blocks("sort_look_descending" if descending else "sort_look", dtype, descending, outer=True)
    b, numbers = walk.b, walk.numbers

    def body(line, block, here, low, high):
        base = b.let(I.mul(line, walk.size))
        first = numbers.of_element(base, L.as_index(0))[0]
        varying = b.declare(b.const(0, uint64), "varies")
        walk.fresh_counts()
        with b.loop("t", low, high) as t:
            mine = numbers.of_element(base, t)
            walk.count_digit(mine)
            b.assign(varying, b.or_(varying, b.xor(mine[0], first)))
        walk.write_counts(line, block)
        b.store("varying", b.let(I.add(I.mul(line, walk.blocks), block)), varying)

    return walk.each(body)


def long_take(dtype, descending):
    """The first pass: numbers of all elements to where those of their last digit stand."""
    walk = _Blocks("sort_take_descending" if descending else "sort_take", dtype, descending, outer=True)
    b, numbers = walk.b, walk.numbers

    def body(line, block, here, low, high):
        base = b.let(I.mul(line, walk.size))
        walk.read_counts(line, block)
        with b.loop("t", low, high) as t:
            mine = numbers.of_element(base, t)
            numbers.store(I.add(here, walk.count_digit(mine)), mine)

    return walk.each(body)


def long_count(dtype):
    """The counts of a digit in each block."""
    walk = _Blocks("sort_count", dtype, False)
    b = walk.b

    def body(line, block, here, low, high):
        start = b.let(I.add(here, walk.state(line, 1)))
        with b.branch(walk.differs(line)):
            walk.fresh_counts()
            with b.loop("t", low, high) as t:
                walk.count_digit(walk.numbers.load(I.add(start, t)))
            walk.write_counts(line, block)

    return walk.each(body)


def long_starts(dtype):
    """Where each block's elements of each digit start. A pass but the first in which all have the same digit
    moves nothing: the state says so. One step of the extent is a line."""
    walk = _Blocks("sort_starts", dtype, False)
    b, blocks, size = walk.b, walk.blocks, walk.size
    with b.loop("line", L.BEGIN, L.END) as line:
        at, begins = b.let(I.mul(line, 2)), b.eq(I.index("shift"), b.const(walk.numbers.lowest, int64))
        before = b.select(begins, size, walk.state(line, 1))
        b.store("state", at, before)
        bits, all_bits = b.let(I.mul(line, blocks)), b.declare(b.const(0, uint64), "all_bits")
        with b.loop("block", 0, blocks) as block:
            b.assign(all_bits, b.or_(all_bits, b.load("varying", b.let(I.add(bits, block)), uint64)))
        b.store("varying", bits, all_bits)
        with b.branch(b.or_(begins, walk.differs(line))):
            running, rows = b.declare(b.const(0, int64), "running"), walk.row(line, 0, 0)
            with b.loop("entry", rows, b.let(I.add(rows, I.mul(blocks, DIGITS)))) as entry:
                count = b.load("counts", entry, int64)
                b.store("counts", entry, running)
                b.assign(running, b.add(running, count))
            b.store("state", b.let(I.add(at, 1)), b.let(I.sub(size, before)))
    return walk.kernel(I.mul(I.index("lines"), I.minimum(blocks, 1)))


def long_move(dtype):
    """Each block's elements to where those of their digit stand."""
    walk = _Blocks("sort_move", dtype, False)
    b, numbers = walk.b, walk.numbers

    def body(line, block, here, low, high):
        before, after = walk.state(line, 0), walk.state(line, 1)
        with b.branch(b.ne(before, after)):
            walk.read_counts(line, block)
            start, goal = b.let(I.add(here, before)), b.let(I.add(here, after))
            with b.loop("t", low, high) as t:
                mine = numbers.load(I.add(start, t))
                numbers.store(I.add(goal, walk.count_digit(mine)), mine)

    return walk.each(body)


def long_finish(dtype):
    """Values and indices from the sorted numbers."""
    walk = _Blocks("sort_finish", dtype, False, outer=True)
    b, numbers, kept = walk.b, walk.numbers, I.index("kept")

    def body(line, block, here, low, high):
        base, target = b.let(I.mul(line, walk.size)), b.let(I.mul(line, kept))
        start = b.let(I.add(here, walk.state(line, 1)))
        with b.loop("result", low, b.let(I.minimum(high, kept)), kind="vector") as t:
            numbers.write(base, target, t, numbers.place(numbers.load(I.add(start, t))))

    return walk.each(body)


# ---------------------------------------------------------------------------------------------- launches
def lines_of(planner, located, dim):
    """A located tensor with the axis `dim` moved last, row-major; a number is a line of one."""
    return planner.dense(moved(located, dim))


def moved(located, dim):
    """The same memory with the axis `dim` last."""
    if not located.shape:
        return located
    shape, strides = ((*s[:dim], *s[dim + 1:], s[dim]) for s in (located.shape, located.strides))
    return located.part(shape, strides, located.offset)


def by_lines(planner, operand, outputs, dim, launch):
    """`launch(operand, outputs, lines, size, kept)` on row-major tensors whose lines lie along the last axis;
    elsewhere they are copied there and back."""
    last = dim >= len(operand.shape) - 1
    shape = (*operand.shape[:dim], *operand.shape[dim + 1:])
    lines = 1
    for s in shape:
        lines = lines * s
    size, kept = ((t.shape[dim] if t.shape else 1) for t in (operand, outputs[0]))
    results = outputs if last else [planner.recipe.buffer(o.dtype, (*shape, kept)) for o in outputs]
    launch(lines_of(planner, operand, dim), results, lines, size, kept)
    for result, output in zip(results, outputs):
        if not last:
            planner.copy(result, moved(output, dim))


def launch_sort(planner, operand, outputs, dim, descending):
    """Add the sorting of a located tensor along `dim` to a plan; values and indices may be shorter."""
    def launch(operand, results, lines, size, kept):
        _launch_lines(planner, operand, results, (lines, size, kept), descending)

    by_lines(planner, operand, outputs, dim, launch)


def _launch_lines(planner, operand, results, sizes, descending):
    (lines, size, kept), dtype, recipe = sizes, operand.dtype, planner.recipe
    is_long = minimum(1, size // LONG) * minimum(1, MOST_LONG // maximum(lines, 1))
    shares = minimum(lines, SHARES)
    share = (lines + SHARES - 1) // SHARES
    scratch = [recipe.buffer(b.dtype, (2 * shares * size,)) for b in scratch_buffers(dtype)]
    work = 8 * passes(dtype) * lines * size
    params = {"lines": lines, "size": size, "kept": kept, "share": maximum(share, 1), "short": 1 - is_long}
    planner.launch_template(sort_kernel(dtype, descending), [operand, *results, *scratch], params, work)
    if isinstance(is_long, int) and not is_long:
        return
    blocks = minimum(MOST_BLOCKS, size // BLOCK) * is_long
    tables = [recipe.buffer(int64, (lines * DIGITS * blocks,)), recipe.buffer(int64, (2 * lines * is_long,)),
              recipe.buffer(uint64, (lines * blocks,))]
    first = lowest_bit(dtype)

    registers = {"lines": lines, "size": size, "kept": kept, "blocks": blocks, "shift": first}
    registers = {name: recipe.register(size) for name, size in registers.items()}
    inner = [*scratch, *tables]

    def launch(kernel, operands, extent, shift=first):
        params = [recipe.register(shift) if p == "shift" else registers[p] for p in kernel.params]
        recipe.launch(pipeline.build_kernel(kernel), operands, params, extent, one)

    one, steps = recipe.register(1), recipe.register(lines * blocks)
    few = recipe.register(lines * is_long)
    launch(long_look(dtype, descending), [operand, *results, *inner], steps)
    count, starts, move = long_count(dtype), long_starts(dtype), long_move(dtype)
    launch(starts, inner, few)
    launch(long_take(dtype, descending), [operand, *results, *inner], steps)
    for shift in range(first + DIGIT, first + DIGIT * passes(dtype), DIGIT):
        launch(count, inner, steps, shift)
        launch(starts, inner, few, shift)
        launch(move, inner, steps, shift)
    launch(long_finish(dtype), [operand, *results, *inner], steps)
