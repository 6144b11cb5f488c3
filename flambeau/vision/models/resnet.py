"""ResNet, ResNeXt and wide ResNet.

Sources: He et al., "Deep Residual Learning" (2015), with the stride in the 3 x 3 convolution; Xie et al.,
"Aggregated Residual Transformations" (2016); Zagoruyko and Komodakis, "Wide Residual Networks" (2016).
"""

from flambeau import nn
from flambeau.nn import init
from flambeau.vision.models._api import builder
from flambeau.vision.models._utils import start_convolutions


def conv3x3(in_planes, out_planes, stride=1, groups=1, dilation=1):
    """3 x 3 convolution that keeps the size (but for the stride)."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=dilation, groups=groups,
                     bias=False,
                     dilation=dilation)


def conv1x1(in_planes, out_planes, stride=1):
    return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1,
                 norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1, self.bn1 = conv3x3(inplanes, planes, stride), norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv3x3(planes, planes), norm_layer(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x += shortcut
        return self.relu(x)


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions beside a shortcut."""

    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, dilation=1,
                 norm_layer=None):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1, self.bn1 = conv1x1(inplanes, width), norm_layer(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride, groups, dilation), norm_layer(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        x += shortcut
        return self.relu(x)


class ResNet(nn.Module):
    """(batch, 3, height, width) -> (batch, num_classes).

    layers: blocks of each of the four stages. replace_stride_with_dilation: for the last three stages,
    dilation in place of the stride.
    """

    def __init__(self, block, layers, num_classes=1000, zero_init_residual=False, groups=1,
                 width_per_group=64,
                 replace_stride_with_dilation=None, norm_layer=None):
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation = 64, 1
        self.groups, self.base_width = groups, width_per_group
        dilate = replace_stride_with_dilation or [False] * 3
        if len(dilate) != 3:
            raise ValueError("replace_stride_with_dilation should be None or a 3-element tuple, got "
                             f"{replace_stride_with_dilation}")
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1, self.relu = self._norm_layer(self.inplanes), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        start_convolutions(self, convolution_bias=False)
        if zero_init_residual:
            self._start_blocks_as_identity()

    def _start_blocks_as_identity(self):
        for module in self.modules():
            last = getattr(module, "bn3" if isinstance(module, Bottleneck) else "bn2", None)
            if isinstance(module, (BasicBlock, Bottleneck)) and last.weight is not None:
                init.zeros_(last.weight)

    def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
        before = self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        out, downsample = planes * block.expansion, None
        if stride != 1 or self.inplanes != out:
            downsample = nn.Sequential(conv1x1(self.inplanes, out, stride), self._norm_layer(out))
        shared = self.groups, self.base_width
        first = block(self.inplanes, planes, stride, downsample, *shared, before, self._norm_layer)
        self.inplanes = out
        return nn.Sequential(first, *(block(out, planes, 1, None, *shared, self.dilation, self._norm_layer)
                                      for _ in range(1, blocks)))

    def _forward_impl(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))

    def forward(self, x):
        return self._forward_impl(x)


@builder("ResNet18_Weights")
def resnet18(**options):
    """ResNet of 18 layers."""
    return ResNet(BasicBlock, [2, 2, 2, 2], **options)


@builder("ResNet34_Weights")
def resnet34(**options):
    """ResNet of 34 layers."""
    return ResNet(BasicBlock, [3, 4, 6, 3], **options)


@builder("ResNet50_Weights")
def resnet50(**options):
    """ResNet of 50 layers."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **options)


@builder("ResNet101_Weights")
def resnet101(**options):
    """ResNet of 101 layers."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **options)


@builder("ResNet152_Weights")
def resnet152(**options):
    """ResNet of 152 layers."""
    return ResNet(Bottleneck, [3, 8, 36, 3], **options)


@builder("ResNeXt50_32X4D_Weights")
def resnext50_32x4d(**options):
    """ResNeXt of 50 layers with 32 groups of 4 channels."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **{**options, "groups": 32, "width_per_group": 4})


@builder("ResNeXt101_32X8D_Weights")
def resnext101_32x8d(**options):
    """ResNeXt of 101 layers with 32 groups of 8 channels."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **{**options, "groups": 32, "width_per_group": 8})


@builder("ResNeXt101_64X4D_Weights")
def resnext101_64x4d(**options):
    """ResNeXt of 101 layers with 64 groups of 4 channels."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **{**options, "groups": 64, "width_per_group": 4})


@builder("Wide_ResNet50_2_Weights")
def wide_resnet50_2(**options):
    """ResNet of 50 layers, twice as wide in its 3 x 3 convolutions."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **{**options, "width_per_group": 128})


@builder("Wide_ResNet101_2_Weights")
def wide_resnet101_2(**options):
    """ResNet of 101 layers, twice as wide in its 3 x 3 convolutions."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **{**options, "width_per_group": 128})
