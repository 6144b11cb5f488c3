"""MobileNets of both versions, under the path that torchvision has for them."""

from flambeau.vision.models.mobilenetv2 import MobileNetV2, mobilenet_v2
from flambeau.vision.models.mobilenetv3 import MobileNetV3, mobilenet_v3_large, mobilenet_v3_small

__all__ = ["MobileNetV2", "MobileNetV3", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"]
