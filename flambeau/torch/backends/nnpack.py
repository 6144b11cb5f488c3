"""torch.backends.nnpack: not in use; Flambeau generates its kernels."""

import sys as _sys

from flambeau.torch.backends._switch import flags_of as _flags_of

enabled = False


def is_available():
    """False."""
    return False


flags = _flags_of(_sys.modules[__name__], ("enabled",))
