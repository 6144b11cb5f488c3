"""MobileNet v2. Source: Sandler et al. (2018)."""

from flambeau import nn
from flambeau.vision.models._api import builder
from flambeau.vision.models._utils import divisible, start_convolutions
from flambeau.vision.ops.misc import Conv2dNormActivation


class InvertedResidual(nn.Module):
    """Wider (1 x 1), filtered channel by channel (3 x 3), narrower (1 x 1), beside a shortcut."""

    def __init__(self, inp, oup, stride, expand_ratio, norm_layer=None):
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm_layer = norm_layer or nn.BatchNorm2d
        hidden = int(round(inp * expand_ratio))
        shared = {"norm_layer": norm_layer, "activation_layer": nn.ReLU6}
        layers = [] if expand_ratio == 1 else [Conv2dNormActivation(inp, hidden, kernel_size=1, **shared)]
        layers += [Conv2dNormActivation(hidden, hidden, stride=stride, groups=hidden, **shared),
                   nn.Conv2d(hidden, oup, 1, 1, 0, bias=False), norm_layer(oup)]
        self.conv, self.out_channels = nn.Sequential(*layers), oup
        self.stride, self.use_res_connect = stride, stride == 1 and inp == oup
        self._is_cn = stride > 1

    def forward(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes).

    inverted_residual_setting: rows (expansion, channels, blocks, stride).
    """

    def __init__(self, num_classes=1000, width_mult=1.0, inverted_residual_setting=None, round_nearest=8,
                 block=None,
                 norm_layer=None, dropout=0.2):
        super().__init__()
        block, norm_layer = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        setting = inverted_residual_setting or [
            [1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2],
            [6, 320, 1, 1]]
        if not setting or len(setting[0]) != 4:
            raise ValueError("inverted_residual_setting should be non-empty or a 4-element list, got "
                             f"{inverted_residual_setting}")
        shared = {"norm_layer": norm_layer, "activation_layer": nn.ReLU6}
        width = divisible(32 * width_mult, round_nearest)
        self.last_channel = divisible(1280 * max(1.0, width_mult), round_nearest)
        features = [Conv2dNormActivation(3, width, stride=2, **shared)]
        for expansion, channels, count, stride in setting:
            out = divisible(channels * width_mult, round_nearest)
            for index in range(count):
                features.append(block(width, out, stride if index == 0 else 1, expand_ratio=expansion,
                                      norm_layer=norm_layer))
                width = out
        features.append(Conv2dNormActivation(width, self.last_channel, kernel_size=1, **shared))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes))
        start_convolutions(self, linear_std=0.01)

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(x.flatten(1))


@builder("MobileNet_V2_Weights")
def mobilenet_v2(**options):
    """MobileNet v2."""
    return MobileNetV2(**options)
