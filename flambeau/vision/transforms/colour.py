"""Values instead of places: colours, sharpness, inversion, erased parts."""

import math
import numbers

from flambeau.tensor import empty, rand, randperm, tensor
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.conversion import logs
from flambeau.vision.transforms.drawn import Chance, Drawn, below, uniform


class ColorJitter(Drawn):
    """Brightness, contrast, saturation and hue changed by random factors in random order.

    Each is (low, high), or a number: factors 1 - number to 1 + number, for the hue -number to number.
    """

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        self.brightness = _range(brightness, "brightness")
        self.contrast = _range(contrast, "contrast")
        self.saturation = _range(saturation, "saturation")
        self.hue = _range(hue, "hue", center=0, bound=(-0.5, 0.5), clip=False)

    @staticmethod
    def get_params(brightness, contrast, saturation, hue):
        """(order, factor, factor, factor, factor), drawn; None where nothing is to be done."""
        order = randperm(4)
        return (order, *(None if pair is None else uniform(*pair)
                         for pair in (brightness, contrast, saturation, hue)))

    def draw(self, img):
        return self.get_params(self.brightness, self.contrast, self.saturation, self.hue)

    def apply(self, img, params):
        order, *factors = params
        steps = F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue
        for which in order.tolist():
            if factors[which] is not None:
                img = steps[which](img, factors[which])
        return img

    def __repr__(self):
        parts = (f"{name}={getattr(self, name)}" for name in ("brightness", "contrast", "saturation", "hue"))
        return f"{type(self).__name__}({', '.join(parts)})"


def _range(value, name, center=1, bound=(0, float("inf")), clip=True):
    """(low, high), or None if that is only `center`."""
    if isinstance(value, numbers.Number):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        low, high = center - float(value), center + float(value)
        if clip:
            low = max(low, 0.0)
    elif isinstance(value, (tuple, list)) and len(value) == 2:
        low, high = map(float, value)
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
    if not bound[0] <= low <= high <= bound[1]:
        raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
    return None if low == high == center else (low, high)


class Grayscale(Drawn):
    """Without colours, in 1 or 3 channels."""

    def __init__(self, num_output_channels=1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def apply(self, img, params):
        return F.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self):
        return f"{type(self).__name__}(num_output_channels={self.num_output_channels})"


class RandomGrayscale(Chance):
    """Without colours, with probability p; the channels stay."""

    def __init__(self, p=0.1):
        super().__init__(p)

    def change(self, img):
        return F.rgb_to_grayscale(img, F.get_image_num_channels(img))


def _pair(value):
    """Two numbers from a number or a sequence of one or two."""
    return (value, value) if isinstance(value, numbers.Number) else (tuple(value) * 2)[:2]


class GaussianBlur(Drawn):
    """Blurred with a width drawn from `sigma`: (low, high) or a number."""

    def __init__(self, kernel_size, sigma=(0.1, 2.0)):
        super().__init__()
        self.kernel_size = _pair(kernel_size)
        if any(size <= 0 or size % 2 == 0 for size in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        self.sigma = tuple(map(float, _pair(sigma)))
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(f"sigma values should be positive and of the form (min, max). Got {self.sigma}")

    @staticmethod
    def get_params(sigma_min, sigma_max):
        return uniform(sigma_min, sigma_max)

    def draw(self, img):
        return self.get_params(*self.sigma)

    def apply(self, img, params):
        return F.gaussian_blur(img, list(self.kernel_size), [params, params])

    def __repr__(self):
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, sigma={self.sigma})"


class RandomInvert(Chance):
    """Inverted, with probability p."""

    def change(self, img):
        return F.invert(img)


class RandomPosterize(Chance):
    """Only the `bits` highest bits kept, with probability p."""

    def __init__(self, bits, p=0.5):
        super().__init__(p)
        self.bits = bits

    def change(self, img):
        return F.posterize(img, self.bits)

    def __repr__(self):
        return f"{type(self).__name__}(bits={self.bits},p={self.p})"


class RandomSolarize(Chance):
    """Values from `threshold` on inverted, with probability p."""

    def __init__(self, threshold, p=0.5):
        super().__init__(p)
        self.threshold = threshold

    def change(self, img):
        return F.solarize(img, self.threshold)

    def __repr__(self):
        return f"{type(self).__name__}(threshold={self.threshold},p={self.p})"


class RandomAdjustSharpness(Chance):
    """Sharpened (factor above 1) or blurred, with probability p."""

    def __init__(self, sharpness_factor, p=0.5):
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img):
        return F.adjust_sharpness(img, self.sharpness_factor)

    def __repr__(self):
        return f"{type(self).__name__}(sharpness_factor={self.sharpness_factor},p={self.p})"


class RandomAutocontrast(Chance):
    """Stretched from black to white, with probability p."""

    def change(self, img):
        return F.autocontrast(img)


class RandomEqualize(Chance):
    """Equally frequent values, with probability p."""

    def change(self, img):
        return F.equalize(img)


class RandomErasing(Drawn):
    """A rectangle of a tensor overwritten, with probability p.

    scale: its share of the area; ratio: its height / width; value: a number, one a channel, or 'random'.
    """

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        super().__init__()
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if not 0 <= p <= 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    @staticmethod
    def get_params(img, scale, ratio, value=None):
        """(top, left, height, width, values), drawn; if none fits, all of the picture."""
        channels, rows, columns = img.shape[-3:]
        low, high = logs(ratio)
        for _ in range(10):
            area, shape = rows * columns * uniform(*scale), math.exp(uniform(low, high))
            height, width = int(round(math.sqrt(area * shape))), int(round(math.sqrt(area / shape)))
            if height < rows and width < columns:
                new = empty([channels, height, width]).normal_() if value is None else tensor(value)[:, None,
                                                                                                     None]
                return below(rows - height + 1), below(columns - width + 1), height, width, new
        return 0, 0, rows, columns, img

    def draw(self, img):
        if not rand(1).item() < self.p:
            return None
        value = [float(self.value)] if isinstance(self.value, numbers.Number) else (
            None if isinstance(self.value, str) else [float(number) for number in self.value])
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise ValueError("If value is a sequence, it should have either a single value or "
                             f"{img.shape[-3]} (number of input channels)")
        return self.get_params(img, self.scale, self.ratio, value)

    def apply(self, img, params):
        return img if params is None else F.erase(img, *params, self.inplace)

    def __repr__(self):
        return (f"{type(self).__name__}(p={self.p}, scale={self.scale}, ratio={self.ratio}, "
                f"value={self.value}, "
                f"inplace={self.inplace})")
