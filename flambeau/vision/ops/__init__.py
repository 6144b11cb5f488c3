"""Operations on boxes and regions, and layers that models of pictures share."""

from flambeau.vision._lazy import lazy

_MODULES = {
    "boxes": ("batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou",
              "distance_box_iou", "generalized_box_iou", "masks_to_boxes", "nms", "remove_small_boxes"),
    "box_losses": ("complete_box_iou_loss", "distance_box_iou_loss", "generalized_box_iou_loss"),
    "regions": ("MultiScaleRoIAlign", "RoIAlign", "RoIPool", "roi_align", "roi_pool"),
    "focal_loss": ("sigmoid_focal_loss",),
    "misc": ("Conv2dNormActivation", "Conv3dNormActivation", "FrozenBatchNorm2d", "MLP", "Permute",
             "SqueezeExcitation"),
    "drops": ("DropBlock2d", "DropBlock3d", "StochasticDepth", "drop_block2d", "drop_block3d",
              "stochastic_depth"),
    "feature_pyramid_network": ("FeaturePyramidNetwork",),
}
_REFUSED = dict.fromkeys(("deform_conv2d", "DeformConv2d", "ps_roi_align", "PSRoIAlign", "ps_roi_pool",
                          "PSRoIPool"))

__getattr__, __dir__ = lazy(__name__, _MODULES, ("poolers",), _REFUSED)
