"""torch.cuda where there is no CUDA device: it says so, and what needs one is refused."""

from flambeau.torch import _mirror


def is_available():
    """False."""
    return False


def device_count():
    """0."""
    return 0


def is_initialized():
    """False."""
    return False


def is_bf16_supported(including_emulation=True):
    """False."""
    return False


def manual_seed(seed):
    """Does nothing: there is no device to seed."""


manual_seed_all = manual_seed


def init():
    """Refused."""
    _refuse("init")


def empty_cache():
    """Does nothing: there is no device memory."""


def reset_peak_memory_stats(device=None):
    """Does nothing: there is no device memory."""


reset_max_memory_allocated = reset_max_memory_cached = ipc_collect = reset_peak_memory_stats


def memory_allocated(device=None):
    """0."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = memory_allocated


def _refuse(name):
    raise RuntimeError(f"[cuda.{name}] Flambeau has no CUDA device here\n"
                       "  hint: ask torch.cuda.is_available() first")


def _refused(name):
    def refuse(*args, **kwargs):
        _refuse(name)
    refuse.__name__ = name
    refuse.__doc__ = "Refused, as PyTorch refuses it without a device."
    return refuse


synchronize, current_device, get_device_name, get_device_properties, get_device_capability, set_device, mem_get_info = map(
    _refused, ("synchronize", "current_device", "get_device_name", "get_device_properties",
               "get_device_capability",
               "set_device", "mem_get_info"))


def get_rng_state_all():
    """An empty list: there is no device."""
    return []


def set_rng_state_all(new_states):
    """Does nothing: there is no device."""


__getattr__, __dir__ = _mirror.mirror(__name__)
