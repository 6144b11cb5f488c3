"""How pixels between pixels are computed."""

from enum import Enum

from flambeau.vision._pillow import pillow


class InterpolationMode(Enum):
    """Ways to compute a pixel between others; BOX, HAMMING and LANCZOS are for Pillow images only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow's numbers: they, too, are accepted where a mode is wanted.
_OF_NUMBER = {0: InterpolationMode.NEAREST, 2: InterpolationMode.BILINEAR, 3: InterpolationMode.BICUBIC,
              4: InterpolationMode.BOX, 5: InterpolationMode.HAMMING, 1: InterpolationMode.LANCZOS}
_NUMBER_OF = {mode: number for number, mode in _OF_NUMBER.items()} | {InterpolationMode.NEAREST_EXACT: 0}


def mode_of(interpolation):
    """The InterpolationMode for a mode, its text, or Pillow's number."""
    if isinstance(interpolation, InterpolationMode):
        return interpolation
    if isinstance(interpolation, int):
        return _OF_NUMBER[int(interpolation)]
    if isinstance(interpolation, str):
        return InterpolationMode(interpolation)
    raise TypeError("Argument interpolation should be a InterpolationMode or a corresponding Pillow integer "
                    "constant")


def resampling(interpolation):
    """Pillow's constant for a mode."""
    return pillow("Image").Resampling(_NUMBER_OF[mode_of(interpolation)])
