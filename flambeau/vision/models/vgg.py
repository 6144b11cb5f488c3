"""VGG. Source: Simonyan and Zisserman, "Very Deep Convolutional Networks" (2014)."""

from flambeau import nn
from flambeau.vision.models._api import builder
from flambeau.vision.models._utils import start_convolutions

# Channels of the convolutions; M halves the size.
cfgs = {
    "A": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "B": [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "D": [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"],
    "E": [64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M"],
}


class VGG(nn.Module):
    """(batch, 3, height, width), at least 32 pixels a side -> (batch, num_classes)."""

    def __init__(self, features, num_classes=1000, init_weights=True, dropout=0.5):
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(p=dropout),
            nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(p=dropout), nn.Linear(4096, num_classes))
        if init_weights:
            start_convolutions(self, linear_std=0.01)

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def make_layers(cfg, batch_norm=False):
    """The convolutions of a row of `cfgs`."""
    layers, channels = [], 3
    for width in cfg:
        if width == "M":
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2d(channels, width, kernel_size=3, padding=1))
        layers += [nn.BatchNorm2d(width)] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
        channels = width
    return nn.Sequential(*layers)


def _vgg(letter, batch_norm, weights, options):
    if weights is not None:
        options["init_weights"] = False
    return VGG(make_layers(cfgs[letter], batch_norm), **options)


@builder("VGG11_Weights")
def vgg11(weights=None, **options):
    """VGG of 11 layers."""
    return _vgg("A", False, weights, options)


@builder("VGG11_BN_Weights")
def vgg11_bn(weights=None, **options):
    """VGG of 11 layers with BatchNorm."""
    return _vgg("A", True, weights, options)


@builder("VGG13_Weights")
def vgg13(weights=None, **options):
    """VGG of 13 layers."""
    return _vgg("B", False, weights, options)


@builder("VGG13_BN_Weights")
def vgg13_bn(weights=None, **options):
    """VGG of 13 layers with BatchNorm."""
    return _vgg("B", True, weights, options)


@builder("VGG16_Weights")
def vgg16(weights=None, **options):
    """VGG of 16 layers."""
    return _vgg("D", False, weights, options)


@builder("VGG16_BN_Weights")
def vgg16_bn(weights=None, **options):
    """VGG of 16 layers with BatchNorm."""
    return _vgg("D", True, weights, options)


@builder("VGG19_Weights")
def vgg19(weights=None, **options):
    """VGG of 19 layers."""
    return _vgg("E", False, weights, options)


@builder("VGG19_BN_Weights")
def vgg19_bn(weights=None, **options):
    """VGG of 19 layers with BatchNorm."""
    return _vgg("E", True, weights, options)
