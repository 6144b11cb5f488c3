"""The closed table of names that PyTorch's files may use: what each stands for, and how we make such an object.

A `Builder` takes the arguments of the file, checks every one of them, and makes the object with our own code; the
functions of PyTorch that the names once meant are not there at all.
"""

import datetime
import decimal
import fractions
import pathlib
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque

from flambeau.runtime._core import Size, Tensor
from flambeau.tensor import torch_arrays
from flambeau.tensor.parameter import Parameter
from flambeau.tensor.pickle_machine import PickleError
from flambeau.tensor.rng import Generator
from flambeau.types import dtype as dtypes
from flambeau.types.device import Device
from flambeau.types.info import LAYOUTS


class Builder:
    """One name of the table. `make(rules, args, machine)` checks `args` and makes the object.

    trusting: only with weights_only=False.
    """

    def __init__(self, name, make, trusting=False):
        self.name, self.make, self.trusting = name, make, trusting

    def build(self, rules, args, machine):
        try:
            return self.make(rules, args, machine)
        except PickleError:
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RuntimeError) as error:
            text = str(error).partition("\n")[0]
            raise PickleError(f"{self.name} does not fit its arguments: {type(error).__name__}: {text}") from None


class StorageKind:
    """A class of storages, as persistent ids name it; `dtype` None: bytes; `refusal`: why there is none here."""

    def __init__(self, name, dtype, refusal=None):
        self.name, self.dtype, self.refusal = name, dtype, refusal


STORAGES = {"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "LongStorage": "int64",
            "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
            "BoolStorage": "bool", "BFloat16Storage": "bfloat16", "ComplexFloatStorage": "complex64",
            "ComplexDoubleStorage": "complex128"}
_ABSENT = {"QUInt8Storage", "QInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage"}
ABSENT_DTYPES = {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32",
                 "float4_e2m1fn_x2", "quint8", "qint8", "qint32", "quint4x2", "quint2x4", "bits8", "bits16", "bits1x8",
                 "bits2x4", "bits4x2"}


def find_known(full):
    """The object or Builder of a full name such as 'torch._utils._rebuild_tensor_v2'; None if it is not known."""
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
    return found if found.name == name or name in ("float", "double", "half", "int", "long", "short", "cfloat", "cdouble") else None


# ---------------------------------------------------------------------------------- tensors
def _tensor(rules, args, machine):
    """(storage, offset, size, stride[, requires_grad, hooks[, metadata]])"""
    storage, offset, size, stride, *rest = args
    made = rules.loader.tensor(storage, None, offset, size, stride)
    return _finish(made, *rest[:1], metadata=rest[2] if len(rest) > 2 else None)


def _tensor_of_dtype(rules, args, machine):
    """(storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])"""
    storage, offset, size, stride, requires_grad, _, dtype, *rest = args
    return _finish(rules.loader.tensor(storage, _real_dtype(dtype), offset, size, stride), requires_grad,
                   metadata=rest[0] if rest else None)


def _finish(tensor, requires_grad=False, metadata=None):
    for mark, method in (("conj", "conj"), ("neg", "neg")):
        if isinstance(metadata, dict) and metadata.get(mark):
            tensor = getattr(tensor, method)()
    return tensor.requires_grad_(True) if requires_grad is True or requires_grad == 1 else tensor


def _real_dtype(dtype):
    if not isinstance(dtype, dtypes.DType):
        raise PickleError(f"a dtype is a {type(dtype).__name__}")
    return dtype


def _meta_tensor(rules, args, machine):
    """(dtype, size, stride, requires_grad)"""
    dtype, size, stride, requires_grad = args
    return _finish(rules.loader.meta_tensor(_real_dtype(dtype), size, stride), requires_grad)


def _parameter(rules, args, machine):
    """(data, requires_grad, hooks[, state])"""
    data, requires_grad, *rest = args
    if not isinstance(data, Tensor):
        raise PickleError(f"a parameter of a {type(data).__name__}")
    made = Parameter(data, bool(requires_grad))
    if len(rest) > 1:
        tensor_state(made, rest[1])
    return made


def _buffer(rules, args, machine):
    """(data, requires_grad, persistent)"""
    data, requires_grad, persistent = args
    return tensor_state(_finish(_is_tensor(data), requires_grad), {"persistent": bool(persistent), "_is_buffer": True})


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
    return from_saved(name, [_is_tensor(part) for part in parts[:count]], sizes, coalesced, False)


def _nested(rules, args, machine):
    """(buffer, sizes, strides, offsets): the items of a nested tensor in one buffer."""
    from flambeau.tensor.nested_make import from_saved
    buffer, sizes = _is_tensor(args[0]), [rules.loader.sizes(row) for row in _is_tensor(args[1]).tolist()]
    steps, starts = _is_tensor(args[2]).tolist(), _is_tensor(args[3]).tolist()
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
    return from_saved("strided", [buffer], {"item_sizes": [tuple(size) for size in sizes]}, buffer.requires_grad)


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
    name, = args
    return LAYOUTS[name.removeprefix("torch.")]


def _device(rules, args, machine):
    if not 1 <= len(args) <= 2 or type(args[0]) is not str or not isinstance(args[1] if args[1:] else None, (int, type(None))):
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
    data, = args
    return rules.loader.inner(data)


# ---------------------------------------------------------------------------------- containers and values
def _checked(name, kinds, make, most=3):
    """A builder of `name` whose arguments must be of `kinds`."""
    def build(rules, args, machine):
        if len(args) > most or not all(isinstance(each, kinds) for each in args):
            raise PickleError(f"{name} of {[type(each).__name__ for each in args]}")
        return make(*args)
    return build


def _ordered(kind):
    def make(rules, args, machine):
        made = kind()
        if args:
            pairs = args[0].items() if type(args[0]) is dict else [tuple(pair) for pair in args[0]]
            for key, value in pairs:
                made[machine.key(key)] = value
        return made
    return make


def _default_dict(rules, args, machine):
    """The factory must be a plain container or a class that the rules trust; it is not called here."""
    factory = args[0] if args else None
    if isinstance(factory, Builder):
        factory = _FACTORIES.get(factory.name)
        if factory is None:
            raise PickleError("a defaultdict of what is no class of data")
    elif factory is not None and not (isinstance(factory, type) and (factory in _PLAIN_FACTORIES or id(factory) in rules.trusted)):
        raise PickleError("a defaultdict of what is no class of data")
    made = defaultdict(factory)
    for key, value in (args[1] if args[1:] else {}).items():
        made[machine.key(key)] = value
    return made


def _queue(rules, args, machine):
    items, most = (args + ((), None))[:2] if args else ((), None)
    if not isinstance(items, (list, tuple)) or not isinstance(most, (int, type(None))):
        raise PickleError("a deque of what is no list")
    return deque(items, most)


def _encode(rules, args, machine):
    """_codecs.encode(text, 'latin1'): how bytes are written in protocol 2."""
    text, coding = args if len(args) == 2 else (args[0], "utf-8")
    if type(text) is not str or coding not in ("latin1", "latin-1", "utf-8"):
        raise PickleError("bytes of what is no text")
    return text.encode(coding)


def _byte_array(rules, args, machine):
    if not args:
        return bytearray()
    if isinstance(args[0], (bytes, bytearray)) and len(args) == 1:
        return bytearray(args[0])
    if type(args[0]) is str and args[1:] in (("latin-1",), ("latin1",)):
        return bytearray(args[0].encode("latin1"))
    raise PickleError("a bytearray of what is no bytes")


def _listed(kind):
    def make(rules, args, machine):
        if len(args) > 1 or args and not isinstance(args[0], (list, tuple)):
            raise PickleError(f"a {kind.__name__} of what is no list")
        made = kind(*args)
        return machine.group(made) if kind is tuple else made
    return make


def _reconstructor(rules, args, machine):
    """copyreg._reconstructor(cls, object, None): how protocols 0 and 1 write an object."""
    kind, base, state = args
    if not isinstance(base, Builder) or base.name != "builtins.object" or state is not None:
        raise PickleError("an old object of a base that is not object")
    return rules.new(kind, (), {}, machine)


def _partial(rules, args, machine):
    """functools.partial of a class or function that the rules trust; __setstate__ gives it the arguments."""
    import functools
    if len(args) != 1 or id(args[0]) not in rules.trusted:
        raise PickleError("a partial of what is neither a class nor a function of the program")
    return functools.partial(args[0])


def _fill_partial(target, state):
    function, args, kwargs, attributes = state
    if function is not target.func or type(args) is not tuple or not isinstance(kwargs, dict):
        raise PickleError("the state of a partial is that of another one")
    target.__setstate__((function, args, kwargs, attributes if isinstance(attributes, dict) else {}))


def _inner_attribute(rules, args, machine):
    """getattr(class, name): how protocols below 4 write a class in another one; getattr(object, name): a method of it."""
    owner, name = args
    if type(name) is str and isinstance(owner, type) and id(owner) in rules.trusted:
        value = vars(owner).get(name)
        if isinstance(value, type) and value.__qualname__ == f"{owner.__qualname__}.{name}":
            rules.trusted.add(id(value))
            return value
    elif type(name) is str and id(owner) in machine.made and id(type(owner)) in rules.trusted:
        function = next((vars(kind)[name] for kind in type(owner).__mro__ if name in vars(kind)), None)
        if isinstance(function, types.FunctionType):
            return types.MethodType(function, owner)
    raise PickleError(f"the file reads an attribute {name!r}; only classes in classes and methods of objects are")


def _path(rules, args, machine):
    if not all(type(part) is str for part in args):
        raise PickleError("a path of what is no text")
    return pathlib.PurePath(*args) if rules.weights_only else pathlib.Path(*args)


def _fill_attributes(target, state):
    if not isinstance(state, dict) or not all(type(name) is str for name in state):
        raise PickleError(f"the state of a {type(target).__name__} is no dict")
    target.__dict__.update(state)


_PLAIN_FACTORIES = (list, dict, set, int, float, str, bool, tuple)
_NUMBERS = (int, float, str, bytes, type(None))
_FACTORIES = {"collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "collections.deque": deque}
_BUILDERS = {
    "torch._utils._rebuild_tensor": _tensor, "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_dtype, "torch._utils._rebuild_meta_tensor_no_storage": _meta_tensor,
    "torch._utils._rebuild_parameter": _parameter, "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_buffer": _buffer, "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch._utils._rebuild_sparse_tensor": _sparse, "torch._utils._rebuild_sparse_csr_tensor": _sparse,
    "torch._utils._rebuild_nested_tensor": _nested,
    "torch._utils._rebuild_qtensor": _refused("quantized tensors are not available: save dequantize() of them"),
    "torch.nested._internal.nested_tensor._rebuild_njt": _refused("jagged nested tensors are not read: save their values() and offsets()"),
    "torch.nn.modules.module._WrappedHook": _refused("modules with hooks of load_state_dict (lazy ones) are not read whole: save "
                                                     "their state_dict()"),
    "torch._utils._rebuild_wrapper_subclass": _refused("wrapper subclasses of tensors are not available"),
    "torch._utils._rebuild_device_tensor_from_numpy": _refused("tensors of other devices that were saved as arrays are not available"),
    "torch.nn.parameter.UninitializedParameter": _uninitialized("UninitializedParameter"),
    "torch.nn.parameter.UninitializedBuffer": _uninitialized("UninitializedBuffer"),
    "torch.serialization._get_layout": _layout, "torch.device": _device, "torch.Size": _size,
    "torch._C.Generator": _generator, "torch.Generator": _generator, "torch.storage._load_from_bytes": _inner_file,
    "collections.OrderedDict": _ordered(OrderedDict), "collections.Counter": _ordered(Counter),
    "collections.defaultdict": _default_dict, "collections.deque": _queue, "_codecs.encode": _encode,
    "builtins.bytearray": _byte_array, "builtins.complex": _checked("complex", (int, float), complex, 2),
    "builtins.range": _checked("range", int, range), "builtins.xrange": _checked("range", int, range),
    "builtins.slice": _checked("slice", (int, float, str, type(None)), slice),
    "builtins.bytes": _checked("bytes", bytes, bytes, 1), "builtins.object": lambda rules, args, machine: object(),
    **torch_arrays.BUILDERS,
}
_TRUSTING = {
    "copyreg._reconstructor": _reconstructor, "functools.partial": _partial, "builtins.getattr": _inner_attribute,
    "datetime.date": _checked("date", (int, str, bytes), datetime.date),
    "datetime.time": _checked("time", _NUMBERS, datetime.time, 8),
    "datetime.datetime": _checked("datetime", (*_NUMBERS, datetime.tzinfo), datetime.datetime, 8),
    "datetime.timedelta": _checked("timedelta", int, datetime.timedelta),
    "datetime.timezone": _checked("timezone", (datetime.timedelta, str), datetime.timezone, 2),
    "decimal.Decimal": _checked("Decimal", str, decimal.Decimal, 1),
    "fractions.Fraction": _checked("Fraction", (int, str), fractions.Fraction, 2),
    "uuid.UUID": lambda rules, args, machine: uuid.UUID.__new__(uuid.UUID),
    "types.SimpleNamespace": lambda rules, args, machine: types.SimpleNamespace(),
    "argparse.Namespace": lambda rules, args, machine: __import__("argparse").Namespace(),
    "pathlib.PosixPath": _path, "pathlib.WindowsPath": _path, "pathlib.Path": _path, "pathlib.PurePath": _path,
    "pathlib.PurePosixPath": _path, "pathlib.PureWindowsPath": _path, "pathlib._local.PosixPath": _path,
}
_TABLE = {name: Builder(name, make) for name, make in _BUILDERS.items()}
_TABLE |= {name: Builder(name, make, trusting=True) for name, make in _TRUSTING.items()}
_TABLE |= torch_arrays.KINDS | {"builtins.set": set, "builtins.frozenset": frozenset, "torch.Tensor": Tensor,
           "torch.nn.parameter.Parameter": Parameter,
           **{f"builtins.{kind.__name__}": kind for kind in (int, float, str, bool, dict)},
           "builtins.list": Builder("builtins.list", _listed(list)), "builtins.tuple": Builder("builtins.tuple", _listed(tuple))}
_FACTORIES |= {"builtins.list": list, "builtins.tuple": tuple}


def _fill_uuid(target, state):
    if not isinstance(state, dict) or set(state) - {"int", "is_safe"} or not isinstance(state.get("int"), int):
        raise PickleError("the state of a UUID is none")
    object.__setattr__(target, "int", state["int"])
    object.__setattr__(target, "is_safe", uuid.SafeUUID.unknown)


def _fill_dict(target, state):
    """The attributes of an OrderedDict, such as the `_metadata` of a state_dict."""
    _fill_attributes(target, state)


# Type (or 'module.name' of one that is imported late) -> what gives an object of it the state that a file has.
FILLERS = {Generator: _fill_generator, OrderedDict: _fill_dict, uuid.UUID: _fill_uuid,
           types.SimpleNamespace: _fill_attributes, "argparse.Namespace": _fill_attributes,
           "functools.partial": _fill_partial, **torch_arrays.FILLERS}
