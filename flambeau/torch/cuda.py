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


def manual_seed(seed):
    """Does nothing: there is no device to seed."""


def manual_seed_all(seed):
    """Does nothing: there is no device to seed."""


def empty_cache():
    """Does nothing: there is no device memory."""


def synchronize(device=None):
    """Refused, as PyTorch refuses it without a device."""
    raise RuntimeError("[cuda.synchronize] Flambeau has no CUDA device here\n"
                       "  hint: ask torch.cuda.is_available() first")


__getattr__, __dir__ = _mirror.mirror(__name__)
