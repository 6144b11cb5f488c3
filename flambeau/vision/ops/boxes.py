"""Boxes (count, 4) with corners x1, y1, x2, y2, 0 <= x1 < x2 and 0 <= y1 < y2."""

import math

from flambeau.base.errors import fail
from flambeau.ops import maximum, minimum
from flambeau.tensor import cat, from_numpy, stack, tensor, zeros
from flambeau.types.dtype import float32, int64

_BLOCK = 64         # boxes whose overlaps with all others are computed together


def nms(boxes, scores, iou_threshold):
    """Numbers of the boxes that stay, best score first: none overlaps a better one by more than
    `iou_threshold`.

    Returns:
        (kept,) int64.

    >>> import flambeau as fl
    >>> nms(fl.tensor([[0., 0., 2., 2.], [0., 0., 2., 1.9], [3., 3., 4., 4.]]), fl.tensor([.5, .9, .1]), .5)
    tensor([1, 2])
    """
    if boxes.ndim != 2:
        fail("nms", "boxes should be a 2d tensor", got=f"{boxes.ndim}D")
    if boxes.shape[1] != 4:
        fail("nms", "boxes should have 4 elements in dimension 1", got=boxes.shape[1])
    if scores.ndim != 1 or len(scores) != len(boxes):
        fail("nms", "boxes and scores should have same number of elements",
             got=f"{len(boxes)} and {len(scores)}")
    import numpy
    order = scores.detach().argsort(descending=True, stable=True).numpy()
    places = boxes.detach().to(float32 if boxes.dtype.itemsize < 4 else boxes.dtype).numpy()
    alive, kept = numpy.ones(len(order), bool), []
    for start in range(0, len(order), _BLOCK):
        covered = _covering(numpy, places[order[start:]], iou_threshold)
        for index, row in enumerate(covered, start):
            if alive[index]:
                kept.append(order[index])
                alive[index + 1:] &= row[index + 1 - start:]
    return from_numpy(numpy.array(kept, "int64"))


def _covering(numpy, boxes, iou_threshold):
    """(_BLOCK, n) for boxes (n, 4): whether the second overlaps the first by `iou_threshold` at most."""
    left, top, right, bottom = (numpy.ascontiguousarray(column) for column in boxes.T)
    area, few = (right - left) * (bottom - top), slice(None, _BLOCK)
    width = numpy.minimum(right[few, None], right)
    width -= numpy.maximum(left[few, None], left)
    height = numpy.minimum(bottom[few, None], bottom)
    height -= numpy.maximum(top[few, None], top)
    common = width.clip(0, out=width)
    common *= height.clip(0, out=height)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        return ~(common / (area[few, None] + area - common) > iou_threshold)


def batched_nms(boxes, scores, idxs, iou_threshold):
    """`nms` for each class `idxs` (count,) by itself; best score first."""
    if not boxes.numel():
        return zeros(0, dtype=int64)
    if boxes.numel() <= 4000:
        # Boxes of different classes are moved apart.
        apart = idxs.to(boxes.dtype) * (boxes.max() + 1)
        return nms(boxes + apart[:, None], scores, iou_threshold)
    kept = []
    for number in sorted(set(idxs.tolist())):
        members = (idxs == number).nonzero()[:, 0]
        kept.append(members[nms(boxes[members], scores[members], iou_threshold)])
    kept = cat(kept)
    return kept[scores[kept].argsort(descending=True, stable=True)]


def remove_small_boxes(boxes, min_size):
    """Numbers of the boxes whose sides are at least `min_size`."""
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return ((width >= min_size) & (height >= min_size)).nonzero()[:, 0]


def clip_boxes_to_image(boxes, size):
    """Boxes (..., 4) moved into a picture of `size` (height, width)."""
    height, width = size
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return stack([x, y], -1).reshape(boxes.shape)


def box_convert(boxes, in_fmt, out_fmt):
    """Between 'xyxy' (corners), 'xywh' (corner and size) and 'cxcywh' (middle and size)."""
    allowed = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in allowed or out_fmt not in allowed:
        raise ValueError(f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt "
                         f"{out_fmt}")
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return stack([a, b, c, d], -1)


def _wide(boxes):
    """In a dtype in which areas do not overflow."""
    if boxes.is_floating_point():
        return boxes if boxes.dtype.itemsize >= 4 else boxes.float()
    return boxes if boxes.dtype.itemsize >= 4 else boxes.int()


def box_area(boxes, fmt="xyxy"):
    """(..., 4) -> (...)."""
    boxes = _wide(boxes)
    if fmt in ("xywh", "cxcywh"):
        return boxes[..., 2] * boxes[..., 3]
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def _common_and_union(boxes1, boxes2):
    """Areas (n, m) of what pairs have in common and of what they cover together."""
    low = maximum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = minimum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    size = _wide(high - low).clamp(min=0)
    common = size[..., 0] * size[..., 1]
    return common, box_area(boxes1)[..., :, None] + box_area(boxes2)[..., None, :] - common


def box_iou(boxes1, boxes2, fmt="xyxy"):
    """(n, 4), (m, 4) -> (n, m): area in common / area covered together."""
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    common, union = _common_and_union(boxes1, boxes2)
    return common / union


def _hull(boxes1, boxes2):
    """Sizes (n, m, 2) of the smallest boxes that hold pairs."""
    low = minimum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = maximum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    return _wide(high - low).clamp(min=0)


def generalized_box_iou(boxes1, boxes2):
    """(n, 4), (m, 4) -> (n, m) in (-1, 1]. Source: Rezatofighi et al. 2019."""
    common, union = _common_and_union(boxes1, boxes2)
    size = _hull(boxes1, boxes2)
    area = size[..., 0] * size[..., 1]
    return common / union - (area - union) / area


def distance_box_iou(boxes1, boxes2, eps=1e-7):
    """(n, 4), (m, 4) -> (n, m): the IoU less the distance of the middles. Source: Zheng et al. 2020."""
    return _distance_iou(boxes1, boxes2, eps)[0]


def complete_box_iou(boxes1, boxes2, eps=1e-7):
    """(n, 4), (m, 4) -> (n, m): `distance_box_iou` less the difference of the shapes. Source: Zheng et al.
    2020.
    """
    distance, overlap = _distance_iou(boxes1, boxes2, eps)
    angles = [((boxes[:, 2] - boxes[:, 0]) / (boxes[:, 3] - boxes[:, 1])).atan()
              for boxes in (boxes1, boxes2)]
    shapes = 4 / math.pi ** 2 * (angles[0][:, None] - angles[1][None]) ** 2
    weight = (shapes / (1 - overlap + shapes + eps)).detach()
    return distance - weight * shapes


def _distance_iou(boxes1, boxes2, eps):
    boxes1, boxes2 = _wide(boxes1), _wide(boxes2)
    overlap = box_iou(boxes1, boxes2)
    diagonal = (_hull(boxes1, boxes2) ** 2).sum(-1) + eps
    middles = [(boxes[:, :2] + boxes[:, 2:]) / 2 for boxes in (boxes1, boxes2)]
    distance = ((middles[0][:, None] - middles[1][None]) ** 2).sum(-1)
    return overlap - distance / diagonal, overlap


def masks_to_boxes(masks):
    """The boxes (count, 4) around the true pixels of masks (count, height, width)."""
    boxes = []
    for mask in masks:
        rows, columns = mask.nonzero().unbind(1)
        boxes.append([int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max())])
    return tensor(boxes, dtype=float32) if boxes else zeros(0, 4)
