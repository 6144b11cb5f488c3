"""ConvNeXt. Source: Liu et al., "A ConvNet for the 2020s" (2022)."""

from functools import partial

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.tensor import ones
from flambeau.vision.models._api import builder
from flambeau.vision.ops.drops import StochasticDepth
from flambeau.vision.ops.misc import Conv2dNormActivation, Permute


class LayerNorm2d(nn.LayerNorm):
    """LayerNorm over the channels of (batch, channels, height, width)."""

    def forward(self, x):
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """7 x 7 channel by channel, norm, wider and narrower, scaled, beside a shortcut that is kept at
    random.
    """

    def __init__(self, dim, layer_scale, stochastic_depth_prob, norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True), Permute([0, 2, 3, 1]),
            norm_layer(dim), nn.Linear(dim, 4 * dim, bias=True), nn.GELU(),
            nn.Linear(4 * dim, dim, bias=True),
            Permute([0, 3, 1, 2]))
        self.layer_scale = nn.Parameter(ones(dim, 1, 1) * layer_scale)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input):
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


class CNBlockConfig:
    """A stage: channels, channels of the next (None: it is the last), blocks."""

    def __init__(self, input_channels, out_channels, num_layers):
        self.input_channels, self.out_channels, self.num_layers = input_channels, out_channels, num_layers


class ConvNeXt(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes)."""

    def __init__(self, block_setting, stochastic_depth_prob=0.0, layer_scale=1e-6, num_classes=1000,
                 block=None,
                 norm_layer=None):
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        block, norm_layer = block or CNBlock, norm_layer or partial(LayerNorm2d, eps=1e-6)
        layers = [Conv2dNormActivation(3, block_setting[0].input_channels, kernel_size=4, stride=4, padding=0,
                                       norm_layer=norm_layer, activation_layer=None, bias=True)]
        total, done = sum(config.num_layers for config in block_setting), 0
        for config in block_setting:
            stage = []
            for _ in range(config.num_layers):
                stage.append(block(config.input_channels, layer_scale,
                                   stochastic_depth_prob * done / (total - 1.0)))
                done += 1
            layers.append(nn.Sequential(*stage))
            if config.out_channels is not None:
                layers.append(nn.Sequential(norm_layer(config.input_channels), nn.Conv2d(
                    config.input_channels, config.out_channels, kernel_size=2, stride=2)))
        self.features, self.avgpool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1)
        last = block_setting[-1]
        width = last.input_channels if last.out_channels is None else last.out_channels
        self.classifier = nn.Sequential(norm_layer(width), nn.Flatten(1), nn.Linear(width, num_classes))
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)))


def _convnext(widths, depths, depth_prob, options):
    setting = [CNBlockConfig(*row) for row in zip(widths, (*widths[1:], None), depths)]
    return ConvNeXt(setting, options.pop("stochastic_depth_prob", depth_prob), **options)


@builder("ConvNeXt_Tiny_Weights")
def convnext_tiny(**options):
    """ConvNeXt, tiny."""
    return _convnext((96, 192, 384, 768), (3, 3, 9, 3), 0.1, options)


@builder("ConvNeXt_Small_Weights")
def convnext_small(**options):
    """ConvNeXt, small."""
    return _convnext((96, 192, 384, 768), (3, 3, 27, 3), 0.4, options)


@builder("ConvNeXt_Base_Weights")
def convnext_base(**options):
    """ConvNeXt, base."""
    return _convnext((128, 256, 512, 1024), (3, 3, 27, 3), 0.5, options)


@builder("ConvNeXt_Large_Weights")
def convnext_large(**options):
    """ConvNeXt, large."""
    return _convnext((192, 384, 768, 1536), (3, 3, 27, 3), 0.5, options)
