"""The names of `flambeau` itself: tensors, creation, ops."""

import importlib
import sys

from flambeau import ops
from flambeau.ops import overrides
from flambeau.tensor import anomaly, autograd, exchange, indexing
from flambeau.ops.spec import FUNCTIONS
from flambeau.types import device, dtype

_tensor = sys.modules["flambeau.tensor"]


def table():
    """name -> object."""
    found = exchange.names()
    found |= {name: op.function for name, op in ops.REGISTRY.items() if not op.internal and not name.startswith("_")}
    found |= FUNCTIONS
    found |= {alias: op.function for op in ops.REGISTRY.values() for alias in op.alias_names}
    found |= {name: getattr(_tensor, name) for name in _tensor.__all__}
    for name in ("transpose", "t", "flatten", "clone", "narrow", "contiguous", "view"):
        found[name] = getattr(ops.view, name)
    found |= {name: getattr(ops, name) for name in ("bmm", "linear", "conv2d", "max_pool2d", "embedding")}
    found |= {name: getattr(_tensor.Tensor, name) for name in ("max", "min", "unbind", "masked_fill")}
    found |= {"nonzero": indexing.nonzero, "backward": autograd.backward,
              "is_inference_mode_enabled": autograd.is_inference_mode_enabled}
    found |= {name: getattr(anomaly, name) for name in ("is_anomaly_enabled", "is_anomaly_check_nan_enabled")}
    found["set_anomaly_enabled"] = anomaly.set_detect_anomaly
    found |= {"device": device.Device, "dtype": dtype.DType, "get_default_dtype": dtype.get_default_dtype,
              "set_default_dtype": dtype.set_default_dtype, "promote_types": dtype.promote}
    found |= {"is_tensor": lambda value: isinstance(value, _tensor.Tensor), "numel": lambda input: input.numel()}
    found |= {"vmap": importlib.import_module("flambeau.transform").vmap}
    found |= {"set_num_threads": _core("set_num_threads"), "get_num_threads": _core("get_num_threads")}
    found |= {"inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793, "e": 2.718281828459045}
    return found


def _core(name):
    return getattr(importlib.import_module("flambeau.runtime._core"), name)


def _overridable(name):
    """A function of `flambeau.overrides`, which is imported when the first call is overridden."""
    return lambda *args: getattr(importlib.import_module("flambeau.overrides"), name)(*args)


overrides.set_hooks(functions=_overridable("python_functions"), name=_overridable("resolve_name"))
_TABLE = None


def _late():
    """What stands above `tensor`, and is imported only for a name that is not found before."""
    native = importlib.import_module("flambeau.nn.functional.native")
    return {name: getattr(native, name) for name in native.NAMES}


def find(name):
    """The object called `flambeau.<name>`; AttributeError if there is none."""
    global _TABLE
    if _TABLE is None:
        _TABLE = table()
    found = _TABLE if name in _TABLE else _late()
    if name in found:
        return found[name]
    raise AttributeError(f"module 'flambeau' has no attribute {name!r}")


def names():
    return [*(_TABLE or table()), *_late()]
