"""Losses of pairs of boxes (count, 4): one less the IoU of each pair and its refinements."""

import math

from flambeau.ops import maximum, minimum
from flambeau.vision.ops.boxes import box_area
from flambeau.vision.ops.focal_loss import reduced


def _pairs(boxes1, boxes2, eps):
    """(IoU, union, size of the hull), a row a pair."""
    boxes1, boxes2 = (boxes if boxes.is_floating_point() else boxes.float() for boxes in (boxes1, boxes2))
    size = minimum(boxes1[..., 2:], boxes2[..., 2:]) - maximum(boxes1[..., :2], boxes2[..., :2])
    size = size.clamp(min=0)
    common = size[..., 0] * size[..., 1]
    union = box_area(boxes1) + box_area(boxes2) - common
    hull = maximum(boxes1[..., 2:], boxes2[..., 2:]) - minimum(boxes1[..., :2], boxes2[..., :2])
    return common / (union + eps), union, hull


def generalized_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """Source: Rezatofighi et al. 2019."""
    overlap, union, hull = _pairs(boxes1, boxes2, eps)
    area = hull[..., 0] * hull[..., 1]
    return reduced(1 - (overlap - (area - union) / (area + eps)), reduction)


def _distance(boxes1, boxes2, eps):
    overlap, _, hull = _pairs(boxes1, boxes2, eps)
    between = (boxes1[..., :2] + boxes1[..., 2:] - boxes2[..., :2] - boxes2[..., 2:]) / 2
    return 1 - overlap + (between ** 2).sum(-1) / ((hull ** 2).sum(-1) + eps), overlap


def distance_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """Source: Zheng et al. 2020."""
    return reduced(_distance(boxes1, boxes2, eps)[0], reduction)


def complete_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    """Source: Zheng et al. 2020."""
    loss, overlap = _distance(boxes1, boxes2, eps)
    angles = [((boxes[..., 2] - boxes[..., 0]) / (boxes[..., 3] - boxes[..., 1])).atan()
              for boxes in (boxes1, boxes2)]
    shapes = 4 / math.pi ** 2 * (angles[1] - angles[0]) ** 2
    weight = (shapes / (1 - overlap + shapes + eps)).detach()
    return reduced(loss + weight * shapes, reduction)
