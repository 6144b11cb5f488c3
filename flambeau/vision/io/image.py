"""Picture files as tensors (channels, height, width) of bytes, by Pillow."""

import io
from enum import Enum

from flambeau.base.errors import fail
from flambeau.tensor import Tensor, from_numpy
from flambeau.types.dtype import uint8
from flambeau.vision._pillow import image_module, pillow
from flambeau.vision.transforms.conversion import pil_to_tensor, to_pil_image


class ImageReadMode(Enum):
    """Which channels to read: those of the file, or others that they are converted to."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


_PILLOW_MODES = {ImageReadMode.GRAY: "L", ImageReadMode.GRAY_ALPHA: "LA", ImageReadMode.RGB: "RGB",
                 ImageReadMode.RGB_ALPHA: "RGBA"}


def read_file(path):
    """The bytes of a file as a 1-d tensor."""
    import numpy
    return from_numpy(numpy.fromfile(path, "uint8"))


def write_file(filename, data):
    """Write a 1-d tensor of bytes."""
    with open(filename, "wb") as file:
        file.write(data.numpy().tobytes())


def decode_image(input, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    """The picture in a 1-d tensor of bytes, or in the file of that name, as (channels, height, width)."""
    if isinstance(mode, str):
        mode = ImageReadMode[mode.upper()]
    source = io.BytesIO(input.numpy().tobytes()) if isinstance(input, Tensor) else input
    try:
        picture = image_module().open(source)
        picture.load()
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        fail("decode_image", "not a picture that can be read", got=error)
    if apply_exif_orientation:
        picture = pillow("ImageOps").exif_transpose(picture)
    if mode is not ImageReadMode.UNCHANGED:
        picture = picture.convert(_PILLOW_MODES[mode])
    elif picture.mode in ("P", "1"):
        picture = picture.convert("L" if picture.mode == "1" else "RGBA" if "transparency" in picture.info
                                  else "RGB")
    return pil_to_tensor(picture)


decode_png = decode_gif = decode_webp = decode_image


def decode_jpeg(input, mode=ImageReadMode.UNCHANGED, device="cpu", apply_exif_orientation=False):
    """As `decode_image`; a list of inputs gives a list of pictures."""
    if isinstance(input, list):
        return [decode_image(each, mode, apply_exif_orientation) for each in input]
    return decode_image(input, mode, apply_exif_orientation)


def read_image(path, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    """The picture of a file as (channels, height, width) bytes."""
    return decode_image(str(path), mode, apply_exif_orientation)


def _encoded(input, form, **options):
    if input.dtype != uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if input.ndim != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: "
                           f"{input.shape[0] if input.ndim else 0}")
    import numpy
    stream = io.BytesIO()
    to_pil_image(input).save(stream, form, **options)
    return from_numpy(numpy.frombuffer(stream.getvalue(), "uint8").copy())


def encode_png(input, compression_level=6):
    """The PNG file of a picture, as a 1-d tensor of bytes.

    >>> picture = fl.randint(0, 256, (3, 4, 5), dtype=fl.uint8)
    >>> (decode_image(encode_png(picture)) == picture).all().item()
    True
    """
    return _encoded(input, "PNG", compress_level=compression_level)


def encode_jpeg(input, quality=75):
    """The JPEG file of a picture, as a 1-d tensor of bytes; quality: 1 to 100."""
    if isinstance(input, list):
        return [encode_jpeg(each, quality) for each in input]
    if not 1 <= quality <= 100:
        raise ValueError("Image quality should be a positive number between 1 and 100")
    return _encoded(input, "JPEG", quality=quality)


def write_png(input, filename, compression_level=6):
    """Write a picture (channels, height, width) of bytes to a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input, filename, quality=75):
    """Write a picture (channels, height, width) of bytes to a JPEG file; quality: 1 to 100."""
    write_file(filename, encode_jpeg(input, quality))
