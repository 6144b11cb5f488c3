"""Functions on pictures: a Pillow image, or a tensor (..., channels, height, width).

A Pillow image gives a Pillow image, a tensor a tensor. Sizes are [height, width]; paddings are one number,
[left/right, top/bottom] or [left, top, right, bottom]; angles are in degrees.

>>> picture = fl.arange(6.0).reshape(1, 2, 3)
>>> hflip(picture)
tensor([[[2., 1., 0.],
         [5., 4., 3.]]])
>>> tuple(resize(picture, [4, 4]).shape), tuple(pad(picture, [1, 2]).shape)
((1, 4, 4), (1, 6, 5))
"""

import math
import numbers

from flambeau.tensor import Tensor
from flambeau.vision._pillow import is_picture
from flambeau.vision.transforms import _pil, _tensor, _warp
from flambeau.vision.transforms.conversion import (convert_image_dtype, pil_modes_mapping, pil_to_tensor,
                                                   to_pil_image, to_tensor)
from flambeau.vision.transforms.modes import InterpolationMode, mode_of

__all__ = ["InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue",
           "adjust_saturation", "adjust_sharpness", "affine", "autocontrast", "center_crop",
           "convert_image_dtype", "crop", "elastic_transform", "equalize", "erase", "five_crop", "gaussian_blur", "get_dimensions",
           "get_image_num_channels", "get_image_size", "hflip", "invert", "normalize", "pad", "perspective",
           "pil_modes_mapping", "pil_to_tensor", "posterize", "resize", "resized_crop", "rgb_to_grayscale",
           "rotate", "solarize", "ten_crop", "to_grayscale", "to_pil_image", "to_tensor", "vflip"]


def _home(img):
    """The module with the operations for `img`."""
    if isinstance(img, Tensor):
        if img.ndim < 2:
            raise TypeError("Tensor is not a torch image.")
        return _tensor
    if is_picture(img):
        return _pil
    raise TypeError(f"Unexpected type {type(img)}: pictures are Pillow images or tensors")


def get_dimensions(img):
    """[channels, height, width]"""
    return _home(img).dimensions(img)


def get_image_size(img):
    """[width, height]"""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img):
    """1 for grey, 3 for colours."""
    return get_dimensions(img)[0]


def normalize(tensor, mean, std, inplace=False):
    """(tensor - mean) / std, a number a channel.

    >>> normalize(fl.ones(1, 1, 2), mean=[0.5], std=[0.25])
    tensor([[[2., 2.]]])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError("Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = "
                         f"{tensor.size()}")
    return _tensor.normalize(tensor, mean, std, inplace)


def resize(img, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
    """size: [height, width], or a number for the shorter edge (then `max_size` bounds the longer one)."""
    mode = mode_of(interpolation)
    if isinstance(size, (list, tuple)):
        if len(size) not in (1, 2):
            raise ValueError(f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element "
                             "tuple/list")
        if max_size is not None and len(size) != 1:
            raise ValueError("max_size should only be passed if size specifies the length of the smaller "
                             "edge, i.e. size should be an int or a sequence of length 1 in torchscript mode.")
    elif not isinstance(size, int) and size is not None:
        raise TypeError(f"Size should be int or sequence. Got {type(size)}")
    _, height, width = get_dimensions(img)
    wanted = output_size(height, width, size, max_size)
    return img if wanted == (height, width) else _home(img).resize(img, wanted, mode, antialias)


def output_size(height, width, size, max_size=None):
    """(height, width) that `resize` gives."""
    if size is None:
        scale = max_size / max(height, width)
        return int(height * scale), int(width * scale)
    if isinstance(size, (list, tuple)) and len(size) == 2:
        return tuple(size)
    edge = size[0] if isinstance(size, (list, tuple)) else size
    short, long = sorted((height, width))
    new_short, new_long = edge, int(edge * long / short)
    if max_size is not None:
        if max_size <= edge:
            raise ValueError(f"max_size = {max_size} must be strictly greater than the requested size for the "
                             f"smaller edge size = {size}")
        if new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def pad(img, padding, fill=0, padding_mode="constant"):
    """Pixels around: `fill`, or with padding_mode 'edge', 'reflect', 'symmetric' pixels of the picture."""
    if not isinstance(padding, (numbers.Number, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    return _home(img).pad(img, four_sides(padding), fill, padding_mode)


def four_sides(padding):
    """[left, top, right, bottom]"""
    if isinstance(padding, numbers.Number):
        return [padding] * 4
    if len(padding) == 1:
        return [padding[0]] * 4
    if len(padding) == 2:
        return [padding[0], padding[1]] * 2
    if len(padding) != 4:
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} "
                         f"element tuple")
    return list(padding)


def crop(img, top, left, height, width):
    """The part with that corner and size; what lies outside the picture is 0."""
    return _home(img).crop(img, top, left, height, width)


def center_crop(img, output_size):
    """The middle; a smaller picture is padded with 0.

    >>> center_crop(fl.arange(9).reshape(1, 3, 3), 1)
    tensor([[[4]]])
    """
    height, width = two(output_size)
    _, rows, columns = get_dimensions(img)
    if width > columns or height > rows:
        over_x, over_y = max(width - columns, 0), max(height - rows, 0)
        img = pad(img, [over_x // 2, over_y // 2, (over_x + 1) // 2, (over_y + 1) // 2])
        rows, columns = max(rows, height), max(columns, width)
        if (rows, columns) == (height, width):
            return img
    return crop(img, int(round((rows - height) / 2.0)), int(round((columns - width) / 2.0)), height, width)


def two(size):
    """(height, width) of a number or a sequence of one or two."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)
    if len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return tuple(size)


def resized_crop(img, top, left, height, width, size, interpolation=InterpolationMode.BILINEAR,
                 antialias=True):
    """`crop`, then `resize`."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img):
    """Left becomes right."""
    return _home(img).hflip(img)


def vflip(img):
    """Top becomes bottom."""
    return _home(img).vflip(img)


def five_crop(img, size):
    """The four corners (top left, top right, bottom left, bottom right) and the middle."""
    height, width = two(size)
    _, rows, columns = get_dimensions(img)
    if width > columns or height > rows:
        raise ValueError(f"Requested crop size {(height, width)} is bigger than input size {(rows, columns)}")
    corners = [(0, 0), (0, columns - width), (rows - height, 0), (rows - height, columns - width)]
    return (*(crop(img, top, left, height, width) for top, left in corners),
            center_crop(img, [height, width]))


def ten_crop(img, size, vertical_flip=False):
    """`five_crop` of the picture and of its mirror image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


def adjust_brightness(img, brightness_factor):
    """0 is black, 1 the picture as it is."""
    return _home(img).adjust_brightness(img, _not_negative("brightness", brightness_factor))


def adjust_contrast(img, contrast_factor):
    """0 is grey, 1 the picture as it is."""
    return _home(img).adjust_contrast(img, _not_negative("contrast", contrast_factor))


def adjust_saturation(img, saturation_factor):
    """0 is without colours, 1 the picture as it is."""
    return _home(img).adjust_saturation(img, _not_negative("saturation", saturation_factor))


def _not_negative(name, factor):
    if factor < 0:
        raise ValueError(f"{name}_factor ({factor}) is not non-negative.")
    return factor


def adjust_hue(img, hue_factor):
    """Turn the colours by -0.5 to 0.5 of the circle."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    return _home(img).adjust_hue(img, hue_factor)


def adjust_gamma(img, gamma, gain=1):
    """gain * value ** gamma, with values from 0 to 1."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    return _home(img).adjust_gamma(img, gamma, gain)


def adjust_sharpness(img, sharpness_factor):
    """0 is blurred, 1 the picture as it is."""
    return _home(img).adjust_sharpness(img, _not_negative("sharpness", sharpness_factor))


def rotate(img, angle, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=None):
    """Turn against the clock about `center` [x, y] (default: the middle); expand: the result holds all of it.

    >>> rotate(fl.arange(4).reshape(1, 2, 2), 90)
    tensor([[[1, 3],
             [0, 2]]])
    """
    mode = mode_of(interpolation)
    if not isinstance(angle, numbers.Number):
        raise TypeError("Argument angle should be int or float")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError("Argument center should be a sequence")
    if not isinstance(img, Tensor):
        return _home(img).rotate(img, angle, mode, expand, center, fill)
    _, height, width = get_dimensions(img)
    middle = [0.0, 0.0] if center is None else [center[0] - width * 0.5, center[1] - height * 0.5]
    matrix = _warp.inverse_matrix(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    size = _warp.rotated_size(matrix, height, width) if expand else None
    return _warp.affine(img, matrix, mode, fill, size)


def affine(img, angle, translate, scale, shear, interpolation=InterpolationMode.NEAREST, fill=None,
           center=None):
    """Rotate (with the clock), move by `translate` [x, y] pixels, scale and shear ([x, y] degrees)."""
    mode = mode_of(interpolation)
    if not isinstance(angle, numbers.Number):
        raise TypeError("Argument angle should be int or float")
    if not isinstance(translate, (list, tuple)) or len(translate) != 2:
        raise ValueError("Argument translate should be a sequence of length 2")
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    shear = [shear, 0.0] if isinstance(shear, numbers.Number) else (list(shear) * 2)[:2]
    _, height, width = get_dimensions(img)
    if isinstance(img, Tensor):
        middle = [0.0, 0.0] if center is None else [center[0] - width * 0.5, center[1] - height * 0.5]
        matrix = _warp.inverse_matrix(middle, angle, [float(step) for step in translate], scale, shear)
        return _warp.affine(img, matrix, mode, fill)
    middle = [width * 0.5, height * 0.5] if center is None else center
    return _home(img).affine(img, _warp.inverse_matrix(middle, angle, translate, scale, shear), mode, fill)


def perspective(img, startpoints, endpoints, interpolation=InterpolationMode.BILINEAR, fill=None):
    """Move the four `startpoints` ([x, y], from top left with the clock) to `endpoints`."""
    coefficients = _warp.perspective_coefficients(startpoints, endpoints)
    home = _warp if isinstance(img, Tensor) else _home(img)
    return home.perspective(img, coefficients, mode_of(interpolation), fill)


def elastic_transform(img, displacement, interpolation=InterpolationMode.BILINEAR, fill=None):
    """Move each pixel by `displacement` (1, height, width, 2), in halves of the picture."""
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    return through_tensor(img, lambda tensor: _warp.elastic(tensor, displacement, interpolation, fill))


def gaussian_blur(img, kernel_size, sigma=None):
    """kernel_size: odd numbers [x, y]; sigma: default 0.15 * kernel_size + 0.35."""
    sizes = list(kernel_size) * 2 if isinstance(kernel_size, (list, tuple)) else [kernel_size] * 2
    sizes = sizes[:2]
    for size in sizes:
        if size % 2 == 0 or size < 0:
            raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel_size}")
    if sigma is None:
        sigma = [size * 0.15 + 0.35 for size in sizes]
    sigmas = [float(sigma)] * 2 if isinstance(sigma, numbers.Number) else (list(map(float, sigma)) * 2)[:2]
    if min(sigmas) <= 0.0:
        raise ValueError(f"sigma should have positive values. Got {sigma}")
    return through_tensor(img, lambda tensor: _tensor.gaussian_blur(tensor, sizes, sigmas))


def through_tensor(img, function):
    """Apply a function of tensors to a tensor or a Pillow image."""
    if isinstance(img, Tensor):
        return function(img)
    _home(img)
    return to_pil_image(function(pil_to_tensor(img)), mode=img.mode)


def invert(img):
    """The largest value less each value: black becomes white."""
    return _home(img).invert(img)


def posterize(img, bits):
    """Keep the `bits` highest bits of each value."""
    if isinstance(img, Tensor) and _u8(img) and bits == 8:
        return img
    return _home(img).posterize(img, bits)


def _u8(img):
    if img.dtype.itemsize != 1 or img.is_floating_point():
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    return True


def solarize(img, threshold):
    """Invert the values from `threshold` on."""
    if isinstance(img, Tensor) and threshold > _tensor.largest(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return _home(img).solarize(img, threshold)


def autocontrast(img):
    """Stretch the values of each channel from black to white."""
    return _home(img).autocontrast(img)


def equalize(img):
    """Spread the values of each channel so that all are equally frequent."""
    return _home(img).equalize(img)


def to_grayscale(img, num_output_channels=1):
    """A grey Pillow image of a Pillow image."""
    if not is_picture(img):
        raise TypeError("Input should be PIL Image")
    return _pil.to_grayscale(img, num_output_channels)


def rgb_to_grayscale(img, num_output_channels=1):
    """The brightness of each pixel, in one channel or in three equal ones."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    return _home(img).to_grayscale(img, num_output_channels)


def erase(img, i, j, h, w, v, inplace=False):
    """Write `v` into the rectangle of size h, w with the corner i (row), j (column)."""
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    result = img if inplace else img.clone()
    result[..., i:i + h, j:j + w] = v
    return result


def degrees_of(slope):
    """The angle whose tangent is `slope`."""
    return math.degrees(math.atan(slope))
