"""Tensors that say what they hold: a picture, a mask, boxes. `transforms.v2` treats each in its way.

Arithmetic gives plain tensors again; `wrap(tensor, like=...)` puts the kind back.
"""

from enum import Enum

from flambeau.tensor import Parameter, Tensor, as_tensor

__all__ = ["BoundingBoxFormat", "BoundingBoxes", "Image", "Mask", "TVTensor", "Video", "wrap"]


class TVTensor(Tensor):
    """What Image, Video, Mask and BoundingBoxes have in common."""

    __torch_function__ = Parameter.__torch_function__       # taken for a plain tensor

    def __new__(cls, data, *, dtype=None, device=None, requires_grad=None):
        values = _values(data, dtype, device)
        kept = values.as_subclass(cls)
        if requires_grad is not None:
            kept.requires_grad_(requires_grad)
        return kept

    def __init__(self, data, **ignored):
        pass


def _values(data, dtype, device):
    from flambeau.vision._pillow import is_picture
    if is_picture(data):
        from flambeau.vision.transforms.functional import pil_to_tensor
        data = pil_to_tensor(data)
    return as_tensor(data, dtype=dtype, device=device)


class Image(TVTensor):
    """A picture or a batch of them, (..., channels, height, width)."""

    def __new__(cls, data, *, dtype=None, device=None, requires_grad=None):
        values = _values(data, dtype, device)
        if values.ndim < 2:
            raise ValueError("a picture has at least 2 axes")
        return super().__new__(cls, values[None] if values.ndim == 2 else values, requires_grad=requires_grad)


class Video(TVTensor):
    """Frames, (..., time, channels, height, width)."""


class Mask(TVTensor):
    """Labels of pixels, (..., height, width); resized with the nearest pixel."""


class BoundingBoxFormat(Enum):
    """What the four numbers of a box mean."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


class BoundingBoxes(TVTensor):
    """Boxes, (count, 4), of a picture of size `canvas_size` (height, width)."""

    def __new__(cls, data, *, format, canvas_size, clamping_mode="soft", dtype=None, device=None,
                requires_grad=None):
        values = _values(data, dtype, device)
        boxes = super().__new__(cls, values[None] if values.ndim == 1 else values,
                                requires_grad=requires_grad)
        boxes.format = BoundingBoxFormat(format.upper()) if isinstance(format, str) else format
        boxes.canvas_size, boxes.clamping_mode = tuple(canvas_size), clamping_mode
        return boxes


def wrap(wrappee, *, like, **changes):
    """The tensor `wrappee` as the kind of `like`; `changes` are other properties for boxes."""
    if isinstance(like, BoundingBoxes):
        facts = {"format": like.format, "canvas_size": like.canvas_size, "clamping_mode": like.clamping_mode}
        return BoundingBoxes(wrappee, **{**facts, **changes})
    return wrappee.as_subclass(type(like))
