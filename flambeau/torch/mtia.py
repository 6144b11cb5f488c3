"""torch.mtia: not there."""

from flambeau.torch import _mirror


def is_available():
    """False."""
    return False


def device_count():
    """0."""
    return 0


def manual_seed(seed):
    """Does nothing: there is no device to seed."""


def empty_cache():
    """Does nothing: there is no device memory."""


__getattr__, __dir__ = _mirror.mirror(__name__)
