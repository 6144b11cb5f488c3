"""Transforms of whole samples: pictures with their masks, boxes and labels, in any nesting, changed alike."""

from flambeau.vision._lazy import lazy

_MODULES = {
    "base": ("Transform",),
    "combine": ("Compose", "RandomApply", "RandomChoice", "RandomOrder"),
    "kinds": ("CenterCrop", "ColorJitter", "ElasticTransform", "FiveCrop", "GaussianBlur", "Grayscale", "Pad",
              "RandomAdjustSharpness", "RandomAffine", "RandomAutocontrast", "RandomCrop", "RandomEqualize",
              "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomPerspective",
              "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize",
              "RandomVerticalFlip",
              "Resize", "TenCrop"),
    "convert": ("ConvertImageDtype", "Identity", "Lambda", "LinearTransformation", "Normalize", "PILToTensor",
                "RGB",
                "ToDtype", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor"),
    "chains": ("AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"),
    "boxes": ("ClampBoundingBoxes", "ConvertBoundingBoxFormat", "SanitizeBoundingBoxes"),
    "mixing": ("CutMix", "MixUp"),
    "names": ("AutoAugmentPolicy", "InterpolationMode"),
}

__getattr__, __dir__ = lazy(__name__, _MODULES, ("functional",))
