"""Learned and random chains of operations: AutoAugment, RandAugment, TrivialAugmentWide, AugMix.

Each operation has a name and a strength. Sources: Cubuk et al., "AutoAugment" (2019) and "RandAugment"
(2020); Müller and Hutter, "TrivialAugment" (2021); Hendrycks et al., "AugMix" (2020).
"""

from enum import Enum

from flambeau.nn import Module
from flambeau.tensor import Tensor, arange, linspace, rand, randint, tensor
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.drawn import below
from flambeau.vision.transforms.modes import InterpolationMode

_ENHANCERS = {"Brightness": F.adjust_brightness, "Color": F.adjust_saturation, "Contrast": F.adjust_contrast,
              "Sharpness": F.adjust_sharpness}
_PLAIN = {"AutoContrast": F.autocontrast, "Equalize": F.equalize, "Invert": F.invert}


class AutoAugmentPolicy(Enum):
    """For which data the chains were learned."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


# The 25 chains of each policy: two operations, each with its probability and, if it has one, its strength (0
# to 9).
_POLICIES = {
    "imagenet": """
        Posterize 0.4 8, Rotate 0.6 9; Solarize 0.6 5, AutoContrast 0.6; Equalize 0.8, Equalize 0.6
        Posterize 0.6 7, Posterize 0.6 6; Equalize 0.4, Solarize 0.2 4; Equalize 0.4, Rotate 0.8 8
        Solarize 0.6 3, Equalize 0.6; Posterize 0.8 5, Equalize 1.0; Rotate 0.2 3, Solarize 0.6 8
        Equalize 0.6, Posterize 0.4 6; Rotate 0.8 8, Color 0.4 0; Rotate 0.4 9, Equalize 0.6
        Equalize 0.0, Equalize 0.8; Invert 0.6, Equalize 1.0; Color 0.6 4, Contrast 1.0 8
        Rotate 0.8 8, Color 1.0 2; Color 0.8 8, Solarize 0.8 7; Sharpness 0.4 7, Invert 0.6
        ShearX 0.6 5, Equalize 1.0; Color 0.4 0, Equalize 0.6; Equalize 0.4, Solarize 0.2 4
        Solarize 0.6 5, AutoContrast 0.6; Invert 0.6, Equalize 1.0; Color 0.6 4, Contrast 1.0 8
        Equalize 0.8, Equalize 0.6""",
    "cifar10": """
        Invert 0.1, Contrast 0.2 6; Rotate 0.7 2, TranslateX 0.3 9; Sharpness 0.8 1, Sharpness 0.9 3
        ShearY 0.5 8, TranslateY 0.7 9; AutoContrast 0.5, Equalize 0.9; ShearY 0.2 7, Posterize 0.3 7
        Color 0.4 3, Brightness 0.6 7; Sharpness 0.3 9, Brightness 0.7 9; Equalize 0.6, Equalize 0.5
        Contrast 0.6 7, Sharpness 0.6 5; Color 0.7 7, TranslateX 0.5 8; Equalize 0.3, AutoContrast 0.4
        TranslateY 0.4 3, Sharpness 0.2 6; Brightness 0.9 6, Color 0.2 8; Solarize 0.5 2, Invert 0.0
        Equalize 0.2, AutoContrast 0.6; Equalize 0.2, Equalize 0.6; Color 0.9 9, Equalize 0.6
        AutoContrast 0.8, Solarize 0.2 8; Brightness 0.1 3, Color 0.7 0; Solarize 0.4 5, AutoContrast 0.9
        TranslateY 0.9 9, TranslateY 0.7 9; AutoContrast 0.9, Solarize 0.8 3; Equalize 0.8, Invert 0.1
        TranslateY 0.7 9, AutoContrast 0.9""",
    "svhn": """
        ShearX 0.9 4, Invert 0.2; ShearY 0.9 8, Invert 0.7; Equalize 0.6, Solarize 0.6 6
        Invert 0.9, Equalize 0.6; Equalize 0.6, Rotate 0.9 3; ShearX 0.9 4, AutoContrast 0.8
        ShearY 0.9 8, Invert 0.4; ShearY 0.9 5, Solarize 0.2 6; Invert 0.9, AutoContrast 0.8
        Equalize 0.6, Rotate 0.9 3; ShearX 0.9 4, Solarize 0.3 3; ShearY 0.8 8, Invert 0.7
        Equalize 0.9, TranslateY 0.6 6; Invert 0.9, Equalize 0.6; Contrast 0.3 3, Rotate 0.8 4
        Invert 0.8, TranslateY 0.0 2; ShearY 0.7 6, Solarize 0.4 8; Invert 0.6, Rotate 0.8 4
        ShearY 0.3 7, TranslateX 0.9 3; ShearX 0.1 6, Invert 0.6; Solarize 0.7 2, TranslateY 0.6 7
        ShearY 0.8 4, Invert 0.8; ShearX 0.7 9, TranslateY 0.8 3; ShearY 0.8 5, AutoContrast 0.7
        ShearX 0.7 2, Invert 0.1""",
}


def chains_of(policy):
    """[((name, probability, strength or None), (name, probability, strength or None)), ...]"""
    def step(text):
        name, probability, *strength = text.split()
        return name, float(probability), int(strength[0]) if strength else None
    return [tuple(map(step, chain.split(","))) for row in _POLICIES[policy.value].strip().splitlines()
            for chain in row.split(";")]


def apply_operation(img, name, strength, interpolation, fill):
    """One named operation; `strength` means a slope, pixels, degrees, a change of a factor, bits or a
    threshold.
    """
    sideways = {"interpolation": interpolation, "fill": fill}
    if name in ("ShearX", "ShearY"):
        shear = [F.degrees_of(strength), 0.0] if name == "ShearX" else [0.0, F.degrees_of(strength)]
        return F.affine(img, 0.0, [0, 0], 1.0, shear, center=[0, 0], **sideways)
    if name in ("TranslateX", "TranslateY"):
        moved = [int(strength), 0] if name == "TranslateX" else [0, int(strength)]
        return F.affine(img, 0.0, moved, 1.0, [0.0, 0.0], **sideways)
    if name == "Rotate":
        return F.rotate(img, strength, **sideways)
    if name in _ENHANCERS:
        return _ENHANCERS[name](img, 1.0 + strength)
    if name == "Posterize":
        return F.posterize(img, int(strength))
    if name == "Solarize":
        return F.solarize(img, strength)
    if name in _PLAIN:
        return _PLAIN[name](img)
    if name == "Identity":
        return img
    raise ValueError(f"The provided operator {name} is not recognized.")


def strengths(count, shear, across, down, rotate, enhance, bits, last=("AutoContrast", "Equalize")):
    """name -> (strengths from weak to strong or None, whether the sign is drawn)."""
    table = {"ShearX": shear, "ShearY": shear, "TranslateX": across, "TranslateY": down, "Rotate": rotate,
             "Brightness": enhance, "Color": enhance, "Contrast": enhance, "Sharpness": enhance}
    found = {name: (linspace(0.0, most, count), True) for name, most in table.items()}
    found["Posterize"] = 8 - (arange(count) / ((count - 1) / bits)).round().int(), False
    found["Solarize"] = linspace(255.0, 0.0, count), False
    return found | dict.fromkeys(last, (None, False))


class Chained(Module):
    """What the classes here have in common."""

    def __init__(self, interpolation, fill):
        super().__init__()
        self.interpolation, self.fill = interpolation, fill

    def _fill_for(self, img):
        if not isinstance(img, Tensor) or self.fill is None:
            return self.fill
        channels = F.get_image_num_channels(img)
        fill = [self.fill] * channels if isinstance(self.fill, (int, float)) else self.fill
        return list(map(float, fill))

    @staticmethod
    def _negative():
        """Whether a signed strength is negative, drawn."""
        return randint(2, (1,)).item()

    def _step(self, img, name, strength):
        return apply_operation(img, name, strength, self.interpolation, self._fill_for(img))

    def _shown(self, *names):
        parts = [f"{name}={getattr(self, name)}" for name in names]
        return f"{type(self).__name__}({', '.join(parts)})"


def share_of(size):
    """What a picture of 331 pixels is moved by at most, 150 pixels, for one of `size` pixels."""
    return 150.0 / 331.0 * size


class AutoAugment(Chained):
    """One of the 25 chains of a policy."""

    def __init__(self, policy=AutoAugmentPolicy.IMAGENET, interpolation=InterpolationMode.NEAREST, fill=None):
        super().__init__(interpolation, fill)
        self.policy, self.policies = policy, chains_of(policy)

    @staticmethod
    def _table(img):
        _, height, width = F.get_dimensions(img)
        return strengths(10, 0.3, share_of(width), share_of(height), 30.0, 0.9, 4,
                         ("AutoContrast", "Equalize", "Invert"))

    @staticmethod
    def get_params(transform_num):
        """(which chain, two probabilities, two signs), drawn."""
        return below(transform_num), rand((2,)), randint(2, (2,))

    def forward(self, img):
        which, chances, signs = self.get_params(len(self.policies))
        table = self._table(img)
        for i, (name, probability, level) in enumerate(self.policies[which]):
            if chances[i] <= probability:
                values, signed = table[name]
                strength = float(values[level].item()) if level is not None else 0.0
                if signed and signs[i] == 0:
                    strength *= -1.0
                img = self._step(img, name, strength)
        return img

    def __repr__(self):
        return self._shown("policy", "fill")


class RandAugment(Chained):
    """`num_ops` operations one after the other, all of strength `magnitude` of `num_magnitude_bins`."""

    def __init__(self, num_ops=2, magnitude=9, num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST,
                 fill=None):
        super().__init__(interpolation, fill)
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins

    def _table(self, height, width):
        bins = self.num_magnitude_bins
        table = strengths(bins, 0.3, share_of(width), share_of(height), 30.0, 0.9, 4)
        return {"Identity": (None, False), **table}

    def forward(self, img):
        _, height, width = F.get_dimensions(img)
        table = self._table(height, width)
        for _ in range(self.num_ops):
            name = list(table)[below(len(table))]
            values, signed = table[name]
            strength = float(values[self.magnitude].item()) if values is not None else 0.0
            if signed and self._negative():
                strength *= -1.0
            img = self._step(img, name, strength)
        return img

    def __repr__(self):
        return self._shown("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")


class TrivialAugmentWide(Chained):
    """One operation of a random strength."""

    def __init__(self, num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST, fill=None):
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, img):
        table = {"Identity": (None, False),
                 **strengths(self.num_magnitude_bins, 0.99, 32.0, 32.0, 135.0, 0.99, 6)}
        name = list(table)[below(len(table))]
        values, signed = table[name]
        strength = float(values[below(len(values))].item()) if values is not None else 0.0
        if signed and self._negative():
            strength *= -1.0
        return self._step(img, name, strength)

    def __repr__(self):
        return self._shown("num_magnitude_bins", "interpolation", "fill")


class AugMix(Chained):
    """A mixture of the picture and of `mixture_width` chains of operations, with random weights."""

    def __init__(self, severity=3, mixture_width=3, chain_depth=-1, alpha=1.0, all_ops=True,
                 interpolation=InterpolationMode.BILINEAR, fill=None):
        super().__init__(interpolation, fill)
        if not 1 <= severity <= 10:
            raise ValueError(f"The severity must be between [1, 10]. Got {severity} instead.")
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops = alpha, all_ops

    def _table(self, height, width):
        table = strengths(10, 0.3, width / 3.0, height / 3.0, 30.0, 0.9, 4)
        if not self.all_ops:
            return {name: found for name, found in table.items() if name not in _ENHANCERS}
        return {name: table[name] for name in (*(name for name in table if name not in _ENHANCERS),
                                               *_ENHANCERS)}

    def forward(self, orig_img):
        from flambeau.distributions import Dirichlet
        _, height, width = F.get_dimensions(orig_img)
        picture = orig_img if isinstance(orig_img, Tensor) else F.pil_to_tensor(orig_img)
        batch = picture.reshape([1] * max(4 - picture.ndim, 0) + list(picture.shape))
        table, count = self._table(height, width), batch.shape[0]
        alphas = tensor([self.alpha, self.alpha])
        shares = Dirichlet(alphas).sample((count,))
        weights = (Dirichlet(tensor([self.alpha] * self.mixture_width)).sample((count,))
                   * shares[:, 1].reshape(-1, 1))
        mixed = shares[:, 0].reshape(-1, 1, 1, 1) * batch
        for chain in range(self.mixture_width):
            changed = batch
            depth = self.chain_depth if self.chain_depth > 0 else below(4, low=1)
            for _ in range(depth):
                changed = self._drawn_step(changed, table)
            mixed = mixed + weights[:, chain].reshape(-1, 1, 1, 1) * changed
        mixed = mixed.reshape(picture.shape).to(picture.dtype)
        return mixed if isinstance(orig_img, Tensor) else F.to_pil_image(mixed, orig_img.mode)

    def _drawn_step(self, img, table):
        name = list(table)[below(len(table))]
        values, signed = table[name]
        strength = float(values[below(self.severity)].item()) if values is not None else 0.0
        if signed and self._negative():
            strength *= -1.0
        return self._step(img, name, strength)

    def __repr__(self):
        return self._shown("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation",
                           "fill")
