"""Graph and Program: the tensor-level IR.

Grammar (the printed form of `ir.graph_text`, which parses back):

    program := graph effect*
    graph   := "graph" NAME "(" param,* ")" "{" node* "return" operand,* "}"
    param   := NAME ":" type
    node    := NAME ":" type ("," NAME ":" type)* "=" op "(" operand,* (";" NAME "=" attribute),* ")"
    type    := dtype "[" size,* "]"                          f32[s0, 10]
    size    := INT | dim                                     a symbolic size: s0, 2*s0+1, s0//2
    operand := NAME | CONST ":" dtype                        a literal scalar, 0-d
    effect  := "write" NAME "<-" NAME                        an input gets a new value when the graph is done
             | "grad" NAME "+=" NAME                         accumulate into the input's .grad
             | "alias" NAME "of" NAME "strides" "(" size,* ")" "offset" size
             | "random" NAME "->" NAME                       generator state in and out
             | "host" NAME "(" NAME,* ")" "after" NAME       a call back to Python
    Each node and effect may end in "# file:line", the user's source line.

A Graph is pure: nodes in order, each value defined once. The ops are named; what they mean is looked up in the
registry that is handed to the verifier and the interpreter, so this layer knows no op.
"""

from dataclasses import dataclass

from flambeau.types.dtype import DType


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor in a graph; `shape` holds ints and Dims."""

    name: str
    dtype: DType
    shape: tuple


@dataclass(frozen=True, eq=False)
class Literal:
    """A 0-d constant written in place: a Python bool, int or float, or a Dim (a size used as a number)."""

    value: object
    dtype: DType


@dataclass(frozen=True, eq=False)
class Node:
    op: str
    inputs: tuple           # of Value or Literal
    attrs: tuple            # of (name, value): None, bool, int, float, str, DType, Dim or a tuple of these
    outputs: tuple          # of Value
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class Graph:
    name: str
    inputs: tuple           # of Value
    nodes: tuple            # of Node
    outputs: tuple          # of Value or Literal


@dataclass(frozen=True, eq=False)
class Effect:
    """kind: 'write', 'grad', 'alias', 'random' or 'host'; the fields used depend on it (see the grammar)."""

    kind: str
    target: str
    operands: tuple = ()
    strides: tuple = ()
    offset: object = 0
    source: tuple | None = None


@dataclass(frozen=True, eq=False)
class Program:
    graph: Graph
    effects: tuple = ()
