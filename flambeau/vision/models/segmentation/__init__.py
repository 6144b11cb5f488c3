"""Models that label pixels."""

from flambeau.vision._lazy import lazy
from flambeau.vision.models import weights_of

BUILDERS = {"fcn": ("fcn_resnet50", "fcn_resnet101"),
            "deeplabv3": ("deeplabv3_resnet50", "deeplabv3_resnet101", "deeplabv3_mobilenet_v3_large"),
            "lraspp": ("lraspp_mobilenet_v3_large",)}
_CLASSES = {"fcn": ("FCN",), "deeplabv3": ("DeepLabV3",), "lraspp": ("LRASPP",)}

__getattr__, __dir__ = lazy(__name__, {module: (*_CLASSES[module], *builders, *weights_of(builders))
                                       for module, builders in BUILDERS.items()})
