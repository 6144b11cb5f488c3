"""The losses of label sequences that are not aligned with the steps in time; see `nn.functional.ctc_loss`."""

from flambeau.base.errors import fail
from flambeau.ops.create import full
from flambeau.ops.kinds import Indexed, Opaque
from flambeau.ops.reduce import sum
from flambeau.ops.spec import op
from flambeau.types.dtype import float32, float64


class Alignment(Indexed):
    """What the loss and its gradient share."""

    internal = True
    dtypes = (float32, float64)

    def lower(planner, inputs, outputs):
        planner.templates.alignment.launch(planner, inputs, outputs)


@op
class CtcLoss(Alignment):
    """(loss (batch), logarithms of the sums over alignments) of log_probs (steps, batch, classes).

    labels, skips: (batch, states + 2), the classes of the states, and whether a state may be entered from the last but
    one. counts: (batch, 2), how many steps an example has, and how many states less one.
    """

    signature = "log_probs, labels, skips, counts"
    operands = ("log_probs", "labels", "skips", "counts")
    outputs = ("loss", "alpha")

    def infer_shape(log_probs, labels, skips, counts):
        return (log_probs[1],), (log_probs[0] + 1, *labels)

    def derivative(grads, out, log_probs, labels, skips, counts):
        return ctc_loss_gradient(grads[0], log_probs, labels, skips, counts, *out), None, None, None     # noqa: F821


@op
class CtcLossGradient(Alignment):
    """The gradient of the log_probs of `ctc_loss`."""

    signature = "grad, log_probs, labels, skips, counts, loss, alpha"
    operands = ("grad", "log_probs", "labels", "skips", "counts", "loss", "alpha")

    def infer_shape(grad, log_probs, *others):
        return log_probs

    def derivative(g, grad, log_probs, labels, skips, counts, loss, alpha):
        ones = full(tuple(grad.shape), 1.0, grad.dtype)
        of_one = ctc_loss_gradient(ones, log_probs, labels, skips, counts, loss, alpha)                  # noqa: F821
        refused = ctc_loss_second_gradient(g)                                                            # noqa: F821
        return sum(g * of_one, (0, 2)), refused, None, None, None, None, None


@op
class CtcLossSecondGradient(Opaque):
    """Refuses when it runs: a graph of the first gradient may be made, as long as nobody differentiates it."""

    internal = True
    signature = "grad"
    operands = ("grad",)
    differentiable = False

    def infer(self, inputs, attrs):
        return [(inputs[0].dtype, tuple(inputs[0].shape))]

    def host(grad):
        fail("ctc_loss", "the gradient has no derivative of its own", "a second derivative", "a first one",
             kind=NotImplementedError)
