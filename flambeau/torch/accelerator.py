"""torch.accelerator: there is none besides the CPU."""

from flambeau.torch import _mirror


def is_available():
    """False."""
    return False


def current_accelerator(check_available=False):
    """None."""


def device_count():
    """0."""
    return 0


__getattr__, __dir__ = _mirror.mirror(__name__)
