"""torch.cpu"""

from flambeau.torch import _mirror


def is_available():
    """True."""
    return True


def device_count():
    """1."""
    return 1


def current_device():
    """'cpu'."""
    return "cpu"


def synchronize(device=None):
    """Does nothing: an operation is complete when it returns."""


__getattr__, __dir__ = _mirror.mirror(__name__)
