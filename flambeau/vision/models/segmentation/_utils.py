"""A backbone, a head for its last features, and the result in the size of the picture."""

from collections import OrderedDict

from flambeau import nn
from flambeau.nn import functional as F
from flambeau.vision.models import mobilenetv3, resnet
from flambeau.vision.models._utils import IntermediateLayerGetter


class _SimpleSegmentationModel(nn.Module):
    """(batch, 3, height, width) -> {'out': (batch, num_classes, height, width), 'aux': the same, if there is
    one}.
    """

    def __init__(self, backbone, classifier, aux_classifier=None):
        super().__init__()
        self.backbone, self.classifier, self.aux_classifier = backbone, classifier, aux_classifier

    def forward(self, x):
        size, features, results = x.shape[-2:], self.backbone(x), OrderedDict()
        for name, head in (("out", self.classifier), ("aux", self.aux_classifier)):
            if head is not None:
                results[name] = F.interpolate(head(features[name]), size=size, mode="bilinear",
                                              align_corners=False)
        return results


def resnet_backbone(build, weights, auxiliary):
    """The last stage ('out') and the one before ('aux'), dilated instead of strided."""
    model = build(weights=weights, replace_stride_with_dilation=[False, True, True])
    layers = {"layer4": "out", **({"layer3": "aux"} if auxiliary else {})}
    return IntermediateLayerGetter(model, layers)


def backbone_weights(enum_owner, weights, weights_backbone):
    """Which weights the backbone starts with: none if the whole model has its own."""
    return None if weights is not None else enum_owner.weights_enum.verify(weights_backbone)


def mobilenet_features(weights):
    """(features, numbers of the stages that halve the size, with the first and the last layer)."""
    features = mobilenetv3.mobilenet_v3_large(weights=weights, _dilated=True).features
    stages = [0, *(index for index, block in enumerate(features) if getattr(block, "_is_cn", False)),
              len(features) - 1]
    return features, stages


RESNETS = {"resnet50": resnet.resnet50, "resnet101": resnet.resnet101}
