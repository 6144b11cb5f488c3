"""The templates that ops ask a planner for: products, convolutions, pooling, reads and adds by index."""

from flambeau.compiler import conv, extreme, index_math as I, order, scan
from flambeau.compiler.conv import Convolution
from flambeau.compiler.gather import gather_elements, gather_rows, scatter_add_elements, scatter_add_rows
from flambeau.compiler.gemm import gemm_kernel, matrix_load
from flambeau.compiler.recipe import Located
from flambeau.compiler.window import Pooling, avg_pool2d, avg_pool2d_backward, max_pool2d, max_pool2d_backward
from flambeau.ir.loops import Buffer, splat
from flambeau.ops.matmul import accumulator


def product(planner, x, y, bias, out, transposed=False):
    """out[batch, m, n] = sum over k of x[batch, m, k] * y[batch, k, n] (y[n, k] where transposed) + bias[n]."""
    batched = len(x.shape) == 3
    bias = None if bias is None else planner.dense(bias)
    if transposed:
        y = Located(y.place, y.dtype, (y.shape[1], y.shape[0]), (y.strides[1], y.strides[0]), y.offset)
    sizes = {"batch": x.shape[0] if batched else 1, "M": x.shape[-2], "N": y.shape[-1], "K": x.shape[-1]}
    params, steps = dict(sizes), {}
    for name, located in (("x", x), ("y", y)):
        for axis, stride in zip(("batch", "row", "column"), located.strides if batched else (0, *located.strides)):
            key = f"{name}_{axis}"
            steps[key] = stride if isinstance(stride, int) else I.index(key)
            if not isinstance(stride, int):
                params[key] = stride
    unit_a = "m" if x.strides[-2] == 1 and x.strides[-1] != 1 else "k"
    unit_b = "k" if y.strides[-2] == 1 and y.strides[-1] != 1 else "n"
    total = accumulator(out.dtype)
    x_buffer, y_buffer = Buffer("x", x.dtype, "r"), Buffer("y", y.dtype, "r")
    buffers = (x_buffer, y_buffer) + ((Buffer("bias", bias.dtype, "r"),) if bias is not None else ())
    buffers += (Buffer("out", out.dtype, "w"),)

    def load(buffer, name):
        return matrix_load(buffer, steps[f"{name}_batch"], (steps[f"{name}_row"], steps[f"{name}_column"]), dtype=total)

    def store(b, batch, m, n, value, lanes, mask):
        if bias is not None:
            other = None if mask is None else b.const(0.0, bias.dtype, lanes)
            value = b.add(value, splat(b.cast(b.load("bias", n, bias.dtype, lanes, mask, other), total), lanes))
        row = I.add(I.mul(batch, I.mul(I.index("M"), I.index("N"))), I.mul(m, I.index("N")))
        b.store("out", I.add(row, n), b.cast(value, out.dtype), mask)

    kernel = gemm_kernel("matmul", buffers, tuple(params), load(x_buffer, "x"), load(y_buffer, "y"), store, total,
                         unit_a=unit_a, unit_b=unit_b, vector_a=x.strides[-1 if unit_a == "k" else -2] == 1,
                         vector_b=y.strides[-1] == 1)
    work = 2 * sizes["batch"] * sizes["M"] * sizes["N"] * sizes["K"]
    operands = [x, y] + ([bias] if bias is not None else []) + [out]
    planner.launch_template(kernel, operands, params, work)


# ---------------------------------------------------------------------------------- convolution
def convolution(planner, which, inputs, out, spec, image, filtered):
    """which: 'forward', 'backward_data' or 'backward_weight'; `image` and `filtered` have the shapes of input and output."""
    kernel = {"forward": conv.conv2d_forward, "backward_data": conv.conv2d_backward_data,
              "backward_weight": conv.conv2d_backward_weight}[which](spec)
    n, c, h, w = image
    _, k, oh, ow = filtered
    params = dict(zip(conv.PARAMS, (n, c, h, w, k, oh, ow)))
    work = 2 * n * k * oh * ow * spec.taps * (c // spec.groups if isinstance(c, int) else c)
    planner.launch_template(kernel, [planner.dense(i) for i in inputs] + [out], params, work)


__all__ = ["Convolution", "Pooling", "avg_pool2d", "avg_pool2d_backward", "convolution", "extreme", "gather_elements", "gather_rows",
           "max_pool2d", "max_pool2d_backward",
           "order", "product", "scan", "scatter_add_elements", "scatter_add_rows"]
