"""SqueezeNet. Source: Iandola et al. (2016), and version 1.1 of its authors."""

from flambeau import nn
from flambeau.nn import init
from flambeau.tensor import cat
from flambeau.vision.models._api import builder


class Fire(nn.Module):
    """A narrow 1 x 1 convolution, then 1 x 1 and 3 x 3 side by side."""

    def __init__(self, inplanes, squeeze_planes, expand1x1_planes, expand3x3_planes):
        super().__init__()
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        return cat([self.expand1x1_activation(self.expand1x1(x)),
                    self.expand3x3_activation(self.expand3x3(x))], 1)


def _pool():
    return nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True)


def _features(version):
    if version == "1_0":
        return [nn.Conv2d(3, 96, 7, stride=2), nn.ReLU(inplace=True), _pool(), Fire(96, 16, 64, 64),
                Fire(128, 16, 64, 64), Fire(128, 32, 128, 128), _pool(), Fire(256, 32, 128, 128),
                Fire(256, 48, 192, 192), Fire(384, 48, 192, 192), Fire(384, 64, 256, 256), _pool(),
                Fire(512, 64, 256, 256)]
    if version == "1_1":
        return [nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(inplace=True), _pool(), Fire(64, 16, 64, 64),
                Fire(128, 16, 64, 64), _pool(), Fire(128, 32, 128, 128), Fire(256, 32, 128, 128), _pool(),
                Fire(256, 48, 192, 192), Fire(384, 48, 192, 192), Fire(384, 64, 256, 256),
                Fire(512, 64, 256, 256)]
    raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")


class SqueezeNet(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes)."""

    def __init__(self, version="1_0", num_classes=1000, dropout=0.5):
        super().__init__()
        self.num_classes = num_classes
        self.features = nn.Sequential(*_features(version))
        last = nn.Conv2d(512, num_classes, kernel_size=1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), last, nn.ReLU(inplace=True),
                                        nn.AdaptiveAvgPool2d((1, 1)))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                if module is last:
                    init.normal_(module.weight, mean=0.0, std=0.01)
                else:
                    init.kaiming_uniform_(module.weight)
                init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(self.features(x)).flatten(1)


@builder("SqueezeNet1_0_Weights")
def squeezenet1_0(**options):
    """SqueezeNet 1.0."""
    return SqueezeNet("1_0", **options)


@builder("SqueezeNet1_1_Weights")
def squeezenet1_1(**options):
    """SqueezeNet 1.1: as good, 2.4 times less work."""
    return SqueezeNet("1_1", **options)
