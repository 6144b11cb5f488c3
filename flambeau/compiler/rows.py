"""Row groups as Loops: reductions over axes of a domain and what is stored from the same rows.

The domain's axes are kept or reduced. Where the last axis is reduced the lanes run along it and are folded by halving at
the end of a row, or, with the same bits, are neighbouring rows where rows are short (short_rows.py); where it is kept the
lanes are neighbouring results and nothing is folded. Either way the order of combination depends on the shape and the axes
only. A reduction to a single result runs in blocks of BLOCK elements, whose results are combined in a second kernel.
"""

from flambeau.compiler.elements import to_number
from flambeau.compiler.pointwise import HEAVY
from flambeau.compiler.row_elements import Axis, RowElements, applied_within, kept_in_outputs
from flambeau.compiler.short_rows import ROWS, ShortRows
from flambeau.ir import loops as L
from flambeau.ir.loops import BEGIN, END, Buffer, Builder, Kernel, as_index
from flambeau.ops.spec import REGISTRY

LANES, WIDE_LANES = 32, 16          # along a reduced axis: up to 4 bytes an element, and above. Part of the meaning.
BLOCK = 8192                        # elements in a block of a full reduction. Part of the meaning.


class RowKernel(RowElements):
    """Lowers one group. `reductions` are (node, element of the operand, phase); made by `compiler.plan`."""

    def __init__(self, name, axes, reductions, outputs, accesses, iotas, wide):
        super().__init__(Builder(), axes, WIDE_LANES if wide else LANES)
        self.name, self.reductions, self.outputs = name, reductions, outputs
        self.accesses, self.iotas, self.fetched = accesses, iotas, ()

    # ------------------------------------------------------------------ structure
    def build(self):
        """(kernel, operands, param sizes, extent size, work size)."""
        if not self.reductions and len(self.axes) > 1:          # walk the last axis in the kernel
            self.axes = [*self.axes[:-1], Axis(self.axes[-1].size, True)]
        kept = [a for a in range(len(self.axes)) if not self.axes[a].reduced]
        self.last = len(self.axes) - 1
        self.along_row = self.last >= 0 and self.axes[self.last].reduced
        self.blocked = not self.along_row and self.last >= 0
        outer = kept[:-1] if self.blocked else kept
        self.saved = kept_in_outputs(self.reductions, self.outputs, self._walked)
        if not self.axes:
            self.lanes = 1
        elif self.blocked:
            self.lanes, self.widths = self._block_lanes() if self.reductions else (16, ())
        extent = 1
        for a in outer:
            extent = extent * self.axes[a].size
        if self.blocked:
            blocks = (self.axes[self.last].size + self.lanes - 1) // self.lanes
            extent = extent * blocks
        self._rows(outer)
        work = 1
        for axis in self.axes:
            work = work * axis.size if axis.reduced else work
        if self.blocked:
            work = work * self.lanes
        buffers = tuple(Buffer(n, o.dtype, a) for n, o, a in self.buffers.values())
        kernel = Kernel(self.name, buffers, tuple(n for n, _ in self.params.values()), as_index(1), self.b.body())
        return kernel, [o for _, o, _ in self.buffers.values()], [s for _, s in self.params.values()], extent, work

    def _rows(self, outer):
        """All rows, ROWS at a time where they are short."""
        b = self.b
        several = ShortRows(self) if ShortRows.serves(self) else None
        if several and len(outer) > 1:
            self._lines(several, outer)
            return
        start = BEGIN
        if several:
            start = several.whole()
            with b.loop("first", BEGIN, start, ROWS) as first:
                self._decode(first, outer)
                several.build(self.index)
        with b.loop("row", start, END) as row:
            self._row(row, outer)

    def _lines(self, several, outer):
        """The same where not all rows lie in one line: ROWS of one line at a time, or one by one."""
        b = self.b
        with b.loop("first", BEGIN, END, ROWS) as first:
            self._decode(first, outer)
            fits = several.fits(first, self.index)
            with b.branch(fits):
                several.build(self.index)
            stop = b.call("min", L.add(first, ROWS), END)
            with b.loop("row", b.select(fits, stop, first), stop) as row:
                self._row(row, outer)

    def _row(self, row, outer):
        """One row, or one block of neighbouring results."""
        self._decode(row, outer)
        if self.blocked and self.reductions:
            self._block()
        else:
            self._passes()

    def _block(self):
        """Neighbouring results, as many at once as fit the registers; masks for the very last only."""
        b, lanes, base = self.b, self.lanes, self.index[self.last]
        left = b.let(b.sub(self.size(self.axes[self.last].size), base))
        left, done = b.call("min", left, as_index(lanes)), as_index(0)
        for width in self.widths:
            end = b.call("and", left, as_index(-width))
            with b.loop(b.fresh("some"), done, end, width) as some:
                self._anew(width, b.let(L.add(base, some)), None)
            done = end
        few = self.widths[-1]
        with b.branch(b.call("lt", done, left)):
            self._anew(few, b.let(L.add(base, done)), b.sub(left, done))
        self.lanes = lanes

    def _anew(self, lanes, base, left):
        """The passes for `lanes` results from `base` on, of which `left` are there, or all."""
        self.lanes, self.index[self.last] = lanes, base
        self.mask = None if left is None else self._below(left)
        self.results, self.weights, self.row, self.left, self.ready = {}, {}, {}, set(), set()
        self._passes()

    def _passes(self):
        """The reductions of a row and what is stored from it."""
        last = max((p for _, _, p in self.reductions), default=-1)
        for level in range(1 + last):
            self.fetched = self._to_fetch() if level == last else ()
            self._reduce([(n, e) for n, e, p in self.reductions if p == level])
            self.ready |= self.left
        self._store([o for o in self.outputs if not o.full])
        self._store_full([o for o in self.outputs if o.full])

    def _block_lanes(self):
        """(results of a block, how many of them are worked out at once, from most to least)."""
        elements = [e for _, e, _ in self.reductions] + [o.element for o in self.outputs]
        one = max(1, 64 // max(self._itemsizes()))
        light = len(self.reductions) == 1 and not any(e.node.op in HEAVY for x in elements for e in applied_within(x))
        return (8 * one, (8 * one, 4 * one, 2 * one)) if light else (4 * one, (4 * one, 2 * one))

    def _itemsizes(self):
        sizes = [access.located.dtype.itemsize for access in self.accesses]
        sizes += [REGISTRY[n.op].types(n.inputs, dict(n.attrs))[1].itemsize for n, _, _ in self.reductions]
        return sizes or [4]

    def _decode(self, row, outer):
        """Domain indices of the kept axes from the number of the row."""
        b, rest = self.b, row
        if self.blocked:
            size = self.size(self.axes[self.last].size)
            blocks = b.call("idiv", L.add(size, self.lanes - 1), as_index(self.lanes))
            rest = b.call("idiv", row, blocks) if outer else as_index(0)
            block = b.call("irem", row, blocks) if outer else row
            base = b.let(L.mul(block, self.lanes))
            self.index[self.last] = base
            if not self.reductions:
                self.mask = self._below(b.sub(size, base))
        for a in reversed(outer):
            if a == outer[0]:
                self.index[a] = rest
            else:
                size = self.size(self.axes[a].size)
                self.index[a] = b.call("irem", rest, size)
                rest = b.call("idiv", rest, size)

    # ------------------------------------------------------------------ reductions
    def _reduce(self, pairs):
        """One pass over the reduced axes for all reductions of a phase."""
        if not pairs:
            return
        b = self.b
        totals = []
        self._hoist([e for _, e in pairs])
        reduced = [a for a in range(len(self.axes)) if self.axes[a].reduced]
        count = self._count(reduced)
        for node, _ in pairs:
            self._weigh(node, count)
            operation, attrs = REGISTRY[node.op], dict(node.attrs)
            dtype = operation.types(node.inputs, attrs)[1]
            identity = b.const(to_number(operation.identity(dtype), dtype), dtype, self.lanes)
            totals.append((b.declare(identity), identity))

        def body(mask):
            for (node, element), (total, identity) in zip(pairs, totals):
                self._combine(node, element, total, identity, mask)
            if mask is None:
                self._fetch()

        if self.along_row:
            self._nest(reduced[:-1], lambda: self._lanes_loop(body))
        else:
            self._nest(reduced, lambda: body(self.mask))
        for (node, _), (total, _) in zip(pairs, totals):
            self.results[node.outputs[0].name] = self._finish(node, total, count)

    def _to_fetch(self):
        """The outputs whose rows the last reduction fetches: it waits for nothing else, and they are written next."""
        if not self.along_row or sum(axis.reduced for axis in self.axes) > 1:
            return []
        kept = {id(access) for access in self.saved.values()}
        return [o.access for o in self.outputs if o.full and id(o.access) not in kept]

    def _fetch(self):
        """Prefetch the memory of the outputs at the place where the reduction is."""
        for access in self.fetched:
            at, step = self._address(access)
            size = access.located.dtype.itemsize
            if step == 1:
                for line in range(0, self.lanes * size, 64):
                    self.b.prefetch(self.buffer(access.located, "w"), L.add(at, line // size), True)

    def _combine(self, node, element, total, identity, mask):
        b, x = self.b, self._operand(node, element, mask)
        if mask is not None and self.along_row:
            x = b.select(mask, self._wide(x), identity)
        b.assign(total, b.call(REGISTRY[node.op].combine, total, self._wide(x)))

    def _finish(self, node, total, count):
        b, combine = self.b, REGISTRY[node.op].combine
        value = b.call("reduce_" + combine, total) if self.along_row else b.let(L.Var(total.dtype, total.lanes, total.name))
        return self._finished(node, value, count)

    def _nest(self, axes, inner):
        """Serial loops over `axes`, then `inner()`."""
        if not axes:
            self._scoped(inner)
            return
        a = axes[0]
        with self.b.loop(self.b.fresh("i"), 0, self.size(self.axes[a].size)) as i:
            self.index[a] = i
            self._nest(axes[1:], inner)

    def _lanes_loop(self, body):
        """Vectors along the last axis: a main loop without mask, then one masked step."""
        b, size = self.b, self.size(self.axes[self.last].size)
        full = b.let(L.mul(b.call("idiv", size, as_index(self.lanes)), self.lanes))
        with b.loop(b.fresh("v"), 0, full, self.lanes) as v:
            self.index[self.last] = v
            self._scoped(lambda: body(None))
        with b.branch(b.lt(full, size)):
            self.index[self.last] = full
            rest = self._below(b.sub(size, full))
            self._scoped(lambda: body(rest))

    # ------------------------------------------------------------------ stores
    def _store(self, outputs):
        """Once a row (or for each lane of a block of rows)."""
        for o in outputs:
            self._write(o, self.mask)

    def _store_full(self, outputs):
        if not outputs:
            return
        self._hoist([o.element for o in outputs])
        reduced = [a for a in range(len(self.axes)) if self.axes[a].reduced]

        def body(mask):
            for o in outputs:
                self._write(o, mask)

        if self.along_row:
            self._nest(reduced[:-1], lambda: self._lanes_loop(body))
        else:
            self._nest(reduced, lambda: body(self.mask))

    def _in_lanes(self, full):
        return self.blocked or (full and self.along_row)


def coalesce(axes, linear_forms):
    """Merge neighbouring axes of one class where every linear form allows it: (axes, which old axes make each).

    `linear_forms` are coefficient tuples over the axes. Axes of size 1 disappear.
    """
    groups = []
    for a, axis in enumerate(axes):
        if axis.size == 1:
            continue
        if groups and axes[groups[-1][-1]].reduced == axis.reduced:
            before = groups[-1][-1]
            if all(form[before] == form[a] * axis.size for form in linear_forms):
                groups[-1].append(a)
                continue
        groups.append([a])
    return groups
