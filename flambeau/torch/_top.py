"""Names directly under `torch` that only the facade has."""

import contextlib

from flambeau.amp import GradScaler, autocast
from flambeau.amp import casting as _casting
from flambeau.torch._compiled import compile
from flambeau.torch._streams import Event, Stream

_AUTOCAST = ("autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
    "get_autocast_cpu_dtype",
             "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
             "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
             "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype")

__all__ = ["AcceleratorError", "Event", "GradScaler", "OutOfMemoryError", "Stream", "autocast", "compile",
           "_sample_dirichlet", "_standard_gamma", "compiled_with_cxx11_abi", "get_device_module",
           "is_distributed", "is_vulkan_available", *_AUTOCAST]

globals().update({name: getattr(_casting, name) for name in _AUTOCAST})


class OutOfMemoryError(RuntimeError):
    """A device has no memory left. Never raised here: where the CPU's is used up, it is a MemoryError."""


class AcceleratorError(RuntimeError):
    """A device reports a fault. Never raised here."""


@contextlib.contextmanager
def _draws_from(generator):
    """A block in which the default generator's draws are those of `generator`, which goes on behind them."""
    from flambeau.tensor.rng import default_generator, source_of

    before, source = default_generator.get_state(), source_of(generator)
    if source is not default_generator:
        default_generator.set_state(source.get_state())
    try:
        yield
    finally:
        if source is not default_generator:
            source.set_state(default_generator.get_state())
            default_generator.set_state(before)


def _standard_gamma(self, generator=None):
    """Gamma draws with these concentrations and rate 1, with gradients into the concentrations."""
    from flambeau.distributions import Gamma

    with _draws_from(generator):
        return Gamma(self, self.new_ones(()), validate_args=False).rsample()


def _sample_dirichlet(self, generator=None):
    """A draw from the Dirichlet distribution for each row of concentrations, with gradients into them."""
    from flambeau.distributions import Dirichlet

    with _draws_from(generator):
        return Dirichlet(self, validate_args=False).rsample()


def compiled_with_cxx11_abi():
    """True: there is no other."""
    return True


def is_vulkan_available():
    """False."""
    return False


def is_distributed(input):
    """False."""
    return False


def get_device_module(device=None):
    """`torch.cpu`, or the module of the device that is named; RuntimeError if there is no such module."""
    import importlib

    from flambeau.types.device import as_device

    kind = as_device(device).type
    if kind not in ("cpu", "cuda", "mps", "mtia", "xpu"):
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return importlib.import_module(f"flambeau.torch.{kind}")
