"""DenseNet. Source: Huang et al., "Densely Connected Convolutional Networks" (2016)."""

import re
from collections import OrderedDict

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.tensor import cat
from flambeau.vision.models._api import builder


class _DenseLayer(nn.Module):
    """`growth_rate` new channels from all channels before."""

    def __init__(self, num_input_features, growth_rate, bn_size, drop_rate):
        super().__init__()
        middle = bn_size * growth_rate
        self.norm1, self.relu1 = nn.BatchNorm2d(num_input_features), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, middle, kernel_size=1, stride=1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(middle), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(middle, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        self.drop_rate = float(drop_rate)

    def forward(self, input):
        before = cat(input, 1) if isinstance(input, (list, tuple)) else input
        narrow = self.conv1(self.relu1(self.norm1(before)))
        new = self.conv2(self.relu2(self.norm2(narrow)))
        return F.dropout(new, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else new


class _DenseBlock(nn.ModuleDict):
    def __init__(self, num_layers, num_input_features, bn_size, growth_rate, drop_rate):
        super().__init__()
        for index in range(num_layers):
            self[f"denselayer{index + 1}"] = _DenseLayer(num_input_features + index * growth_rate,
                                                         growth_rate,
                                                         bn_size, drop_rate)

    def forward(self, init_features):
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return cat(features, 1)


class _Transition(nn.Sequential):
    """Fewer channels, half the size."""

    def __init__(self, num_input_features, num_output_features):
        super().__init__()
        self.norm, self.relu = nn.BatchNorm2d(num_input_features), nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, stride=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes)."""

    def __init__(self, growth_rate=32, block_config=(6, 12, 24, 16), num_init_features=64, bn_size=4,
                 drop_rate=0,
                 num_classes=1000):
        super().__init__()
        width = num_init_features
        self.features = nn.Sequential(OrderedDict([
            ("conv0", nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)),
            ("norm0", nn.BatchNorm2d(width)), ("relu0", nn.ReLU(inplace=True)),
            ("pool0", nn.MaxPool2d(kernel_size=3, stride=2, padding=1))]))
        for index, layers in enumerate(block_config, 1):
            self.features.add_module(f"denseblock{index}",
                                     _DenseBlock(layers, width, bn_size, growth_rate, drop_rate))
            width += layers * growth_rate
            if index < len(block_config):
                self.features.add_module(f"transition{index}", _Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                init.kaiming_normal_(module.weight)
            elif isinstance(module, nn.BatchNorm2d):
                init.ones_(module.weight)
                init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                init.zeros_(module.bias)

    def forward(self, x):
        x = F.relu(self.features(x), inplace=True)
        return self.classifier(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


def _renamed(state):
    """The published files number the layers' parts (norm.1), the modules here do not (norm1)."""
    old = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12]\.)")
    return {old.sub(r"\1\2", key): value for key, value in state.items()}


@builder("DenseNet121_Weights", rename=_renamed)
def densenet121(**options):
    """DenseNet of 121 layers."""
    return DenseNet(32, (6, 12, 24, 16), 64, **options)


@builder("DenseNet161_Weights", rename=_renamed)
def densenet161(**options):
    """DenseNet of 161 layers."""
    return DenseNet(48, (6, 12, 36, 24), 96, **options)


@builder("DenseNet169_Weights", rename=_renamed)
def densenet169(**options):
    """DenseNet of 169 layers."""
    return DenseNet(32, (6, 12, 32, 32), 64, **options)


@builder("DenseNet201_Weights", rename=_renamed)
def densenet201(**options):
    """DenseNet of 201 layers."""
    return DenseNet(32, (6, 12, 48, 32), 64, **options)
