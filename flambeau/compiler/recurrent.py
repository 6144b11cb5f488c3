"""A recurrent layer over a whole sequence as Loops templates, forward and backward.

What does not depend on the state, the product of all inputs with their weights, is done before; here every
thread takes some rows of the batch through all steps, so that nobody waits for anybody:

    for each step:
        for each panel of hidden units:                       the gates of one unit stand side by side
            for some rows: a block of sums in registers (state @ weight), then the cell

The weights of the state are packed once a call into panels [panel][k][unit vector][gate][lane] and stay in
the cache. Rows lie one step after the other: those of step t are starts[t] .. starts[t + 1], and a step may
have fewer rows than the one before it (packed sequences). Backward visits the steps the other way round:
the cell's derivative first, then the product of the gates' gradients with the weights.

Order of additions: along k one fma after another, from the bias or zero; it depends on nothing else.
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import pipeline
from flambeau.compiler import recurrent_cells as cells
from flambeau.compiler import target as targets
from flambeau.compiler.recipe import Located
from flambeau.ir import loops as L
from flambeau.ops.recurrent import GATES, KEPT
from flambeau.types.dtype import int64

PARAMS = ("batch", "steps", "hidden")
_PACK_WORK = 4              # scalar operations that packing an element is worth
_MOST_ROWS = 8              # of a register block
_THREAD_ROWS = 12           # the rows that one thread should take, about


@dataclass(frozen=True)
class Blocking:
    """A register block: rows x `vectors` of `lanes`; `units` vectors of hidden units make a panel."""

    lanes: int
    rows: int
    units: int
    vectors: int

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
    rows = min((registers - vectors - 1) // vectors, _MOST_ROWS)
    return Blocking(target.vector_bytes // dtype.itemsize, rows, units, vectors)


def launch_layer(planner, mode, inputs, outputs, reverse, keep):
    """inputs: projected, weight, starts, hidden, cell, bias (None where there is none); outputs: output,
    last hidden, last cell, gates, before, cells."""
    projected, weight, starts, hidden, cell, bias = (planner.dense(x) if x is not None else None
                                                     for x in inputs)
    operands = {"projected": projected, "starts": starts, "hidden": hidden, "bias": bias, "cell": cell}
    results = dict(zip(("output", "last", "last_cell", "gates", "before", "cells"), outputs))
    if mode != "lstm":
        del results["last_cell"], results["cells"]
    if not keep:
        for name in ("gates", "before", "cells"):
            results.pop(name, None)
    elif not KEPT[mode]:
        del results["gates"]
    gates = GATES[mode]
    plan = blocking(projected.dtype, gates)
    sizes = dict(zip(PARAMS, (hidden.shape[0], starts.shape[0] - 1, hidden.shape[1])))
    packed = _pack(planner, weight, plan, gates, sizes["hidden"])
    writer = _Forward(mode, plan, {"packed": packed, **operands}, results, reverse)
    _launch(planner, writer.kernel(), writer.operands, sizes)


def launch_gradient(planner, mode, inputs, outputs, reverse):
    """inputs: name -> gradients of the results, the weight, starts and what the layer kept; outputs:
    gradients of projected, of the state's product, of hidden and of cell."""
    used = {"lstm": ("of_last_cell", "gates", "cells"), "gru": ("gates", "before")}.get(mode, ("output",))
    operands = {name: planner.dense(inputs[name]) for name in ("of_output", "of_last", "starts", *used)}
    results = dict(zip(("of_projected", "of_own", "of_hidden", "of_cell"), outputs))
    if mode != "gru":
        del results["of_own"]
    if mode != "lstm":
        del results["of_cell"]
    state = operands["of_last"]
    plan = blocking(state.dtype, 1)
    sizes = dict(zip(PARAMS, (state.shape[0], operands["starts"].shape[0] - 1, state.shape[1])))
    packed = _pack(planner, planner.dense(inputs["weight"]), plan, 0, sizes["hidden"])
    writer = _Backward(mode, plan, {"packed": packed, **operands}, results, reverse)
    _launch(planner, writer.kernel(), writer.operands, sizes)


def launch_weight_gradient(planner, of_own, before, out):
    """out = of_own.T @ before."""
    turned = Located(of_own.place, of_own.dtype, of_own.shape[::-1], of_own.strides[::-1], of_own.offset)
    planner.templates.product(planner, turned, before, None, out)


def _launch(planner, kernel, operands, sizes):
    """Add the launch; a chunk of the extent is some rows: an even number of chunks of about _THREAD_ROWS."""
    recipe = planner.recipe
    registers = {name: recipe.register(size) for name, size in sizes.items()}
    rows = I.index("batch")
    chunks = I.mul(I.ceil_div(rows, 2 * _THREAD_ROWS), 2)
    grain = recipe.expression(I.maximum(I.ceil_div(rows, I.maximum(chunks, 1)), 1), registers)
    recipe.launch(pipeline.build_kernel(kernel), operands, [registers[p] for p in kernel.params],
                  recipe.expression(kernel.extent, registers), grain)


# ---------------------------------------------------------------------------------------------- packing
def _pack(planner, weight, plan, gates, hidden):
    """The weight in panels; gates 0: (K, hidden) as it is, else (gates * hidden, K) transposed."""
    depth = weight.shape[1] if gates else weight.shape[0]
    panels = (hidden + plan.units * plan.lanes - 1) // (plan.units * plan.lanes)
    packed = planner.recipe.buffer(weight.dtype, (panels * depth * plan.width,))
    kernel = pack_kernel(weight.dtype, plan, gates)
    planner.launch_template(kernel, [weight, packed], {"hidden": hidden, "K": depth},
                            _PACK_WORK * panels * depth * plan.width)
    return packed


def pack_kernel(dtype, plan, gates):
    """packed[panel, k, vector, lane] = weight[gate * hidden + unit, k], or weight[k, unit] where gates is 0;
    zero beyond the last unit. One step of the extent is a vector of a panel."""
    b, hidden, depth = L.Builder(), I.index("hidden"), I.index("K")
    lanes = plan.lanes
    with b.loop("number", L.BEGIN, L.END) as number:
        panel = b.let(I.div(number, plan.vectors))
        vector = b.let(I.rem(number, plan.vectors))
        unit = b.let(I.mul(I.add(I.mul(panel, plan.units), I.div(vector, gates or 1)), lanes))
        base = b.let(I.add(I.mul(panel, depth, plan.width), I.mul(vector, lanes)))
        if gates:
            _pack_columns(b, dtype, plan, base, unit, b.let(I.rem(vector, gates)))
        else:
            mask = b.let(I.lanes_below(I.sub(hidden, unit), lanes))
            with b.loop("k", 0, depth) as k:
                value = b.load("weight", I.add(I.mul(k, hidden), unit), dtype, lanes, mask,
                               b.const(0.0, dtype, lanes))
                b.store("packed", I.add(base, I.mul(k, plan.width)), value)
    buffers = (L.Buffer("weight", dtype, "r"), L.Buffer("packed", dtype, "w"))
    extent = I.mul(I.ceil_div(hidden, plan.units * lanes), plan.vectors)
    return L.Kernel("recurrent_pack", buffers, ("hidden", "K"), extent, b.body())


def _pack_columns(b, dtype, plan, base, unit, gate):
    """One vector of a panel from the rows of the weight, all lanes of a k together."""
    hidden, depth = I.index("hidden"), I.index("K")
    source = b.let(I.mul(I.add(I.mul(gate, hidden), unit), depth))
    left = b.let(I.sub(hidden, unit))
    with b.branch(L.apply("ge", left, L.as_index(plan.lanes))):
        steps = [b.let(I.mul(depth, lane)) for lane in range(plan.lanes)]
        with b.loop("k", 0, depth) as k:
            target, start = b.let(I.add(base, I.mul(k, plan.width))), b.let(I.add(source, k))
            for lane in range(plan.lanes):
                b.store("packed", I.add(target, lane), b.load("weight", I.add(start, steps[lane]), dtype))
    with b.branch(L.apply("lt", left, L.as_index(plan.lanes))):
        with b.loop("k_last", 0, depth) as k, b.loop("lane", 0, plan.lanes) as lane:
            inside, zero = b.let(L.apply("lt", lane, left)), b.const(0.0, dtype)
            value = b.load("weight", I.add(source, I.mul(depth, lane), k), dtype, 1, inside, zero)
            b.store("packed", I.add(base, I.mul(k, plan.width), lane), value)


# ---------------------------------------------------------------------------------------------- both ways
class _Writer:
    """What forward and backward share: the loops over steps, panels and rows, and the product."""

    name = None
    depth = None            # an index: how many k's the product sums over

    def __init__(self, mode, plan, operands, results, reverse):
        self.mode, self.plan, self.reverse = mode, plan, reverse
        named = {name: x for name, x in operands.items() if x is not None}
        self.operands = [*named.values(), *results.values()]
        self.dtype = named["packed"].dtype
        self.buffers = tuple(L.Buffer(n, x.dtype, "r") for n, x in named.items())
        self.buffers += tuple(L.Buffer(n, x.dtype, "rw") for n, x in results.items())
        self.has = frozenset((*named, *results))
        self.hidden, self.gates = I.index("hidden"), GATES[mode]

    def kernel(self):
        self.b = b = L.Builder()
        self.begin()
        with b.loop("t", 0, I.index("steps")) as t:
            step = b.let(I.sub(I.sub(I.index("steps"), 1), t)) if self.reverse else t
            self.first = b.load("starts", step, int64)
            count = b.let(I.sub(b.load("starts", I.add(step, 1), int64), self.first))
            self.ahead = b.let(I.mul(count, -1)) if self.reverse else count    # rows to the next step, about
            self.stop = b.let(I.minimum(L.END, count))
            self.step()
        b.local("sums", self.dtype, self.plan.rows * self.plan.width)
        way = "backwards" if self.reverse else "forwards"
        return L.Kernel(f"{self.name}_{self.mode}_{way}", self.buffers, PARAMS, I.index("batch"), b.body())

    def copy_rows(self, target, target_row, source, source_row, stop):
        """Copy rows of the hidden size, from those of the range up to `stop`."""
        b = self.b
        count = b.let(I.mul(I.sub(stop, L.BEGIN), self.hidden))
        to = b.let(I.mul(I.add(target_row, L.BEGIN), self.hidden))
        from_ = b.let(I.mul(I.add(source_row, L.BEGIN), self.hidden))
        with b.loop(b.fresh("i"), 0, count, kind="vector") as i:
            b.store(target, I.add(to, i), b.load(source, I.add(from_, i), self.dtype))

    def panels(self, source, address, finish):
        """sums = source @ packed for every panel and some rows at a time; source[address(row) + k]."""
        b, plan = self.b, self.plan
        active = b.let(I.maximum(I.sub(self.stop, L.BEGIN), 0))
        blocks = b.let(I.ceil_div(active, plan.rows))
        span = plan.units * plan.lanes
        with b.loop("panel", 0, I.ceil_div(self.hidden, span)) as panel:
            unit = b.let(I.mul(panel, span))
            base = b.let(I.mul(panel, self.depth, plan.width))
            with b.loop("block", 0, blocks) as block:
                row = b.let(I.add(L.BEGIN, I.div(I.mul(block, active), blocks)))
                after = b.let(I.add(L.BEGIN, I.div(I.mul(I.add(block, 1), active), blocks)))
                rows = b.let(I.sub(after, row))
                for count in range(1, plan.rows + 1):
                    with b.branch(L.apply("eq", rows, L.as_index(count))):
                        self.sums(count, row, base, unit, source, address)
                whole = b.let(L.apply("le", I.add(unit, span), self.hidden))
                for condition, masked in ((whole, False), (L.apply("not", whole), True)):
                    with b.branch(condition), b.loop(b.fresh("r"), 0, rows) as r:
                        finish(b.let(I.add(row, r)), unit, I.mul(r, plan.width), masked)

    def sums(self, rows, row, base, unit, source, address):
        """A block of sums, left in the Local `sums`."""
        b, plan, dtype = self.b, self.plan, self.dtype
        starts = [self.start_of(unit, v) for v in range(plan.vectors)]
        sums = [[b.declare(start) for start in starts] for _ in range(rows)]
        places = [b.let(address(I.add(row, i))) for i in range(rows)]
        with b.loop(b.fresh("k"), 0, self.depth) as k:
            panel = b.let(I.add(base, I.mul(k, plan.width)))
            right = [b.load("packed", I.add(panel, v * plan.lanes), dtype, plan.lanes)
                     for v in range(plan.vectors)]
            for i in range(rows):
                left = b.let(L.splat(b.load(source, I.add(places[i], k), dtype), plan.lanes))
                for v in range(plan.vectors):
                    b.assign(sums[i][v], L.apply("fma", left, right[v], sums[i][v]))
        for i in range(rows):
            for v in range(plan.vectors):
                b.store("sums", L.as_index(i * plan.width + v * plan.lanes), sums[i][v])

    def start_of(self, unit, vector):
        return self.b.const(0.0, self.dtype, self.plan.lanes)


# ---------------------------------------------------------------------------------------------- forward
class _Forward(_Writer):
    name = "recurrent"

    def begin(self):
        self.depth = self.hidden
        self.copy_rows("last", 0, "hidden", 0, L.END)
        if self.mode == "lstm":
            self.copy_rows("last_cell", 0, "cell", 0, L.END)

    def step(self):
        if "before" in self.has:
            self.copy_rows("before", self.first, "last", 0, self.stop)
        self.panels("last", lambda row: I.mul(row, self.hidden), self.cell)
        self.copy_rows("last", 0, "output", self.first, self.stop)

    def start_of(self, unit, vector):
        """The bias, if there is one."""
        if "bias" not in self.has:
            return super().start_of(unit, vector)
        lanes, gate = self.plan.lanes, vector % self.gates
        unit = I.add(unit, vector // self.gates * lanes)
        mask = I.lanes_below(I.sub(self.hidden, unit), lanes)
        address = I.add(I.mul(self.hidden, gate), unit)
        return self.b.load("bias", address, self.dtype, lanes, mask, super().start_of(unit, vector))

    def cell(self, row, unit, sums, masked):
        """The cell of the units of a panel in one row."""
        b, lanes = self.b, self.plan.lanes
        here = b.let(I.add(self.first, row))
        for number in range(self.plan.units):
            first = b.let(I.add(unit, number * lanes))
            mask = b.let(I.lanes_below(I.sub(self.hidden, first), lanes)) if masked else None
            zero = b.const(0.0, self.dtype, lanes) if masked else None
            place = b.let(I.add(I.mul(here, self.hidden), first))       # in tensors of a row a step
            state = b.let(I.add(I.mul(row, self.hidden), first))        # in those of the states

            def load(buffer, address):
                return b.load(buffer, address, self.dtype, lanes, mask, zero)

            def gate_place(gate, count, row=here):
                return I.add(I.mul(I.add(I.mul(row, count), gate), self.hidden), first)

            later = b.let(I.add(here, self.ahead))
            for gate in range(self.gates):
                b.prefetch("projected", gate_place(gate, self.gates, later))
            if "gates" in self.has:
                for gate in range(KEPT[self.mode]):
                    b.prefetch("gates", gate_place(gate, KEPT[self.mode], later), write=True)

            own = [b.load("sums", I.add(sums, (number * self.gates + g) * lanes), self.dtype, lanes)
                   for g in range(self.gates)]
            given = [load("projected", gate_place(g, self.gates)) for g in range(self.gates)]
            before = load("last_cell" if self.mode == "lstm" else "last", state)
            value, cell, kept = cells.forward(b, self.mode, given, own, before)
            b.store("output", place, value, mask)
            if cell is not None:
                b.store("last_cell", state, cell, mask)
                if "cells" in self.has:
                    b.store("cells", place, before, mask)
            if "gates" in self.has:
                for number_kept, x in enumerate(kept):
                    b.store("gates", gate_place(number_kept, len(kept)), x, mask)


# ---------------------------------------------------------------------------------------------- backward
class _Backward(_Writer):
    """`reverse` here is the layer's: steps are visited the other way."""

    name = "recurrent_backward"

    def __init__(self, mode, plan, operands, results, reverse):
        super().__init__(mode, plan, operands, results, not reverse)

    def begin(self):
        self.depth = self.b.let(I.mul(self.hidden, self.gates))
        self.copy_rows("of_hidden", 0, "of_last", 0, L.END)
        if self.mode == "lstm":
            self.copy_rows("of_cell", 0, "of_last_cell", 0, L.END)

    def step(self):
        b = self.b
        with b.loop("row", L.BEGIN, self.stop) as row:
            here = b.let(I.add(self.first, row))
            wide = b.let(I.mul(here, self.hidden, self.gates))
            self.place = b.let(I.mul(here, self.hidden))
            self.state = b.let(I.mul(row, self.hidden))
            self.kept = b.let(I.mul(self.place, KEPT[self.mode])) if KEPT[self.mode] else None
            with b.loop("unit", 0, self.hidden, kind="vector") as unit:
                self.cell(unit, wide)
        source = "of_own" if self.mode == "gru" else "of_projected"
        self.panels(source, lambda row: I.mul(I.add(self.first, row), self.depth), self.finish)

    def finish(self, row, unit, sums, masked):
        """Store the gradient of the state; of a GRU it has a part already."""
        b, lanes = self.b, self.plan.lanes
        for number in range(self.plan.units):
            first = b.let(I.add(unit, number * lanes))
            mask = b.let(I.lanes_below(I.sub(self.hidden, first), lanes)) if masked else None
            zero = b.const(0.0, self.dtype, lanes) if masked else None
            place = b.let(I.add(I.mul(row, self.hidden), first))
            value = b.load("sums", I.add(sums, number * lanes), self.dtype, lanes)
            if self.mode == "gru":
                value = b.add(value, b.load("of_hidden", place, self.dtype, lanes, mask, zero))
            b.store("of_hidden", place, value, mask)

    def load(self, buffer, base, unit):
        return self.b.load(buffer, I.add(base, unit), self.dtype)

    def cell(self, unit, wide):
        """The gradients of one unit's gates in one row."""
        b, mode = self.b, self.mode
        grad = b.add(self.load("of_output", self.place, unit), self.load("of_hidden", self.state, unit))
        before = of_cell = None
        if KEPT[mode]:
            kept = [self.load("gates", I.add(self.kept, I.mul(self.hidden, gate)), unit)
                    for gate in range(KEPT[mode])]
            before = self.load("cells" if mode == "lstm" else "before", self.place, unit)
        else:
            kept = [self.load("output", self.place, unit)]
        if mode == "lstm":
            of_cell = self.load("of_cell", self.state, unit)
        of_given, of_own, of_before = cells.backward(b, mode, grad, kept, before, of_cell)
        for buffer, values in (("of_projected", of_given), ("of_own", of_own)):
            for gate, value in enumerate(values):
                b.store(buffer, I.add(wide, I.mul(self.hidden, gate), unit), value)
        if of_before is not None:
            b.store("of_cell" if mode == "lstm" else "of_hidden", I.add(self.state, unit), of_before)
