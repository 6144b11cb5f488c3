"""Transforms of pictures (Pillow images and tensors); random ones draw from the default generator as
torchvision's do.
"""

from flambeau.vision._lazy import lazy

_MODULES = {
    "modes": ("InterpolationMode",),
    "combine": ("Compose", "Lambda", "RandomApply", "RandomChoice", "RandomOrder"),
    "convert": ("ToTensor", "PILToTensor", "ToPILImage", "ConvertImageDtype", "Normalize",
                "LinearTransformation"),
    "geometry": ("Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip",
                 "RandomVerticalFlip", "Pad", "FiveCrop", "TenCrop"),
    "warping": ("RandomRotation", "RandomAffine", "RandomPerspective", "ElasticTransform"),
    "colour": ("ColorJitter", "Grayscale", "RandomGrayscale", "GaussianBlur", "RandomInvert",
               "RandomPosterize",
               "RandomSolarize", "RandomAdjustSharpness", "RandomAutocontrast", "RandomEqualize",
               "RandomErasing"),
    "autoaugment": ("AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide", "AugMix"),
}

__getattr__, __dir__ = lazy(__name__, _MODULES, ("functional", "transforms", "v2"))
