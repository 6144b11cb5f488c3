"""NumPy's side of the operators, and the buffer protocol.

An array beside a tensor in an operator counts as a tensor on the array's memory: `tensor + array` and `array + tensor`
are tensors, and NumPy's functions of a tensor give one back.
"""

from flambeau.base.errors import fail
from flambeau.ops import spec
from flambeau.ops import write as writing
from flambeau.runtime import _core
from flambeau.tensor.create import from_numpy, tensor

_FORMATS = {"bool": "?", "uint8": "B", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H",
            "uint32": "I",
            "uint64": "Q", "float16": "e", "float32": "f", "float64": "d", "complex64": "Zf",
            "complex128": "Zd"}


def is_array(value):
    """True for a NumPy array that is not a mere number."""
    return type(value).__module__ == "numpy" and getattr(value, "ndim", 0) > 0


def as_operand(value):
    """An array as a tensor; anything else as it is."""
    if not is_array(value):
        return value
    return from_numpy(value) if min(value.strides) >= 0 else tensor(value)


def operator(operation, a, b):
    """A Python operator whose operands the native path did not take."""
    return spec._operator(operation, as_operand(a), as_operand(b))


def inplace(operation, args):
    """The in-place operators."""
    return writing.inplace(operation, tuple(map(as_operand, args)))


def array_wrap(self, array, context=None, return_scalar=False):
    """What NumPy calls with the result of a function of a tensor: the result as a tensor."""
    return from_numpy(array) if array.ndim else tensor(array)


def check_buffer(self):
    """Refuse a buffer of what has no elements to show."""
    if self.requires_grad:
        fail("memoryview", "a tensor that requires gradients shows no buffer", hint="use tensor.detach()",
             kind=BufferError)
    if self.is_shape_only:
        fail("memoryview", "a meta tensor has no data", tuple(self.shape), kind=BufferError)


def buffer_format(dtype):
    """The letter of Python's `struct` for a dtype."""
    if dtype.name not in _FORMATS:
        fail("memoryview", "the buffer protocol has no such elements", dtype, hint="use tensor.float()",
             kind=BufferError)
    return _FORMATS[dtype.name].encode()


def attach():
    """Give Tensor these protocols."""
    for name, function in (("operator", operator), ("inplace", inplace), ("check_buffer", check_buffer),
                           ("buffer_format", buffer_format)):
        _core.set_hook(name, function)
    _core.attach_attribute("__array_priority__", 1000)
    _core.attach_attribute("__array_wrap__", array_wrap)
