"""The best few elements of a line, in one pass over it.

A sorted list keeps at most FEW numbers. VECTORS vectors of keys are looked at together: most hold nothing
better than the worst of the list.
"""

from flambeau.compiler import index_math as I
from flambeau.compiler.order import FEW, by_lines, launch_sort, work_of
from flambeau.compiler.order_keys import Numbers, is_packed, key, outer_buffers
from flambeau.compiler.order_select import launch_select
from flambeau.ir import loops as L
from flambeau.types.dtype import uint32, uint64

GROUP = 8               # numbers of the list of `best_kernel` in a vector; the list has at most FEW
LANES, VECTORS = 16, 4  # keys that are compared at once
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


# ---------------------------------------------------------------------------------------------- launches
def launch_best(planner, operand, outputs, dim, kept, largest):
    """Add the `kept` largest or smallest elements along `dim`, in order, to a plan."""
    def launch(operand, results, sizes):
        if kept <= FEW and is_packed(operand.dtype):
            sizes.launch(best_kernel(operand.dtype, largest), [operand, *results], work_of(2))
        else:
            launch_select([operand, *results], sizes, largest, False)

    if operand.shape and kept == operand.shape[dim]:
        launch_sort(planner, operand, outputs, dim, largest)
    else:
        by_lines(planner, operand, outputs, dim, launch)
