"""The functions of `transforms.functional` under the names of v2, keeping the kind of typed tensors."""

import functools

from flambeau.tensor import Tensor, from_numpy
from flambeau.types.dtype import float32
from flambeau.vision import tv_tensors
from flambeau.vision._pillow import is_picture
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.modes import InterpolationMode
from flambeau.vision.transforms.v2.base import like

__all__ = ["InterpolationMode", "convert_bounding_box_format", "get_size", "pil_to_tensor", "to_dtype",
           "to_image",
           "to_pil_image", "to_tensor"]

to_tensor, pil_to_tensor, to_pil_image = F.to_tensor, F.pil_to_tensor, F.to_pil_image


def to_image(inpt):
    """A Pillow image, an array (height, width, channels) or a tensor as `tv_tensors.Image`."""
    import numpy
    if isinstance(inpt, numpy.ndarray):
        pixels = inpt[:, :, None] if inpt.ndim == 2 else inpt
        return tv_tensors.Image(from_numpy(numpy.ascontiguousarray(pixels.transpose(2, 0, 1))))
    if is_picture(inpt):
        return tv_tensors.Image(F.pil_to_tensor(inpt))
    if isinstance(inpt, Tensor):
        return tv_tensors.Image(inpt)
    raise TypeError(f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got "
                    f"{type(inpt)} instead.")


def to_dtype(inpt, dtype=float32, scale=False):
    """Another dtype; scale: white stays white."""
    return like(F.convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype), inpt)


def get_size(inpt):
    """[height, width]"""
    return list(inpt.canvas_size) if isinstance(inpt,
                                                tv_tensors.BoundingBoxes) else F.get_dimensions(inpt)[1:]


def convert_bounding_box_format(inpt, old_format=None, new_format=None, inplace=False):
    """Boxes in another format."""
    from flambeau.vision.ops.boxes import box_convert
    typed = isinstance(inpt, tv_tensors.BoundingBoxes)
    old = inpt.format if typed else old_format
    names = [form.value if isinstance(form, tv_tensors.BoundingBoxFormat) else form
             for form in (old, new_format)]
    result = box_convert(inpt.as_subclass(Tensor), *(name.lower() for name in names)).to(inpt.dtype)
    return tv_tensors.wrap(result, like=inpt,
                           format=tv_tensors.BoundingBoxFormat(names[1])) if typed else result


def _kept(function):
    """The function, with the kind of its first argument put back on the result."""
    @functools.wraps(function)
    def keeping(inpt, *args, **options):
        result = function(inpt, *args, **options)
        return tuple(like(part, inpt) for part in result) if isinstance(result, tuple) else like(result, inpt)
    return keeping


_SAME = ("adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
         "adjust_sharpness", "affine", "autocontrast", "center_crop", "convert_image_dtype", "crop",
         "elastic_transform", "equalize", "erase", "five_crop", "gaussian_blur", "hflip", "invert",
         "normalize",
         "pad", "perspective", "posterize", "resize", "resized_crop", "rgb_to_grayscale", "rotate",
         "solarize",
         "ten_crop", "to_grayscale", "vflip")
_RENAMED = {"horizontal_flip": "hflip", "vertical_flip": "vflip", "elastic": "elastic_transform"}
_SIZES = ("get_dimensions", "get_image_num_channels", "get_image_size")

for _name in (*_SAME, *_RENAMED):
    globals()[_name] = _kept(getattr(F, _RENAMED.get(_name, _name)))
for _name in _SIZES:
    globals()[_name] = getattr(F, _name)
get_num_channels = F.get_image_num_channels
__all__ += [*_SAME, *_RENAMED, *_SIZES, "get_num_channels"]
del _name
