"""Writes into existing memory, with the tape's rules: `out=`, in-place forms, assignment to an index."""

from flambeau.base.errors import fail
from flambeau.ops import elementwise, plans  # noqa: F401 - elementwise declares cast and copy
from flambeau.ops.spec import REGISTRY
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import category


def write(target, source):
    """Copy `source` (broadcast, cast) into target's memory; nothing is recorded."""
    if not isinstance(source, Tensor):
        source = elementwise.full_like(target, source) if target.ndim == 0 else _zero_dim(target, source)
    if tuple(source.shape) != tuple(target.shape):
        from flambeau.ops.view import expand
        source = expand(source.detach(), tuple(target.shape))
    plan = plans.elementwise_plan(REGISTRY["cast"], [source], {"dtype": target.dtype})
    return _core.run_into(plan, [source], target)


def _zero_dim(target, value):
    like = _core.empty_strided((), None, target.dtype)
    return elementwise.full_like(like, value)


def check_write(name, target):
    """Raise where a write would make gradients wrong, before any data changes."""
    if not _core.grad_mode():
        return
    if target.requires_grad and target.is_leaf:
        fail(name, "a leaf Variable that requires grad is being used in an in-place operation",
             hint="wrap the write in no_grad(), or use the out-of-place form")
    base = target._base
    if base is not None and base.requires_grad and base.is_leaf:
        fail(name, "a view of a leaf Variable that requires grad is being used in an in-place operation",
             hint="wrap the write in no_grad(), or use the out-of-place form")


def assign(operation, target, result):
    """target takes the value of `result`, which an op computed out of place; the tape follows."""
    name = operation.name + "_"
    check_write(name, target)
    if tuple(result.shape) != tuple(target.shape):
        fail(name, "the result does not have the shape of the tensor written to", tuple(result.shape), tuple(target.shape))
    if category(result.dtype) > category(target.dtype):
        fail(name, f"result type {result.dtype} can't be cast to the desired output type {target.dtype}",
             hint="use the out-of-place form")
    recorded = _core.grad_mode() and (result.requires_grad or target.requires_grad)
    if recorded and target._base is not None:
        fail(name, "in-place writes to views are not recorded on the tape yet",
             hint="write to the base tensor, or build the result out of place (cat, stack, where)", kind=NotImplementedError)
    if recorded and result.dtype is not target.dtype:
        result = elementwise.cast(result, target.dtype)
    write(target, result.detach())
    if recorded:
        _core.rebase(target, result)
    return target


def fill(target, value):
    """target.fill_(value) without a record."""
    check_write("fill_", target)
    return write(target, value)
