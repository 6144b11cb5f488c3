"""Elements of a fused kernel: a DAG of loads, op applications, row reductions and indices over a domain of axes."""

from dataclasses import dataclass

from flambeau.compiler.fuse import broadcast_map, view_map
from flambeau.compiler.recipe import Located
from flambeau.ir.graph import Literal
from flambeau.ops.spec import REGISTRY
from flambeau.types.dim import Dim


class Unfusable(Exception):
    """A value is used in a way that its kernel cannot serve; the plan is made again with less fusion: the reductions
    named in `apart` get kernels of their own, or all do where none is named."""

    def __init__(self, why, apart=()):
        super().__init__(why)
        self.apart = frozenset(apart)


@dataclass(eq=False)
class Access:
    """An element of a located value; `index_map` leads from domain axes to its axes."""

    located: Located
    index_map: tuple

    def coefficients(self, rank):
        """(per domain axis, constant): the element offset as a linear form."""
        coefficients, constant = [0] * rank, 0
        for (row, offset), stride in zip(self.index_map, self.located.strides):
            if stride == 0:
                continue
            for d in range(rank):
                if row[d] != 0:
                    coefficients[d] = coefficients[d] + row[d] * stride
            constant = constant + offset * stride
        return tuple(coefficients), constant


@dataclass(eq=False)
class Applied:
    node: object
    args: tuple


@dataclass(eq=False)
class Reduced:
    """The result of a reduction of the same row group."""

    node: object


@dataclass(eq=False)
class Iota:
    """An index along a domain as a number: a linear form of the domain indices."""

    coefficients: tuple
    constant: object
    dtype: object


@dataclass(eq=False)
class Number:
    """A literal, or a size used as a number."""

    value: object
    dtype: object


class Collector:
    """Builds the element DAG of values over one domain. `locate(value)` gives memory for what is not virtual."""

    def __init__(self, fusion, group, rank, locate):
        self.fusion, self.group, self.rank, self.locate = fusion, group, rank, locate
        self.memo, self.accesses, self.iotas, self.numbers = {}, [], [], []

    def element(self, value, index_map):
        if isinstance(value, Literal):
            return self._number(value)
        key = (value.name, index_map)
        if key not in self.memo:
            self.memo[key] = self._element(value, index_map)
        return self.memo[key]

    def _number(self, literal):
        number = Number(literal.value, literal.dtype)
        if isinstance(literal.value, Dim):
            self.numbers.append(number)
        return number

    def _element(self, value, index_map):
        node = self.fusion.producer.get(value.name)
        if node is not None and self.group is not None and self.fusion.group_of.get(value.name) is self.group:
            self._check_row(node, index_map)
            return Reduced(node)
        if node is None or not self.fusion.is_virtual(value):
            return self.access(self.locate(value), index_map)
        kind, attrs = self.fusion.kind(node), dict(node.attrs)
        if kind == "elementwise":
            shape = tuple(value.shape)
            args = tuple(i if isinstance(i, Literal) else
                         (i, broadcast_map(index_map, tuple(i.shape), shape, self.rank)) for i in node.inputs)
            return Applied(node, tuple(self._number(a) if isinstance(a, Literal) else self.element(*a) for a in args))
        if kind == "view":
            source = node.inputs[0]
            inner = view_map(REGISTRY[node.op], attrs, source.shape, index_map, self.rank)
            if inner is None:
                return self.access(self.locate(value), index_map)
            return self.element(source, inner)
        return self._create(node, attrs, index_map)

    def _create(self, node, attrs, index_map):
        dtype = node.outputs[0].dtype
        if node.op == "iota":
            row, constant = index_map[attrs["dim"]]
            iota = Iota(row, constant, dtype)
            self.iotas.append(iota)
            return iota
        return self._number(Literal(attrs["fill_value"], dtype))

    def access(self, located, index_map):
        for access in self.accesses:
            if access.located is located and access.index_map == index_map:
                return access
        access = Access(located, index_map)
        self.accesses.append(access)
        return access

    def _check_row(self, node, index_map):
        """The result of a reduction can be used in its own rows only at the row's place."""
        group, keepdim = self.group, dict(node.attrs).get("keepdim")
        axes = range(len(group.shape)) if keepdim else group.kept
        for (row, offset), axis in zip(index_map, axes):
            if axis in group.axes or group.shape[axis] == 1:
                continue
            if offset != 0 or any((c != 0) != (d == axis) or (d == axis and c != 1) for d, c in enumerate(row)):
                raise Unfusable(node.op)


def row_map(group, value_shape):
    """The map of a value stored from a row group: full domain, or kept shape with or without the reduced axes."""
    rank = len(group.shape)

    def unit(axis):
        return (tuple(int(axis == d) for d in range(rank)), 0)

    if tuple(value_shape) == group.shape and len(value_shape) == rank:
        return tuple(unit(a) for a in range(rank)), True
    if len(value_shape) == rank:
        return tuple(((0,) * rank, 0) if a in group.axes else unit(a) for a in range(rank)), False
    return tuple(unit(a) for a in group.kept), False
