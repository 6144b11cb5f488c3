"""torch.backends.cudnn: not there. `benchmark` is `flambeau.backends.autotune`; the other switches that
scripts set are kept and change nothing."""

import sys
from contextlib import contextmanager
from types import ModuleType

from flambeau import backends
from flambeau.torch.backends._switch import Switches as _Switches

enabled = True
deterministic = False
allow_tf32 = True
benchmark_limit = None
fp32_precision = "none"
depthwise = "auto"
conv, rnn = _Switches(fp32_precision="none"), _Switches(fp32_precision="none")

_NAMES = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")


def is_available():
    """False."""
    return False


def version():
    """None."""


def is_acceptable(tensor):
    """False: no tensor is on a CUDA device."""
    return False


def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None,
              _fp32_precision="none", *more):
    """Set what is not None; returns the values before. `benchmark` has an effect."""
    module = sys.modules[__name__]
    before = tuple(getattr(module, name) for name in _NAMES)
    for name, value in zip(_NAMES, (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)):
        if value is not None:
            setattr(module, name, value)
    return before


@contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
          fp32_precision="none"):
    """The switches for a block; of them `benchmark` has an effect."""
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)


class _Cudnn(ModuleType):
    """The module, with `benchmark` kept in flambeau.backends."""

    @property
    def benchmark(self):
        return backends.autotune

    @benchmark.setter
    def benchmark(self, wanted):
        backends.autotune = bool(wanted)


sys.modules[__name__].__class__ = _Cudnn
