"""Connectionist temporal classification (Graves et al. 2006): the likelihood of a label sequence without
alignment."""

import math

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.interpose import visible
from flambeau.tensor import stack, tensor

_LOWEST = -1e30         # the logarithm of 0, finite so that differences exist


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
    """
    batched = log_probs.dim() == 3
    x = log_probs if batched else log_probs.unsqueeze(1)
    steps, batch, classes = x.shape
    if not 0 <= blank < classes:
        fail("ctc_loss", "blank must be in label range", blank, f"0 to {classes - 1}", kind=RuntimeError)
    lengths, sizes = _numbers(input_lengths), _numbers(target_lengths)
    if len(lengths) != batch or len(sizes) != batch:
        fail("ctc_loss", "one length for each example is needed", (len(lengths), len(sizes)), batch,
             kind=RuntimeError)
    if max(lengths) > steps:
        fail("ctc_loss",
             f"Expected input_lengths to have value at most {steps}, but got value {max(lengths)}",
             kind=RuntimeError)
    labels = _labels(targets if batched or targets.dim() != 1 else targets.unsqueeze(0), sizes)
    losses = _alignment_losses(x, labels, lengths, blank)
    if x.requires_grad:
        losses = losses + _as_of_scores(x, lengths, losses)
    if zero_infinity:
        losses = ops.where(losses > -_LOWEST / 2, 0.0, losses)
    else:
        losses = ops.where(losses > -_LOWEST / 2, math.inf, losses)
    if reduction == "mean":
        return (losses / tensor([float(max(s, 1)) for s in sizes], dtype=losses.dtype)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def _numbers(lengths):
    values = lengths.tolist() if hasattr(lengths, "tolist") else list(lengths)
    return values if isinstance(values, list) else [values]


def _labels(targets, sizes):
    """The label sequence of each example as a list."""
    values = targets.tolist()
    if targets.dim() == 2:
        return [row[:size] for row, size in zip(values, sizes)]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [values[start:start + size] for start, size in zip(starts, sizes)]


def _alignment_losses(x, labels, lengths, blank):
    """(batch): by the forward recursion over states, which are the labels between blanks."""
    steps, batch, classes = x.shape
    longest = max(len(each) for each in labels)
    states = 2 * longest + 1
    extended = [[blank if i % 2 == 0 else (each[i // 2] if i // 2 < len(each) else blank)
                 for i in range(states)]
                for each in labels]
    index = tensor(extended)                                            # (batch, states)
    skips = tensor([[i >= 2 and each[i] != blank and each[i] != each[i - 2] for i in range(states)]
                    for each in extended])
    emitted = x.gather(2, index.unsqueeze(0).expand(steps, batch, states))      # (time, batch, states)
    emitted = ops.maximum(emitted, _LOWEST)
    place = ops.iota((1, states), 1)
    alpha = ops.where(place < 2, emitted[0], _LOWEST)
    if longest == 0:
        alpha = emitted[0]
    ends = [alpha]
    for step in range(1, max(lengths)):
        alpha = ops.maximum(_sum_of(alpha, skips) + emitted[step], _LOWEST)
        ends.append(alpha)
    last = [ends[max(n - 1, 0)][i] for i, n in enumerate(lengths)]
    last = stack(last)                                                  # (batch, states)
    final = tensor([[i in (2 * len(each), 2 * len(each) - 1) and i >= 0 for i in range(states)]
                    for each in labels])
    return -_log_sum([ops.where(final, last, _LOWEST)], 1)


def _as_of_scores(x, lengths, losses):
    """Zeros (batch) whose gradient makes that of the loss the one of the scores before the softmax, which is
    what
    PyTorch gives: exp(log_probs) more for each step of each example."""
    step = ops.iota((x.shape[0], 1, 1), 0)
    counted = (step < tensor(lengths).reshape(1, -1, 1)) & (losses.detach() < -_LOWEST / 2).reshape(1, -1, 1)
    chances = ops.where(counted, ops.exp(x), 0.0).sum((0, 2))
    return chances - chances.detach()


def _sum_of(alpha, skips):
    """log of the sum over staying, moving on by one, and by two where `skips` allows it."""
    batch, states = alpha.shape
    from flambeau.ops.padding import pad
    one = pad(alpha, (1, -1), value=_LOWEST)
    two = ops.where(skips, pad(alpha, (2, -2), value=_LOWEST), _LOWEST) if states > 2 else None
    return _log_sum([alpha, one] if two is None else [alpha, one, two], 0)


def _log_sum(parts, axis):
    """log of the sum of exponentials, over the parts (axis 0) or along axis 1 of a single one."""
    joined = stack(parts) if axis == 0 else parts[0]
    top = joined.detach().amax(axis, True)
    return ops.log(ops.exp(joined - top).sum(axis)) + top.squeeze(axis)
