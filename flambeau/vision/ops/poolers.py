"""MultiScaleRoIAlign, under the path that torchvision has for it."""

from flambeau.vision.ops.regions import MultiScaleRoIAlign

__all__ = ["MultiScaleRoIAlign"]
