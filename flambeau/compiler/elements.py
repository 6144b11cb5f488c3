"""One element of a graph node: the scalar body of an op with its casts, at any number of lanes."""

from flambeau.ir.graph import Literal
from flambeau.ir.loops import Const
from flambeau.ops.spec import REGISTRY
from flambeau.types.dim import Dim


def emit_node(b, node, operands):
    """The result element of an Elementwise node from its operands' elements (in their stored dtypes)."""
    operation, attrs = REGISTRY[node.op], dict(node.attrs)
    inner, result = operation.types(node.inputs, attrs)
    wide = max((x.lanes for x in operands), default=1)
    values = [convert(b, x, dtype) for x, dtype in zip(operands, inner)]
    values = [b.call("splat", x, dtype=x.dtype, lanes=wide) if x.lanes != wide and not isinstance(x, Const)
              else b.const(x.value, x.dtype, wide) if isinstance(x, Const) else x for x in values]
    return convert(b, operation.scalar(b, *values, **attrs), result)


def convert(b, x, dtype):
    """x in another dtype; constants are converted here and now."""
    if x.dtype is dtype:
        return x
    if isinstance(x, Const) and dtype.kind in "biuf" and not isinstance(x.value, Dim):
        return b.const(to_number(x.value, dtype), dtype, x.lanes)
    return b.cast(x, dtype)


def to_number(value, dtype):
    """A Python number as the literal of a dtype."""
    if dtype.kind == "b":
        return bool(value)
    return float(value) if dtype.kind == "f" else int(value)


def literal(b, value):
    """The constant of a graph Literal, in the dtype its value has on its own."""
    return b.const(to_number(value.value, value.dtype), value.dtype)


def is_elementwise(node):
    """True for nodes that `emit_node` takes."""
    return REGISTRY[node.op].kind == "elementwise"


def has_size_literal(node):
    """True if a symbolic size is used as a number."""
    return any(isinstance(i, Literal) and isinstance(i.value, Dim) for i in node.inputs)
