"""Scans: each element along one axis from the one before, carried in registers.

Tensors are contiguous and seen as [outer, size, inner], where size is the scanned axis; PARAMS are outer,
size, inner, first, step and active: the positions first, first + step, ... are visited, so one kernel scans
both ways (first 0 and step 1, or first size - 1 and step -1); a kernel whose `active` is 0 does nothing.
Where inner is 1, what is carried lies in registers and CHAINS lines are scanned side by side, since each has
to wait for its own results only; otherwise it lies in a small local array, an element for each of BLOCK
neighbouring lines, which are scanned together as vectors.

Lines of LONG elements and more are cut into parts of PART elements, if the scan can `combine`: what is
carried out of each part is worked out for all parts at once, added up along the parts, and then each part is
scanned from what is carried into it. So the order depends on the size alone, and results are the same for any
number of threads.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler.sizes import Sizes
from flambeau.ir import loops as L
from flambeau.types.dtype import bool_, float32, float64, int32, int64

PARAMS = ("outer", "size", "inner", "first", "step", "active")
BLOCK = 64          # elements of the inner axis, or lines of a costly scan, that one step of the extent owns
CHAINS = 4          # lines or parts that are scanned side by side in registers
FEW = 6             # neighbouring lines that are worth no vector
LOOK = 16           # elements that are looked at together, whether all are idle
PART = 2048         # elements of a long line that are scanned as if they were a line
LONG = 16 * PART


@dataclass(frozen=True)
class Scan:
    """A scan: `advance(b, carried, elements, position)` -> (what is carried on, what is stored), two tuples.

    `inputs` and `outputs` are dtypes; `carried` are (dtype, number to start with). `combine(b, first,
    second)` joins what two neighbouring parts of a line carry out, where that can be said. The steps of a
    `costly` scan are worth reading elements from afar, so that they can be vectors. `idle(b, carried,
    elements)` is true for an element after which the same is carried, and stored, as before; where most are,
    LOOK are passed at once.
    """

    name: str
    inputs: tuple
    outputs: tuple
    carried: tuple
    advance: object
    combine: object = None
    costly: bool = False
    idle: object = None

    def buffers(self):
        return (*(L.Buffer(f"x{n}", dtype, "r") for n, dtype in enumerate(self.inputs)),
                *(L.Buffer(f"out{n}", dtype, "w") for n, dtype in enumerate(self.outputs)))

    def parts(self):
        """Buffers for what is carried out of, or into, each part of a line."""
        return tuple(L.Buffer(f"part{n}", dtype, "rw") for n, (dtype, _) in enumerate(self.carried))


def accumulator(dtype):
    """The dtype that is carried for elements of `dtype`: one size wider for floating point."""
    if dtype is bool_:
        return int32
    if dtype.kind == "f":
        return float32 if dtype.itemsize == 2 else float64
    return dtype


# ---------------------------------------------------------------------------------------------- whole lines
def scan_kernel(scan):
    """The Loops kernel of a scan. Buffers: x0, x1, ... and out0, out1, ..., each (outer, size, inner)."""
    b, inner, size = L.Builder(), I.index("inner"), I.index("size")
    blocks = I.ceil_div(inner, BLOCK)
    single = b.let(L.apply("eq", inner, L.as_index(1)))
    with b.branch(single):
        _each_group(b, L.BEGIN, L.END, lambda lines: _in_registers(
            b, scan, [I.mul(o, size) for o in lines], [L.as_index(0)] * len(lines), size))
    with b.branch(L.apply("not", single)):
        few = b.let(L.apply("le", inner, L.as_index(FEW)))
        with b.loop("block", L.BEGIN, L.END) as block:
            start = b.let(I.mul(I.rem(block, blocks), BLOCK))
            count = b.let(I.sub(I.minimum(I.add(start, BLOCK), inner), start))
            base = b.let(I.add(I.mul(b.let(I.div(block, blocks)), size, inner), start))
            with b.branch(few):
                _each_group(b, L.as_index(0), count, lambda lines: _in_registers(
                    b, scan, [I.add(base, i) for i in lines], [L.as_index(0)] * len(lines), size,
                    stride=inner))
            with b.branch(L.apply("not", few)):
                _as_vectors(b, scan, base, count, (inner, L.as_index(1)), size)
    extent = I.mul(I.index("outer"), blocks, I.index("active"))
    return L.Kernel(scan.name, scan.buffers(), PARAMS, extent, b.body())


def costly_kernel(scan):
    """The same for a costly scan whose inner is 1: lines as vectors."""
    b, size, outer = L.Builder(), I.index("size"), I.index("outer")
    with b.loop("block", L.BEGIN, L.END) as block:
        start = b.let(I.mul(block, BLOCK))
        count = b.let(I.minimum(I.sub(outer, start), BLOCK))
        _as_vectors(b, scan, b.let(I.mul(start, size)), count, (L.as_index(1), size), size)
    extent = I.mul(I.ceil_div(outer, BLOCK), I.index("active"))
    return L.Kernel(f"{scan.name}_lines", scan.buffers(), PARAMS, extent, b.body())


def _each_group(b, begin, end, body):
    """`body(numbers)` for the numbers from begin to end, CHAINS at a time and then each."""
    full = b.let(I.sub(end, I.rem(I.sub(end, begin), CHAINS)))
    with b.loop("group", begin, full, CHAINS) as group:
        body([b.let(I.add(group, n)) for n in range(CHAINS)])
    with b.loop("single", full, end) as single:
        body([single])


def _in_registers(b, scan, bases, origins, count, entry=None, finish=None, stride=None):
    """Scan `count` elements of each line at `bases`, from the visit number in `origins` on, side by side.

    `stride`: of a line's elements, if they are not consecutive.
    `entry(chain)` gives what is carried in; with `finish(chain, carried)` nothing is stored but what it does.
    """
    starts = [entry(n) if entry else [b.const(v, d) for d, v in scan.carried] for n in range(len(bases))]
    chains = [[b.declare(value) for value in start] for start in starts]
    if scan.idle and stride is None:
        for n, carried in enumerate(chains):
            _with_pauses(b, scan, b.let(I.add(bases[n], origins[n])), origins[n], count, carried, not finish)
            if finish:
                finish(n, carried)
        return
    with b.loop(b.fresh("t"), 0, count) as t:
        for base, origin, carried in zip(bases, origins, chains):
            position = b.let(I.add(I.index("first"), I.mul(I.add(origin, t), I.index("step"))))
            place = position if stride is None else I.mul(position, stride)
            kept = _advance(b, scan, carried, position, b.let(I.add(base, place)), not finish)
            for variable, value in zip(carried, kept):
                b.assign(variable, value)
    for n, carried in enumerate(chains):
        if finish:
            finish(n, carried)


def _with_pauses(b, scan, start, origin, count, carried, store):
    """The elements from `start` on, forwards, passing what is idle."""
    full = b.let(L.apply("and", count, L.as_index(-LOOK)))

    def each(begin, end):
        with b.loop(b.fresh("t"), begin, end) as t:
            kept = _advance(b, scan, carried, b.let(I.add(origin, t)), b.let(I.add(start, t)), store)
            for variable, value in zip(carried, kept):
                b.assign(variable, value)

    with b.loop(b.fresh("look"), 0, full, LOOK) as t:
        at = b.let(I.add(start, t))
        elements = [b.load(f"x{n}", at, dtype, LOOK) for n, dtype in enumerate(scan.inputs)]
        wide = [b.let(L.splat(value, LOOK)) for value in carried]
        idle = b.call("reduce_and", scan.idle(b, wide, elements))
        with b.branch(b.not_(idle)):
            each(t, b.let(I.add(t, LOOK)))
        if store:
            with b.branch(idle):
                for number, (value, dtype) in enumerate(zip(wide, scan.outputs)):
                    b.store(f"out{number}", at, b.cast(value, dtype))
    each(full, count)


def _as_vectors(b, scan, base, lines, strides, count, entry=None, finish=None, origin=None):
    """Scan `count` elements of each of some lines together; strides are those of positions and of lines.

    `entry(i)` and `finish(i, carried)` as in `_in_registers`; `origin(i)` is the line's first visit number.
    """
    along, across = strides
    names = [b.local(b.fresh("carry"), dtype, BLOCK) for dtype, _ in scan.carried]
    with b.loop(b.fresh("fresh"), 0, lines, kind="vector") as i:
        start = entry(i) if entry else [b.const(value, dtype) for dtype, value in scan.carried]
        for name, value in zip(names, start):
            b.store(name, i, value)
    with b.loop(b.fresh("row"), 0, count) as t:
        first = b.let(I.add(I.index("first"), I.mul(t, I.index("step"))))
        row = b.let(I.add(base, I.mul(first, along)))
        with b.loop(b.fresh("i"), 0, lines, kind="vector") as i:
            position = first if origin is None else b.let(I.add(first, I.mul(origin(i), I.index("step"))))
            carried = [b.load(name, i, dtype) for name, (dtype, _) in zip(names, scan.carried)]
            place = b.let(I.add(row, I.mul(i, across)))
            kept = _advance(b, scan, carried, position, place, not finish)
            for name, value in zip(names, kept):
                b.store(name, i, value)
    if finish:
        with b.loop(b.fresh("done"), 0, lines, kind="vector") as i:
            finish(i, [b.load(name, i, dtype) for name, (dtype, _) in zip(names, scan.carried)])


def _advance(b, scan, carried, position, place, store):
    """One element: load, advance, perhaps store. Returns what is carried on."""
    elements = [b.load(f"x{n}", place, dtype) for n, dtype in enumerate(scan.inputs)]
    kept, stored = scan.advance(b, carried, elements, position)
    if store:
        for number, (value, dtype) in enumerate(zip(stored, scan.outputs)):
            b.store(f"out{number}", place, b.cast(value, dtype))
    return kept


# ---------------------------------------------------------------------------------------------- long lines
def parts_kernel(scan, totals):
    """A pass over the parts of long lines (inner is 1): with `totals`, what is carried out of each part; else
    the scan of each part from what is carried into it, both in buffers part0, ... (outer, parts).

    A step of the extent is a part, or BLOCK parts of a costly scan.
    """
    b, size = L.Builder(), I.index("size")
    parts = b.let(I.ceil_div(size, PART))

    def entry_at(at):
        at = b.let(at)
        return [b.load(part.name, at, part.dtype) for part in scan.parts()]

    def finish_at(at, carried):
        at = b.let(at)
        for part, value in zip(scan.parts(), carried):
            b.store(part.name, at, value)

    walk = _vector_parts if scan.costly else _register_parts
    walk(b, scan, parts, size, None if totals else entry_at, finish_at if totals else None)
    steps = I.ceil_div(size, PART)
    steps = I.mul(I.index("outer"), I.ceil_div(steps, BLOCK) if scan.costly else steps, I.index("active"))
    name = f"{scan.name}_totals" if totals else f"{scan.name}_parts"
    return L.Kernel(name, scan.buffers() + scan.parts(), PARAMS, steps, b.body())


def _register_parts(b, scan, parts, size, entry, finish):
    """Parts from begin to end, side by side where all of a group are whole."""
    def scan_group(numbers):
        lines, own = [b.let(I.div(n, parts)) for n in numbers], [b.let(I.rem(n, parts)) for n in numbers]
        origins = [b.let(I.mul(part, PART)) for part in own]
        counts = [b.let(I.minimum(I.sub(size, origin), PART)) for origin in origins]
        bases = [b.let(I.mul(line, size)) for line in lines]

        def run(chosen, count):
            _in_registers(b, scan, [bases[n] for n in chosen], [origins[n] for n in chosen], count,
                          entry and (lambda n: entry(numbers[chosen[n]])),
                          finish and (lambda n, carried: finish(numbers[chosen[n]], carried)))

        everyone, least = list(range(len(numbers))), counts[0]
        for count in counts[1:]:
            least = I.minimum(least, count)
        if len(numbers) == 1:
            return run(everyone, counts[0])
        whole = b.let(L.apply("eq", least, L.as_index(PART)))
        with b.branch(whole):
            run(everyone, L.as_index(PART))
        with b.branch(L.apply("not", whole)):
            for n in everyone:
                run([n], counts[n])

    _each_group(b, L.BEGIN, L.END, scan_group)


def _vector_parts(b, scan, parts, size, entry, finish):
    """BLOCK parts of a line in each step as vectors; the last part of a line, which may be shorter, alone."""
    blocks = b.let(I.ceil_div(parts, BLOCK))
    with b.loop("block", L.BEGIN, L.END) as block:
        o, first = b.let(I.div(block, blocks)), b.let(I.mul(I.rem(block, blocks), BLOCK))
        base, here = b.let(I.mul(o, size)), b.let(I.mul(o, parts))
        count = b.let(I.minimum(I.sub(parts, first), BLOCK))
        rest = b.let(I.rem(size, PART))
        is_last = L.apply("eq", I.add(first, count), parts)
        ends = b.let(L.apply("and", is_last, L.apply("gt", rest, L.as_index(0))))
        whole = b.let(I.sub(count, L.apply("cast", ends, dtype=int64)))
        number = b.let(I.add(here, first))
        origin = b.let(I.mul(first, PART))
        stride = b.let(I.mul(I.index("step"), PART))
        corner = b.let(I.add(base, I.mul(origin, I.index("step"))))
        _as_vectors(b, scan, corner, whole, (L.as_index(1), stride), L.as_index(PART),
                    entry and (lambda i: entry(I.add(number, i))),
                    finish and (lambda i, carried: finish(I.add(number, i), carried)),
                    lambda i: I.add(origin, I.mul(i, PART)))
        with b.branch(ends):
            last = b.let(I.add(number, whole))
            _in_registers(b, scan, [base], [b.let(I.sub(size, rest))], rest,
                          entry and (lambda n: entry(last)),
                          finish and (lambda n, carried: finish(last, carried)))


def starts_kernel(scan):
    """What is carried into each part of a long line, in place of what is carried out. A step is a line."""
    b = L.Builder()
    parts = b.let(I.ceil_div(I.index("size"), PART))
    with b.loop("line", L.BEGIN, L.END) as line:
        carried = [b.declare(b.const(value, dtype)) for dtype, value in scan.carried]
        with b.loop("part", 0, parts) as part:
            at = b.let(I.add(I.mul(line, parts), part))
            joined = scan.combine(b, carried, [b.load(p.name, at, p.dtype) for p in scan.parts()])
            for p, value in zip(scan.parts(), carried):
                b.store(p.name, at, value)
            for variable, value in zip(carried, joined):
                b.assign(variable, value)
    extent = I.mul(I.index("outer"), I.index("active"))
    return L.Kernel(f"{scan.name}_starts", scan.parts(), PARAMS, extent, b.body())


# ---------------------------------------------------------------------------------------------- the scans
def fold_scan(combine, dtype, out):
    """Running sum ('add') or product ('mul')."""
    wide = accumulator(out)

    def advance(b, carried, elements, position):
        total = b.call(combine, carried[0], b.cast(b.cast(elements[0], out), wide))
        return (total,), (total,)

    def join(b, first, second):
        return (b.call(combine, first[0], second[0]),)

    start = int(combine == "mul") if wide.kind != "f" else float(combine == "mul")
    return Scan(f"scan_{combine}", (dtype,), (out,), ((wide, start),), advance, join)


def log_sum_scan(dtype):
    """Running log(sum(exp)): the larger of both plus log1p(exp(smaller - larger))."""
    wide = accumulator(dtype)

    def join(b, first, second):
        low, high = b.min(second[0], first[0]), b.max(second[0], first[0])
        both = b.add(high, b.call("log1p", b.call("exp", b.sub(low, high))))
        plain = b.and_(b.eq(low, high), b.eq(b.abs(low), b.const(float("inf"), wide)))
        return (b.select(plain, high, both),)       # equal infinities: their difference is no number

    def advance(b, carried, elements, position):
        total = join(b, carried, [b.cast(elements[0], wide)])
        return total, total

    return Scan("scan_log_sum", (dtype,), (dtype,), ((wide, float("-inf")),), advance, join, costly=True)


def extreme_scan(compare, dtype, start):
    """Running maximum ('ge') or minimum ('le') and its place: the last of equal ones; NaN stays."""
    wide = int32 if dtype is bool_ else float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype

    def join(b, first, second):
        (best, place), (x, position) = first, second
        better = b.call(compare, x, best)
        if wide.kind == "f":
            better = b.or_(better, b.ne(x, x))
        return b.select(better, x, best), b.select(better, position, place)

    def advance(b, carried, elements, position):
        kept = join(b, carried, (b.cast(elements[0], wide), position))
        return kept, kept

    def idle(b, carried, elements):
        x, behind = b.cast(elements[0], wide), {"ge": "lt", "le": "gt"}[compare]
        if wide.kind != "f":
            return b.call(behind, x, carried[0])
        return b.or_(b.call(behind, x, carried[0]), b.and_(b.ne(carried[0], carried[0]), b.eq(x, x)))

    carried = (wide, start), (int64, 0)
    return Scan(f"scan_{compare}", (dtype,), (dtype, int64), carried, advance, join, idle=idle)


def linear_scan(dtype, late):
    """y = x + factor * (the y before), the factor that of this element or (`late`) of the one before."""
    wide = accumulator(dtype)

    def advance(b, carried, elements, position):
        x, factor = (b.cast(e, wide) for e in elements)
        if late:
            total = b.add(x, carried[0])
            return (b.mul(total, factor),), (total,)
        first = b.call("eq", position, I.index("first"))
        total = b.select(first, x, b.add(x, b.mul(carried[0], factor)))     # 0 * inf is no number
        return (total,), (total,)

    name = "scan_linear_late" if late else "scan_linear"
    return Scan(name, (dtype, dtype), (dtype,), ((wide, 0.0),), advance)


def delay_scan(dtype, start):
    """The element before; `start` for the first."""
    def advance(b, carried, elements, position):
        return (elements[0],), (carried[0],)

    return Scan("scan_delay", (dtype,), (dtype,), ((dtype, start),), advance)


def split_axis(shape, dim):
    """(elements in front of an axis, its size, elements behind it); a 0-d tensor has an axis of size 1."""
    outer = inner = 1
    for s in shape[:dim]:
        outer = outer * s
    for s in shape[dim + 1:]:
        inner = inner * s
    return outer, shape[dim] if shape else 1, inner


def launch_scan(planner, scan, operands, outputs, dim, reverse=False):
    """Add a scan along `dim` to a plan; operands are made row-major."""
    operands = [planner.dense(o) for o in operands]
    outer, size, inner = split_axis(operands[0].shape, dim)
    sizes = Sizes(planner.recipe, outer=outer, size=size, inner=inner, first=size - 1 if reverse else 0,
                  step=-1 if reverse else 1)
    outer, size, inner = map(I.index, ("outer", "size", "inner"))
    sizes.define("single", I.minimum(1, I.div(1, I.maximum(inner, 1))))
    is_long = I.mul(I.minimum(1, I.div(size, LONG)), I.index("single"))
    sizes.define("long", is_long if scan.combine else L.as_index(0))
    sizes.define("plain", I.sub(1, I.index("single" if scan.costly else "long")))
    sizes.define("lines", I.sub(I.index("single"), I.index("long")))
    work = I.mul(200 if scan.costly else 6, outer, size, inner)

    def launch(make, active, buffers):
        if not sizes.is_never(active):
            sizes.launch(make(), buffers, work, active=active)

    whole = [*operands, *outputs]
    launch(lambda: scan_kernel(scan), "plain", whole)
    if scan.costly:
        launch(lambda: costly_kernel(scan), "lines", whole)
    if not sizes.is_never("long"):
        count = I.mul(outer, I.ceil_div(size, PART), I.index("long"))
        parts = [sizes.buffer(dtype, count) for dtype, _ in scan.carried]
        launch(lambda: parts_kernel(scan, True), "long", [*whole, *parts])
        launch(lambda: starts_kernel(scan), "long", parts)
        launch(lambda: parts_kernel(scan, False), "long", [*whole, *parts])
