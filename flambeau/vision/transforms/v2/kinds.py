"""The transforms of `transforms` for whole samples: masks get the nearest pixel, boxes move with the
picture.
"""

from flambeau.base.errors import fail
from flambeau.tensor import Tensor, empty, stack
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import colour, geometry, warping
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.modes import InterpolationMode
from flambeau.vision.transforms.v2.base import Transform, like, picture_of

NEAREST = InterpolationMode.NEAREST


class Whole(Transform):
    """A transform of `transforms` (the class after it in a subclass's bases) for whole samples.

    It draws once, for the first picture; `mask` and `boxes` say what happens to those.
    """

    def make_params(self, flat_inputs):
        return {"drawn": self.draw(_sized(picture_of(flat_inputs)))}

    def transform(self, inpt, params):
        if isinstance(inpt, tv_tensors.BoundingBoxes):
            return self.boxes(inpt, params["drawn"])
        if isinstance(inpt, tv_tensors.Mask):
            return like(self.mask(inpt, params["drawn"]), inpt)
        result = self.apply(inpt, params["drawn"])
        return tuple(like(part, inpt) for part in result) if isinstance(result, tuple) else like(result, inpt)

    def mask(self, mask, drawn):
        """By default as a picture, without values between pixels and with 0 outside."""
        kept = {name: getattr(self, name) for name in ("interpolation", "fill") if hasattr(self, name)}
        try:
            if "interpolation" in kept:
                self.interpolation = NEAREST
            if "fill" in kept:
                self.fill = [0.0] if isinstance(kept["fill"], list) else 0
            return self.apply(mask, drawn)
        finally:
            for name, value in kept.items():
                setattr(self, name, value)

    def boxes(self, boxes, drawn):
        fail(f"v2.{type(self).__name__}", "it cannot move BoundingBoxes yet", kind=NotImplementedError,
             hint="resizing, cropping, padding and flipping can")


def _sized(part):
    """`part`, or a picture of the size that boxes belong to."""
    return empty(3, *part.canvas_size) if isinstance(part, tv_tensors.BoundingBoxes) else part


class Colours(Whole):
    """Only the values of pictures change."""

    def mask(self, mask, drawn):
        return mask

    def boxes(self, boxes, drawn):
        return boxes


def moved(boxes, function, canvas_size):
    """Boxes whose corners (x, y, x, y) `function` has changed, on another canvas."""
    from flambeau.vision.ops.boxes import box_convert
    form = boxes.format.value.lower()
    corners = box_convert(boxes.as_subclass(Tensor), form, "xyxy")
    changed = stack(function(*corners.unbind(-1)), -1)
    height, width = canvas_size
    if boxes.clamping_mode is not None:
        changed = stack([changed[..., 0].clamp(0, width), changed[..., 1].clamp(0, height),
                         changed[..., 2].clamp(0, width), changed[..., 3].clamp(0, height)], -1)
    return tv_tensors.wrap(box_convert(changed, "xyxy", form).to(boxes.dtype), like=boxes,
                           canvas_size=canvas_size)


def shifted(boxes, top, left, canvas_size):
    return moved(boxes, lambda a, b, c, d: (a - left, b - top, c - left, d - top), canvas_size)


def scaled(boxes, canvas_size):
    down, across = (new / old for new, old in zip(canvas_size, boxes.canvas_size))
    return moved(boxes, lambda a, b, c, d: (a * across, b * down, c * across, d * down), canvas_size)


class Resize(Whole, geometry.Resize):
    __doc__ = geometry.Resize.__doc__

    def __repr__(self):
        size = [self.size] if isinstance(self.size, int) else self.size
        return (f"{type(self).__name__}(size={size}, interpolation={self.interpolation.value}, "
                f"antialias={self.antialias})")

    def boxes(self, boxes, drawn):
        return scaled(boxes, F.output_size(*boxes.canvas_size, self.size, self.max_size))


class CenterCrop(Whole, geometry.CenterCrop):
    __doc__ = geometry.CenterCrop.__doc__

    def boxes(self, boxes, drawn):
        top, left = (int(round((old - new) / 2.0)) if old >= new else -((new - old) // 2)
                     for old, new in zip(boxes.canvas_size, self.size))
        return shifted(boxes, top, left, self.size)


def padded(boxes, padding):
    left, top, right, bottom = F.four_sides(padding)
    height, width = boxes.canvas_size
    return shifted(boxes, -top, -left, (height + top + bottom, width + left + right))


class Pad(Whole, geometry.Pad):
    __doc__ = geometry.Pad.__doc__

    def boxes(self, boxes, drawn):
        return padded(boxes, self.padding)


class RandomCrop(Whole, geometry.RandomCrop):
    __doc__ = geometry.RandomCrop.__doc__

    def boxes(self, boxes, drawn):
        paddings, (top, left, height, width) = drawn
        for padding in paddings:
            boxes = padded(boxes, padding)
        return shifted(boxes, top, left, (height, width))


class RandomResizedCrop(Whole, geometry.RandomResizedCrop):
    __doc__ = geometry.RandomResizedCrop.__doc__

    def boxes(self, boxes, drawn):
        top, left, height, width = drawn
        return scaled(shifted(boxes, top, left, (height, width)), self.size)


class RandomHorizontalFlip(Whole, geometry.RandomHorizontalFlip):
    __doc__ = geometry.RandomHorizontalFlip.__doc__

    def boxes(self, boxes, drawn):
        width = boxes.canvas_size[1]
        mirror = (lambda a, b, c, d: (width - c, b, width - a, d)) if drawn else (lambda *corners: corners)
        return moved(boxes, mirror, boxes.canvas_size)


class RandomVerticalFlip(Whole, geometry.RandomVerticalFlip):
    __doc__ = geometry.RandomVerticalFlip.__doc__

    def boxes(self, boxes, drawn):
        height = boxes.canvas_size[0]
        mirror = (lambda a, b, c, d: (a, height - d, c, height - b)) if drawn else (lambda *corners: corners)
        return moved(boxes, mirror, boxes.canvas_size)


class FiveCrop(Whole, geometry.FiveCrop):
    __doc__ = geometry.FiveCrop.__doc__


class TenCrop(Whole, geometry.TenCrop):
    __doc__ = geometry.TenCrop.__doc__


class RandomRotation(Whole, warping.RandomRotation):
    __doc__ = warping.RandomRotation.__doc__


class RandomAffine(Whole, warping.RandomAffine):
    __doc__ = warping.RandomAffine.__doc__


class RandomPerspective(Whole, warping.RandomPerspective):
    __doc__ = warping.RandomPerspective.__doc__


class ElasticTransform(Whole, warping.ElasticTransform):
    __doc__ = warping.ElasticTransform.__doc__


class ColorJitter(Colours, colour.ColorJitter):
    __doc__ = colour.ColorJitter.__doc__


class Grayscale(Colours, colour.Grayscale):
    __doc__ = colour.Grayscale.__doc__


class RandomGrayscale(Colours, colour.RandomGrayscale):
    __doc__ = colour.RandomGrayscale.__doc__


class GaussianBlur(Colours, colour.GaussianBlur):
    __doc__ = colour.GaussianBlur.__doc__


class RandomInvert(Colours, colour.RandomInvert):
    __doc__ = colour.RandomInvert.__doc__


class RandomPosterize(Colours, colour.RandomPosterize):
    __doc__ = colour.RandomPosterize.__doc__


class RandomSolarize(Colours, colour.RandomSolarize):
    __doc__ = colour.RandomSolarize.__doc__


class RandomAdjustSharpness(Colours, colour.RandomAdjustSharpness):
    __doc__ = colour.RandomAdjustSharpness.__doc__


class RandomAutocontrast(Colours, colour.RandomAutocontrast):
    __doc__ = colour.RandomAutocontrast.__doc__


class RandomEqualize(Colours, colour.RandomEqualize):
    __doc__ = colour.RandomEqualize.__doc__


class RandomErasing(Colours, colour.RandomErasing):
    __doc__ = colour.RandomErasing.__doc__
