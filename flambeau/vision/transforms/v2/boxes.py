"""Boxes of a sample: their format, their limits, those that are too small."""

from flambeau.base.tree import flatten, unflatten
from flambeau.tensor import Tensor, tensor
from flambeau.vision import tv_tensors
from flambeau.vision.ops.boxes import box_convert
from flambeau.vision.transforms.v2.base import Transform
from flambeau.vision.transforms.v2.functional import convert_bounding_box_format
from flambeau.vision.transforms.v2.kinds import moved


class ConvertBoundingBoxFormat(Transform):
    """Boxes in another format ('XYXY', 'XYWH', 'CXCYWH')."""

    def __init__(self, format):
        super().__init__()
        self.format = format

    def transform(self, inpt, params):
        boxes = isinstance(inpt, tv_tensors.BoundingBoxes)
        return convert_bounding_box_format(inpt, new_format=self.format) if boxes else inpt


class ClampBoundingBoxes(Transform):
    """Boxes cut off at the edges of the picture."""

    def transform(self, inpt, params):
        if not isinstance(inpt, tv_tensors.BoundingBoxes):
            return inpt
        return moved(inpt, lambda *corners: corners, inpt.canvas_size)


class SanitizeBoundingBoxes(Transform):
    """Boxes with a side below `min_size` or partly outside leave the sample, with their labels and masks.

    labels_getter: 'default' takes the entry 'labels' of a dict; a function of the sample; None: no labels.
    """

    def __init__(self, min_size=1.0, min_area=1.0, labels_getter="default"):
        super().__init__()
        self.min_size, self.min_area, self.labels_getter = min_size, min_area, labels_getter

    def forward(self, *inputs):
        sample = inputs if len(inputs) > 1 else inputs[0]
        parts, structure = flatten(sample)
        boxes = next((part for part in parts if isinstance(part, tv_tensors.BoundingBoxes)), None)
        if boxes is None:
            raise ValueError("no BoundingBoxes in the sample")
        valid, labels = self._valid(boxes), self._labels(inputs)
        changed = []
        for part in parts:
            if part is boxes or isinstance(part,
                                           tv_tensors.Mask) and part.ndim == 3 and len(part) == len(boxes):
                changed.append(tv_tensors.wrap(part.as_subclass(Tensor)[valid], like=part))
            else:
                changed.append(part[valid] if any(part is label for label in labels) else part)
        return unflatten(changed, structure)

    def _labels(self, inputs):
        if self.labels_getter is None:
            return []
        if callable(self.labels_getter):
            found = self.labels_getter(inputs if len(inputs) > 1 else inputs[0])
            return list(found) if isinstance(found, (tuple, list)) else [found]
        return [part["labels"] for part in inputs if isinstance(part, dict) and "labels" in part]

    def _valid(self, boxes):
        corners = box_convert(boxes.as_subclass(Tensor), boxes.format.value.lower(), "xyxy")
        width, height = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
        rows, columns = boxes.canvas_size
        limits = tensor([columns, rows, columns, rows])
        inside = ((corners >= 0) & (corners <= limits)).all(1)
        large = (width >= self.min_size) & (height >= self.min_size)
        return inside & large & (width * height >= self.min_area)
