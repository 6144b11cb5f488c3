"""One parameter's step: a fused kernel where it can be, else the same formula op by op."""

from flambeau import ops
from flambeau.ops.optimize import update
from flambeau.ops.spec import REGISTRY
from flambeau.optim.optimizer import fits
from flambeau.tensor import tensor
from flambeau.types import dtype


def with_gradients(group):
    """The parameters of a group that have a gradient."""
    return [parameter for parameter in group["params"] if parameter.grad is not None]


def step_counter():
    """The count of steps in a parameter's state: a 0-d float32 tensor, as PyTorch keeps it."""
    return tensor(0.0, dtype=dtype.float32)


def apply_update(name, parameter, states, *numbers, **options):
    """Step `parameter` and its `states` (tensors; None is left out) in place with the update op called `name`."""
    gradient = parameter.grad
    kept = [state for state in states if state is not None]
    if fits(parameter, gradient, *kept):
        return update(name, (parameter, *kept), parameter.detach(), gradient, *states, *numbers, **options)
    if parameter.is_complex():
        real = ops.view_as_real
        parameter, gradient = real(parameter.detach()), real(gradient)
        states = [None if state is None else real(state) for state in states]
        kept = [state for state in states if state is not None]
    values = REGISTRY[name].bind_arguments((parameter.detach(), gradient, *states, *numbers), options)
    for target, value in zip((parameter, *kept), REGISTRY[name].compute(**values)):
        target.copy_(value)
