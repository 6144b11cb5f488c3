"""EfficientNet. Sources: Tan and Le, "EfficientNet" (2019) and "EfficientNetV2" (2021)."""

import copy
import math
from dataclasses import dataclass
from functools import partial

from flambeau import nn
from flambeau.nn import init
from flambeau.vision.models._api import builder
from flambeau.vision.models._utils import divisible
from flambeau.vision.ops.drops import StochasticDepth
from flambeau.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation


@dataclass
class BlockConfig:
    """A stage: how much wider, kernel, stride, channels before and after, blocks; fused: one convolution for
    two.
    """

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    fused: bool = False

    def scaled(self, width, depth):
        """The same stage of a wider and deeper model."""
        return BlockConfig(self.expand_ratio, self.kernel, self.stride,
                           divisible(self.input_channels * width),
                           divisible(self.out_channels * width), math.ceil(self.num_layers * depth),
                           self.fused)


class MBConv(nn.Module):
    """Wider, filtered channel by channel, squeezed, narrower, beside a shortcut that is kept at random."""

    def __init__(self, cnf, stochastic_depth_prob, norm_layer, se_layer=SqueezeExcitation):
        super().__init__()
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*self._layers(cnf, norm_layer, se_layer))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    @staticmethod
    def _layers(cnf, norm_layer, se_layer):
        shared = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        width, layers = divisible(cnf.input_channels * cnf.expand_ratio), []
        if width != cnf.input_channels:
            layers.append(Conv2dNormActivation(cnf.input_channels, width, kernel_size=1, **shared))
        layers.append(Conv2dNormActivation(width, width, kernel_size=cnf.kernel, stride=cnf.stride,
                                           groups=width,
                                           **shared))
        layers.append(se_layer(width, max(1, cnf.input_channels // 4),
                               activation=partial(nn.SiLU, inplace=True)))
        layers.append(Conv2dNormActivation(width, cnf.out_channels, kernel_size=1, norm_layer=norm_layer,
                                           activation_layer=None))
        return layers

    def forward(self, input):
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class FusedMBConv(MBConv):
    """As MBConv, with one full convolution for widening and filtering, and no squeezing."""

    @staticmethod
    def _layers(cnf, norm_layer, se_layer):
        shared = {"norm_layer": norm_layer, "kernel_size": cnf.kernel, "stride": cnf.stride,
                  "activation_layer": nn.SiLU}
        width = divisible(cnf.input_channels * cnf.expand_ratio)
        if width == cnf.input_channels:
            return [Conv2dNormActivation(cnf.input_channels, cnf.out_channels, **shared)]
        return [Conv2dNormActivation(cnf.input_channels, width, **shared),
                Conv2dNormActivation(width, cnf.out_channels, kernel_size=1, norm_layer=norm_layer,
                                     activation_layer=None)]


class EfficientNet(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes).

    stochastic_depth_prob: the probability with which the last block is left out; it grows linearly.
    """

    def __init__(self, inverted_residual_setting, dropout, stochastic_depth_prob=0.2, num_classes=1000,
                 norm_layer=None, last_channel=None):
        super().__init__()
        norm_layer, setting = norm_layer or nn.BatchNorm2d, inverted_residual_setting
        if not setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        shared = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        layers = [Conv2dNormActivation(3, setting[0].input_channels, kernel_size=3, stride=2, **shared)]
        total, done = sum(config.num_layers for config in setting), 0
        for config in setting:
            stage = []
            for _ in range(config.num_layers):
                block = copy.copy(config)
                if stage:
                    block.input_channels, block.stride = block.out_channels, 1
                kind = FusedMBConv if block.fused else MBConv
                stage.append(kind(block, stochastic_depth_prob * float(done) / total, norm_layer))
                done += 1
            layers.append(nn.Sequential(*stage))
        before = setting[-1].out_channels
        last = last_channel if last_channel is not None else 4 * before
        layers.append(Conv2dNormActivation(before, last, kernel_size=1, **shared))
        self.features, self.avgpool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(last, num_classes))
        self._start()

    def _start(self):
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    init.zeros_(module.bias)
            elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)):
                init.ones_(module.weight)
                init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                bound = 1.0 / math.sqrt(module.out_features)
                init.uniform_(module.weight, -bound, bound)
                init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# Stages: expansion, kernel, stride, channels before and after, blocks.
_V1 = ((1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
       (6, 5, 1, 80, 112, 3),
       (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1))
_V2_FUSED = {"s": ((1, 3, 1, 24, 24, 2), (4, 3, 2, 24, 48, 4), (4, 3, 2, 48, 64, 4)),
             "m": ((1, 3, 1, 24, 24, 3), (4, 3, 2, 24, 48, 5), (4, 3, 2, 48, 80, 5)),
             "l": ((1, 3, 1, 32, 32, 4), (4, 3, 2, 32, 64, 7), (4, 3, 2, 64, 96, 7))}
_V2 = {"s": ((4, 3, 2, 64, 128, 6), (6, 3, 1, 128, 160, 9), (6, 3, 2, 160, 256, 15)),
       "m": ((4, 3, 2, 80, 160, 7), (6, 3, 1, 160, 176, 14), (6, 3, 2, 176, 304, 18), (6, 3, 1, 304, 512, 5)),
       "l": ((4, 3, 2, 96, 192, 10), (6, 3, 1, 192, 224, 19), (6, 3, 2, 224, 384, 25),
             (6, 3, 1, 384, 640, 7))}


def _first(width, depth, dropout, options, **norm):
    """A model of the first version."""
    if norm:
        options.setdefault("norm_layer", partial(nn.BatchNorm2d, **norm))
    return EfficientNet([BlockConfig(*row).scaled(width, depth) for row in _V1],
                        options.pop("dropout", dropout),
                        **options)


def _second(size, dropout, options):
    """A model of the second version."""
    options.setdefault("norm_layer", partial(nn.BatchNorm2d, eps=1e-03))
    setting = [BlockConfig(*row, fused=True) for row in _V2_FUSED[size]]
    setting += [BlockConfig(*row) for row in _V2[size]]
    return EfficientNet(setting, options.pop("dropout", dropout), **{"last_channel": 1280, **options})


@builder("EfficientNet_B0_Weights")
def efficientnet_b0(**options):
    """EfficientNet B0."""
    return _first(1.0, 1.0, 0.2, options)


@builder("EfficientNet_B1_Weights")
def efficientnet_b1(**options):
    """EfficientNet B1."""
    return _first(1.0, 1.1, 0.2, options)


@builder("EfficientNet_B2_Weights")
def efficientnet_b2(**options):
    """EfficientNet B2."""
    return _first(1.1, 1.2, 0.3, options)


@builder("EfficientNet_B3_Weights")
def efficientnet_b3(**options):
    """EfficientNet B3."""
    return _first(1.2, 1.4, 0.3, options)


@builder("EfficientNet_B4_Weights")
def efficientnet_b4(**options):
    """EfficientNet B4."""
    return _first(1.4, 1.8, 0.4, options)


@builder("EfficientNet_B5_Weights")
def efficientnet_b5(**options):
    """EfficientNet B5."""
    return _first(1.6, 2.2, 0.4, options, eps=0.001, momentum=0.01)


@builder("EfficientNet_B6_Weights")
def efficientnet_b6(**options):
    """EfficientNet B6."""
    return _first(1.8, 2.6, 0.5, options, eps=0.001, momentum=0.01)


@builder("EfficientNet_B7_Weights")
def efficientnet_b7(**options):
    """EfficientNet B7."""
    return _first(2.0, 3.1, 0.5, options, eps=0.001, momentum=0.01)


@builder("EfficientNet_V2_S_Weights")
def efficientnet_v2_s(**options):
    """EfficientNet v2, small."""
    return _second("s", 0.2, options)


@builder("EfficientNet_V2_M_Weights")
def efficientnet_v2_m(**options):
    """EfficientNet v2, medium."""
    return _second("m", 0.3, options)


@builder("EfficientNet_V2_L_Weights")
def efficientnet_v2_l(**options):
    """EfficientNet v2, large."""
    return _second("l", 0.4, options)
