"""Optimizer updates: one kernel that reads a parameter, its gradient and its state once and writes them back.

Every number is an operand, so another learning rate costs no kernel.
"""

from flambeau.ops import plans
from flambeau.ops.kinds import Composite
from flambeau.ops.mathematics import sqrt
from flambeau.ops.spec import REGISTRY, op
from flambeau.runtime import _core
from flambeau.types.dtype import FLOATING


class Update(Composite):
    """New values of a parameter and its state, all of one shape and dtype."""

    numbers = True
    differentiable = False
    dtypes = FLOATING


@op
class AdamUpdate(Update):
    """Adam and AdamW: Kingma and Ba, "Adam" (ICLR 2015), algorithm 1; decoupled decay as Loshchilov and Hutter (ICLR 2019).

    decay: the factor of the parameter (decoupled) or the weight added to the gradient; root: sqrt(1 - beta2**t); step:
    -lr / (1 - beta1**t).
    """

    signature = ("input, grad, average, square, decay, beta1, rest1, beta2, rest2, root, eps, step, decoupled=True, "
                 "maximize=False")
    operands = ("input", "grad", "average", "square", "decay", "beta1", "rest1", "beta2", "rest2", "root", "eps", "step")
    outputs = ("parameter", "average", "square")

    def compute(input, grad, average, square, decay, beta1, rest1, beta2, rest2, root, eps, step, decoupled, maximize):
        gradient = -grad if maximize else grad
        if decoupled:
            input = input * decay
        else:
            gradient = gradient + input * decay
        average = average * beta1 + gradient * rest1
        square = square * beta2 + gradient * gradient * rest2
        return input + average / (sqrt(square) / root + eps) * step, average, square


@op
class SgdUpdate(Update):
    """Stochastic gradient descent without momentum; decay is added to the gradient, step is -lr."""

    signature = "input, grad, decay, step, maximize=False"
    operands = ("input", "grad", "decay", "step")

    def compute(input, grad, decay, step, maximize):
        gradient = -grad if maximize else grad
        return input + (gradient + input * decay) * step


@op
class MomentumUpdate(Update):
    """Stochastic gradient descent with momentum (Sutskever et al., ICML 2013, in PyTorch's form)."""

    signature = "input, grad, velocity, decay, momentum, fresh, step, nesterov=False, maximize=False"
    operands = ("input", "grad", "velocity", "decay", "momentum", "fresh", "step")
    outputs = ("parameter", "velocity")

    def compute(input, grad, velocity, decay, momentum, fresh, step, nesterov, maximize):
        gradient = -grad if maximize else grad
        gradient = gradient + input * decay
        velocity = velocity * momentum + gradient * fresh
        return input + (gradient + velocity * momentum if nesterov else velocity) * step, velocity


def update(name, targets, *arguments):
    """Run an update and write its results into `targets` (tensors), outside the tape."""
    operation = REGISTRY[name]
    values = operation.bind_arguments(arguments, {})
    plan, operands = plans.plan_of(operation, values)
    _core.run_into_all(plan, operands, targets)
