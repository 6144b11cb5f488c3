"""Size and place: resizing, cropping, mirroring, padding."""

import math
import numbers

from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.conversion import logs, sides
from flambeau.vision.transforms.drawn import Chance, Drawn, below, uniform
from flambeau.vision.transforms.modes import InterpolationMode, mode_of

_PAIR = "Please provide only two dimensions (h, w) for size."


class Resize(Drawn):
    """To `size`: (height, width), or a number for the shorter edge."""

    def __init__(self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True):
        super().__init__()
        if size is not None and not isinstance(size, (int, list, tuple)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, (list, tuple)) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size, self.max_size = size, max_size
        self.interpolation, self.antialias = mode_of(interpolation), antialias

    def apply(self, img, params):
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self):
        return (f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
                f"max_size={self.max_size}, antialias={self.antialias})")


class CenterCrop(Drawn):
    """The middle of size `size`; a smaller picture is padded with 0."""

    def __init__(self, size):
        super().__init__()
        self.size = sides(size, _PAIR)

    def apply(self, img, params):
        return F.center_crop(img, self.size)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size})"


class Pad(Drawn):
    """Pixels around: one number, (left/right, top/bottom) or (left, top, right, bottom)."""

    def __init__(self, padding, fill=0, padding_mode="constant"):
        super().__init__()
        if not isinstance(padding, (numbers.Number, tuple, list)):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, (numbers.Number, str, tuple, list)):
            raise TypeError("Got inappropriate fill arg")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        F.four_sides(padding)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def apply(self, img, params):
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self):
        return (f"{type(self).__name__}(padding={self.padding}, fill={self.fill}, "
                f"padding_mode={self.padding_mode})")


class RandomCrop(Drawn):
    """A part of size `size` anywhere in the picture, which is padded first."""

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__()
        self.size = sides(size, _PAIR)
        self.padding, self.pad_if_needed = padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img, output_size):
        """(top, left, height, width), drawn."""
        _, rows, columns = F.get_dimensions(img)
        return RandomCrop._place(rows, columns, *output_size)

    @staticmethod
    def _place(rows, columns, height, width):
        if rows < height or columns < width:
            raise ValueError(f"Required crop size {(height, width)} is larger than input image size "
                             f"{(rows, columns)}")
        if (rows, columns) == (height, width):
            return 0, 0, rows, columns
        return below(rows - height + 1), below(columns - width + 1), height, width

    def draw(self, img):
        """(paddings to do one after the other, place)."""
        _, rows, columns = F.get_dimensions(img)
        (height, width), paddings = self.size, []
        if self.padding is not None:
            paddings.append(F.four_sides(self.padding))
            left, top, right, bottom = paddings[0]
            rows, columns = rows + top + bottom, columns + left + right
        if self.pad_if_needed and columns < width:
            paddings.append([width - columns, 0] * 2)
            columns += 2 * (width - columns)
        if self.pad_if_needed and rows < height:
            paddings.append([0, height - rows] * 2)
            rows += 2 * (height - rows)
        return paddings, self._place(rows, columns, height, width)

    def apply(self, img, params):
        paddings, place = params
        for padding in paddings:
            img = F.pad(img, padding, self.fill, self.padding_mode)
        return F.crop(img, *place)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


class RandomResizedCrop(Drawn):
    """A part of random area (a share in `scale`) and shape (width / height in `ratio`), resized to `size`."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3),
                 interpolation=InterpolationMode.BILINEAR,
                 antialias=True):
        super().__init__()
        if not isinstance(scale, (list, tuple)):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, (list, tuple)):
            raise TypeError("Ratio should be a sequence")
        self.size = sides(size, _PAIR)
        self.scale, self.ratio = scale, ratio
        self.interpolation, self.antialias = mode_of(interpolation), antialias

    @staticmethod
    def get_params(img, scale, ratio):
        """(top, left, height, width), drawn."""
        _, rows, columns = F.get_dimensions(img)
        low, high = logs(ratio)
        for _ in range(10):
            area = rows * columns * uniform(*scale)
            shape = math.exp(uniform(low, high))
            width, height = int(round(math.sqrt(area * shape))), int(round(math.sqrt(area / shape)))
            if 0 < width <= columns and 0 < height <= rows:
                return below(rows - height + 1), below(columns - width + 1), height, width
        return _widest(rows, columns, ratio)

    def draw(self, img):
        return self.get_params(img, self.scale, self.ratio)

    def apply(self, img, params):
        return F.resized_crop(img, *params, self.size, self.interpolation, antialias=self.antialias)

    def __repr__(self):
        scale, ratio = (tuple(round(value, 4) for value in pair) for pair in (self.scale, self.ratio))
        return (f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, "
                f"interpolation={self.interpolation.value}, antialias={self.antialias})")


def _widest(rows, columns, ratio):
    """The largest part in the middle whose shape is within `ratio`."""
    height, width = rows, columns
    if columns / rows < min(ratio):
        height = int(round(columns / min(ratio)))
    elif columns / rows > max(ratio):
        width = int(round(rows * max(ratio)))
    return (rows - height) // 2, (columns - width) // 2, height, width


class RandomHorizontalFlip(Chance):
    """Left and right swapped, with probability p."""

    def change(self, img):
        return F.hflip(img)


class RandomVerticalFlip(Chance):
    """Top and bottom swapped, with probability p."""

    def change(self, img):
        return F.vflip(img)


class FiveCrop(Drawn):
    """The four corners and the middle, as a tuple."""

    def __init__(self, size):
        super().__init__()
        self.size = sides(size, _PAIR)

    def apply(self, img, params):
        return F.five_crop(img, self.size)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size})"


class TenCrop(Drawn):
    """The four corners and the middle of the picture and of its mirror image, as a tuple."""

    def __init__(self, size, vertical_flip=False):
        super().__init__()
        self.size, self.vertical_flip = sides(size, _PAIR), vertical_flip

    def apply(self, img, params):
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size}, vertical_flip={self.vertical_flip})"
