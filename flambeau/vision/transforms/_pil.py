"""The operations on Pillow images. Each takes checked arguments; `functional` is the door."""

import numbers

from flambeau.vision._pillow import pillow
from flambeau.vision.transforms.modes import resampling


def dimensions(img):
    """[channels, height, width]"""
    return [len(img.getbands()), img.height, img.width]


def hflip(img):
    return img.transpose(pillow("Image").Transpose.FLIP_LEFT_RIGHT)


def vflip(img):
    return img.transpose(pillow("Image").Transpose.FLIP_TOP_BOTTOM)


def crop(img, top, left, height, width):
    return img.crop((left, top, left + width, top + height))


def resize(img, size, interpolation, antialias):
    return img.resize((size[1], size[0]), resampling(interpolation))


def pad(img, padding, fill, mode):
    """padding: [left, top, right, bottom]."""
    if mode == "constant":
        return _pad_constant(img, padding, fill)
    if img.mode == "P":
        padded = pad(_indices(img), padding, fill, mode)
        padded.putpalette(img.getpalette())
        return padded
    import numpy
    pixels, (left, top, right, bottom) = numpy.asarray(img), padding
    cut = [max(-side, 0) for side in padding]
    pixels = pixels[cut[1]:pixels.shape[0] - cut[3], cut[0]:pixels.shape[1] - cut[2]]
    around = [(max(top, 0), max(bottom, 0)), (max(left, 0), max(right, 0)), (0, 0)][:pixels.ndim]
    return pillow("Image").fromarray(numpy.pad(pixels, around, mode))


def _indices(img):
    """The numbers of a palette image as a grey image."""
    return pillow("Image").frombytes("L", img.size, img.tobytes())


def _pad_constant(img, padding, fill):
    left, top, right, bottom = padding
    size = img.width + left + right, img.height + top + bottom
    padded = pillow("Image").new(img.mode, size, fill_of(fill, img))
    if img.mode == "P":
        padded.putpalette(img.getpalette())
    padded.paste(img, (left, top))
    return padded


def fill_of(fill, img):
    """`fill` in the form that Pillow wants for the image's channels."""
    channels = len(img.getbands())
    if fill is None:
        fill = 0
    if isinstance(fill, numbers.Number):
        if channels > 1:
            return (int(fill),) * channels
        return fill if img.mode == "F" else int(fill)
    fill = tuple(fill)
    if len(fill) == 1:
        fill = fill * channels
    if len(fill) != channels:
        raise ValueError("The number of elements in 'fill' does not match the number of channels of the "
                         f"image ({len(fill)} != {channels})")
    fill = tuple(value if img.mode == "F" else int(value) for value in fill)
    return fill[0] if channels == 1 else fill


def rotate(img, angle, interpolation, expand, center, fill):
    return img.rotate(angle, resampling(interpolation), expand, center, fillcolor=fill_of(fill, img))


def affine(img, matrix, interpolation, fill):
    return img.transform(img.size, pillow("Image").Transform.AFFINE, matrix, resampling(interpolation),
                         fillcolor=fill_of(fill, img))


def perspective(img, coefficients, interpolation, fill):
    return img.transform(img.size, pillow("Image").Transform.PERSPECTIVE, coefficients,
                         resampling(interpolation),
                         fillcolor=fill_of(fill, img))


def to_grayscale(img, channels):
    grey = img.convert("L")
    if channels == 1:
        return grey
    if channels == 3:
        return pillow("Image").merge("RGB", (grey, grey, grey))
    raise ValueError("num_output_channels should be either 1 or 3")


def adjust_brightness(img, factor):
    return pillow("ImageEnhance").Brightness(img).enhance(factor)


def adjust_contrast(img, factor):
    return pillow("ImageEnhance").Contrast(img).enhance(factor)


def adjust_saturation(img, factor):
    return pillow("ImageEnhance").Color(img).enhance(factor)


def adjust_sharpness(img, factor):
    return pillow("ImageEnhance").Sharpness(img).enhance(factor)


def adjust_hue(img, factor):
    if img.mode in ("L", "1", "I", "F"):
        return img
    turn = int(factor * 255) % 256          # toward zero, then around the circle of 256 steps
    hue, saturation, value = img.convert("HSV").split()
    hue = hue.point([(step + turn) % 256 for step in range(256)])
    return pillow("Image").merge("HSV", (hue, saturation, value)).convert(img.mode)


def adjust_gamma(img, gamma, gain):
    table = [int((255 + 1 - 1e-3) * gain * pow(value / 255.0, gamma)) for value in range(256)] * 3
    table = [min(max(value, 0), 255) for value in table]
    return img.convert("RGB").point(table).convert(img.mode)


def posterize(img, bits):
    return pillow("ImageOps").posterize(img, bits)


def solarize(img, threshold):
    return pillow("ImageOps").solarize(img, threshold)


def invert(img):
    return pillow("ImageOps").invert(img)


def autocontrast(img):
    return pillow("ImageOps").autocontrast(img)


def equalize(img):
    return pillow("ImageOps").equalize(img)
