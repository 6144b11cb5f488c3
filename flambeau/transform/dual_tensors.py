"""`autograd.forward_ad`: tensors with a tangent in plain code, inside a `dual_level`."""

from typing import NamedTuple

from flambeau.base.errors import fail
from flambeau.ops.wrapped import running
from flambeau.runtime._core import Tensor
from flambeau.tensor.autograd import GradMode
from flambeau.transform.forward import Dual, ForwardLevel
from flambeau.transform.levels import below

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives: the value and its directional derivative (None where it has none)."""

    primal: Tensor
    tangent: Tensor | None


class _OpenLevel(ForwardLevel):
    """A level of forward mode that user code entered by hand."""

    name = "forward_ad"


def _open():
    return next((level for level in reversed(running.levels) if isinstance(level, _OpenLevel)), None)


def enter_dual_level():
    """Begin a level; returns its number, 0. Levels do not nest: use func.jvp for that."""
    if _open() is not None:
        fail("forward_ad", "nested forward mode is not supported here", hint="use func.jvp, which composes to any depth")
    _OpenLevel().__enter__()
    return 0


def exit_dual_level(*, level=None):
    """End the level; its tensors lose their tangents."""
    found = _open()
    if found is None:
        fail("forward_ad", "there is no level to exit")
    found.__exit__(None, None, None)


class dual_level(GradMode):
    """A block in which tensors can have tangents.

    >>> with fl.autograd.forward_ad.dual_level():
    ...     x = fl.autograd.forward_ad.make_dual(fl.tensor(3.0), fl.tensor(1.0))
    ...     fl.autograd.forward_ad.unpack_dual(x * x)
    UnpackedDualTensor(primal=tensor(9.), tangent=tensor(6.))
    """

    def __init__(self):
        pass

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *error):
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """`tensor` with `tangent` of the same shape and dtype as its derivative."""
    found = _open()
    if found is None:
        fail("make_dual", "there is no level to make a dual tensor in", hint="with forward_ad.dual_level():")
    if tensor.dtype.kind not in "fc":
        fail("make_dual", "only floating point tensors have tangents", tensor.dtype, kind=ValueError)
    if tangent.dtype.kind not in "fc":
        fail("make_dual", "a tangent must be floating point", tangent.dtype, kind=ValueError)
    if tuple(tensor.shape) != tuple(tangent.shape):
        fail("make_dual", "the tangent does not have the shape of the tensor", tuple(tangent.shape), tuple(tensor.shape))
    return found.dual(below(found, tensor), below(found, tangent))


def unpack_dual(tensor, *, level=None):
    """UnpackedDualTensor(primal, tangent); the tangent is None for a tensor without one."""
    found = _open()
    if isinstance(tensor, Dual) and (found is None or tensor.level is found):
        return UnpackedDualTensor(tensor.inner, tensor.tangent if found is not None else None)
    return UnpackedDualTensor(tensor, None)
