"""A recurrent layer over a whole sequence as Loops templates, forward and backward.

Every thread takes some rows of the batch through all steps, so that nobody waits for anybody:

    for SPAN steps at a time:
        for each panel of hidden units: the products of the inputs of these steps with their weights
        for each of these steps:
            for each panel of hidden units:                   the gates of one unit stand side by side
                for some rows: a block of sums in registers (state @ weight), then the cell

The weights are packed once a call into panels [panel][k][unit vector][gate][lane] and stay in the cache, as
do the products of SPAN steps. Rows lie one step after the other: those of step t are starts[t] ..
starts[t + 1], and a step may have fewer rows than the one before it (packed sequences). Backward visits the
steps the other way round: the cell's derivative first, then the product of the gates' gradients with the
weights.

Order of additions: from the biases (or zero) along the inputs, then along the state, one fma after another;
it depends on nothing else. (The state's product of a GRU's new value is a sum of its own.)
"""

from dataclasses import dataclass

from flambeau.compiler import index_math as I
from flambeau.compiler import recurrent_cells as cells
from flambeau.compiler import target as targets
from flambeau.compiler.gemm_pack import turned
from flambeau.compiler.recipe import Located
from flambeau.ir import loops as L
from flambeau.ops.recurrent import GATES, KEPT
from flambeau.types.dtype import int64

SPAN = 8                    # steps whose inputs are multiplied together
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


def layer_kernel(mode, dtype, reverse=False, keep=False, bias=True, target=None):
    """The kernel of a layer, on rows of the batch. Params: batch, steps, hidden, width.

    Buffers: packed_input and packed (`pack_kernel`), input (rows, width), starts (steps + 1), state (batch,
    hidden), cell (lstm), bias_ih and bias_hh (gates * hidden); written: output (rows, hidden), last (batch,
    hidden), last_cell (lstm), with `keep` gates (rows, KEPT * hidden), before (rows, hidden) and cells
    (lstm), and projected, scratch of `scratch_size` elements.
    """
    lstm = mode == "lstm"
    reads = ["packed_input", "packed", "input", "starts", "state"] + ["cell"] * lstm
    reads += ["bias_ih", "bias_hh"] * bias
    writes = ["output", "last"] + ["last_cell"] * lstm
    if keep:
        writes += ["gates"] * (KEPT[mode] > 0) + ["before"] + ["cells"] * lstm
    return _Forward(mode, blocking(dtype, GATES[mode], target), dtype, reads, [*writes, "projected"],
                    reverse).kernel()


def gradient_kernel(mode, dtype, reverse=False, target=None):
    """The kernel of a layer's gradients. Params: batch, steps, hidden.

    Buffers: packed (`pack_kernel` with gates 0), of_output, of_last, starts, what the layer kept (gates and
    cells, gates and before, or output), of_last_cell (lstm); written: of_projected, of_own (gru), of_hidden,
    of_cell (lstm).
    """
    lstm, gru = mode == "lstm", mode == "gru"
    kept = ["gates", "cells", "of_last_cell"] if lstm else ["gates", "before"] if gru else ["output"]
    writes = ["of_projected"] + ["of_own"] * gru + ["of_hidden"] + ["of_cell"] * lstm
    reads = ["packed", "of_output", "of_last", "starts", *kept]
    return _Backward(mode, blocking(dtype, 1, target), dtype, reads, writes, reverse).kernel()


def launch_layer(planner, mode, inputs, outputs, reverse, keep):
    """inputs: name -> operand (None where there is none); outputs: output, last hidden, last cell, gates,
    before, cells."""
    named = {name: None if x is None else planner.dense(x) for name, x in inputs.items()}
    named |= zip(("output", "last", "last_cell", "gates", "before", "cells"), outputs)
    hidden, weight = named["hidden"], named["weight_ih"]
    named["state"] = hidden
    plan = blocking(hidden.dtype, GATES[mode])
    batch, width = hidden.shape
    for name, source in (("packed_input", "weight_ih"), ("packed", "weight_hh")):
        named[name] = _pack(planner, named[source], plan, GATES[mode], width)
    named["projected"] = planner.recipe.buffer(hidden.dtype, (scratch_size(batch, width, plan),))
    kernel = layer_kernel(mode, hidden.dtype, reverse, keep, named["bias_ih"] is not None)
    sizes = {"batch": batch, "steps": named["starts"].shape[0] - 1, "hidden": width, "width": weight.shape[1]}
    _launch(planner, kernel, named, sizes)


def scratch_size(batch, hidden, plan):
    """Elements that the projected inputs of SPAN steps take."""
    return _panels(hidden, plan) * SPAN * batch * plan.width


def launch_gradient(planner, mode, inputs, outputs, reverse):
    """inputs: name -> gradients of the results, the layer's operands and what it kept; outputs: gradients of
    projected, of the state's product, of hidden and of cell."""
    kernel = gradient_kernel(mode, inputs["hidden"].dtype, reverse)
    named = inputs | dict(zip(("of_projected", "of_own", "of_hidden", "of_cell"), outputs))
    batch, width = named["of_last"].shape
    plan = blocking(named["of_last"].dtype, 1)
    named["packed"] = _pack(planner, planner.dense(inputs["weight_hh"]), plan, 0, width)
    reads = {b.name: planner.dense(named[b.name]) for b in kernel.buffers if b.access == "r"}
    sizes = {"batch": batch, "steps": named["starts"].shape[0] - 1, "hidden": width}
    _launch(planner, kernel, named | reads, sizes)


def launch_weight_gradient(planner, of_own, before, out):
    """out = of_own.T @ before."""
    turned = Located(of_own.place, of_own.dtype, of_own.shape[::-1], of_own.strides[::-1], of_own.offset)
    planner.templates.product(planner, turned, before, None, out)


def _launch(planner, kernel, named, sizes):
    """Add the launch; a chunk of the extent is some rows: an even number of chunks of about _THREAD_ROWS."""
    recipe = planner.recipe
    registers = {name: recipe.register(size) for name, size in sizes.items()}
    rows = I.index("batch")
    chunks = I.mul(I.ceil_div(rows, 2 * _THREAD_ROWS), 2)
    grain = recipe.expression(I.maximum(I.ceil_div(rows, I.maximum(chunks, 1)), 1), registers)
    operands = [named[b.name] for b in kernel.buffers]
    recipe.launch(kernel, operands, [registers[p] for p in kernel.params],
                  recipe.expression(kernel.extent, registers), grain)


# ---------------------------------------------------------------------------------------------- packing
def _panels(hidden, plan):
    """How many panels there are, of ints or sizes of a graph."""
    span = plan.units * plan.lanes
    return (hidden + span - 1) // span


def _pack(planner, weight, plan, gates, hidden):
    """The weight in panels; gates 0: (K, hidden) as it is, else (gates * hidden, K) transposed."""
    depth = weight.shape[1] if gates else weight.shape[0]
    panels = _panels(hidden, plan)
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
        whole = b.let(I.mul(I.div(depth, plan.lanes), plan.lanes))
        with b.loop("k_block", 0, whole, plan.lanes) as k:
            start = b.let(I.add(source, k))
            rows = [b.load("weight", I.add(start, step), dtype, plan.lanes) for step in steps]
            for i, column in enumerate(turned(b, rows)):
                b.store("packed", I.add(base, I.mul(I.add(k, i), plan.width)), column)
        with b.loop("k", whole, depth) as k:
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
    """What forward and backward share: steps, panels, blocks of rows, and the product."""

    name = None
    params = ("batch", "steps", "hidden")

    def __init__(self, mode, plan, dtype, reads, writes, reverse):
        self.mode, self.plan, self.dtype, self.reverse = mode, plan, dtype, reverse
        self.buffers = tuple(L.Buffer(name, int64 if name == "starts" else dtype, "r") for name in reads)
        self.buffers += tuple(L.Buffer(name, dtype, "rw") for name in writes)
        self.has = frozenset((*reads, *writes))
        self.steps, self.batch, self.hidden = I.index("steps"), I.index("batch"), I.index("hidden")
        self.gates = GATES[mode]

    def kernel(self):
        self.b = L.Builder()
        self.body()
        self.b.local("sums", self.dtype, self.plan.rows * self.plan.width)
        way = "backwards" if self.reverse else "forwards"
        name = f"{self.name}_{self.mode}_{way}"
        return L.Kernel(name, self.buffers, self.params, self.batch, self.b.body())

    def find_step(self, t):
        """Step number t: its first row, the end of the range's rows, the rows of a block (about equally many,
        no more than the registers hold) and the rows to the next step, about."""
        b = self.b
        step = b.let(I.sub(I.sub(self.steps, 1), t)) if self.reverse else t
        self.first = b.load("starts", step, int64)
        count = b.let(I.sub(b.load("starts", I.add(step, 1), int64), self.first))
        self.ahead = b.let(I.mul(count, -1)) if self.reverse else count
        self.stop = b.let(I.minimum(L.END, count))
        active = b.let(I.maximum(I.sub(self.stop, L.BEGIN), 0))
        self.blocks = b.let(I.ceil_div(active, self.plan.rows))
        self.block_rows = b.let(I.ceil_div(active, self.blocks))

    def copy_rows(self, target, target_row, source, source_row, stop):
        """Copy rows of the hidden size, from those of the range up to `stop`."""
        b = self.b
        count = b.let(I.mul(I.sub(stop, L.BEGIN), self.hidden))
        to = b.let(I.mul(I.add(target_row, L.BEGIN), self.hidden))
        from_ = b.let(I.mul(I.add(source_row, L.BEGIN), self.hidden))
        with b.loop(b.fresh("i"), 0, count, kind="vector") as i:
            b.store(target, I.add(to, i), b.load(source, I.add(from_, i), self.dtype))

    def each_panel(self):
        """A loop over panels; its value is the panel's number."""
        panels = I.ceil_div(self.hidden, self.plan.units * self.plan.lanes)
        return self.b.loop(self.b.fresh("panel"), 0, panels)

    def each_block(self, write):
        """`write(row, rows)` for each block of the step's rows."""
        b = self.b
        with b.loop(b.fresh("block"), 0, self.blocks) as block:
            row = b.let(I.add(L.BEGIN, I.mul(block, self.block_rows)))
            write(row, b.let(I.minimum(self.block_rows, I.sub(self.stop, row))))

    def product(self, rows, packed, panel, depth, source, address, start, store, fetch=None):
        """Sums over k < depth of source[address(i) + k] * packed, for the rows 0 .. rows of a block: from
        start(i, vector), handed to store(i, vector, sum). fetch(k, rows) may prefetch on the way."""
        b, plan, dtype = self.b, self.plan, self.dtype
        base = b.let(I.mul(panel, depth, plan.width))
        for count in range(1, plan.rows + 1):
            with b.branch(L.apply("eq", rows, L.as_index(count))):
                sums = [[b.declare(start(i, v)) for v in range(plan.vectors)] for i in range(count)]
                places = [b.let(address(i)) for i in range(count)]
                with b.loop(b.fresh("k"), 0, depth) as k:
                    here = b.let(I.add(base, I.mul(k, plan.width)))
                    right = [b.load(packed, I.add(here, v * plan.lanes), dtype, plan.lanes)
                             for v in range(plan.vectors)]
                    if fetch is not None:
                        fetch(k, count)
                    for i in range(count):
                        left = b.let(L.splat(b.load(source, I.add(places[i], k), dtype), plan.lanes))
                        for v in range(plan.vectors):
                            b.assign(sums[i][v], L.apply("fma", left, right[v], sums[i][v]))
                for i in range(count):
                    for v in range(plan.vectors):
                        store(i, v, sums[i][v])

    def store_sum(self, i, vector, value):
        """Leave a sum in the Local `sums`, row by row."""
        self.b.store("sums", L.as_index(i * self.plan.width + vector * self.plan.lanes), value)

    def each_row(self, rows, unit, write):
        """`write(r, first, mask)` for the rows of a block and the unit vectors of a panel: mask is None where
        all units are there."""
        b, plan = self.b, self.plan
        whole = b.let(L.apply("le", I.add(unit, plan.units * plan.lanes), self.hidden))
        for condition, masked in ((whole, False), (L.apply("not", whole), True)):
            with b.branch(condition):
                firsts = [b.let(I.add(unit, number * plan.lanes)) for number in range(plan.units)]
                masks = [b.let(I.lanes_below(I.sub(self.hidden, first), plan.lanes)) if masked else None
                         for first in firsts]
                with b.loop(b.fresh("r"), 0, rows) as r:
                    for number, (first, mask) in enumerate(zip(firsts, masks)):
                        write(r, number, first, mask)

    def zeros(self):
        return self.b.const(0.0, self.dtype, self.plan.lanes)

    def vector(self, buffer, address, mask):
        """Consecutive elements, zero where the mask is off."""
        other = None if mask is None else self.zeros()
        return self.b.load(buffer, address, self.dtype, self.plan.lanes, mask, other)

    def sums_at(self, r, vector):
        """Where the sum of row r of a block stands in the Local."""
        return I.add(I.mul(r, self.plan.width), vector * self.plan.lanes)


# ---------------------------------------------------------------------------------------------- forward
class _Forward(_Writer):
    name = "recurrent"
    params = (*_Writer.params, "width")

    def body(self):
        b = self.b
        self.copy_rows("last", 0, "state", 0, L.END)
        if self.mode == "lstm":
            self.copy_rows("last_cell", 0, "cell", 0, L.END)
        with b.loop("begin_span", 0, self.steps, SPAN) as start:
            count = b.let(I.minimum(SPAN, I.sub(self.steps, start)))
            with self.each_panel() as panel:
                starts = [b.let(self.bias(panel, v)) for v in range(self.plan.vectors)]
                with b.loop("projected_step", 0, count) as number:
                    self.find_step(b.let(I.add(start, number)))
                    self.each_block(lambda row, rows: self.project(panel, number, row, rows, starts))
            with b.loop("step", 0, count) as number:
                self.find_step(b.let(I.add(start, number)))
                self.step(number)

    def bias(self, panel, vector):
        """What the sums of a gate start from: the biases; for a GRU's new value only that of the input."""
        if "bias_ih" not in self.has:
            return self.zeros()
        apart = self.mode == "gru" and vector == 2
        value = self.one_bias("bias_ih", panel, vector)
        return value if apart else self.b.add(value, self.one_bias("bias_hh", panel, vector))

    def one_bias(self, buffer, panel, vector):
        lanes, gate = self.plan.lanes, vector % self.gates
        unit = self.b.let(I.mul(I.add(I.mul(panel, self.plan.units), vector // self.gates), lanes))
        mask = I.lanes_below(I.sub(self.hidden, unit), lanes)
        return self.vector(buffer, I.add(I.mul(self.hidden, gate), unit), mask)

    def place(self, panel, number, row):
        """Where the projected inputs of a row stand."""
        at = I.add(I.mul(I.add(I.mul(panel, SPAN), number), self.batch), row)
        return I.mul(at, self.plan.width)

    def project(self, panel, number, row, rows, starts):
        b, width = self.b, I.index("width")
        base = b.let(self.place(panel, number, row))
        source = b.let(I.mul(I.add(self.first, row), width))

        def store(i, vector, value):
            b.store("projected", I.add(base, i * self.plan.width + vector * self.plan.lanes), value)

        self.product(rows, "packed_input", panel, width, "input", lambda i: I.add(source, I.mul(width, i)),
                     lambda i, vector: starts[vector], store)

    def step(self, number):
        if "before" in self.has:
            self.copy_rows("before", self.first, "last", 0, self.stop)
        with self.each_panel() as panel:
            self.each_block(lambda row, rows: self.block(panel, number, row, rows))
        self.copy_rows("last", 0, "output", self.first, self.stop)

    def block(self, panel, number, row, rows):
        """The sums of some rows for a panel, then their cells: in two passes, so that the processor has the
        first part of the next row to do while it waits for one."""
        b, plan = self.b, self.plan
        given = b.let(self.place(panel, number, row))
        has_bias = self.mode == "gru" and "bias_hh" in self.has
        apart = self.one_bias("bias_hh", panel, 2) if has_bias else self.zeros()

        def start(i, vector):
            if self.mode == "gru" and vector == 2:
                return apart
            return self.vector("projected", I.add(given, i * plan.width + vector * plan.lanes), None)

        self.product(rows, "packed", panel, self.hidden, "last",
                     lambda i: I.mul(I.add(row, i), self.hidden), start, self.store_sum)
        unit = b.let(I.mul(panel, plan.units * plan.lanes))
        if self.mode == "lstm":
            self.each_row(rows, unit, lambda r, n, first, mask: self.lstm_gates(row, r, first, mask))
            self.each_row(rows, unit, lambda r, n, first, mask: self.lstm_output(row, r, first, mask))
        elif self.mode == "gru":
            self.each_row(rows, unit, lambda r, n, first, mask: self.gru_gates(row, r, first, mask))
            self.each_row(rows, unit, lambda r, n, first, mask: self.gru_output(row, r, first, mask, given))
        else:
            self.each_row(rows, unit, lambda r, n, first, mask: self.plain(row, r, n, first, mask))

    def here(self, row, r, first):
        """(a unit's place in what has a row a step, in the states)."""
        at = self.b.let(I.add(row, r))
        self.at = self.b.let(I.add(self.first, at))
        return (self.b.let(I.add(I.mul(self.at, self.hidden), first)),
                self.b.let(I.add(I.mul(at, self.hidden), first)))

    def own(self, r, count):
        return [self.vector("sums", self.sums_at(r, v), None) for v in range(count)]

    def keep(self, first, mask, values):
        """Store values of gates (number -> value) for backward."""
        if "gates" not in self.has:
            return
        base = self.b.let(I.mul(self.at, KEPT[self.mode]))
        for gate, value in values.items():
            self.b.store("gates", I.add(I.mul(I.add(base, gate), self.hidden), first), value, mask)

    def lstm_gates(self, row, r, first, mask):
        b = self.b
        place, state = self.here(row, r, first)
        before = self.vector("last_cell", state, mask)
        take, keep, new, give, cell = cells.lstm_gates(b, self.own(r, 4), before)
        b.store("last_cell", state, cell, mask)
        b.store("sums", self.sums_at(r, 0), give)
        if "cells" in self.has:
            b.store("cells", place, before, mask)
        self.keep(first, mask, dict(enumerate((take, keep, new, give))))

    def lstm_output(self, row, r, first, mask):
        place, state = self.here(row, r, first)
        give, = self.own(r, 1)
        output = cells.lstm_output(self.b, give, self.vector("last_cell", state, mask))
        self.b.store("output", place, output, mask)

    def gru_gates(self, row, r, first, mask):
        self.here(row, r, first)
        both = cells.gru_gates(self.b, self.own(r, 2))
        for vector, value in enumerate(both):
            self.b.store("sums", self.sums_at(r, vector), value)
        self.keep(first, mask, dict(enumerate(both)))

    def gru_output(self, row, r, first, mask, given):
        place, state = self.here(row, r, first)
        reset, update, own = self.own(r, 3)
        new = self.vector("projected", I.add(given, self.sums_at(r, 2)), None)
        new, out = cells.gru_output(self.b, reset, update, new, own, self.vector("last", state, mask))
        self.b.store("output", place, out, mask)
        self.keep(first, mask, {2: new, 3: own})

    def plain(self, row, r, number, first, mask):
        place, _ = self.here(row, r, first)
        own = self.vector("sums", self.sums_at(r, number), None)
        self.b.store("output", place, cells.plain(self.b, self.mode, own), mask)


# ---------------------------------------------------------------------------------------------- backward
class _Backward(_Writer):
    """`reverse` here is the layer's: steps are visited the other way."""

    name = "recurrent_backward"

    def __init__(self, mode, plan, dtype, reads, writes, reverse):
        super().__init__(mode, plan, dtype, reads, writes, not reverse)

    def body(self):
        b = self.b
        self.depth = b.let(I.mul(self.hidden, self.gates))
        self.copy_rows("of_hidden", 0, "of_last", 0, L.END)
        if self.mode == "lstm":
            self.copy_rows("of_cell", 0, "of_last_cell", 0, L.END)
        with b.loop("t", 0, self.steps) as t:
            self.find_step(t)
            self.step()

    def step(self):
        b = self.b
        with b.loop("row", L.BEGIN, self.stop) as row:
            here = b.let(I.add(self.first, row))
            wide = b.let(I.mul(here, self.depth))
            self.place = b.let(I.mul(here, self.hidden))
            self.state = b.let(I.mul(row, self.hidden))
            self.kept = b.let(I.mul(self.place, KEPT[self.mode])) if KEPT[self.mode] else None
            with b.loop("unit", 0, self.hidden, kind="vector") as unit:
                self.cell(unit, wide)
        source = "of_own" if self.mode == "gru" else "of_projected"
        with self.each_panel() as panel:
            self.each_block(lambda row, rows: self.block(panel, row, rows, source))

    def block(self, panel, row, rows, source):
        """The gradient of the state before; of a GRU it has a part already."""
        b, plan = self.b, self.plan
        later = b.let(I.mul(I.add(self.first, row, self.ahead), self.hidden))
        kept, count = ("gates", KEPT[self.mode]) if KEPT[self.mode] else ("output", 1)

        def fetch(k, rows):
            """Bring near what these rows read and write in the next step, a little at each k."""
            b.prefetch(kept, I.add(I.mul(later, count), I.mul(k, rows * count // self.gates)))
            b.prefetch("of_projected", I.add(I.mul(later, self.gates), I.mul(k, rows)), write=True)

        self.product(rows, "packed", panel, self.depth, source,
                     lambda i: I.mul(I.add(self.first, row, i), self.depth), lambda i, v: self.zeros(),
                     self.store_sum, fetch)

        def finish(r, number, first, mask):
            place = b.let(I.add(I.mul(I.add(row, r), self.hidden), first))
            value = self.vector("sums", self.sums_at(r, number), None)
            if self.mode == "gru":
                value = b.add(value, self.vector("of_hidden", place, mask))
            b.store("of_hidden", place, value, mask)

        self.each_row(rows, b.let(I.mul(panel, plan.units * plan.lanes)), finish)

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
