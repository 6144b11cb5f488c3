"""Feature maps of several scales, each with what the coarser ones know."""

from collections import OrderedDict

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.vision.ops.misc import Conv2dNormActivation


class FeaturePyramidNetwork(nn.Module):
    """An OrderedDict of maps (batch, in_channels[i], height_i, width_i), finest first, gets `out_channels`
    each.

    Source: Lin et al., "Feature Pyramid Networks for Object Detection" (2017), figure 3.
    """

    def __init__(self, in_channels_list, out_channels, extra_blocks=None, norm_layer=None):
        super().__init__()
        if 0 in in_channels_list:
            raise ValueError("in_channels=0 is currently not supported")

        def convolution(channels, size):
            return Conv2dNormActivation(channels, out_channels, size, padding=size // 2,
                                        norm_layer=norm_layer,
                                        activation_layer=None)
        self.inner_blocks = nn.ModuleList(convolution(channels, 1) for channels in in_channels_list)
        self.layer_blocks = nn.ModuleList(convolution(out_channels, 3) for _ in in_channels_list)
        self.extra_blocks = extra_blocks
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.constant_(module.bias, 0)

    def forward(self, x):
        names, maps = list(x.keys()), list(x.values())
        known = self.inner_blocks[-1](maps[-1])
        results = [self.layer_blocks[-1](known)]
        for index in range(len(maps) - 2, -1, -1):
            lateral = self.inner_blocks[index](maps[index])
            known = lateral + F.interpolate(known, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[index](known))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results))


class LastLevelMaxPool(nn.Module):
    """An extra block: every second pixel of the coarsest map as one more map 'pool'."""

    def forward(self, x, y, names):
        return [*x, F.max_pool2d(x[-1], kernel_size=1, stride=2, padding=0)], [*names, "pool"]
