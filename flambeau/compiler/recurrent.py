"""A recurrent layer over a whole sequence as Loops templates, forward and backward.

Every thread takes some rows of the batch through all steps, so that nobody waits for anybody:

    for each step, for each panel of hidden units:            the gates of one unit stand side by side
        for some rows: a block of sums in registers (input @ weight, then state @ weight), then the cell

A range of very few rows reads the weights faster than it computes: there the products of the inputs of SPAN
steps come first, so that each panel of their weights is read once for all of these.

The weights are packed once a call (compiler.recurrent_pack). Rows lie one step after the other: those of step
t are starts[t] .. starts[t + 1], and a step may have fewer rows than the one before it (packed sequences).
Backward visits the steps the other way round: the cell's derivative first, then the product of the gates'
gradients with the weights.

What backward needs of the cells stands in groups of GROUP units, [group][row][value][unit], so that a block's
values are neighbours in memory.

Order of additions: from the biases (or zero) along the inputs, then along the state, one fma after another;
it depends on nothing else. (The state's product of a GRU's new value is a sum of its own.)
"""

from flambeau.compiler import index_math as I
from flambeau.compiler import recurrent_cells as cells
from flambeau.compiler.recipe import Located
from flambeau.compiler.recurrent_pack import THREAD_ROWS, blocking, is_private, pack, pack_vector, panels_of, size_of
from flambeau.ir import loops as L
from flambeau.ops.recurrent import GATES, GROUP, KEPT
from flambeau.types.dtype import int64

SPAN = 8                    # steps whose inputs are multiplied together where there are few rows
FEW = 2                     # so many
AHEAD = 8                   # k's that the weights are fetched ahead
_LINE = 64                  # bytes of a cache line, about


def layer_kernel(mode, dtype, reverse=False, keep=False, bias=True, fresh=False, target=None):
    """The kernel of a layer, on rows of the batch. Params: batch, steps, hidden, width.

    Buffers: weight_ih and weight_hh, input (rows, width), starts (steps + 1), unless the layer is `fresh` (begins
    with zeros) state (batch, hidden) and cell (lstm), bias_ih and bias_hh (gates * hidden); written: output
    (rows, hidden), last (batch, hidden), last_cell (lstm), with `keep` gates (groups of KEPT values) and before
    (rows, hidden), and scratch: packed_input and packed (`recurrent_pack.pack`), projected (`scratch_size`).
    """
    lstm = mode == "lstm"
    reads = ["weight_ih", "weight_hh", "input", "starts"] + (["state"] + ["cell"] * lstm) * (not fresh)
    reads += ["bias_ih", "bias_hh"] * bias
    writes = ["output", "last"] + ["last_cell"] * lstm
    if keep:
        writes += ["gates"] * (KEPT[mode] > 0) + ["before"]
    return _Forward(mode, blocking(dtype, GATES[mode], target), dtype, reads,
                    [*writes, "packed_input", "packed", "projected"], reverse).kernel()


def gradient_kernel(mode, dtype, reverse=False, target=None):
    """The kernel of a layer's gradients. Params: batch, steps, hidden.

    Buffers: packed (`pack_kernel` with gates 0), of_output, of_last, starts, what the layer kept (gates, for
    a gru before too, or output), of_last_cell (lstm); written: of_projected, of_own (gru), of_hidden, of_cell
    (lstm).
    """
    lstm, gru = mode == "lstm", mode == "gru"
    kept = ["gates", "of_last_cell"] if lstm else ["gates", "before"] if gru else ["output"]
    writes = ["of_projected"] + ["of_own"] * gru + ["of_hidden"] + ["of_cell"] * lstm
    reads = ["packed", "of_output", "of_last", "starts", *kept]
    return _Backward(mode, blocking(dtype, 1, target), dtype, reads, writes, reverse).kernel()


def launch_layer(planner, mode, inputs, outputs, reverse, keep, fresh):
    """inputs: name -> operand (None where there is none); outputs: output, last hidden, last cell, gates,
    before."""
    named = {name: None if x is None else planner.dense(x) for name, x in inputs.items()}
    named |= zip(("output", "last", "last_cell", "gates", "before"), outputs)
    hidden, weight = named["hidden"], named["weight_ih"]
    named["state"] = hidden
    plan = blocking(hidden.dtype, GATES[mode])
    batch, width = hidden.shape
    for name, source in (("packed_input", "weight_ih"), ("packed", "weight_hh")):
        named[name] = pack(planner, named[source], plan, GATES[mode], width, batch)
    named["projected"] = planner.recipe.buffer(hidden.dtype, (scratch_size(batch, width, plan),))
    kernel = layer_kernel(mode, hidden.dtype, reverse, keep, named["bias_ih"] is not None, fresh)
    sizes = {"batch": batch, "steps": named["starts"].shape[0] - 1, "hidden": width, "width": weight.shape[1]}
    _launch(planner, kernel, named, sizes)


def scratch_size(batch, hidden, plan):
    """Elements that the projected inputs of SPAN steps of few rows take."""
    return panels_of(hidden, plan) * SPAN * batch * plan.width


def launch_gradient(planner, mode, inputs, outputs, reverse):
    """inputs: name -> gradients of the results, the layer's operands and what it kept; outputs: gradients of
    projected, of the state's product, of hidden and of cell."""
    kernel = gradient_kernel(mode, inputs["hidden"].dtype, reverse)
    named = inputs | dict(zip(("of_projected", "of_own", "of_hidden", "of_cell"), outputs))
    batch, width = named["of_last"].shape
    plan = blocking(named["of_last"].dtype, 1)
    named["packed"] = pack(planner, planner.dense(inputs["weight_hh"]), plan, 0, width)
    reads = {b.name: planner.dense(named[b.name]) for b in kernel.buffers if b.access == "r"}
    sizes = {"batch": batch, "steps": named["starts"].shape[0] - 1, "hidden": width}
    _launch(planner, kernel, named | reads, sizes)


def launch_weight_gradient(planner, of_own, before, out):
    """out = of_own.T @ before."""
    turned = Located(of_own.place, of_own.dtype, of_own.shape[::-1], of_own.strides[::-1], of_own.offset)
    planner.templates.product(planner, turned, before, None, out)


def _launch(planner, kernel, named, sizes):
    """Add the launch; a chunk of the extent is some rows: an even number of chunks of about THREAD_ROWS."""
    recipe = planner.recipe
    registers = {name: recipe.register(size) for name, size in sizes.items()}
    rows = I.index("batch")
    chunks = I.mul(I.ceil_div(rows, 2 * THREAD_ROWS), 2)
    grain = recipe.expression(I.maximum(I.ceil_div(rows, I.maximum(chunks, 1)), 1), registers)
    operands = [named[b.name] for b in kernel.buffers]
    recipe.launch(kernel, operands, [registers[p] for p in kernel.params],
                  recipe.expression(kernel.extent, registers), grain)


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
        self.total = self.b.load("starts", self.steps, int64)
        self.body()
        self.b.local("sums", self.dtype, self.plan.rows * self.plan.width)
        if self.mode == "gru" and self.name == "recurrent":
            self.b.local("given", self.dtype, self.plan.rows * self.plan.lanes)
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
        """Copy rows of the hidden size, from those of the range up to `stop`; zeros where there is no such source."""
        b = self.b
        count = b.let(I.mul(I.sub(stop, L.BEGIN), self.hidden))
        to = b.let(I.mul(I.add(target_row, L.BEGIN), self.hidden))
        from_ = b.let(I.mul(I.add(source_row, L.BEGIN), self.hidden))
        with b.loop(b.fresh("i"), 0, count, kind="vector") as i:
            given = source in self.has
            value = b.load(source, I.add(from_, i), self.dtype) if given else b.const(0.0, self.dtype)
            b.store(target, I.add(to, i), value)

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

    def product(self, rows, most, factors, start, store, between=None, fetch=None):
        """Sums from start(i, vector) on, for the rows 0 .. rows (no more than `most`) of a block: of each factor
        (packed, base, depth, source, address) source[address(i) + k] * packed[base ..], over k < depth; handed
        to store(i, vector, sum). between(sums) stands behind the first factor; fetch(k, rows) prefetches."""
        b, plan = self.b, self.plan
        for count in range(1, most + 1):
            with b.branch(L.apply("eq", rows, L.as_index(count))):
                sums = [[b.declare(start(i, v)) for v in range(plan.vectors)] for i in range(count)]
                for number, factor in enumerate(factors):
                    if number and between is not None:
                        between(sums)
                    self.add_products(sums, *factor, fetch)
                for i in range(count):
                    for v in range(plan.vectors):
                        store(i, v, sums[i][v])

    def add_products(self, sums, packed, base, depth, source, address, fetch):
        """Add one factor's products; the weights are fetched ahead where there is time to."""
        b, plan, dtype, count = self.b, self.plan, self.dtype, len(sums)
        places = [b.let(address(i)) for i in range(count)]
        with b.loop(b.fresh("k"), 0, depth) as k:
            here = b.let(I.add(base, I.mul(k, plan.width)))
            for ahead in range(0, plan.width if count > FEW else 0, _LINE // dtype.itemsize):
                b.prefetch(packed, I.add(here, ahead + AHEAD * plan.width))
            if fetch is not None:
                fetch(k, count)

            def weight(v):
                return b.load(packed, I.add(here, v * plan.lanes), dtype, plan.lanes)

            def element(i):
                return b.let(L.splat(b.load(source, I.add(places[i], k), dtype), plan.lanes))

            if plan.rows_first:
                left = [element(i) for i in range(count)]
                for v in range(plan.vectors):
                    right = weight(v)
                    for i in range(count):
                        b.assign(sums[i][v], L.apply("fma", left[i], right, sums[i][v]))
            else:
                right = [weight(v) for v in range(plan.vectors)]
                for i in range(count):
                    left = element(i)
                    for v in range(plan.vectors):
                        b.assign(sums[i][v], L.apply("fma", left, right[v], sums[i][v]))

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

    def kept_at(self, row, unit):
        """Where the first of the values of a row's units stands that the layer keeps."""
        place = I.add(I.mul(I.div(unit, GROUP), self.total), row)
        return self.b.let(I.add(I.mul(place, KEPT[self.mode] * GROUP), I.rem(unit, GROUP)))


# ---------------------------------------------------------------------------------------------- forward
class _Forward(_Writer):
    name = "recurrent"
    params = (*_Writer.params, "width")

    def body(self):
        b = self.b
        self.pack()
        self.copy_rows("last", 0, "state", 0, L.END)
        if self.mode == "lstm":
            self.copy_rows("last_cell", 0, "cell", 0, L.END)
        self.few = b.let(L.apply("le", I.sub(L.END, L.BEGIN), L.as_index(FEW)))
        with b.loop("begin_span", 0, self.steps, SPAN) as start:
            count = b.let(I.minimum(SPAN, I.sub(self.steps, start)))
            with b.branch(self.few):
                self.project_span(start, count)
            with b.loop("step", 0, count) as number:
                t = b.let(I.add(start, number))
                self.find_step(t)
                self.own_depth = self.hidden
                if "state" not in self.has:         # nothing to multiply in the first step
                    self.own_depth = b.let(I.mul(self.hidden, I.minimum(t, 1)))
                self.step(number)

    def pack(self):
        """Pack the weights where no launch did; of two chunks the second has its own behind those of the first."""
        b, plan = self.b, self.plan
        private = b.let(is_private(self.batch))
        chunk = b.let(I.mul(private, I.minimum(L.BEGIN, 1)))
        sizes = {"weight_ih": I.index("width"), "weight_hh": self.hidden}
        self.packed = [b.let(I.mul(chunk, size_of(self.hidden, depth, plan))) for depth in sizes.values()]
        with b.branch(L.apply("eq", private, L.as_index(1))):
            for (weight, depth), packed, offset in zip(sizes.items(), ("packed_input", "packed"), self.packed):
                with self.each_panel() as panel, b.loop(b.fresh("vector"), 0, plan.vectors) as vector:
                    pack_vector(b, self.dtype, plan, self.gates, (panel, vector), depth, weight, packed, offset)

    def project_span(self, start, count):
        """The products of the inputs of some steps."""
        b = self.b
        with self.each_panel() as panel:
            starts = [b.let(self.bias(panel, v)) for v in range(self.plan.vectors)]
            with b.loop("projected_step", 0, count) as number:
                self.find_step(b.let(I.add(start, number)))
                self.each_block(lambda row, rows: self.project(panel, number, row, rows, starts))

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

    def inputs(self, panel, row):
        """The factor of the inputs."""
        width = I.index("width")
        source = self.b.let(I.mul(I.add(self.first, row), width))
        base = self.b.let(I.add(self.packed[0], I.mul(panel, width, self.plan.width)))
        return "packed_input", base, width, "input", lambda i: I.add(source, I.mul(width, i))

    def project(self, panel, number, row, rows, starts):
        base = self.b.let(self.place(panel, number, row))

        def store(i, vector, value):
            self.b.store("projected", I.add(base, i * self.plan.width + vector * self.plan.lanes), value)

        self.product(rows, FEW, [self.inputs(panel, row)], lambda i, vector: starts[vector], store)

    def step(self, number):
        if "before" in self.has:
            self.copy_rows("before", self.first, "last", 0, self.stop)
        with self.each_panel() as panel:
            self.each_block(lambda row, rows: self.block(panel, number, row, rows))
        self.copy_rows("last", 0, "output", self.first, self.stop)

    def block(self, panel, number, row, rows):
        """The sums of some rows for a panel, then their cells: in two passes, so that the processor has the
        first part of the next row to do while it waits for one. What the cells write is fetched before, as the
        weights have pushed it out of the nearest cache, and stores wait for their lines one by one."""
        b, plan = self.b, self.plan
        self.sum_up(panel, number, row, rows)
        unit = b.let(I.mul(panel, plan.units * plan.lanes))
        with b.branch(L.apply("not", self.few)):
            self.each_row(rows, unit, lambda r, n, first, mask: self.near(row, r, first))
        if self.mode == "lstm":
            self.each_row(rows, unit, lambda r, n, first, mask: self.lstm_gates(row, r, first, mask))
            self.each_row(rows, unit, lambda r, n, first, mask: self.lstm_output(row, r, first, mask))
        elif self.mode == "gru":
            self.each_row(rows, unit, lambda r, n, first, mask: self.gru_gates(row, r, first, mask))
            self.each_row(rows, unit, lambda r, n, first, mask: self.gru_output(row, r, first, mask))
        else:
            self.each_row(rows, unit, lambda r, n, first, mask: self.plain(row, r, n, first, mask))

    def sum_up(self, panel, number, row, rows):
        """The sums of some rows for a panel."""
        b, plan, gru = self.b, self.plan, self.mode == "gru"
        apart = self.one_bias("bias_hh", panel, 2) if gru and "bias_hh" in self.has else self.zeros()
        base = b.let(I.add(self.packed[1], I.mul(panel, self.hidden, plan.width)))
        own = "packed", base, self.own_depth, "last", lambda i: I.mul(I.add(row, i), self.hidden)

        def part(sums):
            """The sum of a GRU's new value begins anew."""
            for i, of_row in enumerate(sums):
                b.store("given", L.as_index(i * plan.lanes), of_row[2])
                b.assign(of_row[2], apart)

        with b.branch(self.few):
            given = b.let(self.place(panel, number, row))
            if gru:
                with b.loop(b.fresh("r"), 0, rows) as r:
                    new = self.vector("projected", I.add(given, self.sums_at(r, 2)), None)
                    b.store("given", I.mul(r, plan.lanes), new)

            def start(i, vector):
                if gru and vector == 2:
                    return apart
                return self.vector("projected", I.add(given, i * plan.width + vector * plan.lanes), None)

            self.product(rows, FEW, [own], start, self.store_sum)
        with b.branch(L.apply("not", self.few)):
            starts = [b.let(self.bias(panel, v)) for v in range(plan.vectors)]
            self.product(rows, plan.rows, [self.inputs(panel, row), own], lambda i, vector: starts[vector],
                         self.store_sum, part if gru else None)

    def near(self, row, r, first):
        """Fetch what a cell writes."""
        b, (place, state) = self.b, self.here(row, r, first)
        if "gates" in self.has:
            base = self.kept_at(self.at, first)
            for number in range(KEPT[self.mode]):
                b.prefetch("gates", I.add(base, number * GROUP), write=True)
        b.prefetch("output", place, write=True)
        if self.mode == "lstm":
            b.prefetch("last_cell", state, write=True)

    def here(self, row, r, first):
        """(a unit's place in what has a row a step, in the states)."""
        at = self.b.let(I.add(row, r))
        self.at = self.b.let(I.add(self.first, at))
        return (self.b.let(I.add(I.mul(self.at, self.hidden), first)),
                self.b.let(I.add(I.mul(at, self.hidden), first)))

    def own(self, r, count):
        return [self.vector("sums", self.sums_at(r, v), None) for v in range(count)]

    def keep(self, first, mask, values):
        """Store values (number -> value) for backward."""
        if "gates" not in self.has:
            return
        base = self.kept_at(self.at, first)
        for number, value in values.items():
            self.b.store("gates", I.add(base, number * GROUP), value, mask)

    def lstm_gates(self, row, r, first, mask):
        b = self.b
        _, state = self.here(row, r, first)
        before = self.vector("last_cell", state, mask)
        take, keep, new, give, cell = cells.lstm_gates(b, self.own(r, 4), before)
        b.store("last_cell", state, cell, mask)
        b.store("sums", self.sums_at(r, 0), give)
        self.keep(first, mask, dict(enumerate((take, keep, new, give, before))))

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

    def gru_output(self, row, r, first, mask):
        place, state = self.here(row, r, first)
        reset, update, own = self.own(r, 3)
        new = self.vector("given", I.mul(r, self.plan.lanes), None)
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
        b, lanes = self.b, self.plan.lanes
        whole = b.let(I.mul(I.div(self.hidden, lanes), lanes))
        mask = b.let(I.lanes_below(I.sub(self.hidden, whole), lanes))
        with b.loop("row", L.BEGIN, self.stop) as row:
            self.here = b.let(I.add(self.first, row))
            wide = b.let(I.mul(self.here, self.depth))
            self.place = b.let(I.mul(self.here, self.hidden))
            self.state = b.let(I.mul(row, self.hidden))
            with b.loop("unit", 0, whole, lanes) as unit:
                self.cell(unit, wide, None)
            with b.branch(L.apply("lt", whole, self.hidden)):
                self.cell(whole, wide, mask)
        source = "of_own" if self.mode == "gru" else "of_projected"
        with self.each_panel() as panel:
            self.each_block(lambda row, rows: self.block(panel, row, rows, source))

    def block(self, panel, row, rows, source):
        """The gradient of the state before; of a GRU it has a part already."""
        b, plan = self.b, self.plan
        later = b.let(I.mul(I.add(self.first, row, self.ahead), self.depth))

        def fetch(k, rows):
            """Bring near what these rows write in the next step, a little at each k."""
            b.prefetch("of_projected", I.add(later, I.mul(k, rows)), write=True)

        factor = ("packed", b.let(I.mul(panel, self.depth, plan.width)), self.depth, source,
                  lambda i: I.mul(I.add(self.first, row, i), self.depth))
        self.product(rows, plan.rows, [factor], lambda i, v: self.zeros(), self.store_sum, fetch=fetch)

        def finish(r, number, first, mask):
            place = b.let(I.add(I.mul(I.add(row, r), self.hidden), first))
            value = self.vector("sums", self.sums_at(r, number), None)
            if self.mode == "gru":
                value = b.add(value, self.vector("of_hidden", place, mask))
            b.store("of_hidden", place, value, mask)

        self.each_row(rows, b.let(I.mul(panel, plan.units * plan.lanes)), finish)

    def cell(self, unit, wide, mask):
        """The gradients of a vector of units' gates in one row."""
        b, mode = self.b, self.mode
        here, state = I.add(self.place, unit), I.add(self.state, unit)
        grad = b.add(self.vector("of_output", here, mask), self.vector("of_hidden", state, mask))
        before = of_cell = None
        if KEPT[mode]:
            base = self.kept_at(self.here, unit)
            later = self.kept_at(I.add(self.here, self.ahead), unit)
            kept = []
            for number in range(KEPT[mode]):
                b.prefetch("gates", I.add(later, number * GROUP))
                kept.append(self.vector("gates", I.add(base, number * GROUP), mask))
            before = kept.pop() if mode == "lstm" else self.vector("before", here, mask)
        else:
            kept = [self.vector("output", here, mask)]
        if mode == "lstm":
            of_cell = self.vector("of_cell", state, mask)
        of_given, of_own, of_before = cells.backward(b, mode, grad, kept, before, of_cell)
        for buffer, values in (("of_projected", of_given), ("of_own", of_own)):
            for gate, value in enumerate(values):
                b.store(buffer, I.add(wide, I.mul(self.hidden, gate), unit), value, mask)
        if of_before is not None:
            b.store("of_cell" if mode == "lstm" else "of_hidden", state, of_before, mask)
