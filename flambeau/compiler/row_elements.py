"""The elements of a row group as Loops: where they lie, what they are made of, what the passes over rows share."""

from dataclasses import dataclass

from flambeau.compiler.elements import convert, emit_node, to_number
from flambeau.compiler.index import Access, Applied, Iota, Number, Reduced
from flambeau.compiler.pointwise import HEAVY
from flambeau.ir import loops as L
from flambeau.ir.loops import Const, as_index
from flambeau.ops.spec import REGISTRY
from flambeau.types.dim import Dim
from flambeau.types.dtype import int64


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


class RowElements:
    """Elements over a domain of `axes` at the place `index`, `lanes` of them along the axis `last`."""

    def __init__(self, b, axes, lanes):
        self.b, self.axes, self.lanes, self.last = b, axes, lanes, len(axes) - 1
        self.params, self.buffers, self.index = {}, {}, {}
        self.results, self.weights, self.row, self.scope, self.depth, self.along = {}, {}, {}, {}, 0, {}
        self.saved, self.left, self.ready, self.mask = {}, set(), set(), None

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

    def _below(self, count):
        """The lanes whose number is below `count`."""
        b = self.b
        lane = b.call("lane", dtype=int64, lanes=self.lanes)
        return b.lt(lane, b.call("splat", count, dtype=int64, lanes=self.lanes))

    # ------------------------------------------------------------------ reductions
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

    def _operand(self, node, element, mask):
        """What a reduction takes of an element."""
        b, operation, attrs = self.b, REGISTRY[node.op], dict(node.attrs)
        inner, accumulated, _ = operation.types(node.inputs, attrs)
        x = convert(b, self.emit(element, mask), inner)
        if operation.value is not None:
            x = operation.value(b, x)
        x = convert(b, x, accumulated)
        if operation.weight is not None:
            weight = self.weights[node.outputs[0].name]
            x = b.mul(x, b.call("splat", weight, dtype=x.dtype, lanes=x.lanes) if x.lanes > 1 else weight)
        return x

    def _finished(self, node, value, count):
        """The result of a reduction from its total."""
        b, operation, attrs = self.b, REGISTRY[node.op], dict(node.attrs)
        if operation.finish is not None:
            value = operation.finish(b, value, b.let(count))
        return convert(b, value, operation.types(node.inputs, attrs)[2])

    def _wide(self, x):
        return self.b.call("splat", x, dtype=x.dtype, lanes=self.lanes) if x.lanes != self.lanes else x

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
        """Whether a store writes all lanes."""
        return True

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
