"""LR-ASPP. Source: Howard et al., "Searching for MobileNetV3" (2019), section 6.4."""

from collections import OrderedDict

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.vision.models._api import builder
from flambeau.vision.models._utils import IntermediateLayerGetter
from flambeau.vision.models.mobilenetv3 import mobilenet_v3_large
from flambeau.vision.models.segmentation._utils import backbone_weights, mobilenet_features


class LRASPPHead(nn.Module):
    """Coarse features, scaled by what the whole picture says, plus fine ones."""

    def __init__(self, low_channels, high_channels, num_classes, inter_channels):
        super().__init__()
        self.cbr = nn.Sequential(nn.Conv2d(high_channels, inter_channels, 1, bias=False),
                                 nn.BatchNorm2d(inter_channels), nn.ReLU(inplace=True))
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1),
                                   nn.Conv2d(high_channels, inter_channels, 1, bias=False),
                                   nn.Sigmoid())
        self.low_classifier = nn.Conv2d(low_channels, num_classes, 1)
        self.high_classifier = nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, input):
        low, high = input["low"], input["high"]
        x = self.cbr(high) * self.scale(high)
        x = F.interpolate(x, size=low.shape[-2:], mode="bilinear", align_corners=False)
        return self.low_classifier(low) + self.high_classifier(x)


class LRASPP(nn.Module):
    """(batch, 3, height, width) -> {'out': (batch, num_classes, height, width)}."""

    def __init__(self, backbone, low_channels, high_channels, num_classes, inter_channels=128):
        super().__init__()
        self.backbone = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input):
        result = self.classifier(self.backbone(input))
        return OrderedDict(out=F.interpolate(result, size=input.shape[-2:], mode="bilinear",
                                             align_corners=False))


@builder("LRASPP_MobileNet_V3_Large_Weights", classes=21)
def lraspp_mobilenet_v3_large(weights=None, num_classes=21, weights_backbone="IMAGENET1K_V1", **options):
    """LR-ASPP on a large MobileNet v3."""
    features, stages = mobilenet_features(backbone_weights(mobilenet_v3_large, weights, weights_backbone))
    low, high = stages[-4], stages[-1]
    backbone = IntermediateLayerGetter(features, {str(low): "low", str(high): "high"})
    return LRASPP(backbone, features[low].out_channels, features[high].out_channels, num_classes, **options)
