"""Meta tensors: sizes and dtype without memory. An op on one works out the sizes of its result and does nothing else."""

from flambeau.ir.graph import Literal, Value
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import scalar_dtype


def is_sizes_only(value):
    """True for a meta tensor and for a tuple with one."""
    if isinstance(value, tuple):
        return any(map(is_sizes_only, value))
    return isinstance(value, Tensor) and value.is_shape_only


def sizes_only(operation, values):
    """The result of a call as meta tensors."""
    operands, attrs = operation.split(values)
    inputs = [Value(f"x{i}", o.dtype, tuple(o.shape)) if isinstance(o, Tensor) else Literal(o, scalar_dtype(o))
              for i, o in enumerate(operands)]
    made = [_core.shape_only(tuple(shape), dtype) for dtype, shape in operation.infer(inputs, attrs)]
    return made[0] if operation.outputs is None else operation.pack(made)
