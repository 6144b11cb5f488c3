"""Graph -> Plan: fusion, lowering of each group, memory, launch list."""

from flambeau.compiler import known_plans, pipeline
from flambeau.compiler.epilogue import Epilogue, find as find_finishes
from flambeau.compiler.fuse import Fusion, RowGroup, identity_map
from flambeau.compiler.index import Access, Applied, Collector, Number, Reduced, Unfusable, row_map
from flambeau.compiler.pointwise import CODES, HEAVY, HEAVY_GRAIN, LIGHT_GRAIN, is_pointwise, lower_pointwise
from flambeau.compiler.pointwise import pointwise
from flambeau.compiler.recipe import FLOORDIV, MAX, WORK, Located, Recipe
from flambeau.compiler.row_elements import Axis, Output
from flambeau.compiler.rows import BLOCK, RowKernel, coalesce
from flambeau.ir.graph import Graph, Literal, Node, Value
from flambeau.ops.spec import REGISTRY
from flambeau.runtime import _core
from flambeau.types.dim import minimum, symbol
from flambeau.types.layout import contiguous_strides
from flambeau.types.shape import numel


def compile_plan(signature, graph):
    """The executable of a graph for a signature: a PointwisePlan where one kernel does, else a Plan."""
    graph = pipeline.prepare_graph(graph)
    if is_pointwise(graph):
        return pointwise(signature, graph)
    key = None if pipeline.is_watched() else known_plans.key_of(signature, graph)
    plan, tunable = (None, False) if key is None else known_plans.find(
        key, signature, pointwise_family, lambda: plan_graph(signature, graph)[1].recipe.kernels)
    if plan is None:
        plan, planner = plan_graph(signature, graph)
        tunable = bool(planner.sites)
        if key is not None and planner.recipe.described is not None:
            known_plans.keep(key, plan.spec, planner.recipe.described, tunable)
    if tunable:
        plan.specialise = known_plans.later(lambda: specialiser(plan, signature, graph))
    if pipeline.builds_all():
        plan.build_all()
    return plan


def specialiser(plan, signature, graph):
    """What measures the choices of a plan (compiler.tune)."""
    from flambeau.compiler.tune import Specialiser
    planner = plan_graph(signature, graph)[1]
    return Specialiser(plan, lambda choices: plan_graph(signature, graph, choices)[0], planner.sites,
                       planner.recipe.sources)


def pointwise_family(graph):
    """The PointwisePlan of an elementwise graph inside a plan."""
    grain = HEAVY_GRAIN if any(node.op in HEAVY for node in graph.nodes) else LIGHT_GRAIN

    def build(classes):
        count = len(graph.inputs) + len(graph.outputs)
        strides = tuple((classes >> (2 * i)) & 3 for i in range(count))
        return known_plans.elementwise_kernel(graph, strides, lambda: lower_pointwise(graph, strides))

    return _core.PointwisePlan([CODES[v.dtype] for v in graph.inputs], [CODES[o.dtype] for o in graph.outputs],
                               grain, build, {"graph": graph})


def plan_graph(signature, graph, choices=()):
    """(the Plan of a prepared graph, its Planner); `choices` of schedules for its sites (compiler.tune)."""
    apart = frozenset()
    while True:
        try:
            planner = Planner(signature, graph, apart, choices)
            return planner.run(), planner
        except Unfusable as reason:
            more = apart | (reason.apart or _reductions(graph))
            if more == apart:
                raise
            apart = more


def _reductions(graph):
    return frozenset(o.name for n in graph.nodes if REGISTRY[n.op].kind == "reduction" for o in n.outputs)


class Planner:
    """Makes the launch list of one graph, on demand from its outputs. `apart` names reductions that share no kernel."""

    @property
    def templates(self):
        """The templates that an op's `lower` may use."""
        from flambeau.compiler import templates
        return templates

    def __init__(self, signature, graph, apart, choices=()):
        self.signature, self.graph = signature, graph
        self.choices, self.sites, self.lowering = choices, [], None
        self.fusion, self.epilogue = Fusion(graph, apart), None
        self.fusion.finishes = find_finishes(self.fusion)
        self.recipe = Recipe(signature, graph.inputs)
        self.located = {v.name: l for v, l in zip(graph.inputs, self.recipe.inputs)}
        self.dense_copies, self.done = {}, set()
        pipeline.show("fusion", self.fusion)

    def run(self):
        outputs = []
        for value in self.graph.outputs:
            located = self._constant(value) if isinstance(value, Literal) else self.locate(value)
            outputs.append(located)
        return self.recipe.finish(outputs, known_plans.described)

    def _constant(self, literal):
        """Memory for an output that is a plain number."""
        value = Value("constant", literal.dtype, ())
        out = self.recipe.buffer(literal.dtype, ())
        number = Number(literal.value, literal.dtype)
        self._nest("constant", [], [Output(number, Access(out, ()), True)], [])
        self.located[value.name] = out
        return out

    # ------------------------------------------------------------------ values in memory
    def locate(self, value):
        """Memory that holds `value`, computing it first if need be."""
        if isinstance(value, Literal):
            return self._constant(value)
        if value.name not in self.located:
            node = self.fusion.producer[value.name]
            kind = self.fusion.kind(node)
            if value.name in self.fusion.stored_in:
                self._run_group(self.fusion.stored_in[value.name])
            elif kind == "view":
                self.located[value.name] = self._view(node)
            elif value.name in self.fusion.finishes:
                self._run_finished(self.fusion.finishes[value.name])
            elif kind in ("elementwise", "create"):
                self._run_pointwise(value)
            elif kind == "reduction":
                group = self.fusion.group_of[value.name]
                group.stores.append(value)
                self.fusion.stored_in[value.name] = group
                self._run_group(group)
            else:
                self._run_other(node)
        return self.located[value.name]

    def dense(self, located):
        """The same values row-major."""
        if located.dense and located.offset == 0:
            return located
        if located not in self.dense_copies:
            out = self.recipe.buffer(located.dtype, located.shape)
            self.copy(located, out)
            self.dense_copies[located] = out
        return self.dense_copies[located]

    def fill(self, located, value):
        """Write a number to all of a row-major located value."""
        self._pointwise_kernel(located.shape, [(Number(value, located.dtype), located)], len(located.shape))

    def window(self, located, shape, strides, offset):
        """A part of located memory."""
        return Located(located.place, located.dtype, tuple(shape), tuple(strides), located.offset + offset)

    def copy(self, source, target):
        """Copy elements into a located value of the same shape, which may be a part of another."""
        rank = len(target.shape)
        self._pointwise_kernel(target.shape, [(Access(source, identity_map(rank)), target)], rank)

    def _view(self, node):
        operation, attrs = REGISTRY[node.op], dict(node.attrs)
        source = self.locate(node.inputs[0])
        got = operation.view(source.shape, source.strides, source.offset, **attrs)
        if got is None:
            source = self.dense(source)
            got = operation.view(source.shape, source.strides, source.offset, **attrs)
        shape, strides, offset = got
        return Located(source.place, source.dtype, tuple(shape), tuple(strides), offset)

    def _run_finished(self, finish):
        """A product with the elementwise nodes behind it, or one after the other where an operand has gaps."""
        leaves = [self.locate(leaf) for leaf in finish.leaves]
        if not all(leaf.dense or numel(leaf.shape) == 1 for leaf in leaves):
            self._run_pointwise(finish.value)
            return
        out = self.recipe.buffer(finish.value.dtype, finish.value.shape)
        self.epilogue = Epilogue(self.fusion, finish, leaves)
        product = finish.node.outputs[0]
        self._run_other(finish.node, [out.part(product.shape, contiguous_strides(product.shape), 0)])
        if self.take_epilogue() is None:
            del self.located[product.name]
            self.located[finish.value.name] = out
        else:               # a kernel that does not take one
            self._run_pointwise(finish.value)

    def _run_other(self, node, outputs=None):
        """Templates and host calls: the op says how."""
        operation = REGISTRY[node.op]
        inputs = [self.locate(v) for v in node.inputs]
        outputs = outputs or [self.recipe.buffer(o.dtype, o.shape) for o in node.outputs]
        self.lowering = node, tuple((i.dtype, i.shape, i.strides) for i in inputs), len(self.sites)
        operation.lower(self, inputs, outputs, **dict(node.attrs))
        for value, located in zip(node.outputs, outputs):
            self.located[value.name] = located

    def take_epilogue(self):
        """For templates: the Epilogue that the result is to be finished with, or None. It is handed out once."""
        epilogue, self.epilogue = self.epilogue, None
        return epilogue

    def choose(self, family):
        """For templates: the choice among the schedules of a tune.Family, noted as a site that can be measured."""
        from flambeau.compiler.tune import Site
        node, operands, first = self.lowering
        number = len(self.sites)
        self.sites.append(Site(family, node, operands, number - first))
        return self.choices[number] if number < len(self.choices) else family.default

    # ------------------------------------------------------------------ elementwise groups
    def _run_pointwise(self, value):
        """`value`, with other roots of the same shape that are ready."""
        shape = tuple(value.shape)
        batch = [value]
        for other in self.fusion.roots:
            if other.name != value.name and other.name not in self.located and tuple(other.shape) == shape \
                    and other.name not in self.fusion.stored_in and self._ready(other) and len(batch) < 4:
                batch.append(other)
        rank = len(shape)
        collector = Collector(self.fusion, None, rank, self.locate)
        # a root is written here, so its own name must not be looked up in memory
        pairs = []
        for v in batch:
            element = collector.element(v, identity_map(rank))
            out = self.recipe.buffer(v.dtype, shape)
            self.located[v.name] = out
            pairs.append((element, out))
        simple = not collector.iotas and not collector.numbers
        if simple and len(collector.accesses) + len(pairs) <= _core.MOST_OPERANDS and collector.accesses:
            self._pointwise_kernel(shape, pairs, rank)
        else:
            outputs = [Output(e, Access(out, identity_map(rank)), True) for e, out in pairs]
            self._nest(self._name(batch), [], outputs, collector.iotas, shape=shape)

    def _ready(self, value):
        return all(name in self.located for name in self.fusion.reached(value))

    def _pointwise_kernel(self, shape, pairs, rank):
        """Launch an elementwise kernel over `shape`; pairs are (element, where it goes)."""
        accesses, nodes, names = [], [], {}
        n = (symbol("n"),)

        def value_of(element):
            if isinstance(element, Number):
                return Literal(element.value, element.dtype)
            if id(element) not in names:
                if isinstance(element, Access):
                    names[id(element)] = Value(f"x{len(accesses)}", element.located.dtype, n)
                    accesses.append(element)
                else:
                    inputs = tuple(value_of(a) for a in element.args)
                    out = Value(f"t{len(names)}", element.node.outputs[0].dtype, n)
                    nodes.append(Node(element.node.op, inputs, element.node.attrs, (out,), element.node.source))
                    names[id(element)] = out
            return names[id(element)]

        outputs = tuple(value_of(e) for e, _ in pairs)
        if any(isinstance(o, Literal) for o in outputs):
            forms = [Output(e, Access(out, identity_map(rank)), True) for e, out in pairs]
            self._nest("fill", [], forms, [], shape=shape)
            return
        inputs = tuple(names[id(a)] for a in accesses)
        graph = Graph("pointwise", inputs, tuple(nodes), outputs)
        plan = pointwise_family(graph)
        operands = [out for _, out in pairs]
        strides = [out.strides for _, out in pairs]
        for access in accesses:
            coefficients, constant = access.coefficients(rank)
            located = access.located
            if constant != 0:
                located = Located(located.place, located.dtype, located.shape, located.strides, located.offset + constant)
            operands.append(located)
            strides.append(coefficients)
        self.recipe.pointwise(plan, operands, shape, strides)

    # ------------------------------------------------------------------ row groups
    def _run_group(self, group):
        if group in self.done:
            return
        self.done.add(group)
        rank = len(group.shape)
        for attempt in range(2):
            collector = Collector(self.fusion, group, rank, self._locate_dense if attempt else self.locate)
            reductions = [(n, collector.element(n.inputs[0], identity_map(rank))) for n in group.reductions]
            stores = [(v, *self._store_element(collector, group, v)) for v in group.stores]
            axes = [Axis(s, i in group.axes) for i, s in enumerate(group.shape)]
            forms = [a.coefficients(rank)[0] for a in collector.accesses] + [i.coefficients for i in collector.iotas]
            blocks = coalesce(axes, forms + [self._store_form(v, m, rank) for v, _, m, _ in stores])
            if attempt or not _split_rows(axes, blocks):
                break
        if _split_rows(axes, blocks):
            self._part(group, "a broadcast operand would change the order of the sum")
            collector, reductions = self._from_memory(group, rank)
            stores = [(v, *self._store_element(collector, group, v)) for v in group.stores]
            blocks = coalesce(axes, [a.coefficients(rank)[0] for a in collector.accesses])
        outputs = []
        for value, element, index_map, full in stores:
            out = self.recipe.buffer(value.dtype, value.shape)
            self.located[value.name] = out
            outputs.append(Output(element, Access(out, index_map), full))
        phased = [(n, e, p) for (n, e), p in zip(reductions, _phases(reductions))]
        if all(axis.reduced or axis.size == 1 for axis in axes) and len(blocks) == 1:
            if max(p for _, _, p in phased) > 0 or any(o.full for o in outputs):
                self._part(group, "a result of all elements is summed in blocks, in parallel")
            self._blocked_reduction(group, axes, phased, outputs, collector)
        else:
            self._nest(self._name(group), phased, outputs, collector.iotas, axes=axes, wide=group.width,
                       accesses=collector.accesses)

    def _part(self, group, why):
        """Ask for kernels of their own for the group's reductions, unless that is what they have."""
        if not group.alone:
            raise Unfusable(why, [n.outputs[0].name for n in group.reductions])

    def _from_memory(self, group, rank):
        """(collector, reductions) of a group whose operands are written to memory first."""
        collector, reductions = Collector(self.fusion, group, rank, self._locate_dense), []
        for node in group.reductions:
            value = node.inputs[0]
            if value.name not in self.located and self.fusion.is_elementwise(value):
                self._run_pointwise(value)
            reductions.append((node, collector.access(self._locate_dense(value), identity_map(rank))))
        return collector, reductions

    def _locate_dense(self, value):
        return self.dense(self.locate(value))

    def _store_element(self, collector, group, value):
        index_map, full = row_map(group, value.shape)
        return collector.element(value, index_map), index_map, full

    def _store_form(self, value, index_map, rank):
        strides = contiguous_strides(value.shape)
        return Access(Located(-1, value.dtype, tuple(value.shape), tuple(strides)), index_map).coefficients(rank)[0]

    def _blocked_reduction(self, group, axes, phased, outputs, collector):
        """A single result from many elements: blocks in parallel, then their results."""
        total = 1
        for axis in axes:
            total = total * axis.size
        blocks = (total + BLOCK - 1) // BLOCK
        partial_outputs, again = [], []
        for node, element, _ in phased:
            operation, attrs = REGISTRY[node.op], dict(node.attrs)
            dtype = operation.types(node.inputs, attrs)[1]
            buffer = self.recipe.buffer(dtype, (blocks,))
            partial_outputs.append((node, element, buffer))
            again.append((node, Access(buffer, (((1,), 0),)), 0))
        kernel = BlockKernel(self._name(group) + "_blocks", axes, partial_outputs, collector, group.width)
        self._launch(kernel.build())
        fold = FoldKernel(self._name(group) + "_fold", [Axis(blocks, True)], again,
                          [Output(o.element, Access(o.access.located, ()), False) for o in outputs],
                          [a for _, a, _ in again], [], group.width, total)
        self._launch(fold.build())

    def _nest(self, name, phased, outputs, iotas, axes=None, wide=False, accesses=(), shape=()):
        """Lower with coalesced axes and launch."""
        axes = axes if axes is not None else [Axis(s, False) for s in shape]
        rank = len(axes)
        found = list(accesses) if accesses else _accesses_of([o.element for o in outputs])
        everything = found + [o.access for o in outputs]
        forms = [a.coefficients(rank)[0] for a in everything] + [i.coefficients for i in iotas]
        groups = coalesce(axes, forms)
        merged = Merge(groups, axes)
        kernel = RowKernel(name, merged.axes, phased, outputs, found, iotas, wide)
        with merged.applied(everything, iotas):
            self._launch(kernel.build())

    def _launch(self, built):
        kernel, operands, params, extent, work = built
        self.recipe.nest(kernel, operands, params, extent, work)

    def launch_template(self, kernel, operands, params, work, grain=1):
        """For templates: add the launch of a kernel whose extent is an expression over its params.

        `params`: name -> size; `work`: scalar operations in all, from which the grain follows, and which `grain`
        multiplies.
        """
        recipe = self.recipe
        registers = {name: recipe.register(size) for name, size in params.items()}
        extent = recipe.expression(kernel.extent, registers)
        step = recipe.compute(FLOORDIV, recipe.register(work), recipe.compute(MAX, extent, recipe.register(1)))
        grain = recipe.compute(FLOORDIV, recipe.register(4 * WORK * grain), recipe.compute(MAX, step, recipe.register(1)))
        recipe.launch(kernel, operands, [registers[p] for p in kernel.params], extent,
                      recipe.compute(MAX, grain, recipe.register(1)))

    def _name(self, what):
        if isinstance(what, RowGroup):
            ops = [n.op for n in what.reductions]
            ops += [self.fusion.producer[v.name].op for v in what.stores if v.name not in self.fusion.group_of]
            return "rows_" + "_".join(ops[:5])
        return "nest_" + "_".join(self.fusion.producer[v.name].op for v in what[:4])


class Merge:
    """Coalesced axes, and the accesses rewritten to them while a kernel is lowered."""

    def __init__(self, groups, axes):
        self.groups, self.rank = groups, len(axes)
        self.axes = []
        for g in groups:
            size = 1
            for a in g:
                size = size * axes[a].size
            self.axes.append(Axis(size, axes[g[0]].reduced))

    def applied(self, accesses, iotas):
        from contextlib import contextmanager

        @contextmanager
        def block():
            kept = [(a, a.coefficients) for a in accesses]
            old_iotas = [(i, i.coefficients) for i in iotas]
            for a in accesses:
                coefficients, constant = a.coefficients(self.rank)
                merged = tuple(coefficients[g[-1]] for g in self.groups)
                a.coefficients = lambda rank, form=(merged, constant): form
            for i in iotas:
                i.coefficients = tuple(i.coefficients[g[-1]] for g in self.groups)
            try:
                yield
            finally:
                for a, _ in kept:
                    a.__dict__.pop("coefficients", None)
                for i, old in old_iotas:
                    i.coefficients = old
        return block()


class BlockKernel(RowKernel):
    """First half of a full reduction: row number `row` is block `row` of the flattened domain."""

    def __init__(self, name, axes, partials, collector, wide):
        self.partials = partials
        rank = len(axes)
        forms = [a.coefficients(rank)[0] for a in collector.accesses] + [i.coefficients for i in collector.iotas]
        self.merge = Merge(coalesce(axes, forms), axes)
        self.everything, self.all_iotas = collector.accesses, collector.iotas
        super().__init__(name, self.merge.axes, [(n, e, 0) for n, e, _ in partials], [], collector.accesses,
                         collector.iotas, wide)

    def build(self):
        with self.merge.applied(self.everything, self.all_iotas):
            return self._build_blocks()

    def _count(self, reduced):
        return self.size(self.axes[0].size if self.axes else 1)

    def _build_blocks(self):
        from flambeau.ir import loops as L
        b = self.b
        self.last, self.along_row, self.blocked = len(self.axes) - 1, True, False
        total = self.axes[0].size if self.axes else 1
        with b.loop("row", L.BEGIN, L.END) as row:
            start = b.let(L.mul(row, BLOCK))
            self.length = b.call("min", b.sub(self.size(total), start), L.as_index(BLOCK))
            self.start = start
            self._reduce([(n, e) for n, e, _ in self.partials])
            for node, _, buffer in self.partials:
                b.store(self.buffer(buffer, "w"), row, self.results[node.outputs[0].name])
        buffers = tuple(L.Buffer(n, o.dtype, a) for n, o, a in self.buffers.values())
        kernel = L.Kernel(self.name, buffers, tuple(n for n, _ in self.params.values()), L.as_index(1), b.body())
        blocks = (total + BLOCK - 1) // BLOCK
        return kernel, [o for _, o, _ in self.buffers.values()], [s for _, s in self.params.values()], blocks, \
            minimum(total, BLOCK)

    def _lanes_loop(self, body):
        from flambeau.ir import loops as L
        b = self.b
        full = b.let(L.mul(b.call("idiv", self.length, L.as_index(self.lanes)), self.lanes))
        with b.loop(b.fresh("v"), 0, full, self.lanes) as v:
            self.index[self.last] = b.let(L.add(self.start, v))
            self._scoped(lambda: body(None))
        with b.branch(b.lt(full, self.length)):
            self.index[self.last] = b.let(L.add(self.start, full))
            rest = self._below(b.sub(self.length, full))
            self._scoped(lambda: body(rest))

    def _finish(self, node, total, count):
        return self.b.call("reduce_" + REGISTRY[node.op].combine, total)


class FoldKernel(RowKernel):
    """Second half: the blocks' results combined, then finished as the whole reduction is."""

    def __init__(self, name, axes, phased, outputs, accesses, iotas, wide, total):
        super().__init__(name, axes, phased, outputs, accesses, iotas, wide)
        self.total = total

    def _combine(self, node, element, total, identity, mask):
        b = self.b
        x = self.emit(element, mask)
        if mask is not None:
            x = b.select(mask, self._wide(x), identity)
        b.assign(total, b.call(REGISTRY[node.op].combine, total, self._wide(x)))

    def _finish(self, node, total, count):
        return super()._finish(node, total, self.size(self.total))


def _split_rows(axes, groups):
    """True if reduced axes that are neighbours stay apart: then the order of sums would depend on the layout."""
    classes = [axes[g[0]].reduced for g in groups]
    return any(a and b for a, b in zip(classes, classes[1:]))


def _phases(reductions):
    """For each reduction the pass it belongs to: after those whose results its operand reads."""
    phase, memo = {}, {}

    def level(element):
        if id(element) not in memo:
            if isinstance(element, Reduced):
                memo[id(element)] = phase[element.node.outputs[0].name] + 1
            elif isinstance(element, Applied):
                memo[id(element)] = max((level(a) for a in element.args), default=0)
            else:
                memo[id(element)] = 0
        return memo[id(element)]

    result = []
    for node, element in reductions:
        phase[node.outputs[0].name] = level(element)
        result.append(phase[node.outputs[0].name])
    return result


def _accesses_of(elements):
    found, seen = [], set()

    def walk(e):
        if id(e) in seen:
            return
        seen.add(id(e))
        if isinstance(e, Access):
            found.append(e)
        elif isinstance(e, Applied):
            for a in e.args:
                walk(a)
    for e in elements:
        walk(e)
    return found

