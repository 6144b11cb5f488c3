"""Models of pictures, with the names of torchvision's parameters, so that its files of weights fit."""

import sys as _sys

from flambeau.vision import _lazy
from flambeau.vision.models import _weights

# Builders by module.
BUILDERS = {
    "alexnet": ("alexnet",),
    "convnext": ("convnext_tiny", "convnext_small", "convnext_base", "convnext_large"),
    "densenet": ("densenet121", "densenet161", "densenet169", "densenet201"),
    "efficientnet": (*(f"efficientnet_b{size}" for size in range(8)), "efficientnet_v2_s",
                     "efficientnet_v2_m",
                     "efficientnet_v2_l"),
    "googlenet": ("googlenet",),
    "inception": ("inception_v3",),
    "mnasnet": ("mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3"),
    "mobilenetv2": ("mobilenet_v2",),
    "mobilenetv3": ("mobilenet_v3_large", "mobilenet_v3_small"),
    "regnet": ("regnet_y_400mf", "regnet_y_800mf", "regnet_y_1_6gf", "regnet_y_3_2gf", "regnet_y_8gf",
               "regnet_y_16gf", "regnet_y_32gf", "regnet_y_128gf", "regnet_x_400mf", "regnet_x_800mf",
               "regnet_x_1_6gf", "regnet_x_3_2gf", "regnet_x_8gf", "regnet_x_16gf", "regnet_x_32gf"),
    "resnet": ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
               "resnext101_32x8d",
               "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2"),
    "shufflenetv2": ("shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0"),
    "squeezenet": ("squeezenet1_0", "squeezenet1_1"),
    "swin_transformer": ("swin_t", "swin_s", "swin_b"),
    "vgg": ("vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"),
    "vision_transformer": ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "vit_h_14"),
}
_CLASSES = {
    "alexnet": ("AlexNet",), "convnext": ("ConvNeXt",), "densenet": ("DenseNet",),
    "efficientnet": ("EfficientNet",),
    "googlenet": ("GoogLeNet", "GoogLeNetOutputs"), "inception": ("Inception3", "InceptionOutputs"),
    "mnasnet": ("MNASNet",), "mobilenetv2": ("MobileNetV2",), "mobilenetv3": ("MobileNetV3",),
    "regnet": ("RegNet",), "resnet": ("ResNet",), "shufflenetv2": ("ShuffleNetV2",),
    "squeezenet": ("SqueezeNet",),
    "swin_transformer": ("SwinTransformer",), "vgg": ("VGG",), "vision_transformer": ("VisionTransformer",),
    "_api": ("Weights", "WeightsEnum", "get_model", "get_model_builder", "get_model_weights", "get_weight",
             "list_models"),
}
_REFUSED = {"detection": "models of boxes are not there; flambeau.vision.ops has their parts (nms, "
                         "roi_align, ...)",
            "feature_extraction": "it needs torch.fx", "quantization": "quantized models are not there",
            "video": "models of videos are not there", "optical_flow": "models of motion are not there",
            "maxvit_t": "this model is not there", "swin_v2_t": "this model is not there"}

_MODULES = {module: (*_CLASSES.get(module, ()), *BUILDERS.get(module, ()),
                     *_weights.enums_of(BUILDERS.get(module, ())))
            for module in (*BUILDERS, "_api")}

__getattr__, __dir__ = _lazy.lazy(__name__, _MODULES, ("mobilenet", "segmentation"), _REFUSED)
_sys.modules[__name__].__class__ = _lazy.Listed
