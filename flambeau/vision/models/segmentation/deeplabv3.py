"""DeepLab v3. Source: Chen et al., "Rethinking Atrous Convolution for Semantic Image Segmentation" (2017)."""

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.tensor import cat
from flambeau.vision.models._api import builder
from flambeau.vision.models._utils import IntermediateLayerGetter
from flambeau.vision.models.mobilenetv3 import mobilenet_v3_large
from flambeau.vision.models.segmentation._utils import (RESNETS, _SimpleSegmentationModel, backbone_weights,
                                                        mobilenet_features, resnet_backbone)
from flambeau.vision.models.segmentation.fcn import FCNHead


class DeepLabV3(_SimpleSegmentationModel):
    """A backbone and a head of dilated convolutions side by side."""


class ASPPConv(nn.Sequential):
    def __init__(self, in_channels, out_channels, dilation):
        super().__init__(nn.Conv2d(in_channels, out_channels, 3, padding=dilation, dilation=dilation,
                                   bias=False),
                         nn.BatchNorm2d(out_channels), nn.ReLU())


class ASPPPooling(nn.Sequential):
    """The mean of all pixels, everywhere."""

    def __init__(self, in_channels, out_channels):
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Conv2d(in_channels, out_channels, 1, bias=False),
                         nn.BatchNorm2d(out_channels), nn.ReLU())

    def forward(self, x):
        size = x.shape[-2:]
        return F.interpolate(super().forward(x), size=size, mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    """Convolutions of several dilations and the mean, side by side, then mixed."""

    def __init__(self, in_channels, atrous_rates, out_channels=256):
        super().__init__()
        first = nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, bias=False),
                              nn.BatchNorm2d(out_channels),
                              nn.ReLU())
        self.convs = nn.ModuleList([first, *(ASPPConv(in_channels, out_channels, rate)
                                             for rate in atrous_rates),
                                    ASPPPooling(in_channels, out_channels)])
        self.project = nn.Sequential(nn.Conv2d(len(self.convs) * out_channels, out_channels, 1, bias=False),
                                     nn.BatchNorm2d(out_channels), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, x):
        return self.project(cat([branch(x) for branch in self.convs], 1))


class DeepLabHead(nn.Sequential):
    def __init__(self, in_channels, num_classes, atrous_rates=(12, 24, 36)):
        super().__init__(ASPP(in_channels, atrous_rates), nn.Conv2d(256, 256, 3, padding=1, bias=False),
                         nn.BatchNorm2d(256), nn.ReLU(), nn.Conv2d(256, num_classes, 1))


def _deeplab(name, weights, weights_backbone, num_classes, aux_loss, options):
    auxiliary = weights is not None if aux_loss is None else aux_loss
    start = backbone_weights(RESNETS[name], weights, weights_backbone)
    backbone = resnet_backbone(RESNETS[name], start, auxiliary)
    helper = FCNHead(1024, num_classes) if auxiliary else None
    return DeepLabV3(backbone, DeepLabHead(2048, num_classes), helper, **options)


@builder("DeepLabV3_ResNet50_Weights", classes=21, fixed={"aux_loss": True})
def deeplabv3_resnet50(weights=None, weights_backbone="IMAGENET1K_V1", num_classes=21, aux_loss=None,
                       **options):
    """DeepLab v3 on a ResNet of 50 layers; weights_backbone=None starts that one, too, at random."""
    return _deeplab("resnet50", weights, weights_backbone, num_classes, aux_loss, options)


@builder("DeepLabV3_ResNet101_Weights", classes=21, fixed={"aux_loss": True})
def deeplabv3_resnet101(weights=None, weights_backbone="IMAGENET1K_V1", num_classes=21, aux_loss=None,
                        **options):
    """DeepLab v3 on a ResNet of 101 layers; weights_backbone=None starts that one, too, at random."""
    return _deeplab("resnet101", weights, weights_backbone, num_classes, aux_loss, options)


@builder("DeepLabV3_MobileNet_V3_Large_Weights", classes=21, fixed={"aux_loss": True})
def deeplabv3_mobilenet_v3_large(weights=None, weights_backbone="IMAGENET1K_V1", num_classes=21,
                                 aux_loss=None,
                                 **options):
    """DeepLab v3 on a large MobileNet v3."""
    auxiliary = weights is not None if aux_loss is None else aux_loss
    features, stages = mobilenet_features(backbone_weights(mobilenet_v3_large, weights, weights_backbone))
    out, aux = stages[-1], stages[-4]
    layers = {str(out): "out", **({str(aux): "aux"} if auxiliary else {})}
    helper = FCNHead(features[aux].out_channels, num_classes) if auxiliary else None
    return DeepLabV3(IntermediateLayerGetter(features, layers),
                     DeepLabHead(features[out].out_channels, num_classes), helper, **options)
