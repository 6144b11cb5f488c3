"""Flambeau: a deep-learning framework with PyTorch's API, in Python down to the generated machine code.

    import flambeau as fl
    x = fl.randn(3, requires_grad=True)
    fl.sin(x).sum().backward()
"""

import importlib
import sys
from types import ModuleType as _ModuleType

from flambeau.types.dtype import (bfloat16, bool_ as bool, complex64, complex128, float16, float32, float64, int8, int16,
                                  int32, int64, uint8, uint16, uint32, uint64)  # noqa: F401

__version__ = "0.1.0"

double, half, long, short = float64, float16, int64, int16
_SUBMODULES = ("amp", "autograd", "backends", "benchmark", "compiler", "data", "distributions", "fft", "func", "hub",
                "linalg", "masked", "measure", "memory", "nested", "nn", "ops", "optim", "overrides", "profiler",
                "runtime", "signal", "sparse", "special", "torch", "track", "types", "vision")


def __getattr__(name):
    """Everything else is imported when it is first used."""
    if name in _SUBMODULES:
        return importlib.import_module(f"flambeau.{name}")
    if name.startswith("__"):
        raise AttributeError(name)
    value = importlib.import_module("flambeau.namespace").find(name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *importlib.import_module("flambeau.namespace").names()})


class _Package(_ModuleType):
    """`flambeau.tensor` is the function that makes tensors; the package of that name is reached by import only."""

    def __setattr__(self, name, value):
        if name != "tensor" or not isinstance(value, _ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
