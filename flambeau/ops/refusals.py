"""What a plan refuses when it runs: operands whose sizes or values do not fit, told in the words of the op."""

from flambeau.base.errors import DivisionError, fail
from flambeau.ops.held import check_held
from flambeau.ops.plans import assemble, explain
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.shape import broadcast_shapes

__all__ = []


def _broadcast_error(plan, args):
    shapes = [tuple(a.shape) for a in args if isinstance(a, Tensor)]
    broadcast_shapes(*shapes, op=plan.spec["signature"].name)


def _plan_check(plan, args):
    signature = plan.spec["signature"]
    if signature.operation is not None:
        signature.operation.prepare(assemble(signature.operation, args, signature.attrs))
        explain(signature.operation, args, signature.attrs)
    fail(signature.name, "the sizes of the operands do not agree",
         [tuple(a.shape) for a in args if isinstance(a, Tensor)])


def _zero_divisor(plan, divisor):
    got = "the number 0" if divisor is None else f"{int((divisor == 0).sum())} zeros among {divisor.numel()} divisors"
    fail(plan.spec["signature"].name, "integer division by zero", got,
         hint="mask the zeros (torch.where), or divide floating tensors, which gives inf", kind=DivisionError)


def _number_too_large(plan, value, dtype):
    check_held(plan.spec["signature"].name, value, dtype)


_core.set_hook("broadcast_error", _broadcast_error)
_core.set_hook("plan_check", _plan_check)
_core.set_hook("zero_divisor", _zero_divisor)
_core.set_hook("number_too_large", _number_too_large)
