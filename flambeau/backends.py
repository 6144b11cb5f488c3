"""How kernels are chosen and for which processor: the counterpart of torch.backends.

`autotune` (False, or True from the start with FLAMBEAU_AUTOTUNE=1): while it is True, a convolution, its
gradients or a matrix product that meets new shapes is run with a few schedules, for some 50 ms, and the
quickest is kept, in memory and beside the cache of compiled kernels (`flambeau cache` lists them). Results
are the same bits either way. `torch.backends.cudnn.benchmark` is the same setting.

>>> import flambeau as fl
>>> fl.backends.autotune
False
>>> fl.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
True
"""

import sys
from types import ModuleType, SimpleNamespace

import flambeau.compiler            # noqa: F401 - reads FLAMBEAU_AUTOTUNE
from flambeau.runtime import _core

__all__ = ["autotune", "cpu", "get_cpu_capability"]


def get_cpu_capability():
    """The vector code that kernels use: 'DEFAULT', 'AVX2' or 'AVX512'."""
    from flambeau.compiler import target

    features = target.current().features
    return "AVX512" if "avx512f" in features else "AVX2" if "avx2" in features else "DEFAULT"


cpu = SimpleNamespace(get_cpu_capability=get_cpu_capability)


class _Backends(ModuleType):
    """The module, with its setting kept where plans ask for it."""

    @property
    def autotune(self):
        return _core.autotune()

    @autotune.setter
    def autotune(self, wanted):
        if not isinstance(wanted, bool):
            raise TypeError(f"[backends] autotune is True or False: got {wanted!r}")
        _core.set_autotune(wanted)


sys.modules[__name__].__class__ = _Backends
