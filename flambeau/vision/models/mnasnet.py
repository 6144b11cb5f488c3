"""MNASNet. Source: Tan et al. (2018)."""

from flambeau import nn
from flambeau.nn import init
from flambeau.vision.models._api import builder
from flambeau.vision.models._utils import divisible

_MOMENTUM = 1 - 0.9997


def _norm(channels):
    return nn.BatchNorm2d(channels, momentum=_MOMENTUM)


class _InvertedResidual(nn.Module):
    """Wider, filtered channel by channel, narrower, beside a shortcut."""

    def __init__(self, in_ch, out_ch, kernel_size, stride, expansion_factor):
        super().__init__()
        middle = in_ch * expansion_factor
        self.apply_residual = in_ch == out_ch and stride == 1
        self.layers = nn.Sequential(
            nn.Conv2d(in_ch, middle, 1, bias=False), _norm(middle), nn.ReLU(inplace=True),
            nn.Conv2d(middle, middle, kernel_size, padding=kernel_size // 2, stride=stride, groups=middle,
                      bias=False),
            _norm(middle), nn.ReLU(inplace=True), nn.Conv2d(middle, out_ch, 1, bias=False), _norm(out_ch))

    def forward(self, input):
        return self.layers(input) + input if self.apply_residual else self.layers(input)


def _stack(before, after, kernel_size, stride, expansion, count):
    return nn.Sequential(_InvertedResidual(before, after, kernel_size, stride, expansion), *(
        _InvertedResidual(after, after, kernel_size, 1, expansion) for _ in range(count - 1)))


class MNASNet(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes); alpha: how wide it is."""

    _version = 2

    def __init__(self, alpha, num_classes=1000, dropout=0.2):
        super().__init__()
        if alpha <= 0.0:
            raise ValueError(f"alpha should be greater than 0.0 instead of {alpha}")
        self.alpha, self.num_classes = alpha, num_classes
        widths = [divisible(depth * alpha) for depth in (32, 16, 24, 40, 80, 96, 192, 320)]
        stem, first = widths[:2]
        stacks = ((3, 2, 3, 3), (5, 2, 3, 3), (5, 2, 6, 3), (3, 1, 6, 2), (5, 2, 6, 4), (3, 1, 6, 1))
        self.layers = nn.Sequential(
            nn.Conv2d(3, stem, 3, padding=1, stride=2, bias=False), _norm(stem), nn.ReLU(inplace=True),
            nn.Conv2d(stem, stem, 3, padding=1, stride=1, groups=stem, bias=False), _norm(stem),
            nn.ReLU(inplace=True), nn.Conv2d(stem, first, 1, padding=0, stride=1, bias=False), _norm(first),
            *(_stack(before, after, *row) for before, after, row in zip(widths[1:], widths[2:], stacks)),
            nn.Conv2d(widths[-1], 1280, 1, padding=0, stride=1, bias=False), _norm(1280),
            nn.ReLU(inplace=True))
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(1280, num_classes))
        self._start()

    def _start(self):
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.BatchNorm2d):
                init.ones_(module.weight)
                init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                init.kaiming_uniform_(module.weight, mode="fan_out", nonlinearity="sigmoid")
                init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(self.layers(x).mean([2, 3]))


@builder("MNASNet0_5_Weights")
def mnasnet0_5(**options):
    """MNASNet, half as wide."""
    return MNASNet(0.5, **options)


@builder("MNASNet0_75_Weights")
def mnasnet0_75(**options):
    """MNASNet, three quarters as wide."""
    return MNASNet(0.75, **options)


@builder("MNASNet1_0_Weights")
def mnasnet1_0(**options):
    """MNASNet."""
    return MNASNet(1.0, **options)


@builder("MNASNet1_3_Weights")
def mnasnet1_3(**options):
    """MNASNet, 1.3 times as wide."""
    return MNASNet(1.3, **options)
