"""Connectionist temporal classification (Graves et al. 2006): the likelihood of a label sequence without
alignment."""

import math

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.interpose import visible
from flambeau.ops.normalize import narrow, widen
from flambeau.tensor import tensor

numpy = LazyModule("numpy")


@visible
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
             zero_infinity=False):
    """Minus the log-likelihood of `targets`.

    Args:
        log_probs: (time, batch, classes) or (time, classes), logarithms of probabilities.
        targets: (batch, longest), or all one after the other (sum of lengths), without blanks.
        input_lengths, target_lengths: how long each example and its target are (tensors or sequences of
            ints).
        blank: the class of no label. zero_infinity: infinite losses (targets too long) count as 0.
        reduction: 'mean' divides each loss by its target's length first.

    The gradient is that of the scores before the softmax, and has no derivative of its own.

    >>> log_probs = fl.full((4, 1, 3), 1 / 3).log()
    >>> ctc_loss(log_probs, fl.tensor([[1, 2]]), [4], [2])          # 15 of 81 paths
    tensor(0.8432)
    """
    batched = log_probs.dim() == 3
    x = log_probs if batched else log_probs.unsqueeze(1)
    steps, batch, classes = x.shape
    if not 0 <= blank < classes:
        fail("ctc_loss", "blank must be in label range", blank, f"0 to {classes - 1}", kind=RuntimeError)
    lengths, sizes = _numbers("input_lengths", input_lengths), _numbers("target_lengths", target_lengths)
    if len(lengths) != batch or len(sizes) != batch:
        fail("ctc_loss", "one length for each example is needed", (len(lengths), len(sizes)), batch,
             kind=RuntimeError)
    if max(lengths, default=0) > steps:
        fail("ctc_loss",
             f"Expected input_lengths to have value at most {steps}, but got value {max(lengths)}",
             kind=RuntimeError)
    labels, skips = _states(targets, sizes, classes, blank)
    counts = numpy.array([lengths, [2 * size for size in sizes]], "int64").T
    losses = narrow(ops.ctc_loss(widen(x), *(tensor(t, device=x.device) for t in (labels, skips, counts)))[0], x.dtype)
    if zero_infinity:
        losses = ops.where(losses == math.inf, 0.0, losses)
    if reduction == "mean":
        return (losses / tensor([float(max(s, 1)) for s in sizes], dtype=losses.dtype)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def _numbers(name, lengths):
    values = lengths.tolist() if hasattr(lengths, "tolist") else list(lengths)
    values = values if isinstance(values, list) else [values]
    if any(isinstance(v, float) for v in values):
        fail("ctc_loss", f"{name} must be integral", values, "ints", kind=RuntimeError)
    if min(values, default=0) < 0:
        fail("ctc_loss", f"Expected {name} to have value at least 0, but got value {min(values)}", kind=RuntimeError)
    return values


def _states(targets, sizes, classes, blank):
    """(labels, skips): what `ops.ctc_loss` takes, the targets with blanks between and around them."""
    values, longest = numpy.asarray(targets.detach().cpu().numpy()), max(sizes, default=0)
    real = numpy.arange(longest) < numpy.array(sizes, "int64")[:, None]                 # (batch, longest)
    if values.ndim == 1:
        if len(sizes) != 1 and len(values) != sum(sizes) or len(values) < sum(sizes):
            fail("ctc_loss", "the targets in a row do not fit their lengths", len(values), sum(sizes), kind=RuntimeError)
        chosen = values[:sum(sizes)]
    else:
        if values.shape[0] != len(sizes) or values.shape[1] < longest:
            fail("ctc_loss", "the targets do not fit their lengths", values.shape, (len(sizes), longest),
                 kind=RuntimeError)
        chosen = values[:, :longest][real]
    if ((chosen < 0) | (chosen >= classes)).any():
        fail("ctc_loss", "a label is out of bounds", chosen[(chosen < 0) | (chosen >= classes)][0], f"0 to {classes - 1}",
             kind=IndexError)
    labels = numpy.full((len(sizes), 2 * longest + 3), blank, "int64")
    labels[:, 1:2 * longest:2][real] = chosen
    skips = numpy.zeros(labels.shape, bool)
    skips[:, 1] = longest > 0
    skips[:, 2:-2] = (labels[:, 2:-2] != blank) & (labels[:, 2:-2] != labels[:, :-4])
    return labels, skips
