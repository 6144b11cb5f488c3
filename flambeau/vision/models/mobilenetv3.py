"""MobileNet v3. Source: Howard et al., "Searching for MobileNetV3" (2019)."""

from functools import partial

from flambeau import nn
from flambeau.vision.models._api import builder
from flambeau.vision.models._utils import divisible, start_convolutions
from flambeau.vision.ops.misc import Conv2dNormActivation, SqueezeExcitation


class InvertedResidualConfig:
    """One block: channels, kernel, expanded channels, whether it squeezes, 'RE' (ReLU) or 'HS' (Hardswish),
    stride.
    """

    def __init__(self, input_channels, kernel, expanded_channels, out_channels, use_se, activation, stride,
                 dilation,
                 width_mult):
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.kernel, self.use_se, self.use_hs = kernel, use_se, activation == "HS"
        self.stride, self.dilation = stride, dilation

    @staticmethod
    def adjust_channels(channels, width_mult):
        return divisible(channels * width_mult, 8)


_squeeze = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)


class InvertedResidual(nn.Module):
    """Wider, filtered channel by channel, squeezed, narrower, beside a shortcut."""

    def __init__(self, cnf, norm_layer, se_layer=_squeeze):
        super().__init__()
        if cnf.stride not in (1, 2):
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        shared = {"norm_layer": norm_layer, "activation_layer": nn.Hardswish if cnf.use_hs else nn.ReLU}
        width = cnf.expanded_channels
        layers = []
        if width != cnf.input_channels:
            layers.append(Conv2dNormActivation(cnf.input_channels, width, kernel_size=1, **shared))
        layers.append(Conv2dNormActivation(width, width, kernel_size=cnf.kernel, groups=width,
                                           dilation=cnf.dilation,
                                           stride=1 if cnf.dilation > 1 else cnf.stride, **shared))
        if cnf.use_se:
            layers.append(se_layer(width, divisible(width // 4, 8)))
        layers.append(Conv2dNormActivation(width, cnf.out_channels, kernel_size=1, norm_layer=norm_layer,
                                           activation_layer=None))
        self.block, self.out_channels = nn.Sequential(*layers), cnf.out_channels
        self._is_cn = cnf.stride > 1

    def forward(self, input):
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes)."""

    def __init__(self, inverted_residual_setting, last_channel, num_classes=1000, block=None, norm_layer=None,
                 dropout=0.2):
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        block = block or InvertedResidual
        norm_layer = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        shared = {"norm_layer": norm_layer, "activation_layer": nn.Hardswish}
        setting = inverted_residual_setting
        width, last = setting[0].input_channels, setting[-1].out_channels
        self.features = nn.Sequential(
            Conv2dNormActivation(3, width, kernel_size=3, stride=2, **shared),
            *(block(config, norm_layer) for config in setting),
            Conv2dNormActivation(last, 6 * last, kernel_size=1, **shared))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(6 * last, last_channel), nn.Hardswish(inplace=True),
                                        nn.Dropout(p=dropout, inplace=True),
                                        nn.Linear(last_channel, num_classes))
        start_convolutions(self, linear_std=0.01)

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


# Blocks (input, kernel, expanded, output, squeeze, activation, stride); * marks the tail that can be dilated.
_LARGE = ((16, 3, 16, 16, 0, "RE", 1), (16, 3, 64, 24, 0, "RE", 2), (24, 3, 72, 24, 0, "RE", 1),
          (24, 5, 72, 40, 1, "RE", 2), (40, 5, 120, 40, 1, "RE", 1), (40, 5, 120, 40, 1, "RE", 1),
          (40, 3, 240, 80, 0, "HS", 2), (80, 3, 200, 80, 0, "HS", 1), (80, 3, 184, 80, 0, "HS", 1),
          (80, 3, 184, 80, 0, "HS", 1), (80, 3, 480, 112, 1, "HS", 1), (112, 3, 672, 112, 1, "HS", 1),
          (112, 5, 672, 160, 1, "HS*", 2), (160, 5, 960, 160, 1, "HS*", 1), (160, 5, 960, 160, 1, "HS*", 1))
_SMALL = ((16, 3, 16, 16, 1, "RE", 2), (16, 3, 72, 24, 0, "RE", 2), (24, 3, 88, 24, 0, "RE", 1),
          (24, 5, 96, 40, 1, "HS", 2), (40, 5, 240, 40, 1, "HS", 1), (40, 5, 240, 40, 1, "HS", 1),
          (40, 5, 120, 48, 1, "HS", 1), (48, 5, 144, 48, 1, "HS", 1), (48, 5, 288, 96, 1, "HS*", 2),
          (96, 5, 576, 96, 1, "HS*", 1), (96, 5, 576, 96, 1, "HS*", 1))


def _built(rows, last, width_mult=1.0, reduced_tail=False, dilated=False, **options):
    divisor, setting = 2 if reduced_tail else 1, []
    tail = [index for index, row in enumerate(rows) if row[5].endswith("*")]
    for index, (before, kernel, expanded, after, squeeze, activation, stride) in enumerate(rows):
        if index in tail:
            after //= divisor
            if index > tail[0]:
                before, expanded = before // divisor, expanded // divisor
        dilation = 2 if dilated and index in tail else 1
        setting.append(InvertedResidualConfig(before, kernel, expanded, after, bool(squeeze), activation[:2],
                                              stride,
                                              dilation, width_mult))
    last = InvertedResidualConfig.adjust_channels(last // divisor, width_mult)
    return MobileNetV3(setting, last, **options)


@builder("MobileNet_V3_Large_Weights")
def mobilenet_v3_large(**options):
    """MobileNet v3, large."""
    return _large(**options)


def _large(_width_mult=1.0, _reduced_tail=False, _dilated=False, **options):
    return _built(_LARGE, 1280, _width_mult, _reduced_tail, _dilated, **options)


@builder("MobileNet_V3_Small_Weights")
def mobilenet_v3_small(**options):
    """MobileNet v3, small."""
    return _built(_SMALL, 1024, **options)
