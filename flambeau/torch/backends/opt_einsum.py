"""torch.backends.opt_einsum: not in use; `einsum` multiplies from left to right."""

import sys as _sys

from flambeau.torch.backends._switch import flags_of as _flags_of

enabled, strategy = False, None


def is_available():
    """False."""
    return False


def get_opt_einsum():
    """None."""


flags = _flags_of(_sys.modules[__name__], ("enabled", "strategy"))
