"""The templates that ops ask a planner for: products, convolutions, pooling, reads and adds by index."""

from flambeau.compiler import attention_launch as attention
from flambeau.compiler import alignment, compact, conv, conv_weight, depthwise, extreme, grid, order, order_best, order_select, recurrent, scan, search
from flambeau.compiler.adaptive import adaptive_max_pool2d
from flambeau.compiler.band import Band, launch as band
from flambeau.compiler.conv import Convolution
from flambeau.compiler.gather import gather_elements, gather_rows, scatter_add_elements, scatter_add_rows
from flambeau.compiler.gemm_product import product
from flambeau.compiler.pixels import pixel_rows
from flambeau.compiler.sparse_rows import sparse_rows
from flambeau.compiler.window import (Pooling, avg_pool2d, avg_pool2d_backward, max_pool2d, max_pool2d_backward,
                                      max_pool2d_values)


# ---------------------------------------------------------------------------------- convolution
def convolution(planner, which, inputs, out, spec, image, filtered):
    """which: 'forward', 'backward_data' or 'backward_weight'; `image` and `filtered` have the shapes of input and output."""
    inputs = [planner.dense(i) for i in inputs]
    if len(image) == 5:
        return conv.launch(planner, which, inputs, out, spec, image, filtered)
    n, c, h, w = image
    _, k, oh, ow = filtered
    params = dict(zip(conv.PARAMS, (n, c, h, w, k, oh, ow)))
    work = 2 * n * k * oh * ow * spec.taps * (c // spec.groups)
    if depthwise.suits(spec, (out if which == "backward_weight" else inputs[1]).shape):
        return depthwise.launch(planner, which, inputs, out, spec, params, work)
    if which == "backward_weight":
        return conv_weight.launch(planner, inputs, out, spec, params, work)
    conv.launch(planner, which, inputs, out, spec, image, filtered)


__all__ = ["Band", "Convolution", "adaptive_max_pool2d", "band", "Pooling", "alignment", "attention", "avg_pool2d", "avg_pool2d_backward", "compact", "convolution", "extreme", "gather_elements", "gather_rows", "grid",
           "max_pool2d", "max_pool2d_backward", "max_pool2d_values", "pixel_rows",
           "order", "order_best", "order_select", "product", "recurrent", "scan", "scatter_add_elements", "scatter_add_rows", "search",
           "sparse_rows"]
