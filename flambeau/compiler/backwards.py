"""Vectors whose lanes stand in memory the other way about: one consecutive read, turned around; no gather."""

from flambeau.compiler.llvm_values import vector
from flambeau.ir import loops


def base_of(index):
    """The scalar index of lane 0 if each lane of `index` is one before the lane in front of it, else None."""
    if index.lanes < 2 or not isinstance(index, loops.Apply) or index.op != "add":
        return None
    first, offsets = index.args
    if not (isinstance(offsets, loops.Apply) and offsets.op == "mul" and _is_lane_times_minus_one(*offsets.args)):
        return None
    if isinstance(first, loops.Const):
        return loops.as_index(first.value)
    return first.args[0] if isinstance(first, loops.Apply) and first.op == "splat" else None


def _is_lane_times_minus_one(lane, factor):
    return isinstance(lane, loops.Apply) and lane.op == "lane" and isinstance(factor, loops.Const) and factor.value == -1


def lowest(first, lanes):
    """The index of the last lane, which stands in front, from that of lane 0."""
    return loops.add(first, 1 - lanes)


def turned(writer, scalar, lanes, operand):
    """The lanes of an operand, or None, from the last to the first."""
    if operand is None:
        return None
    kind, places = vector(scalar, lanes), ", ".join(f"i32 {n}" for n in reversed(range(lanes)))
    return writer.line(f"shufflevector {kind} {operand}, {kind} poison, <{lanes} x i32> <{places}>")
