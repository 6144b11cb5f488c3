"""ShuffleNet v2. Source: Ma et al. (2018)."""

from flambeau import nn
from flambeau.tensor import cat
from flambeau.vision.models._api import builder


def channel_shuffle(x, groups):
    """The channels of `groups` groups in turn."""
    batch, channels, height, width = x.shape
    return x.view(batch, groups, channels // groups, height, width).transpose(1, 2).reshape(x.shape)


class InvertedResidual(nn.Module):
    """Half of the channels go through (stride 1), the other half is filtered; then they are shuffled."""

    def __init__(self, inp, oup, stride):
        super().__init__()
        if not 1 <= stride <= 3:
            raise ValueError("illegal stride value")
        self.stride, half = stride, oup // 2
        if stride == 1 and inp != half * 2:
            raise ValueError(f"Invalid combination of stride {stride}, inp {inp} and oup {oup} values. If "
                             f"stride == 1 "
                             "then inp should be equal to oup // 2 << 1.")
        self.branch1 = nn.Sequential()
        if stride > 1:
            self.branch1 = nn.Sequential(*self._filter(inp, stride), *self._mix(inp, half))
        self.branch2 = nn.Sequential(*self._mix(inp if stride > 1 else half, half),
                                     *self._filter(half, stride),
                                     *self._mix(half, half))

    @staticmethod
    def _filter(channels, stride):
        return (nn.Conv2d(channels, channels, 3, stride, 1, bias=False, groups=channels),
                nn.BatchNorm2d(channels))

    @staticmethod
    def _mix(before, after):
        return (nn.Conv2d(before, after, kernel_size=1, stride=1, padding=0, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True))

    def forward(self, x):
        if self.stride == 1:
            through, filtered = x.chunk(2, dim=1)
        else:
            through, filtered = self.branch1(x), x
        return channel_shuffle(cat([through, self.branch2(filtered)], 1), 2)


class ShuffleNetV2(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes)."""

    def __init__(self, stages_repeats, stages_out_channels, num_classes=1000,
                 inverted_residual=InvertedResidual):
        super().__init__()
        if len(stages_repeats) != 3:
            raise ValueError("expected stages_repeats as list of 3 positive ints")
        if len(stages_out_channels) != 5:
            raise ValueError("expected stages_out_channels as list of 5 positive ints")
        self._stage_out_channels = stages_out_channels
        width = stages_out_channels[0]
        self.conv1 = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width),
                                   nn.ReLU(inplace=True))
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        for index, (count, out) in enumerate(zip(stages_repeats, stages_out_channels[1:]), 2):
            setattr(self, f"stage{index}", nn.Sequential(inverted_residual(width, out, 2), *(
                inverted_residual(out, out, 1) for _ in range(count - 1))))
            width = out
        last = stages_out_channels[-1]
        self.conv5 = nn.Sequential(nn.Conv2d(width, last, 1, 1, 0, bias=False), nn.BatchNorm2d(last),
                                   nn.ReLU(inplace=True))
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x):
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean([2, 3]))


@builder("ShuffleNet_V2_X0_5_Weights")
def shufflenet_v2_x0_5(**options):
    """ShuffleNet v2, half as wide."""
    return ShuffleNetV2([4, 8, 4], [24, 48, 96, 192, 1024], **options)


@builder("ShuffleNet_V2_X1_0_Weights")
def shufflenet_v2_x1_0(**options):
    """ShuffleNet v2."""
    return ShuffleNetV2([4, 8, 4], [24, 116, 232, 464, 1024], **options)


@builder("ShuffleNet_V2_X1_5_Weights")
def shufflenet_v2_x1_5(**options):
    """ShuffleNet v2, 1.5 times as wide."""
    return ShuffleNetV2([4, 8, 4], [24, 176, 352, 704, 1024], **options)


@builder("ShuffleNet_V2_X2_0_Weights")
def shufflenet_v2_x2_0(**options):
    """ShuffleNet v2, twice as wide."""
    return ShuffleNetV2([4, 8, 4], [24, 244, 488, 976, 2048], **options)
