"""How the published weights want their pictures."""

from flambeau.nn import Module
from flambeau.tensor import Tensor
from flambeau.types.dtype import float32
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.modes import InterpolationMode, mode_of

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageClassification(Module):
    """Resize, crop the middle, scale to 0 to 1, normalize."""

    def __init__(self, *, crop_size, resize_size=256, mean=_MEAN, std=_STD,
                 interpolation=InterpolationMode.BILINEAR, antialias=True):
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = mode_of(interpolation), antialias

    def forward(self, img):
        img = F.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = F.center_crop(img, self.crop_size)
        return _normalized(img, self.mean, self.std)

    def __repr__(self):
        parts = [f"    {name}={getattr(self, name)}" for name in
                 ("crop_size", "resize_size", "mean", "std", "interpolation")]
        return "\n".join([f"{type(self).__name__}(", *parts, ")"])


class SemanticSegmentation(Module):
    """Resize (None: not), scale to 0 to 1, normalize."""

    def __init__(self, *, resize_size, mean=_MEAN, std=_STD, interpolation=InterpolationMode.BILINEAR,
                 antialias=True):
        super().__init__()
        self.resize_size = None if resize_size is None else [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation, self.antialias = mode_of(interpolation), antialias

    def forward(self, img):
        if self.resize_size is not None:
            img = F.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        return _normalized(img, self.mean, self.std)


def _normalized(img, mean, std):
    if not isinstance(img, Tensor):
        img = F.pil_to_tensor(img)
    return F.normalize(F.convert_image_dtype(img, float32), mean, std)
