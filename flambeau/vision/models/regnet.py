"""RegNet. Source: Radosavovic et al., "Designing Network Design Spaces" (2020)."""

import math
from collections import OrderedDict
from functools import partial

from flambeau import nn
from flambeau.nn import init
from flambeau.vision.models._api import builder
from flambeau.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation

_QUANTUM = 8            # widths are multiples of it


class BlockParams:
    """The stages of a RegNet: (width, stride, blocks, group width) of each, and what they share."""

    def __init__(self, depths, widths, group_widths, se_ratio=None):
        self.depths, self.widths, self.group_widths = depths, widths, group_widths
        self.se_ratio, self.stride = se_ratio, 2

    @classmethod
    def from_init_params(cls, depth, w_0, w_a, w_m, group_width, se_ratio=None):
        """Widths that grow linearly from w_0 by w_a a block, rounded to powers of w_m times w_0."""
        if w_a < 0 or w_0 <= 0 or w_m <= 1 or w_0 % _QUANTUM != 0:
            raise ValueError("Invalid RegNet settings")
        widths = []
        for block in range(depth):
            power = round(math.log((w_0 + w_a * block) / w_0) / math.log(w_m))
            widths.append(int(round(w_0 * w_m ** power / _QUANTUM) * _QUANTUM))
        stages = sorted(set(widths))
        depths = [widths.count(width) for width in stages]
        groups = [min(group_width, width) for width in stages]
        fitting = [_fitting(width, group) for width, group in zip(stages, groups)]
        return cls(depths, fitting, groups, se_ratio)


def _fitting(width, group):
    """The multiple of `group` next to `width`, not below 90 % of it."""
    near = max(group, int(width + group / 2) // group * group)
    return near + group if near < 0.9 * width else near


class BottleneckTransform(nn.Sequential):
    """1 x 1, grouped 3 x 3, (squeezed,) 1 x 1."""

    def __init__(self, width_in, width_out, stride, norm_layer, activation_layer, group_width, se_ratio):
        shared = {"norm_layer": norm_layer, "activation_layer": activation_layer}
        layers = OrderedDict(
            a=Conv2dNormActivation(width_in, width_out, kernel_size=1, **shared),
            b=Conv2dNormActivation(width_out, width_out, kernel_size=3, stride=stride,
                                   groups=width_out // group_width, **shared))
        if se_ratio:
            layers["se"] = SqueezeExcitation(width_out, int(round(se_ratio * width_in)),
                                             activation=activation_layer)
        layers["c"] = Conv2dNormActivation(width_out, width_out, kernel_size=1, norm_layer=norm_layer,
                                           activation_layer=None)
        super().__init__(layers)


class ResBottleneckBlock(nn.Module):
    """A BottleneckTransform beside a shortcut."""

    def __init__(self, width_in, width_out, stride, norm_layer, activation_layer, group_width=1,
                 se_ratio=None):
        super().__init__()
        self.proj = None
        if width_in != width_out or stride != 1:
            self.proj = Conv2dNormActivation(width_in, width_out, kernel_size=1, stride=stride,
                                             norm_layer=norm_layer,
                                             activation_layer=None)
        self.f = BottleneckTransform(width_in, width_out, stride, norm_layer, activation_layer, group_width,
                                     se_ratio)
        self.activation = activation_layer(inplace=True)

    def forward(self, x):
        shortcut = x if self.proj is None else self.proj(x)
        return self.activation(shortcut + self.f(x))


class SimpleStemIN(Conv2dNormActivation):
    """The first convolution."""


class AnyStage(nn.Sequential):
    """The blocks of one width."""


class RegNet(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes)."""

    def __init__(self, block_params, num_classes=1000, stem_width=32, stem_type=None, block_type=None,
                 norm_layer=None, activation=None):
        super().__init__()
        norm_layer, activation = norm_layer or nn.BatchNorm2d, activation or nn.ReLU
        block = block_type or ResBottleneckBlock
        self.stem = (stem_type or SimpleStemIN)(3, stem_width, kernel_size=3, stride=2, norm_layer=norm_layer,
                                                activation_layer=activation)
        width, stages = stem_width, OrderedDict()
        sizes = zip(block_params.depths, block_params.widths, block_params.group_widths)
        for number, (depth, out, group) in enumerate(sizes, 1):
            blocks = OrderedDict()
            for index in range(depth):
                stride = block_params.stride if index == 0 else 1
                blocks[f"block{number}-{index}"] = block(width, out, stride, norm_layer, activation, group,
                                                         block_params.se_ratio)
                width = out
            stages[f"block{number}"] = AnyStage(blocks)
        self.trunk_output = nn.Sequential(stages)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(width, num_classes)
        self._start()

    def _start(self):
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
                init.normal_(module.weight, mean=0.0, std=math.sqrt(2.0 / fan_out))
            elif isinstance(module, nn.BatchNorm2d):
                init.ones_(module.weight)
                init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                init.normal_(module.weight, mean=0.0, std=0.01)
                init.zeros_(module.bias)

    def forward(self, x):
        return self.fc(self.avgpool(self.trunk_output(self.stem(x))).flatten(1))


def _built(options, *sizes, se_ratio=None):
    options.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=1e-05, momentum=0.1))
    return RegNet(BlockParams.from_init_params(*sizes, se_ratio=se_ratio), **options)


# name -> (blocks, first width, growth, factor, group width)
_SIZES = {
    "y_400mf": (16, 48, 27.89, 2.09, 8), "y_800mf": (14, 56, 38.84, 2.4, 16),
    "y_1_6gf": (27, 48, 20.71, 2.65, 24),
    "y_3_2gf": (21, 80, 42.63, 2.66, 24), "y_8gf": (17, 192, 76.82, 2.19, 56),
    "y_16gf": (18, 200, 106.23, 2.48, 112),
    "y_32gf": (20, 232, 115.89, 2.53, 232), "y_128gf": (27, 456, 160.83, 2.52, 264),
    "x_400mf": (22, 24, 24.48, 2.54, 16), "x_800mf": (16, 56, 35.73, 2.28, 16),
    "x_1_6gf": (18, 80, 34.01, 2.25, 24),
    "x_3_2gf": (25, 88, 26.31, 2.25, 48), "x_8gf": (23, 80, 49.56, 2.88, 120),
    "x_16gf": (22, 216, 55.59, 2.1, 128),
    "x_32gf": (23, 320, 69.86, 2.0, 168)}


def _model(name):
    """The builder of one size."""
    kind, _, size = name.partition("_")
    enum = f"RegNet_{kind.upper()}_{size.replace('mf', 'MF').replace('gf', 'GF')}_Weights"

    def build(**options):
        return _built(options, *_SIZES[name], se_ratio=0.25 if kind == "y" else None)
    build.__name__ = build.__qualname__ = f"regnet_{name}"
    build.__doc__ = f"RegNet {kind.upper()} of {size.replace('_', '.')}."
    return builder(enum)(build)


for _name in _SIZES:
    globals()[f"regnet_{_name}"] = _model(_name)
del _name
