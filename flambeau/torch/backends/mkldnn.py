"""torch.backends.mkldnn: not in use; Flambeau generates its kernels."""

import sys as _sys
from contextlib import nullcontext as _nullcontext

from flambeau.torch.backends._switch import Switches as _Switches
from flambeau.torch.backends._switch import flags_of as _flags_of

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
enabled, deterministic, allow_tf32, fp32_precision = True, False, False, "none"
matmul, conv, rnn = (_Switches(fp32_precision="none") for _ in range(3))


def is_available():
    """False."""
    return False


def is_acl_available():
    """False."""
    return False


def verbose(level):
    """A block that changes nothing."""
    return _nullcontext()


flags = _flags_of(_sys.modules[__name__], ("enabled", "deterministic", "allow_tf32", "fp32_precision"))
