"""FCN. Source: Long et al., "Fully Convolutional Networks for Semantic Segmentation" (2014)."""

from flambeau import nn
from flambeau.vision.models._api import builder
from flambeau.vision.models.segmentation._utils import (RESNETS, _SimpleSegmentationModel, backbone_weights,
                                                        resnet_backbone)


class FCN(_SimpleSegmentationModel):
    """A ResNet and a head of two convolutions."""


class FCNHead(nn.Sequential):
    def __init__(self, in_channels, channels):
        inner = in_channels // 4
        super().__init__(nn.Conv2d(in_channels, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner),
                         nn.ReLU(),
                         nn.Dropout(0.1), nn.Conv2d(inner, channels, 1))


def _fcn(name, weights, weights_backbone, num_classes, aux_loss, options):
    auxiliary = weights is not None if aux_loss is None else aux_loss
    start = backbone_weights(RESNETS[name], weights, weights_backbone)
    backbone = resnet_backbone(RESNETS[name], start, auxiliary)
    helper = FCNHead(1024, num_classes) if auxiliary else None
    return FCN(backbone, FCNHead(2048, num_classes), helper, **options)


@builder("FCN_ResNet50_Weights", classes=21, fixed={"aux_loss": True})
def fcn_resnet50(weights=None, weights_backbone="IMAGENET1K_V1", num_classes=21, aux_loss=None, **options):
    """FCN on a ResNet of 50 layers; weights_backbone=None starts that one, too, at random."""
    return _fcn("resnet50", weights, weights_backbone, num_classes, aux_loss, options)


@builder("FCN_ResNet101_Weights", classes=21, fixed={"aux_loss": True})
def fcn_resnet101(weights=None, weights_backbone="IMAGENET1K_V1", num_classes=21, aux_loss=None, **options):
    """FCN on a ResNet of 101 layers; weights_backbone=None starts that one, too, at random."""
    return _fcn("resnet101", weights, weights_backbone, num_classes, aux_loss, options)
