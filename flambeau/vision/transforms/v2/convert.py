"""Between pictures, tensors and dtypes, for whole samples."""

from flambeau.base.tree import flatten, unflatten
from flambeau.tensor import Tensor
from flambeau.types.dtype import float32
from flambeau.vision import tv_tensors
from flambeau.vision._pillow import is_picture
from flambeau.vision.transforms import convert
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.v2.base import TYPED, Transform, is_plain, like
from flambeau.vision.transforms.v2.functional import to_dtype, to_image


class Identity(Transform):
    """Nothing."""

    def transform(self, inpt, params):
        return inpt


class ToImage(Transform):
    """Pillow images, arrays and plain tensors as `tv_tensors.Image`; values stay as they are."""

    def forward(self, *inputs):
        import numpy
        return _each(inputs, lambda part: to_image(part) if is_picture(part) or is_plain(part)
                     or isinstance(part, numpy.ndarray) else part)


class ToPureTensor(Transform):
    """Typed tensors as plain ones."""

    def transform(self, inpt, params):
        return inpt.as_subclass(Tensor) if isinstance(inpt, TYPED) else inpt


class ToDtype(Transform):
    """Another dtype: one for pictures, or a dict from kinds of tensors ('others' for the rest).

    scale: white stays white.
    """

    def __init__(self, dtype, scale=False):
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def transform(self, inpt, params):
        if not isinstance(inpt, Tensor):
            return inpt
        image = is_plain(inpt) or isinstance(inpt, (tv_tensors.Image, tv_tensors.Video))
        dtype = self.dtype if image else None
        if isinstance(self.dtype, dict):
            dtype = self.dtype.get(type(inpt), self.dtype.get("others"))
        if dtype is None:
            return inpt
        return like(to_dtype(inpt, dtype, scale=self.scale) if image else inpt.to(dtype), inpt)


class ConvertImageDtype(ToDtype):
    """Another dtype, with white staying white."""

    def __init__(self, dtype=float32):
        super().__init__(dtype, scale=True)


class RGB(Transform):
    """Grey pictures with three channels."""

    def transform(self, inpt, params):
        if isinstance(inpt, (tv_tensors.Mask, tv_tensors.BoundingBoxes)):
            return inpt
        if is_picture(inpt):
            return inpt.convert("RGB")
        return like(inpt.expand(*inpt.shape[:-3], 3, *inpt.shape[-2:]), inpt) if inpt.shape[-3] == 1 else inpt


class Normalize(Transform):
    """(tensor - mean) / std, one number a channel."""

    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean, self.std, self.inplace = list(mean), list(std), inplace
        self._plain = convert.Normalize(self.mean, self.std, inplace)

    def transform(self, inpt, params):
        if isinstance(inpt, (tv_tensors.Mask, tv_tensors.BoundingBoxes)):
            return inpt
        if is_picture(inpt):
            raise TypeError("Normalize() does not support PIL images.")
        return like(self._plain.forward(inpt), inpt)

    def extra_repr(self):
        return f"mean={self.mean}, std={self.std}, inplace={self.inplace}"


class LinearTransformation(Transform):
    """See `transforms.LinearTransformation`."""

    def __init__(self, transformation_matrix, mean_vector):
        super().__init__()
        self._plain = convert.LinearTransformation(transformation_matrix, mean_vector)

    def transform(self, inpt, params):
        return self._plain.forward(inpt)


class Lambda(Transform):
    """A function applied to every part of one of `types` (default: to all)."""

    def __init__(self, lambd, *types):
        super().__init__()
        self.lambd, self.types = lambd, types or (object,)

    def forward(self, *inputs):
        return _each(inputs, lambda part: self.lambd(part) if isinstance(part, self.types) else part)


class ToTensor(Transform):
    """Pillow images and arrays as floats from 0 to 1 (ToImage and ToDtype(scale=True) are the newer way)."""

    def forward(self, *inputs):
        import numpy
        return _each(inputs, lambda part: F.to_tensor(part) if is_picture(part)
                     or isinstance(part, numpy.ndarray)
                     else part)


class PILToTensor(Transform):
    """Pillow images as tensors of their own values."""

    def transform(self, inpt, params):
        return F.pil_to_tensor(inpt) if is_picture(inpt) else inpt


class ToPILImage(Transform):
    """Tensors and arrays as Pillow images."""

    def __init__(self, mode=None):
        super().__init__()
        self.mode = mode

    def forward(self, *inputs):
        import numpy

        def picture(part):
            wanted = is_plain(part) or isinstance(part, (tv_tensors.Image, numpy.ndarray))
            return F.to_pil_image(part, self.mode) if wanted else part
        return _each(inputs, picture)


def _each(inputs, function):
    """`function` of every part of a sample."""
    parts, structure = flatten(inputs if len(inputs) > 1 else inputs[0])
    return unflatten([function(part) for part in parts], structure)
