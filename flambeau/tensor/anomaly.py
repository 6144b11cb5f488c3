"""Anomaly detection: the line of the forward pass behind the first gradient that is not finite."""


from flambeau.base.errors import fail
from flambeau.base.source import PACKAGE_FOLDER, show_source, source_line
from flambeau.runtime import _core

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]

_state = {"enabled": False, "check_nan": True}


def is_anomaly_enabled():
    """True inside `detect_anomaly`."""
    return _state["enabled"]


def is_anomaly_check_nan_enabled():
    """True if anomaly detection looks at values too."""
    return _state["check_nan"]


def _set(enabled, check_nan):
    _state.update(enabled=enabled, check_nan=check_nan)
    _core.set_examine_gradients(enabled and check_nan)


class set_detect_anomaly:       # noqa: N801 - PyTorch's name
    """Switch anomaly detection on or off, from now on or for a block."""

    def __init__(self, mode, check_nan=True):
        self.before = _state["enabled"], _state["check_nan"]
        _set(bool(mode), bool(check_nan))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        _set(*self.before)


class detect_anomaly(set_detect_anomaly):       # noqa: N801
    """Inside, a backward pass that meets a NaN or infinite gradient raises, naming the op and the line of the forward pass
    that it belongs to; errors of backward functions name that line too. Slow: for finding faults.

    >>> with fl.autograd.detect_anomaly():
    ...     x = fl.tensor([0.0], requires_grad=True)
    ...     try:
    ...         x.sqrt().sum().backward()
    ...     except RuntimeError as error:
    ...         print(str(error).splitlines()[0])
    [sqrt] the gradient of input 0 is not finite: got inf at position 0 of shape (1,)
    """

    def __init__(self, check_nan=True):
        self.check_nan = check_nan

    def __enter__(self):
        super().__init__(True, self.check_nan)
        return self


def examine_gradient(node, place, gradient):
    """Raise if a gradient that `node` hands on is not finite."""
    import numpy
    values = gradient.detach()
    if values.dtype.kind not in "fc" or not values.numel():
        return
    values = (values.float() if values.dtype.itemsize == 2 else values).numpy()
    wrong = ~numpy.isfinite(values)
    if not wrong.any():
        return
    at = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    position = at[0] if len(at) == 1 else at
    where = node.recorded_at
    made = "its forward call was not recorded with anomaly detection on" if where is None \
        else f"its forward call is at {show_source(where)}: {source_line(*where) or ''}"
    count = int(wrong.sum())
    more = f", {count} in all" if count > 1 else ""
    fail(node.operation.name, f"the gradient of input {place} is not finite",
         f"{values[at]} at position {position} of shape {tuple(values.shape)}{more}",
         hint=f"{made}; look at what it gets there (zeros, infinities, a square root or logarithm at its edge)")


_core.set_hook("examine_gradient", examine_gradient)
_core.set_own_folder(PACKAGE_FOLDER)
