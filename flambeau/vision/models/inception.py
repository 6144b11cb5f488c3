"""Inception v3. Source: Szegedy et al., "Rethinking the Inception Architecture" (2015)."""

from collections import namedtuple

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.tensor import cat
from flambeau.vision.models._api import builder
from flambeau.vision.models.googlenet import BasicConv2d, _pretrained, start_truncated, transformed

InceptionOutputs = namedtuple("InceptionOutputs", ["logits", "aux_logits"])


def _conv(in_channels, out_channels, kernel_size, **options):
    """A BasicConv2d that keeps the size, unless `options` say otherwise."""
    sizes = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    options.setdefault("padding", tuple(size // 2 for size in sizes))
    return BasicConv2d(in_channels, out_channels, kernel_size=kernel_size, **options)


def _shrinking(in_channels, out_channels):
    return _conv(in_channels, out_channels, 3, stride=2, padding=0)


def _pooled(x):
    return F.avg_pool2d(x, kernel_size=3, stride=1, padding=1)


class InceptionA(nn.Module):
    def __init__(self, in_channels, pool_features):
        super().__init__()
        self.branch1x1 = _conv(in_channels, 64, 1)
        self.branch5x5_1, self.branch5x5_2 = _conv(in_channels, 48, 1), _conv(48, 64, 5)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = _conv(in_channels, 64, 1), _conv(64, 96, 3)
        self.branch3x3dbl_3 = _conv(96, 96, 3)
        self.branch_pool = _conv(in_channels, pool_features, 1)

    def forward(self, x):
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return cat([self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)), double,
                    self.branch_pool(_pooled(x))], 1)


class InceptionB(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.branch3x3 = _shrinking(in_channels, 384)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = _conv(in_channels, 64, 1), _conv(64, 96, 3)
        self.branch3x3dbl_3 = _shrinking(96, 96)

    def forward(self, x):
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return cat([self.branch3x3(x), double, F.max_pool2d(x, kernel_size=3, stride=2)], 1)


class InceptionC(nn.Module):
    def __init__(self, in_channels, channels_7x7):
        super().__init__()
        width = channels_7x7
        self.branch1x1 = _conv(in_channels, 192, 1)
        self.branch7x7_1, self.branch7x7_2 = _conv(in_channels, width, 1), _conv(width, width, (1, 7))
        self.branch7x7_3 = _conv(width, 192, (7, 1))
        self.branch7x7dbl_1, self.branch7x7dbl_2 = _conv(in_channels, width, 1), _conv(width, width, (7, 1))
        self.branch7x7dbl_3, self.branch7x7dbl_4 = _conv(width, width, (1, 7)), _conv(width, width, (7, 1))
        self.branch7x7dbl_5 = _conv(width, 192, (1, 7))
        self.branch_pool = _conv(in_channels, 192, 1)

    def forward(self, x):
        single = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return cat([self.branch1x1(x), single, double, self.branch_pool(_pooled(x))], 1)


class InceptionD(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.branch3x3_1, self.branch3x3_2 = _conv(in_channels, 192, 1), _shrinking(192, 320)
        self.branch7x7x3_1, self.branch7x7x3_2 = _conv(in_channels, 192, 1), _conv(192, 192, (1, 7))
        self.branch7x7x3_3, self.branch7x7x3_4 = _conv(192, 192, (7, 1)), _shrinking(192, 192)

    def forward(self, x):
        long = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return cat([self.branch3x3_2(self.branch3x3_1(x)), long, F.max_pool2d(x, kernel_size=3, stride=2)], 1)


class InceptionE(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.branch1x1 = _conv(in_channels, 320, 1)
        self.branch3x3_1 = _conv(in_channels, 384, 1)
        self.branch3x3_2a, self.branch3x3_2b = _conv(384, 384, (1, 3)), _conv(384, 384, (3, 1))
        self.branch3x3dbl_1, self.branch3x3dbl_2 = _conv(in_channels, 448, 1), _conv(448, 384, 3)
        self.branch3x3dbl_3a, self.branch3x3dbl_3b = _conv(384, 384, (1, 3)), _conv(384, 384, (3, 1))
        self.branch_pool = _conv(in_channels, 192, 1)

    def forward(self, x):
        single = self.branch3x3_1(x)
        double = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        return cat([self.branch1x1(x), self.branch3x3_2a(single), self.branch3x3_2b(single),
                    self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double), self.branch_pool(_pooled(x))],
                   1)


class InceptionAux(nn.Module):
    """A classifier half way."""

    def __init__(self, in_channels, num_classes):
        super().__init__()
        self.conv0 = _conv(in_channels, 128, 1)
        self.conv1 = _conv(128, 768, 5, padding=0)
        self.conv1.stddev = 0.01
        self.fc = nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x):
        x = self.conv1(self.conv0(F.avg_pool2d(x, kernel_size=5, stride=3)))
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class Inception3(nn.Module):
    """(batch, 3, 299, 299) -> (batch, num_classes); training with aux_logits: InceptionOutputs."""

    def __init__(self, num_classes=1000, aux_logits=True, transform_input=False, init_weights=True,
                 dropout=0.5):
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3 = _shrinking(3, 32)
        self.Conv2d_2a_3x3 = _conv(32, 32, 3, padding=0)
        self.Conv2d_2b_3x3, self.maxpool1 = _conv(32, 64, 3), nn.MaxPool2d(kernel_size=3, stride=2)
        self.Conv2d_3b_1x1 = _conv(64, 80, 1)
        self.Conv2d_4a_3x3 = _conv(80, 192, 3, padding=0)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Mixed_5b, self.Mixed_5c = InceptionA(192, 32), InceptionA(256, 64)
        self.Mixed_5d = InceptionA(288, 64)
        self.Mixed_6a = InceptionB(288)
        self.Mixed_6b, self.Mixed_6c = InceptionC(768, 128), InceptionC(768, 160)
        self.Mixed_6d, self.Mixed_6e = InceptionC(768, 160), InceptionC(768, 192)
        self.AuxLogits = InceptionAux(768, num_classes) if aux_logits else None
        self.Mixed_7a, self.Mixed_7b, self.Mixed_7c = InceptionD(768), InceptionE(1280), InceptionE(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout, self.fc = nn.Dropout(p=dropout), nn.Linear(2048, num_classes)
        if init_weights:
            start_truncated(self, 0.1)

    def forward(self, x):
        if self.transform_input:
            x = transformed(x)
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        auxiliary = self.AuxLogits(x) if self.AuxLogits is not None and self.training else None
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        x = self.fc(self.dropout(self.avgpool(x)).flatten(1))
        return InceptionOutputs(x, auxiliary) if self.training and self.aux_logits else x


@builder("Inception_V3_Weights")
def inception_v3(weights=None, **options):
    """Inception v3; with weights its inputs are transformed, and there is a classifier half way by
    default.
    """
    if weights is None:
        return Inception3(**options)
    options.setdefault("aux_logits", True)
    return _pretrained(Inception3, weights, options, ("AuxLogits",))
