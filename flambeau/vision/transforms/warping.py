"""Turning, shearing, tilting and bending by random amounts."""

import numbers

from flambeau.tensor import cat, rand
from flambeau.vision.transforms import _tensor
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.drawn import Drawn, below, uniform
from flambeau.vision.transforms.modes import InterpolationMode, mode_of


def _interval(value, name, sizes=(2,)):
    """[-value, value] of a number, or the floats of a sequence of a permitted length."""
    if isinstance(value, numbers.Number):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [-float(value), float(value)]
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} should be a sequence of length {' or '.join(map(str, sizes))}.")
    if len(value) not in sizes:
        raise ValueError(f"{name} should be a sequence of length {' or '.join(map(str, sizes))}.")
    return [float(number) for number in value]


def _fill(fill, img):
    """`fill` as the functions want it: for a tensor one float a channel."""
    if not hasattr(img, "dtype"):
        return fill
    if isinstance(fill, numbers.Number):
        return [float(fill)] * F.get_image_num_channels(img)
    return [float(value) for value in fill]


class RandomRotation(Drawn):
    """Turned by an angle in `degrees`: (low, high), or a number for both signs."""

    def __init__(self, degrees, interpolation=InterpolationMode.NEAREST, expand=False, center=None, fill=0):
        super().__init__()
        self.degrees = _interval(degrees, "degrees")
        self.interpolation, self.expand = mode_of(interpolation), expand
        self.center, self.fill = center, 0 if fill is None else fill

    @staticmethod
    def get_params(degrees):
        return uniform(float(degrees[0]), float(degrees[1]))

    def draw(self, img):
        return self.get_params(self.degrees)

    def apply(self, img, params):
        return F.rotate(img, params, self.interpolation, self.expand, self.center, _fill(self.fill, img))

    def __repr__(self):
        parts = [f"degrees={self.degrees}", f"interpolation={self.interpolation.value}",
                 f"expand={self.expand}"]
        parts += [f"center={self.center}"] if self.center is not None else []
        parts += [f"fill={self.fill}"] if self.fill is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"


class RandomAffine(Drawn):
    """Turned, moved by up to the shares `translate` of the size, scaled and sheared."""

    def __init__(self, degrees, translate=None, scale=None, shear=None,
                 interpolation=InterpolationMode.NEAREST,
                 fill=0, center=None):
        super().__init__()
        self.degrees = _interval(degrees, "degrees")
        if translate is not None:
            if not all(0.0 <= share <= 1.0 for share in translate):
                raise ValueError("translation values should be between 0 and 1")
        if scale is not None and min(scale) <= 0:
            raise ValueError("scale values should be positive")
        self.translate, self.scale = translate, scale
        self.shear = None if shear is None else _interval(shear, "shear", (2, 4))
        self.interpolation, self.fill, self.center = mode_of(interpolation), fill or 0, center

    @staticmethod
    def get_params(degrees, translate, scale_ranges, shears, img_size):
        """(angle, (x, y), scale, (x, y)), drawn; img_size is [width, height]."""
        angle = uniform(float(degrees[0]), float(degrees[1]))
        moved = (0, 0)
        if translate is not None:
            most = [float(share * size) for share, size in zip(translate, img_size)]
            moved = tuple(int(round(uniform(-value, value))) for value in most)
        scale = 1.0 if scale_ranges is None else uniform(*scale_ranges)
        sheared = (0.0, 0.0)
        if shears is not None:
            sheared = uniform(*shears[:2]), uniform(*shears[2:]) if len(shears) == 4 else 0.0
        return angle, moved, scale, sheared

    def draw(self, img):
        return self.get_params(self.degrees, self.translate, self.scale, self.shear, F.get_image_size(img))

    def apply(self, img, params):
        return F.affine(img, *params, interpolation=self.interpolation, fill=_fill(self.fill, img),
                        center=self.center)

    def __repr__(self):
        parts = [f"degrees={self.degrees}"]
        parts += [f"{name}={getattr(self, name)}" for name in ("translate", "scale", "shear")
                  if getattr(self, name) is not None]
        if self.interpolation is not InterpolationMode.NEAREST:
            parts.append(f"interpolation={self.interpolation.value}")
        parts += [f"fill={self.fill}"] if self.fill != 0 else []
        parts += [f"center={self.center}"] if self.center is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"


class RandomPerspective(Drawn):
    """Tilted with probability p: each corner moves by up to half of `distortion_scale` of the size."""

    def __init__(self, distortion_scale=0.5, p=0.5, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.p, self.distortion_scale = p, distortion_scale
        self.interpolation, self.fill = mode_of(interpolation), fill

    @staticmethod
    def get_params(width, height, distortion_scale):
        """(startpoints, endpoints): the corners from top left with the clock, before and after."""
        x, y = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))
        left, top = (x + 1, 0), (y + 1, 0)
        right, bottom = (width, width - x - 1), (height, height - y - 1)
        ends = [[below(*across), below(*down)] for across, down in
                ((left, top), (right, top), (right, bottom), (left, bottom))]
        return [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], ends

    def draw(self, img):
        if not rand(1).item() < self.p:
            return None
        _, height, width = F.get_dimensions(img)
        return self.get_params(width, height, self.distortion_scale)

    def apply(self, img, params):
        return img if params is None else F.perspective(img, *params, self.interpolation,
                                                        _fill(self.fill, img))

    def __repr__(self):
        return f"{type(self).__name__}(p={self.p})"


class ElasticTransform(Drawn):
    """Bent by a smooth random field: `alpha` is its strength, `sigma` its smoothness ([x, y] or one
    number).
    """

    def __init__(self, alpha=50.0, sigma=5.0, interpolation=InterpolationMode.BILINEAR, fill=0):
        super().__init__()
        self.alpha, self.sigma = ([float(value)] * 2 if isinstance(value, numbers.Number) else
                                  (list(map(float, value)) * 2)[:2] for value in (alpha, sigma))
        self.interpolation = mode_of(interpolation)
        self.fill = [float(fill)] if isinstance(fill, numbers.Number) else [float(value) for value in fill]

    @staticmethod
    def get_params(alpha, sigma, size):
        """The field (1, height, width, 2), drawn."""
        fields = []
        for strength, width, length in zip(alpha, sigma, size[::-1]):
            field = rand([1, 1, *size]) * 2 - 1
            if width > 0.0:
                kernel = int(8 * width + 1)
                kernel += kernel % 2 == 0
                field = _tensor.gaussian_blur(field, [kernel, kernel], [width, width])
            fields.append(field * strength / length)
        return cat(fields, 1).permute([0, 2, 3, 1])

    def draw(self, img):
        return self.get_params(self.alpha, self.sigma, F.get_dimensions(img)[1:])

    def apply(self, img, params):
        fill = self.fill if len(self.fill) > 1 else self.fill * F.get_image_num_channels(img)
        return F.elastic_transform(img, params, self.interpolation, fill)

    def __repr__(self):
        return (f"{type(self).__name__}(alpha={self.alpha}, sigma={self.sigma}, "
                f"interpolation={self.interpolation}, fill={self.fill})")
