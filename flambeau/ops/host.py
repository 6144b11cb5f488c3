"""Host functions: ops whose values come from a Python function on NumPy arrays (dense linear algebra).

An Opaque op states `infer(inputs, attrs)` and `host(*arrays, **attributes)`, which returns an array, or a
tuple of them where the op has `outputs`. `run_host` calls it on real tensors; `lower` makes it a step of a
compiled plan. Half precision is widened: the host function sees float32 in its place.
"""

from flambeau.base.errors import ArgumentError, DTypeError, fail
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor


class Memory:
    """NumPy's array interface over memory at an address, kept alive by `owner`."""

    def __init__(self, address, shape, strides, typestr, owner):
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": shape, "strides": strides, "typestr": typestr,
                                    "data": (address, False)}


def memory_array(address, shape, dtype, strides=None, owner=None):
    """A NumPy array over memory; strides in elements (None: row-major). bfloat16 appears as uint16."""
    import numpy
    kind = numpy.dtype("uint16") if dtype.name == "bfloat16" else dtype.numpy
    if 0 in shape:
        return numpy.empty(shape, kind)
    steps = None if strides is None else tuple(s * kind.itemsize for s in strides)
    return numpy.asarray(Memory(address, shape, steps, kind.str, owner))


def widened(array, dtype):
    """What a host function is given: halves as float32."""
    if dtype.name == "bfloat16":
        return (array.astype("uint32") << 16).view("float32")
    return array.astype("float32") if dtype.name == "float16" else array


def store(array, place, dtype):
    """Write a host function's result into memory; to bfloat16 by rounding half to even."""
    import numpy
    if dtype.name == "bfloat16":
        bits = numpy.ascontiguousarray(array, "float32").view("uint32")
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")
        array = numpy.where(numpy.isnan(array), numpy.uint16(0x7FC0), rounded)
    place[...] = array


def array_of(tensor):
    """The elements of a real tensor as a NumPy array (the same memory where the dtype allows)."""
    array = memory_array(tensor.data_ptr(), tuple(tensor.shape), tensor.dtype, tensor.stride(),
                         tensor.detach())
    return widened(array, tensor.dtype)


def tensor_of(array, dtype):
    """A new tensor with the elements of a NumPy array."""
    import numpy
    array = numpy.asarray(array)
    out = _core.empty_strided(array.shape, None, dtype)
    store(array, memory_array(out.data_ptr(), array.shape, dtype), dtype)
    return out


# ------------------------------------------------------------------------------ eager
def run_host(operation, values):
    """Call an Opaque op on real tensors and record it."""
    operands, attrs = operation.split(values)
    for operand in operands:
        if not isinstance(operand, Tensor):
            fail(operation.name, "an operand has the wrong type", type(operand).__name__, "a Tensor",
                 kind=ArgumentError)
    inferred = operation.infer(operands, attrs)
    if any(o.is_shape_only for o in operands):
        results = [_core.shape_only(tuple(shape), dtype) for dtype, shape in inferred]
    else:
        results = _as_list(operation, operation.host(*map(array_of, operands), **attrs))
        results = [tensor_of(r, dtype) for r, (dtype, _) in zip(results, inferred, strict=True)]
    record(operation, operands, results, attrs)
    return results[0] if operation.outputs is None else operation.pack(results)


def _as_list(operation, results):
    return [results] if operation.outputs is None else list(results)


def record(operation, operands, results, attrs):
    """Put a call on the tape; what the derivative's parameters name is saved."""
    if operation.derivative is None or not _core.grad_mode() or not any(o.requires_grad for o in operands):
        return
    wants_out, names, _ = operation.derivative_roles
    count = len(operands)
    rules = operation.__dict__.setdefault("host_rules", {})
    if count not in rules:
        save = (1 << min(count, len(names))) - 1
        rules[count] = _core.BackwardRule(save, ((1 << count) - 1) & ~save, wants_out, [], [], None)
    _core.record(operation.native, rules[count], tuple(operands), tuple(results), attrs, wants_out)


# ------------------------------------------------------------------------------ compiled
def lower(operation, planner, inputs, outputs, **attrs):
    """Add a step to a plan that calls the host function on the operands' memory."""
    inputs = [planner.dense(v) for v in inputs]
    sizes = [s for located in (*inputs, *outputs) for s in located.shape]
    kinds = [(v.dtype, len(v.shape)) for v in inputs], [(v.dtype, len(v.shape)) for v in outputs]
    planner.recipe.host(host_step(operation, kinds, attrs), [*inputs, *outputs], sizes)


def host_step(operation, kinds, attrs):
    """A function of addresses (inputs, then outputs) and of all their sizes in a row."""
    taken, given = kinds
    count = len(taken) + len(given)

    def step(*numbers):
        addresses, sizes, arrays = numbers[:count], numbers[count:], []
        for address, (dtype, rank) in zip(addresses, (*taken, *given)):
            arrays.append(memory_array(address, tuple(sizes[:rank]), dtype))
            sizes = sizes[rank:]
        inputs = [widened(a, dtype) for a, (dtype, _) in zip(arrays, taken)]
        results = _as_list(operation, operation.host(*inputs, **attrs))
        for result, place, (dtype, _) in zip(results, arrays[len(taken):], given, strict=True):
            store(result, place, dtype)
    return step


def require_floating(name, *operands, half=False):
    """The one floating dtype of the operands of a dense operation; DTypeError otherwise."""
    first = operands[0].dtype
    for operand in operands:
        if operand.dtype.kind != "f" or (operand.dtype.itemsize == 2 and not half):
            fail(name, "the operands must be float32 or float64", operand.dtype,
                 hint="x.float() or x.double()",
                 kind=DTypeError)
        if operand.dtype is not first:
            fail(name, "the operands have different dtypes", [o.dtype for o in operands], "one dtype",
                 kind=DTypeError)
    return first


__all__ = ["run_host", "lower", "array_of", "tensor_of", "require_floating"]
