"""Functions and methods that other types and modes may take over: `__torch_function__` (torch.overrides).

>>> from flambeau import overrides
>>> class Logged(fl.Tensor):
...     @classmethod
...     def __torch_function__(cls, func, types, args=(), kwargs=None):
...         print(overrides.resolve_name(func))
...         return super().__torch_function__(func, types, args, kwargs)
>>> type(fl.exp(fl.ones(2).as_subclass(Logged))).__name__
torch.exp
'Logged'
"""

import functools
import importlib
import inspect
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType

from flambeau.ops import overrides as _protocol
from flambeau.ops.interpose import modes as _modes
from flambeau.ops.overrides import (
    THREAD as _THREAD,
    TorchFunctionMode,
    asking as _asking,
    carriers as _carriers,
)
from flambeau.tensor import Tensor as _Tensor

BaseTorchFunctionMode = TorchFunctionMode

# Makers of tensors, and switches, which not even modes see.
_MAKERS = """arange as_strided as_tensor asarray bartlett_window blackman_window empty empty_permuted
empty_strided eye fill
from_file from_numpy frombuffer full hamming_window hann_window kaiser_window linspace logspace normal ones
rand rand_like
randint randint_like randn randn_like randperm range scalar_tensor sparse_bsc_tensor sparse_bsr_tensor
sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor tril_indices
triu_indices vander
zeros""".split()
_SWITCHES = """are_deterministic_algorithms_enabled backward broadcast_shapes can_cast compile cond fork
from_dlpack
get_default_device get_default_dtype get_deterministic_debug_mode get_device_module get_file_path
get_float32_matmul_precision get_num_interop_threads get_num_threads get_printoptions get_rng_state grad
initial_seed is_anomaly_check_nan_enabled
is_anomaly_enabled is_autocast_cache_enabled is_autocast_enabled is_deterministic_algorithms_warn_only_enabled
is_grad_enabled is_inference_mode_enabled is_storage is_tensor is_warn_always_enabled load manual_seed
numel promote_types
result_type save seed set_anomaly_enabled set_default_device set_default_dtype set_default_tensor_type
set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_grad_enabled
set_num_interop_threads
set_num_threads set_printoptions set_rng_state set_warn_always to_dlpack typename
use_deterministic_algorithms vmap
wait""".split()
_HIDDEN_METHODS = {
    "__init__",
    "__new__",
    "__getattr__",
    "__setattr__",
    "__delattr__",
    "__hash__",
    "__init_subclass__",
    "__dir__",
    "__torch_function__",
    "__deepcopy__",
    "__reduce_ex__",
    "__getattribute__",
    "as_subclass",
    "__reduce__",
    "__class__",
    "__subclasshook__",
    "__getstate__",
    "__sizeof__",
    "__str__",
}
_FUNCTIONAL = """elu gelu hardsigmoid hardswish hardtanh leaky_relu linear logsigmoid mish relu6 silu
softplus softshrink
softsign tanhshrink unfold""".split()  # known under `torch.nn.functional` only
_PLACES = (
    ("torch", "flambeau"),
    ("torch.nn.functional", "flambeau.nn.functional"),
    ("torch.linalg", "flambeau.linalg"),
    ("torch.fft", "flambeau.fft"),
    ("torch.special", "flambeau.special"),
)


@functools.cache
def _public():
    """{path: {name: function}} of every public function, switches left out."""
    found = {}
    for path, name in _PLACES:
        module = importlib.import_module(name)
        members = {each: getattr(module, each, None) for each in dir(module) if not each.startswith("_")}
        if path == "torch":
            members = {each: member for each, member in members.items() if each not in _FUNCTIONAL}
        found[path] = {
            each: member
            for each, member in members.items()
            if each not in _SWITCHES
            and isinstance(member, (FunctionType, BuiltinFunctionType))
            and getattr(member, "__name__", "<lambda>") != "<lambda>"
        }
    return found


def _methods():
    """{name: what `Tensor.name` is} of methods and of readers of attributes (`Tensor.shape.__get__`)."""
    found = {}
    for name in list(vars(_Tensor)):
        if name in _HIDDEN_METHODS or name.startswith("_") and not name.endswith("__"):
            continue
        member = getattr(_Tensor, name)
        if isinstance(member, property) or inspect.isgetsetdescriptor(member):
            found[f"{name}.__get__"] = member.__get__
            if getattr(member, "fset", member) is not None:
                found[f"{name}.__set__"] = member.__set__
        elif callable(member):
            found[name] = member
    return found


def python_functions():
    """[(function, do types override it?)] of the public ones that are plain Python: they get doors."""
    house = importlib.import_module("flambeau")
    found = {}
    for group in (*_public().values(), _methods()):
        for function in group.values():
            if isinstance(function, FunctionType) and function.__module__.startswith("flambeau."):
                found[id(function)] = function
    switches = {id(getattr(house, name, None)) for name in _SWITCHES}
    blind = {id(house.tensor), id(house.full)}
    return [(function, key not in blind) for key, function in found.items() if key not in switches]


def get_ignored_functions():
    """Public functions whose arguments override nothing: makers of tensors and switches."""
    house = importlib.import_module("flambeau")
    found = {getattr(house, name, None) for name in (*_MAKERS, *_SWITCHES)} - {None}
    return found | {getattr(_Tensor, name) for name in _HIDDEN_METHODS if hasattr(_Tensor, name)}


def get_overridable_functions():
    """{module or class: functions in it that `__torch_function__` can override}."""
    found = {}
    ignored = {id(function) for function in get_ignored_functions()}
    for (path, name), group in zip(_PLACES, _public().values()):
        module = sys.modules.get("flambeau." + path) or importlib.import_module(name)
        found[module] = [function for function in group.values() if id(function) not in ignored]
    found[_Tensor] = [function for function in _methods().values() if id(function) not in ignored]
    return found


def get_testing_overrides():
    """{function: a stub with its parameters that returns -1} for every function that can be overridden."""
    return {function: _stub(function) for group in get_overridable_functions().values() for function in group}


def _stub(function):
    def stub(*args, **kwargs):
        return -1

    try:
        stub.__signature__ = inspect.signature(function)
    except (TypeError, ValueError):  # a native method
        pass
    return stub


@functools.cache
def _names():
    """(names by identity, names by equality) of everything that can be overridden."""
    by_object, by_value, keep = {}, {}, []
    for path, group in (*_public().items(), ("torch.Tensor", _methods())):
        for name, function in group.items():
            keep.append(function)
            by_object.setdefault(id(function), f"{path}.{name}")
            by_value.setdefault(function, f"{path}.{name}")
    return by_object, by_value, keep


def resolve_name(f):
    """'torch.add', 'torch.Tensor.add', 'torch.Tensor.shape.__get__', ...; None if it is not a public
    operation."""
    if isinstance(f, (str, ModuleType)):
        return str(f)
    by_object, by_value, _ = _names()
    if id(f) in by_object:
        return by_object[id(f)]
    try:
        return by_value.get(f)
    except TypeError:
        return None


def is_tensor_method_or_property(func):
    """True for a method of Tensor, and for the reader of an attribute."""
    name = resolve_name(func)
    return bool(name) and name.startswith("torch.Tensor.") or getattr(func, "__name__", "") == "__get__"


def is_tensor_like(inp):
    """True for a tensor and for whatever has a `__torch_function__`."""
    return isinstance(inp, _Tensor) or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args):
    """True if one of the arguments overrides functions, or a mode is entered."""
    return bool(_THREAD.types_ask and _carriers(tuple(relevant_args))) or bool(_THREAD.modes_ask and _modes())


def has_torch_function_unary(tensor):
    """`has_torch_function` of one argument."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*tensors):
    """`has_torch_function` of the arguments."""
    return has_torch_function(tensors)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """The result of calling `public_api` as the overriding among `relevant_args`, or the mode, wants it.

    Raises:
        TypeError: if all of them return NotImplemented.
    """
    found = _carriers(tuple(relevant_args)) if _THREAD.types_ask else []
    if not found and not _modes():
        raise TypeError(
            f"no argument of {_protocol.shown(public_api)} has __torch_function__ and no mode is entered"
        )
    return _protocol.hand_over(public_api, found, args, kwargs)


def wrap_torch_function(dispatcher):
    """Decorator: a function that its arguments may override; `dispatcher(*args)` returns the ones that
    count."""

    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def get_default_nowrap_functions():
    """Functions whose results a subclass leaves as they are."""
    from flambeau.tensor.subclass import nowrap_functions

    return set(nowrap_functions())


class DisableTorchFunctionSubclass(_asking):
    """`with DisableTorchFunctionSubclass():` arguments override nothing; modes still see calls."""

    def __init__(self):
        super().__init__(False)


class DisableTorchFunction(_asking):
    """`with DisableTorchFunction():` neither arguments nor modes take calls over."""

    def __init__(self):
        super().__init__(False, False)


_disabled_torch_function_impl = _protocol.disabled_torch_function

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]
