"""All classes of `transforms`, under the path that torchvision has for them."""

from flambeau.vision.transforms.colour import (ColorJitter, GaussianBlur, Grayscale, RandomAdjustSharpness,
                                               RandomAutocontrast, RandomEqualize, RandomErasing,
                                               RandomGrayscale,
                                               RandomInvert, RandomPosterize, RandomSolarize)
from flambeau.vision.transforms.combine import Compose, Lambda, RandomApply, RandomChoice, RandomOrder
from flambeau.vision.transforms.convert import (ConvertImageDtype, LinearTransformation, Normalize,
                                                PILToTensor,
                                                ToPILImage, ToTensor)
from flambeau.vision.transforms.geometry import (CenterCrop, FiveCrop, Pad, RandomCrop, RandomHorizontalFlip,
                                                 RandomResizedCrop, RandomVerticalFlip, Resize, TenCrop)
from flambeau.vision.transforms.modes import InterpolationMode
from flambeau.vision.transforms.warping import (ElasticTransform, RandomAffine, RandomPerspective,
                                                RandomRotation)

__all__ = ["CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "ElasticTransform", "FiveCrop",
           "GaussianBlur", "Grayscale", "InterpolationMode", "Lambda", "LinearTransformation", "Normalize",
           "PILToTensor", "Pad", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast",
           "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing", "RandomGrayscale",
           "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective", "RandomPosterize",
           "RandomResizedCrop", "RandomRotation", "RandomSolarize", "RandomVerticalFlip", "Resize", "TenCrop",
           "ToPILImage", "ToTensor"]
