"""Vectors whose lanes stand in memory the other way about: one consecutive read, turned around; no gather."""

from flambeau.compiler.index_math import first_of
from flambeau.compiler.llvm_values import vector
from flambeau.ir import loops


def base_of(index):
    """The scalar index of lane 0 if each lane of `index` is one before the lane in front of it, else None."""
    return None if index.lanes < 2 else first_of(index, -1)


def lowest(first, lanes):
    """The index of the last lane, which stands in front, from that of lane 0."""
    return loops.add(first, 1 - lanes)


def turned(writer, scalar, lanes, operand):
    """The lanes of an operand, or None, from the last to the first."""
    if operand is None:
        return None
    kind, places = vector(scalar, lanes), ", ".join(f"i32 {n}" for n in reversed(range(lanes)))
    return writer.line(f"shufflevector {kind} {operand}, {kind} poison, <{lanes} x i32> <{places}>")
