"""Pictures to tensors and back."""

import math

from flambeau.base.errors import fail
from flambeau.tensor import Tensor, from_numpy
from flambeau.types.dtype import get_default_dtype, int64, uint8
from flambeau.vision._pillow import image_module, is_picture
from flambeau.vision.transforms import _tensor

pil_modes_mapping = {"I": "int32", "I;16": "uint16", "F": "float32"}
_KINDS = {"uint8": {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}, "int16": {1: "I;16"}, "uint16": {1: "I;16"},
          "int32": {1: "I"}, "float32": {1: "F"}}
_PERMITTED = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}


def to_tensor(pic):
    """A Pillow image or an array (height, width[, channels]) as a tensor (channels, height, width).

    Bytes become floats from 0 to 1; other values stay as they are.
    """
    if is_picture(pic):
        planes = _planes(pic)
        if pic.mode == "1":
            planes = planes.astype("uint8") * 255
    else:
        planes = _planes_of_array(pic)
    if planes.dtype.char == "B":
        import numpy
        return from_numpy(numpy.ascontiguousarray(planes)).div(255)
    return from_numpy(planes)


def _planes_of_array(pic):
    import numpy
    if not isinstance(pic, numpy.ndarray):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    if pic.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    planes = pic[None] if pic.ndim == 2 else pic.transpose(2, 0, 1)
    return numpy.ascontiguousarray(planes).copy() if planes.dtype.char != "B" else planes


def _planes(pic):
    """The pixels of a Pillow image as a new array (channels, height, width)."""
    import numpy
    width, height = pic.size
    bands = len(pic.getbands())
    if pic.mode in ("L", "RGB", "RGBA", "P", "CMYK", "YCbCr", "HSV", "LA", "RGBX"):
        pixels = numpy.frombuffer(pic.tobytes(), "uint8")
        return pixels.reshape(height, width, bands).transpose(2, 0, 1)
    pixels = numpy.array(pic, dtype=pil_modes_mapping.get(pic.mode, "uint8"), copy=True)
    return numpy.ascontiguousarray(pixels.reshape(height, width, bands).transpose(2, 0, 1))


def pil_to_tensor(pic):
    """A Pillow image as a tensor (channels, height, width) of its own values."""
    if not is_picture(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    import numpy
    return from_numpy(numpy.array(_planes(pic), order="C", copy=True))


def convert_image_dtype(image, dtype=None):
    """Another dtype (default float32), with white staying white."""
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    return _tensor.convert_dtype(image, dtype or get_default_dtype())


def to_pil_image(pic, mode=None):
    """A tensor ([channels, ]height, width) or an array (height, width[, channels]) as a Pillow image.

    Floats of a tensor are taken as 0 to 1.
    """
    import numpy
    if isinstance(pic, Tensor):
        pixels = _pixels_of_tensor(pic, mode)
    elif isinstance(pic, numpy.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        pixels = pic[:, :, None] if pic.ndim == 2 else pic
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    channels = pixels.shape[2]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    known = _KINDS.get(pixels.dtype.name, {}).get(channels)
    _check_mode(mode, channels, known, pixels.dtype)
    if channels == 1:
        pixels = pixels[:, :, 0]
    return _image(numpy.ascontiguousarray(pixels), mode or known)


def _pixels_of_tensor(pic, mode):
    if pic.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    if pic.ndim == 2:
        pic = pic[None]
    if pic.shape[0] > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {pic.shape[0]} channels.")
    if pic.is_floating_point() and mode != "F":
        # what is out of range wraps around, as in PyTorch
        pic = pic.detach().mul(255).to(int64).to(uint8)
    return pic.detach().numpy().transpose(1, 2, 0)


def _check_mode(mode, channels, known, dtype):
    if known is None and mode is None:
        raise TypeError(f"Input type {dtype} is not supported")
    permitted = _PERMITTED.get(channels, (known,))
    if mode is not None and mode not in permitted:
        shown = "/".join(map(str, permitted))
        raise ValueError(f"Incorrect mode ({mode}) supplied for {channels} channels and type {dtype}. "
                         f"Should be {shown}")


def _image(pixels, mode):
    return image_module().frombytes(mode, (pixels.shape[1], pixels.shape[0]), pixels.tobytes())


def sides(size, message):
    """(height, width) of an int, or of one or two of them."""
    if isinstance(size, (int, float)) and not isinstance(size, bool):
        return int(size), int(size)
    if not hasattr(size, "__len__") or len(size) not in (1, 2):
        raise ValueError(message)
    return (size[0], size[0]) if len(size) == 1 else tuple(size)


def logs(values):
    """The logarithms of numbers > 0."""
    if min(values) <= 0:
        fail("transforms", "ratios must be greater than 0", got=values, kind=ValueError)
    return [math.log(value) for value in values]
