"""Places in sorted lines by bisection: BLOCK values at a time, all of them one step after the other.

Elements are compared by their keys (`order_keys`), so NaN goes last and -0 equals 0. The steps depend on the
line's size only: each halves what is left of the line, for all values alike, so lanes never part.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.order_keys import key
from flambeau.ir import loops as L
from flambeau.types.dtype import int64

BLOCK = 128
STEPS = 48              # no line has 2**STEPS elements
PARAMS = ("lines", "size", "count", "shared")


def search_kernel(dtype, out, right):
    """Buffers: sequence (lines, size), or (size,) with `shared` 1; values and out (lines, count). `right`:
    behind equal elements."""
    b, (size, count) = L.Builder(), (I.index("size"), I.index("count"))
    b.local("place", int64, BLOCK)
    blocks = b.let(I.ceil_div(count, BLOCK))
    with b.loop("block", L.BEGIN, L.END) as block:
        line, first = b.let(I.div(block, blocks)), b.let(I.mul(I.rem(block, blocks), BLOCK))
        base = b.let(I.mul(I.mul(line, size), I.sub(1, I.index("shared"))))
        start = b.let(I.add(I.mul(line, count), first))
        here = b.let(I.minimum(I.sub(count, first), BLOCK))
        with b.loop("fresh", 0, here, kind="vector") as i:
            b.store("place", i, b.const(0, int64))

        def step(name, half):
            """Values that are not in front of element place + half - 1 go half on."""
            with b.loop(name, 0, here, kind="vector") as i:
                place = b.load("place", i, int64)
                mine = key(b, b.load("values", b.let(I.add(start, i)), dtype), False)
                other = b.load("sequence", b.let(I.add(base, place, half, -1)), dtype)
                behind = b.call("le" if right else "lt", key(b, other, False), mine)
                b.store("place", i, b.add(place, b.mul(b.cast(behind, int64), half)))

        left = b.declare(size, "left")
        with b.loop("turn", 0, STEPS):
            half = b.let(I.div(left, 2))
            with b.branch(b.gt(half, b.const(0, int64))):
                step("i", half)
            b.assign(left, b.sub(left, half))
        with b.branch(b.gt(left, b.const(0, int64))):
            step("last", L.as_index(1))
        with b.loop("done", 0, here, kind="vector") as i:
            b.store("out", b.let(I.add(start, i)), b.cast(b.load("place", i, int64), out))
    buffers = (L.Buffer("sequence", dtype, "r"), L.Buffer("values", dtype, "r"), L.Buffer("out", out, "w"))
    name = "search_right" if right else "search_left"
    return L.Kernel(name, buffers, PARAMS, I.mul(I.index("lines"), I.ceil_div(count, BLOCK)), b.body())


def launch_search(planner, sequence, values, out, right):
    """Add to a plan: where values go in sorted lines, (..., size) or one for all, (size,)."""
    sequence, values = planner.dense(sequence), planner.dense(values)
    shared = len(sequence.shape) == 1
    lines, count = 1, values.shape[-1] if values.shape else 1
    for s in values.shape[:-1]:
        lines = lines * s
    if shared:
        lines, count = 1, lines * count
    params = {"lines": lines, "size": sequence.shape[-1], "count": count, "shared": int(shared)}
    planner.launch_template(search_kernel(sequence.dtype, out.dtype, right), [sequence, values, out], params,
                            60 * lines * count)
