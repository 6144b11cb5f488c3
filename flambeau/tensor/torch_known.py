"""The closed table of names that PyTorch's files may use: what each stands for, and how we make it.

A `Builder` takes the arguments of the file, checks every one of them, and makes the object with our own code;
the functions of PyTorch that the names once meant are not there at all.
"""

from flambeau.runtime._core import Size, Tensor
from flambeau.tensor import torch_arrays, torch_values
from flambeau.tensor.parameter import Parameter
from flambeau.tensor.pickle_machine import PickleError
from flambeau.tensor.rng import Generator
from flambeau.tensor.torch_values import Builder
from flambeau.types import dtype as dtypes
from flambeau.types.device import Device
from flambeau.types.info import LAYOUTS


class StorageKind:
    """A class of storages as persistent ids name it; `dtype` None: bytes; `refusal`: why there is none."""

    def __init__(self, name, dtype, refusal=None):
        self.name, self.dtype, self.refusal = name, dtype, refusal


STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "BFloat16Storage": "bfloat16",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_ABSENT = {"QUInt8Storage", "QInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage"}
ABSENT_DTYPES = {
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "complex32",
    "float4_e2m1fn_x2",
    "quint8",
    "qint8",
    "qint32",
    "quint4x2",
    "quint2x4",
    "bits8",
    "bits16",
    "bits1x8",
    "bits2x4",
    "bits4x2",
}


def find_known(full):
    """The object or Builder of a full name such as 'torch.Size'; None if it is not known."""
    if full in _TABLE:
        return _TABLE[full]
    module, _, name = full.rpartition(".")
    if module in ("torch", "torch.cuda", "torch.storage") and name.endswith("Storage"):
        return _storage_kind(name)
    if module == "torch":
        return _dtype(name)
    return None


def _storage_kind(name):
    if name in ("UntypedStorage", "_UntypedStorage"):
        return StorageKind(name, None)
    if name in STORAGES:
        return StorageKind(name, dtypes.by_name(STORAGES[name]))
    if name in _ABSENT:
        return StorageKind(name, None, "quantized tensors are not available: save dequantize() of them")
    return None


def _dtype(name):
    if name in ABSENT_DTYPES:
        kind = "quantized tensors are" if name.startswith("q") else f"the dtype {name} is"
        raise PickleError(f"{kind} not available in Flambeau; convert the tensors before they are saved")
    try:
        found = dtypes.by_name(name)
    except KeyError:
        return None
    return (
        found
        if found.name == name
        or name in ("float", "double", "half", "int", "long", "short", "cfloat", "cdouble")
        else None
    )


# ---------------------------------------------------------------------------------- tensors
def _tensor(rules, args, machine):
    """(storage, offset, size, stride[, requires_grad, hooks[, metadata]])"""
    storage, offset, size, stride, *rest = args
    made = rules.loader.tensor(storage, None, offset, size, stride)
    return _finish(machine, storage, made, *rest[:1], metadata=rest[2] if len(rest) > 2 else None)


def _tensor_of_dtype(rules, args, machine):
    """(storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])"""
    storage, offset, size, stride, requires_grad, _, dtype, *rest = args
    made = rules.loader.tensor(storage, _real_dtype(dtype), offset, size, stride)
    return _finish(machine, storage, made, requires_grad, metadata=rest[0] if rest else None)


def _finish(machine, storage, tensor, requires_grad=False, metadata=None):
    for mark, method in (("conj", "conj"), ("neg", "neg")):
        if isinstance(metadata, dict) and metadata.get(mark):
            if tensor.numel() * tensor.element_size() > storage.nbytes():
                raise PickleError("a conjugated or negated tensor that is larger than its storage")
            machine.spend(tensor.numel())
            tensor = getattr(tensor, method)()
    return _wanting(tensor, requires_grad)


def _wanting(tensor, requires_grad):
    return tensor.requires_grad_(True) if requires_grad is True or requires_grad == 1 else tensor


def _real_dtype(dtype):
    if not isinstance(dtype, dtypes.DType):
        raise PickleError(f"a dtype is a {type(dtype).__name__}")
    return dtype


def _meta_tensor(rules, args, machine):
    """(dtype, size, stride, requires_grad)"""
    dtype, size, stride, requires_grad = args
    return _wanting(rules.loader.meta_tensor(_real_dtype(dtype), size, stride), requires_grad)


def _parameter(rules, args, machine):
    """(data, requires_grad, hooks[, state])"""
    data, requires_grad, *rest = args
    if not isinstance(data, Tensor):
        raise PickleError(f"a parameter of a {type(data).__name__}")
    made = Parameter(data, bool(requires_grad))
    if len(rest) > 1:
        machine.spend(len(rest[1] or ()))
        tensor_state(made, rest[1])
    return made


def _buffer(rules, args, machine):
    """(data, requires_grad, persistent)"""
    data, requires_grad, persistent = args
    return tensor_state(
        _wanting(_is_tensor(data), requires_grad), {"persistent": bool(persistent), "_is_buffer": True}
    )


def _is_tensor(value):
    if not isinstance(value, Tensor):
        raise PickleError(f"a tensor is a {type(value).__name__}")
    return value


def _of_type(rules, args, machine):
    """(builder, type, its arguments, state): a tensor of a subclass or with attributes."""
    builder, kind, inner, state = args
    if not isinstance(builder, Builder) or type(inner) is not tuple:
        raise PickleError("a tensor is made by what makes no tensors")
    made = _is_tensor(builder.build(rules, inner, machine))
    if kind not in (Tensor, Parameter):
        if not isinstance(kind, type) or not issubclass(kind, Tensor):
            raise PickleError("the type of a tensor is no class of tensors")
        made = made.as_subclass(kind)
    machine.spend(sum(map(len, filter(None, state if isinstance(state, tuple) else (state,)))))
    return tensor_state(made, state)


def tensor_state(tensor, state):
    """Set attributes of a tensor without running any code of its class."""
    parts = [part for part in (state if isinstance(state, tuple) else (state,)) if part]
    for part in parts:
        if not isinstance(part, dict) or not all(type(name) is str for name in part):
            raise PickleError("the attributes of a tensor are no dict of names")
        own = getattr(tensor, "__dict__", None) if type(tensor) not in (Tensor, Parameter) else None
        (tensor._extra_dict() if own is None else own).update(part)
    return tensor


def _sparse(rules, args, machine):
    """(layout, parts)"""
    from flambeau.tensor.sparse_make import from_saved

    layout, parts = args
    name = getattr(layout, "name", None)
    count = 2 if name == "sparse_coo" else 3
    if name not in LAYOUTS or not name.startswith("sparse") or len(parts) < count + 1:
        raise PickleError(f"a sparse tensor of layout {layout!r} with {len(parts)} parts")
    sizes = rules.loader.sizes(parts[count])
    coalesced = name == "sparse_coo" and len(parts) > 3 and bool(parts[3])
    for part in parts[:count]:
        machine.spend(_is_tensor(part).numel())
    return from_saved(name, list(parts[:count]), sizes, coalesced, False)


def _nested(rules, args, machine):
    """(buffer, sizes, strides, offsets): the items of a nested tensor in one buffer."""
    from flambeau.tensor.nested_make import from_saved

    for part in args:
        machine.spend(_is_tensor(part).numel())
    buffer, sizes = args[0], [rules.loader.sizes(row) for row in args[1].tolist()]
    steps, starts = args[2].tolist(), args[3].tolist()
    at = 0
    for size, step, start in zip(sizes, steps, starts, strict=True):
        if start != at or step != _dense_strides(size):
            raise PickleError("a nested tensor whose items do not follow each other is not available")
        for number in size:
            at = at if number else 0
        count = 1
        for number in size:
            count *= number
        at = start + count
    return from_saved(
        "strided", [buffer], {"item_sizes": [tuple(size) for size in sizes]}, buffer.requires_grad
    )


def _dense_strides(size):
    strides, step = [], 1
    for number in reversed(size):
        strides.append(step)
        step *= max(number, 1)
    return strides[::-1]


def _refused(reason):
    def make(rules, args, machine):
        raise PickleError(reason)

    return make


def _uninitialized(name):
    def make(rules, args, machine):
        import importlib

        kind = getattr(importlib.import_module("flambeau." + "nn"), name)
        made = kind(requires_grad=bool(args[0])) if args else kind()
        return made

    return make


def _layout(rules, args, machine):
    (name,) = args
    return LAYOUTS[name.removeprefix("torch.")]


def _device(rules, args, machine):
    if (
        not 1 <= len(args) <= 2
        or type(args[0]) is not str
        or not isinstance(args[1] if args[1:] else None, (int, type(None)))
    ):
        raise PickleError(f"a device of {args!r}")
    return Device(*args)


def _size(rules, args, machine):
    return Size(rules.loader.sizes(args[0] if args else ()))


def _generator(rules, args, machine):
    if args and not isinstance(args[0], (Device, str)):
        raise PickleError("a generator of what is no device")
    return Generator("cpu")


def _fill_generator(generator, state):
    """(seed, offset, state)"""
    seed, _, inner = state
    if not isinstance(seed, int) or not isinstance(inner, Tensor):
        raise PickleError("the state of a generator is none")
    generator.manual_seed(seed)
    if tuple(inner.shape) == tuple(generator.get_state().shape):
        generator.set_state(inner)


def _inner_file(rules, args, machine):
    """A file of PyTorch's as bytes within a pickle: how `pickle` writes storages."""
    (data,) = args
    return rules.loader.inner(data)


_BUILDERS = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_dtype,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_buffer": _buffer,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_sparse_csr_tensor": _sparse,
    "torch._utils._rebuild_nested_tensor": _nested,
    "torch._utils._rebuild_qtensor": _refused(
        "quantized tensors are not available: save dequantize() of them"
    ),
    "torch.nested._internal.nested_tensor._rebuild_njt": _refused(
        "jagged nested tensors are not read: save their values() and offsets()"
    ),
    "torch.nn.modules.module._WrappedHook": _refused(
        "modules with hooks of load_state_dict (lazy ones) are not read whole: save their state_dict()"
    ),
    "torch._utils._rebuild_wrapper_subclass": _refused("wrapper subclasses of tensors are not available"),
    "torch._utils._rebuild_device_tensor_from_numpy": _refused(
        "tensors of other devices that were saved as arrays are not available"
    ),
    "torch.nn.parameter.UninitializedParameter": _uninitialized("UninitializedParameter"),
    "torch.nn.parameter.UninitializedBuffer": _uninitialized("UninitializedBuffer"),
    "torch.serialization._get_layout": _layout,
    "torch.device": _device,
    "torch.Size": _size,
    "torch._C.Generator": _generator,
    "torch.Generator": _generator,
    "torch.storage._load_from_bytes": _inner_file,
    **torch_arrays.BUILDERS,
}
_TABLE = torch_arrays.KINDS | torch_values.BUILDERS
_TABLE |= {name: Builder(name, make) for name, make in _BUILDERS.items()}
_TABLE |= {"torch.Tensor": Tensor, "torch.nn.parameter.Parameter": Parameter}

# Type (or 'module.name' of one that is imported late) -> what gives an object its state.
FILLERS = {Generator: _fill_generator, **torch_values.FILLERS, **torch_arrays.FILLERS}
