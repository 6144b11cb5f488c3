"""torch.backends.mkl: not in use; Flambeau generates its kernels."""

from contextlib import nullcontext as _nullcontext

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available():
    """False."""
    return False


def verbose(enable):
    """A block that changes nothing."""
    return _nullcontext()
