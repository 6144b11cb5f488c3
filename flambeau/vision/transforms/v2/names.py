"""Names that are the same in `transforms`."""

from flambeau.vision.transforms.autoaugment import AutoAugmentPolicy
from flambeau.vision.transforms.modes import InterpolationMode

__all__ = ["AutoAugmentPolicy", "InterpolationMode"]
