"""The weights of a recurrent layer in panels: [panel][k][unit vector][gate][lane], packed once a call."""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.compiler.gemm_pack import turned
from flambeau.ir import loops as L

_PACK_WORK = 4              # scalar operations that packing an element is worth
_MOST_ROWS = 8              # of a register block
THREAD_ROWS = 12            # the rows that one thread should take, about
LEAST_PRIVATE, MOST_PRIVATE = 3, 2 * THREAD_ROWS    # rows of a batch whose two chunks pack their own weights


@dataclass(frozen=True)
class Blocking:
    """A register block: rows x `vectors` of `lanes`; `units` vectors of hidden units make a panel. For each k the
    weights are in registers and the rows' elements come one by one or, `rows_first`, the other way round."""

    lanes: int
    rows: int
    units: int
    vectors: int
    rows_first: bool = False

    @property
    def width(self):
        """Elements of a panel for one k."""
        return self.vectors * self.lanes


def blocking(dtype, gates, target=None):
    """The Blocking for `gates` sums a unit: as many rows as the registers allow."""
    target = target or targets.current()
    registers = 16 if target.is_x86 and target.vector_bytes < 64 else 32
    units = 1 if gates > 2 else 4 if registers == 32 else 2
    vectors = units * gates
    rows, more = (registers - vectors - 1) // vectors, (registers - 1) // (vectors + 1)
    return Blocking(target.vector_bytes // dtype.itemsize, min(max(rows, more), _MOST_ROWS), units, vectors,
                    more > rows)


def panels_of(hidden, plan):
    """How many panels there are, of ints or sizes of a graph."""
    span = plan.units * plan.lanes
    return (hidden + span - 1) // span


def is_private(batch):
    """1 where the two chunks of a launch pack their own weights, 0 where these are packed for all: lines that
    several processors read are slow to write again. Of the size `batch`, a Loops index."""
    return I.mul(I.minimum(I.maximum(I.sub(batch, LEAST_PRIVATE - 1), 0), 1),
                 I.minimum(I.maximum(I.sub(MOST_PRIVATE + 1, batch), 0), 1))


def size_of(hidden, depth, plan):
    """Elements of packed weights, a Loops index."""
    return I.mul(I.ceil_div(hidden, plan.units * plan.lanes), plan.width, depth)


def pack(planner, weight, plan, gates, hidden, batch=None):
    """The weight in panels; gates 0: (K, hidden) as it is, else (gates * hidden, K) transposed, unless the layer
    of a `batch` that is private does it."""
    recipe, depth = planner.recipe, weight.shape[1] if gates else weight.shape[0]
    params = {"hidden": hidden, "K": depth} | ({"batch": batch} if gates else {})
    registers = {name: recipe.register(size) for name, size in params.items()}
    size = size_of(I.index("hidden"), I.index("K"), plan)
    if gates:
        size = I.mul(size, I.add(is_private(I.index("batch")), 1))
    packed = recipe.buffer_of(weight.dtype, recipe.expression(size, registers))
    planner.launch_template(pack_kernel(weight.dtype, plan, gates), [weight, packed], params,
                            _PACK_WORK * panels_of(hidden, plan) * depth * plan.width)
    return packed


def pack_kernel(dtype, plan, gates):
    """packed[panel, k, vector, lane] = weight[gate * hidden + unit, k], or weight[k, unit] where gates is 0;
    zero beyond the last unit. One step of the extent is a vector of a panel."""
    b = L.Builder()
    with b.loop("number", L.BEGIN, L.END) as number:
        panel, vector = b.let(I.div(number, plan.vectors)), b.let(I.rem(number, plan.vectors))
        pack_vector(b, dtype, plan, gates, (panel, vector), I.index("K"), "weight", "packed")
    buffers = (L.Buffer("weight", dtype, "r"), L.Buffer("packed", dtype, "w"))
    extent = I.mul(I.ceil_div(I.index("hidden"), plan.units * plan.lanes), plan.vectors)
    if gates:
        extent = I.mul(extent, I.sub(1, is_private(I.index("batch"))))
    return L.Kernel("recurrent_pack", buffers, ("hidden", "K", "batch")[:3 if gates else 2], extent, b.body())


def pack_vector(b, dtype, plan, gates, place, depth, weight, packed, offset=0):
    """The vector at `place`, (panel, number in it), for all k; the panels begin at `offset`."""
    (panel, vector), hidden, lanes = place, I.index("hidden"), plan.lanes
    several = plan.units > 1
    number = I.div(vector, gates or 1) if several else 0
    unit = b.let(I.mul(I.add(I.mul(panel, plan.units), number), lanes))
    base = b.let(I.add(offset, I.mul(panel, depth, plan.width), I.mul(vector, lanes)))
    if gates:
        gate = I.rem(vector, gates) if several else vector
        source = b.let(I.mul(I.add(I.mul(gate, hidden), unit), depth))
        _pack_columns(b, dtype, plan, (weight, source), (packed, base), depth, b.let(I.sub(hidden, unit)))
        return
    mask = b.let(I.lanes_below(I.sub(hidden, unit), lanes))
    with b.loop("k", 0, depth) as k:
        value = b.load(weight, I.add(I.mul(k, hidden), unit), dtype, lanes, mask, b.const(0.0, dtype, lanes))
        b.store(packed, I.add(base, I.mul(k, plan.width)), value)


def _pack_columns(b, dtype, plan, weight, packed, depth, left):
    """One vector of a panel from the rows of the weight, all lanes of a k together; `weight` and `packed` are
    (buffer, start), `left` units are there."""
    (weight, source), (packed, base) = weight, packed
    with b.branch(L.apply("ge", left, L.as_index(plan.lanes))):
        steps = [b.let(I.mul(depth, lane)) for lane in range(plan.lanes)]
        whole = b.let(I.mul(I.div(depth, plan.lanes), plan.lanes))
        with b.loop(b.fresh("k_block"), 0, whole, plan.lanes) as k:
            start = b.let(I.add(source, k))
            rows = [b.load(weight, I.add(start, step), dtype, plan.lanes) for step in steps]
            for i, column in enumerate(turned(b, rows)):
                b.store(packed, I.add(base, I.mul(I.add(k, i), plan.width)), column)
        with b.loop(b.fresh("k"), whole, depth) as k:
            target, start = b.let(I.add(base, I.mul(k, plan.width))), b.let(I.add(source, k))
            for lane in range(plan.lanes):
                b.store(packed, I.add(target, lane), b.load(weight, I.add(start, steps[lane]), dtype))
    with b.branch(L.apply("lt", left, L.as_index(plan.lanes))):
        with b.loop(b.fresh("k"), 0, depth) as k, b.loop(b.fresh("lane"), 0, plan.lanes) as lane:
            inside, zero = b.let(L.apply("lt", lane, left)), b.const(0.0, dtype)
            value = b.load(weight, I.add(source, I.mul(depth, lane), k), dtype, 1, inside, zero)
            b.store(packed, I.add(base, I.mul(k, plan.width), lane), value)
