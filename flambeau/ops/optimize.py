"""Optimizer updates: one kernel that reads a parameter, its gradient and its state once and writes them back.

Every number is an operand, so another learning rate costs no kernel.
"""

from flambeau.base.lazy import LazyModule
from flambeau.ops import plans
from flambeau.ops.kinds import Composite
from flambeau.ops.elementwise import maximum
from flambeau.ops.mathematics import sqrt
from flambeau.ops.spec import REGISTRY, op
from flambeau.runtime import _core
from flambeau.types.dtype import FLOATING

numpy = LazyModule("numpy")


class Update(Composite):
    """New values of a parameter and its state, all of one shape and dtype."""

    internal = True
    numbers = True
    differentiable = False
    dtypes = FLOATING
    tolerance = ("ulps", 16, 4.0)
    positive = ()           # operands that must be above zero

    @classmethod
    def samples(cls, rng, shape):
        return [rng.uniform(0.5, 1.5, shape) if name in cls.positive else rng.uniform(-1, 1, shape) for name in cls.operands]


def _adam_averages(input, grad, average, square, decay, beta1, rest1, beta2, rest2, decoupled, maximize):
    """The decayed parameter and the new averages of the gradient and of its square."""
    gradient = -grad if maximize else grad
    if decoupled:
        input = input * decay
    else:
        gradient = gradient + input * decay
    average = average * beta1 + gradient * rest1
    square = square * beta2 + gradient * gradient * rest2
    return input, average, square


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
    positive = ("square", "beta1", "rest1", "beta2", "rest2", "root", "eps")
    cases = ({}, {"decoupled": False, "maximize": True})

    def reference(input, grad, average, square, decay, beta1, rest1, beta2, rest2, root, eps, step, decoupled=True,
                  maximize=False):
        gradient = -grad if maximize else grad
        shrunk = input * decay if decoupled else input
        gradient = gradient if decoupled else gradient + input * decay
        average = average * beta1 + gradient * rest1
        square = square * beta2 + gradient ** 2 * rest2
        return shrunk + average / (numpy.sqrt(square) / root + eps) * step, average, square

    def compute(input, grad, average, square, decay, beta1, rest1, beta2, rest2, root, eps, step, decoupled, maximize):
        input, average, square = _adam_averages(input, grad, average, square, decay, beta1, rest1, beta2, rest2,
                                                decoupled, maximize)
        return input + average / (sqrt(square) / root + eps) * step, average, square


@op
class AmsgradUpdate(Update):
    """Adam that divides by the largest average of squares so far: Reddi, Kale and Kumar (ICLR 2018), algorithm 2.

    The other operands are those of AdamUpdate.
    """

    signature = ("input, grad, average, square, largest, decay, beta1, rest1, beta2, rest2, root, eps, step, "
                 "decoupled=True, maximize=False")
    operands = ("input", "grad", "average", "square", "largest", "decay", "beta1", "rest1", "beta2", "rest2", "root",
                "eps", "step")
    outputs = ("parameter", "average", "square", "largest")
    positive = ("square", "largest", "beta1", "rest1", "beta2", "rest2", "root", "eps")
    cases = ({}, {"decoupled": False, "maximize": True})

    def reference(input, grad, average, square, largest, decay, beta1, rest1, beta2, rest2, root, eps, step,
                  decoupled=True, maximize=False):
        _, average, square = AdamUpdate.reference(input, grad, average, square, decay, beta1, rest1, beta2, rest2,
                                                  root, eps, step, decoupled, maximize)
        largest = numpy.maximum(largest, square)
        shrunk = input * decay if decoupled else input
        return shrunk + average / (numpy.sqrt(largest) / root + eps) * step, average, square, largest

    def compute(input, grad, average, square, largest, decay, beta1, rest1, beta2, rest2, root, eps, step, decoupled,
                maximize):
        input, average, square = _adam_averages(input, grad, average, square, decay, beta1, rest1, beta2, rest2,
                                                decoupled, maximize)
        largest = maximum(largest, square)
        return input + average / (sqrt(largest) / root + eps) * step, average, square, largest


@op
class SgdUpdate(Update):
    """Stochastic gradient descent without momentum; decay is added to the gradient, step is -lr."""

    signature = "input, grad, decay, step, maximize=False"
    operands = ("input", "grad", "decay", "step")
    cases = ({}, {"maximize": True})

    def reference(input, grad, decay, step, maximize=False):
        return input + ((-grad if maximize else grad) + input * decay) * step

    def compute(input, grad, decay, step, maximize):
        gradient = -grad if maximize else grad
        return input + (gradient + input * decay) * step


@op
class MomentumUpdate(Update):
    """Stochastic gradient descent with momentum (Sutskever et al., ICML 2013, in PyTorch's form)."""

    signature = "input, grad, velocity, decay, momentum, fresh, step, nesterov=False, maximize=False"
    operands = ("input", "grad", "velocity", "decay", "momentum", "fresh", "step")
    outputs = ("parameter", "velocity")
    cases = ({}, {"nesterov": True, "maximize": True})

    def reference(input, grad, velocity, decay, momentum, fresh, step, nesterov=False, maximize=False):
        gradient = (-grad if maximize else grad) + input * decay
        velocity = velocity * momentum + gradient * fresh
        return input + (gradient + velocity * momentum if nesterov else velocity) * step, velocity

    def compute(input, grad, velocity, decay, momentum, fresh, step, nesterov, maximize):
        gradient = -grad if maximize else grad
        gradient = gradient + input * decay
        velocity = velocity * momentum + gradient * fresh
        return input + (gradient + velocity * momentum if nesterov else velocity) * step, velocity


def update_many(name, rows, options):
    """Run an update of many parameters by one kernel, outside the tape.

    rows: (arguments of the update, the tensors that receive its results); in all rows the tensors of a row have one
    shape, all are row-major and of one dtype; None stands at the same places. options: the update's attributes.
    """
    operation = REGISTRY[name]
    plan, _ = plans.plan_of(operation, operation.bind_arguments(rows[0][0], options))
    if any(argument is None for argument in rows[0][0]):
        rows = [(tuple(a for a in arguments if a is not None), targets) for arguments, targets in rows]
    _core.run_into_many(plan, rows)
