"""GoogLeNet. Source: Szegedy et al., "Going Deeper with Convolutions" (2014), with BatchNorm."""

from collections import namedtuple

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.tensor import cat
from flambeau.vision.models._api import builder

GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])


class BasicConv2d(nn.Module):
    """Convolution, BatchNorm, ReLU."""

    def __init__(self, in_channels, out_channels, **options):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **options)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four branches side by side. (The third has 3 x 3 where the paper has 5 x 5, as the published weights
    do.)
    """

    def __init__(self, in_channels, ch1x1, ch3x3red, ch3x3, ch5x5red, ch5x5, pool_proj):
        super().__init__()
        self.branch1 = BasicConv2d(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(BasicConv2d(in_channels, ch3x3red, kernel_size=1),
                                     BasicConv2d(ch3x3red, ch3x3, kernel_size=3, padding=1))
        self.branch3 = nn.Sequential(BasicConv2d(in_channels, ch5x5red, kernel_size=1),
                                     BasicConv2d(ch5x5red, ch5x5, kernel_size=3, padding=1))
        self.branch4 = nn.Sequential(nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True),
                                     BasicConv2d(in_channels, pool_proj, kernel_size=1))

    def forward(self, x):
        return cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """A classifier half way."""

    def __init__(self, in_channels, num_classes, dropout=0.7):
        super().__init__()
        self.conv = BasicConv2d(in_channels, 128, kernel_size=1)
        self.fc1, self.fc2 = nn.Linear(2048, 1024), nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x):
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


class GoogLeNet(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes); training with aux_logits: GoogLeNetOutputs."""

    def __init__(self, num_classes=1000, aux_logits=True, transform_input=False, init_weights=True,
                 dropout=0.2,
                 dropout_aux=0.7):
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input

        def pool(size=3):
            return nn.MaxPool2d(size, stride=2, ceil_mode=True)
        self.conv1, self.maxpool1 = BasicConv2d(3, 64, kernel_size=7, stride=2, padding=3), pool()
        self.conv2 = BasicConv2d(64, 64, kernel_size=1)
        self.conv3, self.maxpool2 = BasicConv2d(64, 192, kernel_size=3, padding=1), pool()
        self.inception3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self.inception3b, self.maxpool3 = Inception(256, 128, 128, 192, 32, 96, 64), pool()
        self.inception4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e, self.maxpool4 = Inception(528, 256, 160, 320, 32, 128, 128), pool(2)
        self.inception5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = Inception(832, 384, 192, 384, 48, 128, 128)
        self.aux1 = InceptionAux(512, num_classes, dropout_aux) if aux_logits else None
        self.aux2 = InceptionAux(528, num_classes, dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout, self.fc = nn.Dropout(p=dropout), nn.Linear(1024, num_classes)
        if init_weights:
            start_truncated(self, 0.01)

    def forward(self, x):
        if self.transform_input:
            x = transformed(x)
        x = self.conv3(self.conv2(self.maxpool1(self.conv1(x))))
        x = self.maxpool3(self.inception3b(self.inception3a(self.maxpool2(x))))
        middle = x = self.inception4a(x)
        later = x = self.inception4d(self.inception4c(self.inception4b(x)))
        x = self.inception5b(self.inception5a(self.maxpool4(self.inception4e(x))))
        x = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        if self.training and self.aux_logits:
            return GoogLeNetOutputs(x, self.aux2(later), self.aux1(middle))
        return x


def start_truncated(model, std):
    """Convolutions and Linear from a truncated normal distribution (their own `stddev`, or `std`)."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            init.trunc_normal_(module.weight, mean=0.0, std=float(getattr(module, "stddev", std)), a=-2, b=2)
        elif isinstance(module, nn.BatchNorm2d):
            init.ones_(module.weight)
            init.zeros_(module.bias)


def transformed(x):
    """Pictures normalized by ImageNet's statistics as ones of mean 0.5 and deviation 0.5."""
    channels = [x[:, index:index + 1] * (std / 0.5) + (mean - 0.5) / 0.5
                for index, (mean, std) in enumerate(((0.485, 0.229), (0.456, 0.224), (0.406, 0.225)))]
    return cat(channels, 1)


@builder("GoogLeNet_Weights")
def googlenet(weights=None, **options):
    """GoogLeNet; with weights its inputs are transformed, and there are classifiers half way only if asked
    for.
    """
    if weights is None:
        return GoogLeNet(**options)
    return _pretrained(GoogLeNet, weights, options, ("aux1", "aux2"))


def _pretrained(build, weights, options, auxiliary):
    """A model whose file has auxiliary classifiers, which stay only if `aux_logits` asks for them."""
    keep = options.pop("aux_logits", False)
    options.setdefault("transform_input", True)
    model = build(**{**options, "aux_logits": True, "init_weights": False})
    model.load_state_dict(weights.get_state_dict())
    if not keep:
        model.aux_logits = False
        for name in auxiliary:
            setattr(model, name, None)
    return model
