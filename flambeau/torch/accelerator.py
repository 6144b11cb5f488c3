"""torch.accelerator: there is none besides the CPU, which is not counted as one."""

from flambeau.torch import _absent, _mirror
from flambeau.types.device import no_accelerator as _no_accelerator


def is_available():
    """False."""
    return False


def current_accelerator(check_available=False):
    """None: use the CPU.

    >>> device = current_accelerator().type if is_available() else "cpu"
    >>> device
    'cpu'
    """


def device_count():
    """0."""
    return 0


class device_index:             # noqa: N801 - PyTorch's name
    """A block on the accelerator of this number; None is no choice."""

    def __init__(self, device):
        self.device = device

    def __enter__(self):
        if self.device is not None:
            _no_accelerator("accelerator.device_index")

    def __exit__(self, *error):
        return False


def _refused(name):
    def refuse(*args, **kwargs):
        _no_accelerator(f"accelerator.{name}")
    refuse.__name__, refuse.__doc__ = name, "Refused, as PyTorch refuses it without an accelerator."
    return refuse


globals().update({name: _refused(name) for name in (
    "current_device_index", "current_device_idx", "set_device_index", "set_device_idx", "current_stream",
    "set_stream",
    "get_memory_info", "get_device_capability")})
globals().update(_absent.nothing("synchronize", "empty_cache", "empty_host_cache", "reset_peak_memory_stats",
                                 "reset_accumulated_memory_stats"),
                 **_absent.answered(0, "memory_allocated", "max_memory_allocated", "memory_reserved",
                     "max_memory_reserved"),
                 **_absent.answered({}, "memory_stats"))
Graph = _absent.refused_class("cuda", "Graph")

__getattr__, __dir__ = _mirror.mirror(__name__)
