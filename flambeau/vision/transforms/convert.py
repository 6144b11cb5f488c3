"""Between pictures, tensors and dtypes; the last steps before a model."""

from flambeau.nn import Module
from flambeau.tensor import Tensor, as_tensor
from flambeau.vision.transforms import functional as F


class ToTensor:
    """A Pillow image or an array (height, width, channels) as floats from 0 to 1, (channels, height, width).

    >>> import numpy
    >>> ToTensor()(numpy.array([[[0], [51]]], "uint8"))
    tensor([[[0.0000, 0.2000]]])
    """

    def __call__(self, pic):
        return F.to_tensor(pic)

    def __repr__(self):
        return f"{type(self).__name__}()"


class PILToTensor:
    """A Pillow image as a tensor of its own values, (channels, height, width)."""

    def __call__(self, pic):
        return F.pil_to_tensor(pic)

    def __repr__(self):
        return f"{type(self).__name__}()"


class ToPILImage:
    """A tensor (channels, height, width) or an array (height, width, channels) as a Pillow image."""

    def __init__(self, mode=None):
        self.mode = mode

    def __call__(self, pic):
        return F.to_pil_image(pic, self.mode)

    def __repr__(self):
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class ConvertImageDtype(Module):
    """Another dtype, with white staying white."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, image):
        return F.convert_image_dtype(image, self.dtype)

    def __repr__(self):
        return f"{type(self).__name__}()"


class Normalize(Module):
    """(tensor - mean) / std, one number a channel.

    >>> Normalize(mean=[0.5], std=[0.5])(fl.tensor([[[0.0, 1.0]]]))
    tensor([[[-1.,  1.]]])
    """

    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace
        self._made = {}

    def forward(self, tensor):
        if not isinstance(tensor, Tensor) or tensor.ndim < 3 or not tensor.is_floating_point():
            return F.normalize(tensor, self.mean, self.std, self.inplace)       # which says what is wrong
        mean, std = self._columns(tensor.dtype)
        return tensor.sub_(mean).div_(std) if self.inplace else tensor.sub(mean).div_(std)

    def _columns(self, dtype):
        """mean and std as (channels, 1, 1), kept while the attributes are the same objects."""
        made = self._made.get(dtype)
        if made is None or made[0] is not self.mean or made[1] is not self.std:
            columns = [as_tensor(values, dtype=dtype) for values in (self.mean, self.std)]
            if (columns[1] == 0).any():
                raise ValueError(f"std evaluated to zero after conversion to {dtype}, leading to "
                                 "division by zero.")
            columns = [values.view(-1, 1, 1) if values.ndim == 1 else values for values in columns]
            made = self._made[dtype] = (self.mean, self.std, columns)
        return made[2]

    def __getstate__(self):
        return {**self.__dict__, "_made": {}}

    def __repr__(self):
        return f"{type(self).__name__}(mean={self.mean}, std={self.std})"


class LinearTransformation(Module):
    """(flat picture - mean_vector) @ transformation_matrix, in the picture's shape: whitening."""

    def __init__(self, transformation_matrix, mean_vector):
        super().__init__()
        size = transformation_matrix.size(0)
        if size != transformation_matrix.size(1):
            raise ValueError("transformation_matrix should be square. Got "
                             f"{tuple(transformation_matrix.size())} rectangular matrix.")
        if mean_vector.size(0) != size:
            raise ValueError(f"mean_vector should have the same length {mean_vector.size(0)} as any one of the "
                             f"dimensions of the transformation_matrix "
                             f"[{tuple(transformation_matrix.size())}]")
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor):
        count = tensor.shape[-3] * tensor.shape[-2] * tensor.shape[-1]
        if count != self.transformation_matrix.shape[0]:
            raise ValueError("Input tensor and transformation matrix have incompatible shape."
                             f"[{tensor.shape[-3]} x {tensor.shape[-2]} x {tensor.shape[-1]}] != "
                             f"{self.transformation_matrix.shape[0]}")
        flat = tensor.view(-1, count) - self.mean_vector
        return (flat @ self.transformation_matrix).view(tensor.shape)

    def __repr__(self):
        return (f"{type(self).__name__}(transformation_matrix={self.transformation_matrix.tolist()}, "
                f"mean_vector={self.mean_vector.tolist()})")
