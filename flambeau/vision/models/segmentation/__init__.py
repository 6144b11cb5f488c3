"""Models that label pixels."""

import sys as _sys

from flambeau.vision import _lazy
from flambeau.vision.models import _weights

BUILDERS = {"fcn": ("fcn_resnet50", "fcn_resnet101"),
            "deeplabv3": ("deeplabv3_resnet50", "deeplabv3_resnet101", "deeplabv3_mobilenet_v3_large"),
            "lraspp": ("lraspp_mobilenet_v3_large",)}
_CLASSES = {"fcn": ("FCN",), "deeplabv3": ("DeepLabV3",), "lraspp": ("LRASPP",)}

_MODULES = {module: (*_CLASSES[module], *builders, *_weights.enums_of(builders))
            for module, builders in BUILDERS.items()}

__getattr__, __dir__ = _lazy.lazy(__name__, _MODULES)
_sys.modules[__name__].__class__ = _lazy.Listed
