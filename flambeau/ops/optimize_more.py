"""Further optimizer updates; see `optimize` for the idea.

In all of them `decay` is the weight of the parameter that is added to the gradient, or the factor of the parameter
where `decoupled` is true, and `step` is the size of the step with its sign.
"""

from flambeau.ops.elementwise import abs, maximum, minimum, sign, where
from flambeau.ops.mathematics import sqrt
from flambeau.ops.optimize import Update
from flambeau.ops.spec import op


def _decayed(input, grad, decay, maximize, decoupled=False):
    """(parameter, gradient) after weight decay."""
    gradient = -grad if maximize else grad
    return (input * decay, gradient) if decoupled else (input, gradient + input * decay)


@op
class RmspropUpdate(Update):
    """Tieleman and Hinton, "Lecture 6.5" (2012); `average` (centred) and `velocity` (momentum) may be None."""

    signature = "input, grad, square, average, velocity, decay, alpha, rest, eps, momentum, step, maximize=False"
    operands = ("input", "grad", "square", "average", "velocity", "decay", "alpha", "rest", "eps", "momentum",
                "step")
    outputs = ("parameter", "square", "average", "velocity")

    def compute(input, grad, square, average, velocity, decay, alpha, rest, eps, momentum, step, maximize):
        input, gradient = _decayed(input, grad, decay, maximize)
        square = square * alpha + gradient * gradient * rest
        results = [square]
        spread = square
        if average is not None:
            average = average + (gradient - average) * rest
            spread = square - average * average
            results.append(average)
        direction = gradient / (sqrt(spread) + eps)
        if velocity is not None:
            direction = velocity * momentum + direction
            results.append(direction)
        return (input + direction * step, *results)


@op
class AdagradUpdate(Update):
    """Duchi, Hazan and Singer, "Adaptive subgradient methods" (JMLR 2011)."""

    signature = "input, grad, total, decay, eps, step, maximize=False"
    operands = ("input", "grad", "total", "decay", "eps", "step")
    outputs = ("parameter", "total")

    def compute(input, grad, total, decay, eps, step, maximize):
        input, gradient = _decayed(input, grad, decay, maximize)
        total = total + gradient * gradient
        return input + gradient / (sqrt(total) + eps) * step, total


@op
class AdadeltaUpdate(Update):
    """Zeiler, "Adadelta" (2012)."""

    signature = "input, grad, square, moved, decay, rho, rest, eps, step, maximize=False"
    operands = ("input", "grad", "square", "moved", "decay", "rho", "rest", "eps", "step")
    outputs = ("parameter", "square", "moved")

    def compute(input, grad, square, moved, decay, rho, rest, eps, step, maximize):
        input, gradient = _decayed(input, grad, decay, maximize)
        square = square * rho + gradient * gradient * rest
        delta = sqrt(moved + eps) / sqrt(square + eps) * gradient
        return input + delta * step, square, moved * rho + delta * delta * rest


@op
class AdamaxUpdate(Update):
    """Kingma and Ba, "Adam" (ICLR 2015), algorithm 2."""

    signature = "input, grad, average, largest, decay, beta1, rest1, beta2, eps, step, maximize=False"
    operands = ("input", "grad", "average", "largest", "decay", "beta1", "rest1", "beta2", "eps", "step")
    outputs = ("parameter", "average", "largest")

    def compute(input, grad, average, largest, decay, beta1, rest1, beta2, eps, step, maximize):
        input, gradient = _decayed(input, grad, decay, maximize)
        average = average * beta1 + gradient * rest1
        largest = maximum(largest * beta2, abs(gradient) + eps)
        return input + average / largest * step, average, largest


@op
class NadamUpdate(Update):
    """Dozat, "Incorporating Nesterov momentum into Adam" (2016); `fresh` and `step` weigh gradient and average."""

    signature = ("input, grad, average, square, decay, beta1, rest1, beta2, rest2, root, eps, fresh, step, decoupled=False, "
                 "maximize=False")
    operands = ("input", "grad", "average", "square", "decay", "beta1", "rest1", "beta2", "rest2", "root",
                "eps", "fresh",
                "step")
    outputs = ("parameter", "average", "square")

    def compute(input, grad, average, square, decay, beta1, rest1, beta2, rest2, root, eps, fresh, step,
                decoupled, maximize):
        input, gradient = _decayed(input, grad, decay, maximize, decoupled)
        average = average * beta1 + gradient * rest1
        square = square * beta2 + gradient * gradient * rest2
        scale = sqrt(square) / root + eps
        return input + gradient / scale * fresh + average / scale * step, average, square


@op
class RadamUpdate(Update):
    """Liu et al., "On the variance of the adaptive learning rate" (ICLR 2020); not `rectified` while that is unknown."""

    signature = ("input, grad, average, square, decay, beta1, rest1, beta2, rest2, eps, step, rectified=True, decoupled=False, "
                 "maximize=False")
    operands = ("input", "grad", "average", "square", "decay", "beta1", "rest1", "beta2", "rest2", "eps",
                "step")
    outputs = ("parameter", "average", "square")

    def compute(input, grad, average, square, decay, beta1, rest1, beta2, rest2, eps, step, rectified,
                decoupled, maximize):
        input, gradient = _decayed(input, grad, decay, maximize, decoupled)
        average = average * beta1 + gradient * rest1
        square = square * beta2 + gradient * gradient * rest2
        direction = average / (sqrt(square) + eps) if rectified else average
        return input + direction * step, average, square


@op
class AsgdUpdate(Update):
    """Polyak and Juditsky, "Acceleration of stochastic approximation by averaging" (1992); `shrink` is 1 - lambd * eta."""

    signature = "input, grad, average, decay, shrink, step, share, rest, maximize=False"
    operands = ("input", "grad", "average", "decay", "shrink", "step", "share", "rest")
    outputs = ("parameter", "average")

    def compute(input, grad, average, decay, shrink, step, share, rest, maximize):
        input, gradient = _decayed(input, grad, decay, maximize)
        input = input * shrink + gradient * step
        return input, average * rest + input * share


@op
class RpropUpdate(Update):
    """Riedmiller and Braun, "RPROP" (1993): each element's own step grows while its gradient keeps its sign."""

    signature = "input, grad, previous, size, shrink, grow, smallest, largest, maximize=False"
    operands = ("input", "grad", "previous", "size", "shrink", "grow", "smallest", "largest")
    outputs = ("parameter", "previous", "size")

    def compute(input, grad, previous, size, shrink, grow, smallest, largest, maximize):
        gradient = -grad if maximize else grad
        agreement = gradient * previous
        size = where(agreement > 0, size * grow, where(agreement < 0, size * shrink, size))
        size = minimum(maximum(size, smallest), largest)
        gradient = where(agreement < 0, 0.0, gradient)
        return input - sign(gradient) * size, gradient, size
