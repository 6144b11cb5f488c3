"""torch.utils._python_dispatch"""

from contextlib import contextmanager as _contextmanager

from flambeau.ops import interpose as _interpose
from flambeau.torch import _mirror


@_contextmanager
def _disable_current_modes():
    """A block that no dispatch mode sees."""
    whole = _interpose.stack()
    before = list(whole)
    whole.clear()
    _interpose.set_mode()
    try:
        yield before
    finally:
        whole[:] = before
        _interpose.set_mode()


def is_traceable_wrapper_subclass(t):
    """False: there are no wrapper subclasses."""
    return False


def _get_current_dispatch_mode():
    return _interpose.stack()[-1] if _interpose.stack() else None


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.ops.overloads")
