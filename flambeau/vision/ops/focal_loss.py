"""The focal loss."""

from flambeau.nn import functional as F


def sigmoid_focal_loss(inputs, targets, alpha=0.25, gamma=2, reduction="none"):
    """Binary cross entropy of logits, weighted so that easy examples count little.

    alpha: weight of the positive examples (1 - alpha of the others; negative: no weights). Source: Lin et
    al., "Focal Loss for Dense Object Detection" (2017).
    """
    if not (0 <= alpha <= 1) and alpha != -1:
        raise ValueError(f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore.")
    chance = inputs.sigmoid()
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    right = chance * targets + (1 - chance) * (1 - targets)
    loss = loss * (1 - right) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return reduced(loss, reduction)


def reduced(loss, reduction):
    """The loss, its mean or its sum."""
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ValueError(f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: "
                         f"'none', "
                         "'mean', 'sum'")
    if reduction == "sum":
        return loss.sum()
    return loss.mean() if loss.numel() else 0.0 * loss.sum()
