"""Fusion: which nodes of a graph share a kernel, and why.

Elementwise, view and create nodes are *virtual*: they are computed where they are used, through the index map that leads
there. Reductions over the same axes of the same domain form a row group, together with what is stored from it. Everything
else (templates, host calls) works on memory.
"""

from dataclasses import dataclass, field

from flambeau.ir.graph import Literal, Value
from flambeau.ops.spec import REGISTRY
from flambeau.types.dim import Dim, substitute, symbol

VIRTUAL = frozenset(("elementwise", "view", "create"))


@dataclass(eq=False)
class RowGroup:
    """Reductions over `axes` of a domain of `shape`, and values stored from the same loops."""

    shape: tuple
    axes: tuple
    reductions: list = field(default_factory=list)      # nodes, in order
    stores: list = field(default_factory=list)          # values (full domain or kept shape) to write
    needs: set = field(default_factory=set)             # groups that must run before
    alone: bool = False                                 # takes no second reduction and no store of other values
    why: str = ""

    @property
    def kept(self):
        return tuple(i for i in range(len(self.shape)) if i not in self.axes)

    def kept_shape(self, keepdim):
        if keepdim:
            return tuple(1 if i in self.axes else s for i, s in enumerate(self.shape))
        return tuple(s for i, s in enumerate(self.shape) if i not in self.axes)


class Fusion:
    """The decision for one graph. The reductions named in `apart` share no kernel."""

    def __init__(self, graph, apart=frozenset()):
        self.graph, self.apart = graph, apart
        self.producer = {o.name: n for n in graph.nodes for o in n.outputs}
        self.group_of = {}              # reduction value name -> RowGroup
        self.groups = []
        self.stored_in = {}             # value name -> RowGroup that writes it
        self.finishes = {}              # value name -> the product that computes it (compiler.epilogue)
        self._reached = {}
        for node in graph.nodes:
            if self.kind(node) == "reduction":
                self._place_reduction(node)
        for group in self.groups:
            group.needs = self._groups_behind_group(group)
        self.roots = self._find_roots()
        for value in self.roots:
            self._place_root(value)
        self._mark_external()

    def kind(self, node):
        operation = REGISTRY[node.op]
        return "placed" if operation.kind == "view" and operation.view is None else operation.kind

    def is_virtual(self, value):
        node = self.producer.get(value.name)
        return node is not None and self.kind(node) in VIRTUAL

    def is_elementwise(self, value):
        return self.is_virtual(value) and self.kind(self.producer[value.name]) != "view"

    def reached(self, value):
        """Names of the reductions and memory values that `value` reads through virtual nodes."""
        if isinstance(value, Literal):
            return frozenset()
        if value.name not in self._reached:
            if self.is_virtual(value):
                inputs = self.producer[value.name].inputs
                self._reached[value.name] = frozenset().union(*(self.reached(i) for i in inputs))
            else:
                self._reached[value.name] = frozenset((value.name,))
        return self._reached[value.name]

    def _groups_behind(self, names):
        """Every group that must be complete before `names` can be read."""
        found, pending = set(), list(names)
        seen = set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            group = self.group_of.get(name)
            if group is not None:
                found.add(group)
                for node in group.reductions:
                    pending.extend(self.reached(node.inputs[0]))
            elif name in self.producer:
                for i in self.producer[name].inputs:
                    pending.extend(self.reached(i))
        return found

    def _place_reduction(self, node):
        operation, attrs = REGISTRY[node.op], dict(node.attrs)
        shape = tuple(node.inputs[0].shape) if isinstance(node.inputs[0], Value) else ()
        axes = operation.axes(len(shape), attrs)
        width = operation.types(node.inputs, attrs)[1].itemsize > 4
        behind = self._groups_behind(self.reached(node.inputs[0]))
        alone = node.outputs[0].name in self.apart
        for group in reversed(self.groups):
            if alone or group.alone or (group.shape, group.axes) != (shape, axes) or group.width != width:
                continue
            if any(other is not group and group in self._groups_behind_group(other) for other in behind):
                continue
            if self._crosses_memory(node.inputs[0], group):
                continue
            group.why = "reductions over the same axes read the same rows once"
            break
        else:
            group = RowGroup(shape, axes, alone=alone)
            group.width = width
            group.why = "alone: in one kernel with others it could not be lowered" if alone else ""
            self.groups.append(group)
        group.reductions.append(node)
        self.group_of[node.outputs[0].name] = group

    def _groups_behind_group(self, group):
        return self._groups_behind([i for n in group.reductions for i in self.reached(n.inputs[0])]) - {group}

    def _crosses_memory(self, value, group):
        """True if `value` reads a memory value that is itself computed from `group`."""
        return any(name not in self.group_of and name in self.producer and group in self._groups_behind([name])
                   for name in self.reached(value))

    def _find_roots(self):
        """Virtual values that must be written to memory: outputs and operands of templates and host calls."""
        roots, seen = [], set()

        def add(value):
            if isinstance(value, Literal):
                return
            node = self.producer.get(value.name)
            while node is not None and self.kind(node) == "view":
                value = node.inputs[0]
                if isinstance(value, Literal):
                    return
                node = self.producer.get(value.name)
            if node is not None and self.kind(node) in ("elementwise", "create") and value.name not in seen:
                seen.add(value.name)
                roots.append(value)

        for node in self.graph.nodes:
            if self.kind(node) not in VIRTUAL and self.kind(node) != "reduction":
                for i in node.inputs:
                    add(i)
        for o in self.graph.outputs:
            add(o)
        return roots

    def _place_root(self, value):
        """Write a root from a row group that has its elements at hand."""
        groups = {self.group_of[n] for n in self.reached(value) if n in self.group_of}
        for group in reversed(self.groups):
            if group not in groups or group.alone:
                continue
            shapes = (group.shape, group.kept_shape(True), group.kept_shape(False))
            if tuple(value.shape) not in shapes or self._crosses_memory(value, group):
                continue
            others = self._groups_behind(self.reached(value)) - {group}
            if group in self._needed(others):
                continue
            group.needs |= others
            group.stores.append(value)
            self.stored_in[value.name] = group
            return

    def _needed(self, groups):
        """The groups themselves and all that must run before them, for their reductions or for what they store."""
        found, pending = set(), list(groups)
        while pending:
            group = pending.pop()
            if group not in found:
                found.add(group)
                pending.extend(group.needs)
        return found

    def _mark_external(self):
        """Reductions whose result is read outside their group are written too."""
        readers = [(self.stored_in.get(v.name), v) for v in self.roots]
        readers += [(g, n.inputs[0]) for g in self.groups for n in g.reductions]
        for node in self.graph.nodes:
            if self.kind(node) not in VIRTUAL and self.kind(node) != "reduction":
                readers += [(None, i) for i in node.inputs]
        readers += [(None, o) for o in self.graph.outputs if isinstance(o, Value) and not self._is_root(o)]
        for group, value in readers:
            for name in sorted(self.reached(value)):
                owner = self.group_of.get(name)
                if owner is not None and owner is not group and name not in self.stored_in:
                    owner.stores.append(self.producer[name].outputs[0])
                    self.stored_in[name] = owner

    def _is_root(self, value):
        return any(value.name == r.name for r in self.roots)


# ------------------------------------------------------------------------------ index maps
def identity_map(rank):
    """Each axis of a value is the domain axis of the same number: ((coefficients, offset), ...)."""
    return tuple((tuple(int(i == j) for j in range(rank)), 0) for i in range(rank))


def broadcast_map(index_map, shape, out_shape, rank):
    """The map of an operand of `shape` from that of the result it broadcasts to."""
    lead = len(out_shape) - len(shape)
    nothing = ((0,) * rank, 0)
    return tuple(nothing if s == 1 else index_map[lead + i] for i, s in enumerate(shape))


def view_map(operation, attrs, shape, index_map, rank):
    """The map of a view's operand from that of the view, or None where the view needs memory."""
    units = tuple(symbol(f"unit{i}") for i in range(len(shape)))
    try:
        got = operation.view(tuple(shape), units, 0, **attrs)
    except TypeError:
        return None
    if got is None:
        return None
    _, strides, offset = got
    result = []
    for j in range(len(shape)):
        env = {f"unit{i}": int(i == j) for i in range(len(shape))}
        base = _at(offset, env)
        coefficients, constant = [0] * rank, base
        for k, stride in enumerate(strides):
            factor = _at(stride, env)
            if factor == 0:
                continue
            for d in range(rank):
                coefficients[d] = coefficients[d] + factor * index_map[k][0][d]
            constant = constant + factor * index_map[k][1]
        result.append((tuple(coefficients), constant))
    return tuple(result)


def _at(size, env):
    return substitute(size, env) if isinstance(size, Dim) else size
