"""torch.distributed: not there (yet); scripts ask first."""

from flambeau.torch import _mirror


def is_available():
    """False."""
    return False


def is_initialized():
    """False."""
    return False


__getattr__, __dir__ = _mirror.mirror(__name__)
