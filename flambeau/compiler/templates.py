"""The templates that ops ask a planner for: products, convolutions, pooling, reads and adds by index."""

from flambeau.compiler import attention, attention_backward, compact, conv, conv_weight, depthwise, extreme, index_math as I, order, order_best, order_select, recurrent, scan, search
from flambeau.compiler.adaptive import adaptive_max_pool2d
from flambeau.compiler.band import Band, launch as band
from flambeau.compiler.conv import Convolution
from flambeau.compiler.gather import gather_elements, gather_rows, scatter_add_elements, scatter_add_rows
from flambeau.compiler.gemm_product import product
from flambeau.compiler.window import Pooling, avg_pool2d, avg_pool2d_backward, max_pool2d, max_pool2d_backward


# ---------------------------------------------------------------------------------- convolution
def convolution(planner, which, inputs, out, spec, image, filtered):
    """which: 'forward', 'backward_data' or 'backward_weight'; `image` and `filtered` have the shapes of input and output."""
    n, c, h, w = image
    _, k, oh, ow = filtered
    params = dict(zip(conv.PARAMS, (n, c, h, w, k, oh, ow)))
    inputs, work = [planner.dense(i) for i in inputs], 2 * n * k * oh * ow * spec.taps * (c // spec.groups)
    if depthwise.suits(spec, (out if which == "backward_weight" else inputs[1]).shape):
        return depthwise.launch(planner, which, inputs, out, spec, params, work)
    if which == "backward_weight":
        return conv_weight.launch(planner, inputs, out, spec, params, work)
    conv.launch(planner, which, inputs, out, spec, params, work)


__all__ = ["Band", "Convolution", "adaptive_max_pool2d", "band", "Pooling", "attention", "attention_backward", "avg_pool2d", "avg_pool2d_backward", "compact", "convolution", "extreme", "gather_elements", "gather_rows",
           "max_pool2d", "max_pool2d_backward",
           "order", "order_best", "order_select", "product", "recurrent", "scan", "scatter_add_elements", "scatter_add_rows", "search"]
