"""Row groups as Loops: reductions over axes of a domain and what is stored from the same rows.

The domain's axes are kept or reduced. Where the last axis is reduced the lanes run along it and are folded by halving at the end
of a row; where it is kept the lanes are neighbouring results and nothing is folded. Either way the order of
combination depends on the shape and the axes only. A reduction to a single result runs in blocks of BLOCK
elements, whose results are combined in a second kernel.
"""

from dataclasses import dataclass

from flambeau.compiler.elements import convert, emit_node, to_number
from flambeau.compiler.index import Access, Applied, Iota, Number, Reduced
from flambeau.compiler.pointwise import HEAVY
from flambeau.ir import loops as L
from flambeau.ir.loops import BEGIN, END, Buffer, Builder, Const, Kernel, as_index
from flambeau.ops.spec import REGISTRY
from flambeau.types.dim import Dim
from flambeau.types.dtype import int64

LANES, WIDE_LANES = 32, 16          # along a reduced axis: up to 4 bytes an element, and above. Part of the meaning.
BLOCK = 8192                        # elements in a block of a full reduction. Part of the meaning.


@dataclass(eq=False)
class Axis:
    size: object
    reduced: bool


@dataclass(eq=False)
class Output:
    """A store: the element, where it goes, and whether it is written for every element or once a row."""

    element: object
    access: Access
    full: bool


class RowKernel:
    """Lowers one group. `reductions` are (node, element of the operand, phase); made by `compiler.plan`."""

    def __init__(self, name, axes, reductions, outputs, accesses, iotas, wide):
        self.name, self.axes, self.reductions, self.outputs = name, axes, reductions, outputs
        self.accesses, self.iotas = accesses, iotas
        self.lanes = WIDE_LANES if wide else LANES
        self.b = Builder()
        self.params, self.buffers, self.index = {}, {}, {}
        self.results, self.weights, self.row, self.scope, self.depth, self.along = {}, {}, {}, {}, 0, {}
        self.saved, self.left, self.ready, self.mask, self.fetched = {}, set(), set(), None, ()

    # ------------------------------------------------------------------ params and buffers
    def size(self, size):
        """A size as an index expression: a constant or a kernel param."""
        if not isinstance(size, Dim):
            return as_index(size)
        key = str(size)
        if key not in self.params:
            self.params[key] = (f"n{len(self.params)}", size)
        return self.b.index(self.params[key][0])

    def buffer(self, located, access="r"):
        key = (located.place, str(located.offset), located.dtype.name)
        if key not in self.buffers:
            self.buffers[key] = [f"b{len(self.buffers)}", located, access]
        elif self.buffers[key][2] != access:
            self.buffers[key][2] = "rw"
        return self.buffers[key][0]

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
        self.mask = None
        self.saved = kept_in_outputs(self.reductions, self.outputs, self._walked)
        if not self.axes:
            self.lanes = 1
        elif self.blocked:
            self.lanes = max(4, 256 // max(self._itemsizes())) if self.reductions else 16
        extent = 1
        for a in outer:
            extent = extent * self.axes[a].size
        if self.blocked:
            blocks = (self.axes[self.last].size + self.lanes - 1) // self.lanes
            extent = extent * blocks
        with self.b.loop("row", BEGIN, END) as row:
            self._decode(row, outer)
            last = max((p for _, _, p in self.reductions), default=-1)
            for level in range(1 + last):
                self.fetched = self._to_fetch() if level == last else ()
                self._reduce([(n, e) for n, e, p in self.reductions if p == level])
                self.ready |= self.left
            self._store([o for o in self.outputs if not o.full])
            self._store_full([o for o in self.outputs if o.full])
        work = 1
        for axis in self.axes:
            work = work * axis.size if axis.reduced else work
        if self.blocked:
            work = work * self.lanes
        buffers = tuple(Buffer(n, o.dtype, a) for n, o, a in self.buffers.values())
        kernel = Kernel(self.name, buffers, tuple(n for n, _ in self.params.values()), as_index(1), self.b.body())
        return kernel, [o for _, o, _ in self.buffers.values()], [s for _, s in self.params.values()], extent, work

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
            self.mask = self._below(b.sub(size, base))
        for a in reversed(outer):
            if a == outer[0]:
                self.index[a] = rest
            else:
                size = self.size(self.axes[a].size)
                self.index[a] = b.call("irem", rest, size)
                rest = b.call("idiv", rest, size)

    def _below(self, count):
        """The lanes whose number is below `count`."""
        b = self.b
        lane = b.call("lane", dtype=int64, lanes=self.lanes)
        return b.lt(lane, b.call("splat", count, dtype=int64, lanes=self.lanes))

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

    def _count(self, reduced):
        """How many elements make one result."""
        count = as_index(1)
        for a in reduced:
            count = L.mul(count, self.size(self.axes[a].size))
        return count

    def _weigh(self, node, count):
        """Work out, before the loops of a pass, the factor of a reduction's elements."""
        operation = REGISTRY[node.op]
        if operation.weight is not None:
            dtype = operation.types(node.inputs, dict(node.attrs))[1]
            self.weights[node.outputs[0].name] = self.b.let(operation.weight(self.b, self.b.let(count), dtype))

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
        b, operation, attrs = self.b, REGISTRY[node.op], dict(node.attrs)
        inner, accumulated, _ = operation.types(node.inputs, attrs)
        x = convert(b, self.emit(element, mask), inner)
        if operation.value is not None:
            x = operation.value(b, x)
        x = convert(b, x, accumulated)
        if operation.weight is not None:
            weight = self.weights[node.outputs[0].name]
            x = b.mul(x, b.call("splat", weight, dtype=x.dtype, lanes=x.lanes) if x.lanes > 1 else weight)
        if mask is not None and self.along_row:
            x = b.select(mask, self._wide(x), identity)
        b.assign(total, b.call(operation.combine, total, self._wide(x)))

    def _wide(self, x):
        return self.b.call("splat", x, dtype=x.dtype, lanes=self.lanes) if x.lanes != self.lanes else x

    def _finish(self, node, total, count):
        b, operation, attrs = self.b, REGISTRY[node.op], dict(node.attrs)
        result = operation.types(node.inputs, attrs)[2]
        value = b.call("reduce_" + operation.combine, total) if self.along_row else b.let(L.Var(total.dtype, total.lanes, total.name))
        if operation.finish is not None:
            value = operation.finish(b, value, b.let(count))
        return convert(b, value, result)

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

    def _scoped(self, function):
        """Run with a fresh memo of emitted elements: names bound in a loop are not visible behind it."""
        before, self.scope = self.scope, {}
        self.depth += 1
        function()
        self.depth -= 1
        self.scope = before

    def _walked(self, element):
        """True if the element differs along the axes that are walked within a row."""
        if id(element) not in self.along:
            self.along[id(element)] = self._differs(element)
        return self.along[id(element)]

    def _differs(self, element):
        if isinstance(element, Applied):
            return any([self._walked(a) for a in element.args])
        if isinstance(element, (Access, Iota)):
            coefficients = element.coefficients if isinstance(element, Iota) else element.coefficients(len(self.axes))[0]
            return any(coefficients[a] != 0 for a, axis in enumerate(self.axes) if axis.reduced)
        return False

    def _hoist(self, elements):
        """Emit, before the loops of a pass, what is the same in all of a row."""
        seen, pending = set(), list(reversed(elements))
        while pending:
            element = pending.pop()
            if id(element) in seen:
                continue
            seen.add(id(element))
            if not self._walked(element):
                self.emit(element, self.mask)
            elif isinstance(element, Applied):
                pending.extend(reversed(element.args))

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

    def _write(self, output, mask):
        b = self.b
        value = convert(b, self.emit(output.element, mask), output.access.located.dtype)
        self._put(output.access, value, mask, output.full)

    def _put(self, access, value, mask, full):
        b, name = self.b, self.buffer(access.located, "w")
        at, step = self._address(access)
        if not self._in_lanes(full):
            b.store(name, at, value)
        elif step == 1:
            b.store(name, at, self._wide(value), mask)
        else:
            b.store(name, self._spread(at, step), self._wide(value), mask)

    def _in_lanes(self, full):
        return self.blocked or (full and self.along_row)

    # ------------------------------------------------------------------ elements
    def _address(self, access):
        """(element index at lane 0, step a lane along the last axis)."""
        coefficients, constant = access.coefficients(len(self.axes))
        at = self.size(constant)
        for a, c in enumerate(coefficients):
            if c == 0 or a not in self.index:
                continue
            at = L.add(at, L.mul(self.index[a], self.size(c)))
        step = coefficients[self.last] if self.last >= 0 and self.last in self.index else 0
        return at, step

    def _spread(self, at, step, dtype=int64):
        """at, at + step, ... in the lanes, in integers of `dtype`."""
        b = self.b
        lane = b.call("lane", dtype=dtype, lanes=self.lanes)
        if step != 1:
            lane = b.mul(lane, b.call("splat", convert(b, b.let(self.size(step)), dtype), dtype=dtype, lanes=self.lanes))
        return b.add(lane, b.call("splat", convert(b, b.let(at), dtype), dtype=dtype, lanes=self.lanes))

    def emit(self, element, mask):
        """The element's value here: a scalar where it is the same in all lanes."""
        if id(element) in self.row:
            return self.row[id(element)]
        memo = self.scope if self.depth else self.row
        if id(element) not in memo:
            memo[id(element)] = self._saved(element, mask) if id(element) in self.saved else self._emit(element, mask)
        return memo[id(element)]

    def _saved(self, element, mask):
        """An element that an earlier pass left in an output; the first pass computes and leaves it there."""
        access = self.saved[id(element)]
        if id(element) in self.ready:
            return self._load(access, mask)
        value = self._emit(element, mask)
        self._put(access, value, mask, True)
        self.left.add(id(element))
        return value

    def _emit(self, element, mask):
        b = self.b
        if isinstance(element, Reduced):
            return self.results[element.node.outputs[0].name]
        if isinstance(element, Number):
            if isinstance(element.value, Dim):
                return b.let(self.size(element.value))
            return b.const(to_number(element.value, element.dtype), element.dtype)
        if isinstance(element, Applied):
            b.source = element.node.source
            return emit_node(b, element.node, [self.emit(a, mask) for a in element.args])
        if isinstance(element, Iota):
            return self._iota(element)
        return self._load(element, mask)

    def _iota(self, element):
        b, at = self.b, self.size(element.constant)
        for a, c in enumerate(element.coefficients):
            if c != 0 and a in self.index:
                at = L.add(at, L.mul(self.index[a], self.size(c)))
        step = element.coefficients[self.last] if self.last in self.index else 0
        dtype = element.dtype if element.dtype.kind in "iu" else int64
        value = convert(b, b.let(at), dtype) if step == 0 else self._spread(at, step, dtype)
        return convert(b, value, element.dtype)

    def _load(self, access, mask):
        b, dtype = self.b, access.located.dtype
        at, step = self._address(access)
        name = self.buffer(access.located)
        if step == 0:
            return b.load(name, at, dtype)
        if step != 1:
            at = self._spread(at, step)
        other = None if mask is None else Const(dtype, self.lanes, to_number(0, dtype))
        return b.load(name, at, dtype, self.lanes, mask, other)


def kept_in_outputs(reductions, outputs, walked):
    """id of an element -> the access of a full output whose memory holds it until the output itself is written.

    An expensive element that a reduction has computed is read again from there, not computed again. It is of the output's
    dtype and a part of it, so it is read before it is written over.
    """
    kept = {}
    computed = {id(e) for _, operand, _ in reductions for e in applied_within(operand) if e.node.op in HEAVY and walked(e)}
    for o in outputs:
        for e in applied_within(o.element) if o.full else ():
            if id(e) in computed and id(e) not in kept and e.node.outputs[0].dtype is o.access.located.dtype:
                kept[id(e)] = o.access
                break
    return kept


def applied_within(element):
    """The ops that `element` is made of, outermost first, each once."""
    found, level = {}, [element]
    while level:
        new = {id(e): e for e in level if isinstance(e, Applied) and id(e) not in found}
        found |= new
        level = [a for e in new.values() for a in e.args]
    return list(found.values())


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

