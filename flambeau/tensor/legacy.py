"""PyTorch's old constructors: `Tensor(2, 3)`, `FloatTensor([1, 2])` and their kin.

A type such as FloatTensor has no instances of its own: calling it makes a Tensor of its dtype, and `isinstance` asks
for that dtype.
"""

import warnings

from flambeau.runtime import _core
from flambeau.runtime._core import Size, Tensor
from flambeau.tensor import create
from flambeau.types import dtype as dtypes
from flambeau.types.device import Device, missing

_PREFIXES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16",
             "Byte": "uint8",
             "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool"}


def make(dtype, args, device=None):
    """The tensor that `FloatTensor(*args)` makes."""
    if len(args) == 1 and not isinstance(args[0], int):
        data = args[0]
        if isinstance(data, Tensor):
            return _of_tensor(dtype, data)
        if hasattr(data, "elements"):           # a storage
            return _of_tensor(dtype, data.elements())
        if isinstance(data, Size):
            return create.empty(tuple(data), dtype=dtype, device=device)
        if isinstance(data, str):
            raise TypeError("new(): invalid data type 'str'")
        if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
        if type(data).__module__ == "numpy":
            return create.tensor(data, dtype=dtype)
        return create.tensor(_cut(data) if dtype.is_integer else data, dtype=dtype)
    if any(not hasattr(size, "__index__") for size in args):
        raise TypeError(f"new(): sizes must be integers, got {args}")
    return create.empty(args or (0,), dtype=dtype, device=device)


def _of_tensor(dtype, data):
    """An alias of a tensor of the constructor's own dtype."""
    if data.dtype is not dtype:
        raise TypeError(f"new(): expected a tensor of {dtype}, got one of {data.dtype}; use tensor.to(dtype)")
    return data.detach()


def _cut(data):
    """Nested sequences with floating point numbers cut to integers."""
    if isinstance(data, float):
        return int(data)
    return [_cut(each) for each in data] if hasattr(data, "__iter__") and not isinstance(data,
                                                                                         Tensor) else data


def construct(tensor, args, kwargs):
    """Fill a new, empty tensor with what `Tensor(*args)` means."""
    if tensor.ndim or tensor.numel():           # a meta tensor that its class has made already
        return
    unknown = set(kwargs) - {"device", "data", "size"}
    if unknown:
        raise TypeError(f"Tensor() got an unexpected keyword argument {unknown.pop()!r}; use tensor(data, ...)")
    for name in ("data", "size"):
        if name in kwargs:
            args = (*args, Size(kwargs[name]) if name == "size" else kwargs[name])
    tensor._assign(make(dtypes.get_default_dtype(), args, kwargs.get("device")))


class TensorType(type):
    """The type of FloatTensor and its kin."""

    def __call__(cls, *args, device=None):
        return make(cls.dtype, args, device)

    def __instancecheck__(cls, value):
        return isinstance(value, Tensor) and value.dtype is cls.dtype

    def __subclasscheck__(cls, other):
        return other is cls

    def __repr__(cls):
        return f"<class '{dtypes.repr_prefix()}.{cls.__name__}'>"


TYPES = {f"{prefix}Tensor": TensorType(f"{prefix}Tensor", (),
                                       {"dtype": dtypes.by_name(name), "__module__": "torch",
                                                              "__doc__": f"Makes tensors of {name}."})
         for prefix, name in _PREFIXES.items()}


def dtype_of_type(kind):
    """The dtype of a type such as FloatTensor, of its name with or without a package, or of a dtype."""
    if isinstance(kind, dtypes.DType):
        return kind
    if isinstance(kind, TensorType):
        return kind.dtype
    if kind is Tensor:
        return dtypes.get_default_dtype()
    package, _, name = kind.rpartition(".") if isinstance(kind, str) else ("", "", "")
    if package in ("torch", "flambeau") and name in TYPES:
        return TYPES[name].dtype
    device = (package or getattr(kind, "__module__", "")).rpartition(".")[2]
    if device in ("cuda", "xpu", "mps", "mtia"):
        missing(Device(device), "type")
    raise ValueError(f"invalid type: {kind!r}")


_core.set_hook("construct", construct)


def type_of(self, dtype=None, non_blocking=False):
    """'torch.FloatTensor' and the like; with a dtype, or a type or name such as this, the tensor in it."""
    if dtype is not None:
        return self.to(dtype_of_type(dtype))
    prefix = next((prefix for prefix, name in _PREFIXES.items() if name == self.dtype.name), None)
    return f"torch.{prefix}Tensor" if prefix else f"torch.{self.dtype.name.capitalize()}Tensor"


def new(self, *args, device=None):
    """A tensor of the same dtype: of these sizes, or with these data."""
    return make(self.dtype, args, device)


class VariableType(type):
    """The type of Variable: every tensor is one."""

    def __call__(cls, data=None, requires_grad=False, volatile=False):
        if data is None:
            return create.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile:
            warnings.warn("volatile was removed and now has no effect; use `with no_grad():` instead", stacklevel=2)
        made = data.detach() if requires_grad and not data.requires_grad else data
        return made.requires_grad_(True) if requires_grad else made

    def __instancecheck__(cls, value):
        return isinstance(value, Tensor)


class Variable(metaclass=VariableType):
    """The old name of a tensor on the tape: `Variable(data)` is the tensor itself, with `requires_grad=True` a leaf on it."""


METHODS = {"type": type_of, "new": new}
