"""Elementwise nodes behind a matrix product or a convolution, computed from its sums before they are stored.

    y = mm(a, b);  z = relu(y) * s + r      one kernel, if nothing else reads y

`find` says which products finish which values, and why; `Epilogue` computes an element of the finished value
at a place of the product's result. Both are row-major with the same number of elements, so that a place is
one number, and so are other tensors that are read; what has one element is read as such. The product is
rounded to its dtype first: the bits are those of separate kernels.
"""

from dataclasses import dataclass

from flambeau.compiler.elements import emit_node, has_size_literal, literal, to_number
from flambeau.ir import loops as L
from flambeau.ir.graph import Literal, Value
from flambeau.ops.spec import REGISTRY
from flambeau.types.layout import contiguous_strides
from flambeau.types.shape import numel

MOST_NODES = 16         # of an epilogue


@dataclass(frozen=True, eq=False)
class Finish:
    """A product (a node) that stores `value` instead of its own result, with the nodes `behind` it; `leaves`
    are the other values read."""

    node: object
    value: Value
    leaves: tuple
    behind: tuple
    why: str = "an elementwise value of the product's places is computed from its sums"


def find(fusion):
    """name of a value -> the Finish that computes it."""
    graph, readers = fusion.graph, {}
    for node in graph.nodes:
        for i in node.inputs:
            if isinstance(i, Value):
                readers.setdefault(i.name, []).append(node)
    returned = {o.name for o in graph.outputs if isinstance(o, Value)}
    found = {}
    for value in fusion.roots:
        behind = None if value.name in fusion.stored_in else _behind(fusion, value)
        if behind is None:
            continue
        nodes, leaves = behind
        inner = {o.name for n in nodes for o in n.outputs} - {value.name}
        for leaf in leaves:
            node = fusion.producer.get(leaf.name)
            private = {*inner, leaf.name}
            if node is not None and getattr(REGISTRY[node.op], "takes_epilogue", False) \
                    and leaf.dtype is value.dtype and numel(leaf.shape) == numel(value.shape) \
                    and not private & returned \
                    and all(r in nodes for name in private for r in readers.get(name, ())):
                found[value.name] = Finish(node, value, tuple(x for x in leaves if x is not leaf),
                                           tuple(reversed(nodes)))
                break
    return found


def _behind(fusion, value):
    """(nodes, leaves) from which a value is computed place by place; None if not all of it is."""
    nodes, leaves, pending, seen = [], [], [value], set()
    while pending:
        if len(nodes) > MOST_NODES:
            return None
        v = pending.pop()
        if isinstance(v, Literal) or v.name in seen:
            continue
        seen.add(v.name)
        node = fusion.producer.get(v.name)
        kind = None if node is None else fusion.kind(node)
        if kind == "elementwise" and numel(v.shape) == numel(value.shape) and not has_size_literal(node) \
                or kind == "view" and _keeps_places(node):
            nodes.append(node)
            pending.extend(node.inputs)
        elif kind in ("elementwise", "create", "view", "reduction") or \
                not (numel(v.shape) == 1 or numel(v.shape) == numel(value.shape)):
            return None
        else:
            leaves.append(v)
    return nodes, leaves


def _keeps_places(node):
    """True for a view of all elements in their order."""
    source = node.inputs[0]
    if isinstance(source, Literal):
        return False
    shape = tuple(source.shape)
    got = REGISTRY[node.op].view(shape, tuple(contiguous_strides(shape)), 0, **dict(node.attrs))
    return got is not None and got[2] == 0 and tuple(got[1]) == tuple(contiguous_strides(tuple(got[0]))) \
        and numel(tuple(got[0])) == numel(shape)


class Epilogue:
    """What a template does with a finished element. `operands`: name of a buffer -> Located, row-major."""

    def __init__(self, fusion, finish, located):
        """located: of the leaves, in order."""
        self.fusion, self.finish = fusion, finish
        self.operands = {f"leaf{i}": where for i, where in enumerate(located)}
        self.buffers = {leaf.name: name for leaf, name in zip(finish.leaves, self.operands)}

    def emit(self, b, value, place, mask):
        """The finished element(s) from the product's, number `place` of the result and following."""
        made = {self.finish.node.outputs[0].name: value}

        def element(v):
            if isinstance(v, Literal):
                return literal(b, v)
            if v.name not in made:
                made[v.name] = load(v) if v.name in self.buffers else computed(self.fusion.producer[v.name])
            return made[v.name]

        def computed(node):
            operands = [element(i) for i in node.inputs]
            return operands[0] if self.fusion.kind(node) == "view" else b.let(emit_node(b, node, operands))

        def load(v):
            name, dtype = self.buffers[v.name], v.dtype
            if numel(v.shape) == 1:
                return b.let(b.load(name, L.as_index(0), dtype))
            other = None if mask is None else b.const(to_number(0, dtype), dtype, value.lanes)
            return b.let(b.load(name, place, dtype, value.lanes, mask, other))
        return element(self.finish.value)
