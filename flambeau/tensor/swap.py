"""Two tensors change what they are: data, history, gradient and attributes."""

from flambeau.runtime import _core
from flambeau.runtime._core import Tensor

_detach = Tensor.detach


def swap_tensors(t1, t2):
    """Exchange two tensors in place: whoever refers to one has the other from now on.

    Raises:
        TypeError: if their types differ in more than a Python subclass.

    Example::

        >>> from flambeau.tensor.swap import swap_tensors
        >>> a, b = fl.zeros(2), fl.ones(3)
        >>> swap_tensors(a, b)
        >>> a, b
        (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    first, second = _state(t1), _state(t2)
    if type(t1) is not type(t2):
        try:
            t1.__class__, t2.__class__ = type(t2), type(t1)
        except TypeError:
            raise TypeError(
                f"swap_tensors: a {type(t1).__name__} cannot become a {type(t2).__name__}; make both of one "
                "type, for example Parameter(tensor)"
            ) from None
    _become(t1, second)
    _become(t2, first)


def _state(tensor):
    recorded = _detach(tensor)
    _core.rebase(recorded, tensor)
    return recorded, tensor.grad, dict(tensor._extra or {}), dict(getattr(tensor, "__dict__", {}))


def _become(tensor, state):
    recorded, grad, extra, attributes = state
    tensor.grad = None
    tensor._assign(recorded)
    _core.rebase(tensor, recorded)
    tensor.grad = grad
    if extra or tensor._extra:
        tensor._extra_dict().clear()
        tensor._extra_dict().update(extra)
    if hasattr(tensor, "__dict__"):
        tensor.__dict__.clear()
        tensor.__dict__.update(attributes)


__all__ = ["swap_tensors"]
