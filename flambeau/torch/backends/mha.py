"""torch.backends.mha: the short way through nn.MultiheadAttention in evaluation. The switch is kept and
changes nothing.
"""

_fastpath = [True]


def get_fastpath_enabled():
    """What was set last."""
    return _fastpath[0]


def set_fastpath_enabled(value):
    """Remembered only."""
    _fastpath[0] = bool(value)
