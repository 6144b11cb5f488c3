"""Questions about tensors and dtypes, and switches of the process, as functions of `flambeau` (PyTorch's names)."""

import warnings

from flambeau.runtime import _core
from flambeau.runtime._core import Size, Tensor
from flambeau.types import dtype as dtypes
from flambeau.types import device as places
from flambeau.types import info


def _checked(name, input):
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input


def is_tensor(obj):
    """True for a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj):
    """True for the storage of a tensor."""
    from flambeau.tensor.storage import UntypedStorage
    return isinstance(obj, UntypedStorage)


def is_floating_point(input):
    """True for float16, bfloat16, float32 and float64."""
    return _checked("is_floating_point", input).dtype.is_floating_point


def is_complex(input):
    """True for complex64 and complex128."""
    return _checked("is_complex", input).dtype.is_complex


def is_signed(input):
    """True if the dtype has negative numbers."""
    return _checked("is_signed", input).dtype.is_signed


def is_nonzero(input):
    """True if the only element of `input` is not zero; RuntimeError if it has not one element."""
    if _checked("is_nonzero", input).numel() != 1:
        some = "no values" if input.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {some} is ambiguous")
    return bool(input.item())


def is_same_size(input, other):
    """True if both have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


def is_inference(input):
    """True for a tensor made in inference mode; here such a tensor is an ordinary one, so False."""
    return False


def numel(input):
    """The number of elements."""
    return _checked("numel", input).numel()


def result_type(tensor1, tensor2):
    """The dtype of an operation on two tensors or numbers."""
    dims, numbers, zero = [], [], []
    for value in (tensor1, tensor2):
        if isinstance(value, Tensor):
            (dims if value.ndim else zero).append(value.dtype)
        else:
            numbers.append(value)
    return dtypes.result_type(tuple(dims), tuple(numbers), tuple(zero))


def typename(obj):
    """The type of an object as PyTorch writes it."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", None) else f"{module}.{kind.__qualname__}"


# ---------------------------------------------------------------------------------- switches
def set_default_device(device):
    """The device of new tensors which name none: 'cpu' or 'meta'; None is the CPU. With a device that is not here the next new
    tensor raises MissingDevice. `with flambeau.device(...)` does it for a block."""
    places.set_default(device)


def get_default_device():
    """The device of new tensors which name none."""
    return places.default()


_DETERMINISTIC = {"on": False, "warn_only": False}


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Remembered only: all kernels are deterministic."""
    _DETERMINISTIC.update(on=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled():
    """What `use_deterministic_algorithms` was told last."""
    return _DETERMINISTIC["on"]


def is_deterministic_algorithms_warn_only_enabled():
    """What `use_deterministic_algorithms` was told last."""
    return _DETERMINISTIC["on"] and _DETERMINISTIC["warn_only"]


def set_deterministic_debug_mode(debug_mode):
    """'default', 'warn' or 'error' (0, 1, 2); remembered only."""
    number = {"default": 0, "warn": 1, "error": 2}.get(debug_mode, debug_mode)
    if number not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1 or 2, but got {debug_mode}")
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


def get_deterministic_debug_mode():
    """0, 1 or 2; see `set_deterministic_debug_mode`."""
    return 0 if not _DETERMINISTIC["on"] else 1 if _DETERMINISTIC["warn_only"] else 2


_PRECISION = ["highest"]


def set_float32_matmul_precision(precision):
    """'highest', 'high' or 'medium'; remembered only: products of float32 are computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"Invalid precision {precision!r}: it is 'highest', 'high' or 'medium'")
    _PRECISION[0] = precision


def get_float32_matmul_precision():
    """What `set_float32_matmul_precision` was told last."""
    return _PRECISION[0]


_INTEROP = [1]


def set_num_interop_threads(number):
    """Remembered only: operations run one after the other."""
    if number <= 0:
        raise RuntimeError("Expected positive number of threads")
    _INTEROP[0] = int(number)


def get_num_interop_threads():
    """What `set_num_interop_threads` was told last."""
    return _INTEROP[0]


def set_flush_denormal(mode):
    """False: denormal numbers are always kept."""
    return not mode


_WARN_ALWAYS = [False]


def set_warn_always(b):
    """Remembered only."""
    _WARN_ALWAYS[0] = bool(b)


def is_warn_always_enabled():
    """What `set_warn_always` was told last."""
    return _WARN_ALWAYS[0]


def set_default_tensor_type(t):
    """The old way to say `set_default_dtype`: a type such as FloatTensor, or its name."""
    from flambeau.tensor.legacy import dtype_of_type

    dtype = dtype_of_type(t)
    warnings.warn("set_default_tensor_type() is deprecated; use set_default_dtype() and set_default_device()",
                  stacklevel=2)
    dtypes.set_default_dtype(dtype)


NAMES = {name: value for name, value in globals().items()
         if getattr(value, "__module__", None) == __name__ and not name.startswith("_")}
NAMES |= {"Size": Size, "finfo": info.finfo, "iinfo": info.iinfo, "can_cast": info.can_cast,
          "layout": info.Layout,
          "memory_format": info.MemoryFormat, **info.LAYOUTS, **info.MEMORY_FORMATS, "newaxis": None}
NAMES |= {"float": dtypes.float32, "int": dtypes.int32, "cfloat": dtypes.complex64,
          "cdouble": dtypes.complex128}
NAMES |= {"get_num_threads": _core.get_num_threads, "set_num_threads": _core.set_num_threads}
