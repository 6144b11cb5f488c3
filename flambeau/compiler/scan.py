"""Scans: each element along one axis from the one before, carried in registers.

Tensors are contiguous and seen as [outer, size, inner], where size is the scanned axis; PARAMS are outer,
size, inner, first and step: the positions first, first + step, ... are visited, so one kernel scans both ways
(first 0 and step 1, or first size - 1 and step -1). What is carried lies in registers where inner is 1 and
otherwise in a small local array, one element for each of BLOCK neighbours on the inner axis, which are
scanned together as vectors. The order is sequential, so results are the same for any number of threads.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.types.dtype import bool_, float32, float64, int32, int64

PARAMS = ("outer", "size", "inner", "first", "step")
BLOCK = 64          # elements of the inner axis that one step of the extent owns


@dataclass(frozen=True)
class Scan:
    """A scan: `advance(b, carried, elements, position)` -> (what is carried on, what is stored), two tuples.

    `inputs` and `outputs` are dtypes; `carried` are (dtype, number to start with).
    """

    name: str
    inputs: tuple
    outputs: tuple
    carried: tuple
    advance: object


def accumulator(dtype):
    """The dtype that is carried for elements of `dtype`: one size wider for floating point."""
    if dtype is bool_:
        return int32
    if dtype.kind == "f":
        return float32 if dtype.itemsize == 2 else float64
    return dtype


def scan_kernel(scan):
    """The Loops kernel of a scan. Buffers: x0, x1, ... and out0, out1, ..., each (outer, size, inner)."""
    b, inner = L.Builder(), I.index("inner")
    blocks = I.ceil_div(inner, BLOCK)
    for number, (dtype, _) in enumerate(scan.carried):
        b.local(f"carry{number}", dtype, BLOCK)
    with b.loop("block", L.BEGIN, L.END) as block:
        single = b.let(L.apply("eq", inner, L.as_index(1)))
        with b.branch(single):
            _line(b, scan, block)
        with b.branch(L.apply("not", single)):
            start = b.let(I.mul(I.rem(block, blocks), BLOCK))
            stop = b.let(I.minimum(I.add(start, BLOCK), inner))
            _lines(b, scan, b.let(I.div(block, blocks)), start, stop, inner)
    buffers = [L.Buffer(f"x{n}", dtype, "r") for n, dtype in enumerate(scan.inputs)]
    buffers += [L.Buffer(f"out{n}", dtype, "w") for n, dtype in enumerate(scan.outputs)]
    return L.Kernel(scan.name, tuple(buffers), PARAMS, I.mul(I.index("outer"), blocks), b.body())


def _line(b, scan, o):
    """The scan of one line of consecutive elements."""
    carried = [b.declare(b.const(value, dtype)) for dtype, value in scan.carried]
    base = b.let(I.mul(o, I.index("size")))
    with b.loop("t", 0, I.index("size")) as t:
        position = b.let(I.add(I.index("first"), I.mul(t, I.index("step"))))
        place = b.let(I.add(base, position))
        kept = _advance(b, scan, carried, position, place)
        for variable, value in zip(carried, kept):
            b.assign(variable, value)


def _lines(b, scan, o, start, stop, inner):
    """The scan of neighbouring lines, start to stop on the inner axis."""
    with b.loop("fresh", 0, I.sub(stop, start), kind="vector") as i:
        for number, (dtype, value) in enumerate(scan.carried):
            b.store(f"carry{number}", i, b.const(value, dtype))
    with b.loop("row", 0, I.index("size")) as t:
        position = b.let(I.add(I.index("first"), I.mul(t, I.index("step"))))
        base = b.let(I.add(I.mul(I.add(I.mul(o, I.index("size")), position), inner), start))
        with b.loop("i", 0, I.sub(stop, start), kind="vector") as i:
            carried = [b.load(f"carry{n}", i, dtype) for n, (dtype, _) in enumerate(scan.carried)]
            kept = _advance(b, scan, carried, position, b.let(I.add(base, i)))
            for number, value in enumerate(kept):
                b.store(f"carry{number}", i, value)


def _advance(b, scan, carried, position, place):
    """One element: load, advance, store. Returns what is carried on."""
    elements = [b.load(f"x{n}", place, dtype) for n, dtype in enumerate(scan.inputs)]
    kept, stored = scan.advance(b, carried, elements, position)
    for number, (value, dtype) in enumerate(zip(stored, scan.outputs)):
        b.store(f"out{number}", place, b.cast(value, dtype))
    return kept


# ---------------------------------------------------------------------------------------------- the scans
def fold_scan(combine, dtype, out):
    """Running sum ('add') or product ('mul')."""
    wide = accumulator(out)

    def advance(b, carried, elements, position):
        total = b.call(combine, carried[0], b.cast(b.cast(elements[0], out), wide))
        return (total,), (total,)

    start = int(combine == "mul") if wide.kind != "f" else float(combine == "mul")
    return Scan(f"scan_{combine}", (dtype,), (out,), ((wide, start),), advance)


def log_sum_scan(dtype):
    """Running log(sum(exp)): the larger of both plus log1p(exp(smaller - larger))."""
    wide = accumulator(dtype)

    def advance(b, carried, elements, position):
        x, before = b.cast(elements[0], wide), carried[0]
        low, high = b.min(x, before), b.max(x, before)
        both = b.add(high, b.call("log1p", b.call("exp", b.sub(low, high))))
        plain = b.and_(b.eq(low, high), b.eq(b.abs(low), b.const(float("inf"), wide)))
        total = b.select(plain, high, both)         # equal infinities: their difference is no number
        return (total,), (total,)

    return Scan("scan_log_sum", (dtype,), (dtype,), ((wide, float("-inf")),), advance)


def extreme_scan(compare, dtype, start):
    """Running maximum ('ge') or minimum ('le') and its place: the last of equal ones; NaN stays."""
    wide = int32 if dtype is bool_ else float32 if dtype.kind == "f" and dtype.itemsize == 2 else dtype

    def advance(b, carried, elements, position):
        best, place = carried
        x = b.cast(elements[0], wide)
        better = b.call(compare, x, best)
        if wide.kind == "f":
            better = b.or_(better, b.ne(x, x))
        kept = b.select(better, x, best), b.select(better, position, place)
        return kept, kept

    return Scan(f"scan_{compare}", (dtype,), (dtype, int64), ((wide, start), (int64, 0)), advance)


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
    params = {"outer": outer, "size": size, "inner": inner,
              "first": size - 1 if reverse else 0, "step": -1 if reverse else 1}
    planner.launch_template(scan_kernel(scan), [*operands, *outputs], params, 6 * outer * size * inner)
