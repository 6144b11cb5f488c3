"""torch.backends.cudnn: not there. `benchmark` is `flambeau.backends.autotune`; the other switches that
scripts set are kept and change nothing."""

import sys
from contextlib import contextmanager
from types import ModuleType

from flambeau import backends

enabled = False
deterministic = True
allow_tf32 = False
benchmark_limit = 10


def is_available():
    """False."""
    return False


def version():
    """None."""


@contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
          fp32_precision="none"):
    """The switches for a block; of them `benchmark` has an effect."""
    before, backends.autotune = backends.autotune, bool(benchmark)
    try:
        yield
    finally:
        backends.autotune = before


class _Cudnn(ModuleType):
    """The module, with `benchmark` kept in flambeau.backends."""

    @property
    def benchmark(self):
        return backends.autotune

    @benchmark.setter
    def benchmark(self, wanted):
        backends.autotune = bool(wanted)


sys.modules[__name__].__class__ = _Cudnn
