"""Losses. Each works out a loss per element or example and then applies `reduction`: 'mean', 'sum' or 'none'.

`size_average` and `reduce` are the older names of the reduction.
"""

import math
import warnings

from flambeau import ops
from flambeau.ops.interpose import visible
from flambeau.ops.loss import checked_loss
from flambeau.ops.wrapped import elements_of
from flambeau.base.errors import fail

from .activations import softplus
from .distances import pairwise_distance


def reduction_of(size_average, reduce, reduction):
    """The `reduction` that the two older flags, where given, stand for."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def checked_reduction(reduction):
    """'none', 'mean' or 'sum'; ValueError for others."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduce_loss(loss, reduction):
    """Apply 'none', 'mean' or 'sum' to a loss per element."""
    checked_reduction(reduction)
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    return loss


def _same_shapes(name, input, target):
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(f"Using a target size ({target.shape}) that is different to the input size "
                      f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
                      "Please ensure they have the same size.", stacklevel=3)


def _weighted(loss, weight, reduction):
    """The reduction with a weight an element: the mean is over the weights."""
    if weight is None:
        return reduce_loss(loss, reduction)
    if tuple(weight.shape) != tuple(loss.shape):
        raise ValueError("Weights and input must have the same size.")
    total = loss * weight
    if reduction == "mean":
        return total.sum() / weight.sum()
    return reduce_loss(total, reduction)


# ---------------------------------------------------------------------------------- differences

@visible
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The squared difference."""
    _same_shapes("mse_loss", input, target)
    if weight is None:
        return ops.mse_loss(input, target, checked_reduction(reduction_of(size_average, reduce, reduction)))
    difference = input - target
    return _weighted(difference * difference, weight, reduction_of(size_average, reduce, reduction))


@visible
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The absolute difference."""
    _same_shapes("l1_loss", input, target)
    if weight is None:
        return ops.l1_loss(input, target, checked_reduction(reduction_of(size_average, reduce, reduction)))
    return _weighted((input - target).abs(), weight, reduction_of(size_average, reduce, reduction))


@visible
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squares of differences below `beta`, divided by 2 * beta; above it the difference less beta / 2."""
    _same_shapes("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    return ops.smooth_l1_loss(input, target, checked_reduction(reduction_of(size_average, reduce, reduction)),
                              float(beta))


@visible
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Half the squares of differences below `delta`; above it `delta * (difference - delta / 2)`."""
    _same_shapes("huber_loss", input, target)
    if not isinstance(delta, (int, float)):
        raise TypeError(f"delta must be a float or int, got: {type(delta)}")
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if weight is None:
        return ops.huber_loss(input, target, checked_reduction(reduction), float(delta))
    loss = ops.huber_loss(input, target, "none", float(delta))
    if tuple(weight.shape) != tuple(loss.shape):
        raise ValueError("Weights and input must have the same size.")
    return reduce_loss(loss * weight, reduction)


# ---------------------------------------------------------------------------------- likelihoods

@visible
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Cross entropy of probabilities `input` and targets in 0..1; logarithms are at least -100."""
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(f"Using a target size ({target.shape}) that is different to the input size "
                         f"({input.shape}) "
                         "is deprecated. Please ensure they have the same size.")
    if input.numel() and not input.is_meta:
        values = elements_of(input).detach()
        low, high = values.amin().item(), values.amax().item()
        if not (low >= 0 and high <= 1):
            raise RuntimeError("all elements of input should be between 0 and 1")
    loss = ops.binary_entropy(input, target)
    return reduce_loss(loss if weight is None else loss * weight,
                       reduction_of(size_average, reduce, reduction))


@visible
def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None,
                                     reduction="mean", pos_weight=None):
    """Cross entropy of the probability `sigmoid(input)` and `target` in 0..1, without overflow."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return ops.binary_entropy_of_logits(input, target, weight, pos_weight,
                                        checked_reduction(reduction_of(size_average, reduce, reduction)))


@visible
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """`target * (log(target) - input)` for log-probabilities `input`; 'batchmean' divides by the batch
    size."""
    reduction = reduction_of(size_average, reduce, reduction)
    if log_target:
        loss = ops.exp(target) * (target - input)
    else:
        own = ops.where(target == 0, 0.0, target * ops.log(ops.where(target == 0, 1.0, target)))
        loss = own - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.dim() else loss.sum()
    return reduce_loss(loss, reduction)


@visible
def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                     reduction="mean"):
    """Minus the log-likelihood of Poisson counts; `full` adds Stirling's terms for targets above 1."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ops.poisson_nll_loss(input, target, reduction_of(size_average, reduce, reduction), log_input, full, eps)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Minus the log-likelihood of normal numbers with variance `var`, at least `eps`; `full` adds the
    constant."""
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.detach() * 0.0 + var
    lowest = elements_of(var).detach().amin().item() if var.numel() and not var.is_meta else 0.0
    if lowest < 0:
        raise ValueError("var has negative entry/entries")
    if tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif var.dim() != input.dim() or any(v not in (1, i) for v, i in zip(var.shape, input.shape)):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if not lowest >= eps:                                               # clamped, with the gradient passing
        var = var + (ops.maximum(var.detach(), eps) - var.detach())
    return ops.gaussian_nll_loss(input, target, var, reduction, full)


# ---------------------------------------------------------------------------------- classes

@visible
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Minus the log-probability of the target class.

    Args:
        input: log-probabilities (batch, classes, ...) or (classes).
        target: class numbers (batch, ...) or ().
        weight: weight of each class (classes).
        ignore_index: a target that counts nothing.
        reduction: 'mean' divides by the sum of the weights of the targets.
    """
    loss = ops.nll_loss(input, target, weight, ignore_index, reduction_of(size_average, reduce, reduction))
    return checked_loss("nll_loss", loss, input, target, ignore_index)


@visible
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                  reduction="mean", label_smoothing=0.0):
    """`nll_loss` of `log_softmax(input)`.

    Args:
        input: scores (batch, classes, ...) or (classes).
        target: class numbers (batch, ...), or probabilities of the shape of `input`.
        weight, ignore_index, reduction: as in `nll_loss`.
        label_smoothing: share of the target, 0 to 1, spread evenly over all classes.
    """
    return ops.cross_entropy(input, target, weight, ignore_index,
                             reduction_of(size_average, reduce, reduction), label_smoothing)


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
                         ignore_index=None, label_smoothing=0.0, options=None):
    """`cross_entropy` of `linear(input, linear_weight, linear_bias)`.

    Args:
        input: (batch, in) or (in). linear_weight: (classes, in) or (classes, d1, ..., in), for a loss
            (batch, d1, ...).
    """
    classes, *rest, width = linear_weight.shape
    lead = tuple(input.shape[:-1])
    if rest and not lead:
        raise RuntimeError(f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
                           f"requires batched input, (N, {width}), got unbatched input with shape "
                           f"{tuple(input.shape)}")
    shape = (*lead, classes, *rest)
    flat = None if linear_bias is None else linear_bias.reshape(-1)
    logits = ops.linear(input, linear_weight.reshape(-1, width), flat).reshape(shape)
    if ignore_index is not None and tuple(target.shape) == shape:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    return cross_entropy(logits, target, weight=weight, reduction=reduction,
                         ignore_index=-100 if ignore_index is None else ignore_index,
                         label_smoothing=label_smoothing)


def _rows_of_classes(name, input, target):
    """(input as (batch, classes), target as (batch, ...), whether there was a batch)."""
    if input.dim() > 2 or input.dim() == 2 and input.shape[1] == 0:
        fail(name, "Expected non-empty vector or matrix with optional 0-dim batch size", tuple(input.shape),
             kind=RuntimeError)
    if input.dim() == 2:
        return input, target, True
    target = target.reshape(1, -1) if name.startswith("multilabel") else target.reshape(1)
    return input.reshape(1, -1), target, False


@visible
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None,
                      reduction="mean"):
    """How far the other classes' scores come within `margin` of the target's, to the power p, over the
    classes."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    x, target, batched = _rows_of_classes("multi_margin_loss", input, target)
    if tuple(target.shape) != (x.shape[0],):
        fail("multi_margin_loss", "inconsistent target size", tuple(target.shape), (x.shape[0],),
             kind=RuntimeError)
    if weight is not None and weight.shape[0] != x.shape[1]:
        fail("multi_margin_loss", "inconsistent weight size", tuple(weight.shape), (x.shape[1],),
             kind=RuntimeError)
    place = target.unsqueeze(1)
    short = ops.relu(margin - x.gather(1, place) + x)
    short = short * short if p == 2 else short
    if weight is not None:
        short = short * weight[target].unsqueeze(1)
    classes = ops.iota((1, x.shape[1]), 1)
    loss = ops.where(classes == place, 0.0, short).sum(1) / x.shape[1]
    return reduce_loss(loss if batched or reduction != "none" else loss[0],
                       reduction_of(size_average, reduce, reduction))


@visible
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Margins between every target class (a row of class numbers up to the first -1) and every other
    class."""
    if tuple(target.shape) != tuple(input.shape):
        fail("multilabel_margin_loss", "inconsistent target size", tuple(target.shape), tuple(input.shape),
             kind=RuntimeError)
    x, target, batched = _rows_of_classes("multilabel_margin_loss", input, target)
    classes = x.shape[1]
    position = ops.iota((1, classes), 1)
    end = ops.where(target < 0, position, classes).amin(1, True)
    real = position < end                                               # (batch, classes)
    chosen = ops.where(real, target, -1)
    if not getattr(type(chosen), "is_traced", False) and not chosen.is_shape_only:
        most = elements_of(real).sum(-1).amax().item() if real.numel() else 0
        chosen = chosen[:, :max(int(most), 1)]
    loss = ops.multilabel_margins(x, chosen)
    return reduce_loss(loss if batched or reduction != "none" else loss[0],
                       reduction_of(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over the classes (last axis) of the binary cross entropy of `sigmoid(input)` and target."""
    loss = -(target * ops.log_sigmoid(input) + (1 - target) * ops.log_sigmoid(-input))
    loss = loss if weight is None else loss * weight
    return reduce_loss(loss.mean(-1), reduction_of(size_average, reduce, reduction))


@visible
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """`log(1 + exp(-target * input))` for targets 1 and -1."""
    return reduce_loss(softplus(-target * input, 1, math.inf), reduction_of(size_average, reduce, reduction))


# ---------------------------------------------------------------------------------- margins and distances

@visible
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """The input for targets 1; how far it is below `margin` for targets -1."""
    near = ops.where(target != -1, input, 0.0)
    far = ops.where(target != 1, ops.relu(margin - input), 0.0)
    return reduce_loss(near + far, reduction_of(size_average, reduce, reduction))


@visible
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """How far `target * (input1 - input2)` is below `margin`."""
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension but got "
                           "sizes: "
                           f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} ")
    loss = ops.relu(-target * (input1 - input2) + margin)
    return reduce_loss(loss, reduction_of(size_average, reduce, reduction))


@visible
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cosine for targets 1; how far the cosine is above `margin` for targets -1."""
    if target.dim() not in (0, 1):
        fail("cosine_embedding_loss", "0D or 1D target tensor expected", tuple(target.shape),
             kind=RuntimeError)
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        fail("cosine_embedding_loss", f"{target.dim()}D target tensor expects {target.dim() + 1}D input "
                                      f"tensors",
             f"{tuple(input1.shape)}, {tuple(input2.shape)}", kind=RuntimeError)
    cosine = _cosine(input1, input2, target.dim())
    near = ops.where(target == 1, 1 - cosine, 0.0)
    far = ops.where(target == -1, ops.relu(cosine - margin), 0.0)
    return reduce_loss(near + far, reduction_of(size_average, reduce, reduction))


def _cosine(x1, x2, dim, eps=1e-12):
    """The cosine along `dim`, with `eps` added to both squares."""
    squares = ((x1 * x1).sum(dim) + eps) * ((x2 * x2).sum(dim) + eps)
    return (x1 * x2).sum(dim) / ops.sqrt(squares)


@visible
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
                        reduce=None, reduction="mean"):
    """How much less than `margin` the negative is farther from the anchor than the positive."""
    def distance(x, y):
        return pairwise_distance(x, y, p, eps)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = {anchor.dim(), positive.dim(), negative.dim()}
    if len(ranks) > 1:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number "
                           "of "
                           f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
                           f"negative "
                           f"{negative.dim()}D inputs")
    return _triplet(anchor, positive, negative, distance, margin, swap,
                    reduction_of(size_average, reduce, reduction))


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0,
                                      swap=False, reduction="mean"):
    """`triplet_margin_loss` with a distance of the caller's."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if len({anchor.dim(), positive.dim(), negative.dim()}) > 1:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number "
                           "of "
                           "dimensions")
    return _triplet(anchor, positive, negative, distance_function or pairwise_distance, margin, swap,
                    reduction)


def _triplet(anchor, positive, negative, distance, margin, swap, reduction):
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduce_loss(ops.relu(near - far + margin), reduction)
