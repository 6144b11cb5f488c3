"""Convolutions whose windows see one pixel, as products: of the weight and each image, (K, C) @ (C, pixels)."""

from math import prod

from flambeau.compiler.gemm_product import Product
from flambeau.types.dim import minimum

LEAST_PIXELS = 128      # of an image, below which columns are left over that compiler.conv_direct does not have


def suits(spec):
    """True for the convolutions that are such products, of operands as they lie in memory."""
    return spec.pointwise and spec.groups == 1 and spec.dtype is spec.accumulator


def launch(planner, which, inputs, out, image, outputs, epilogue):
    """Plan the product where images are large; returns 1 where they are, else 0. `which`: 'forward' or
    'backward_data'; inputs: row-major source, weight and perhaps bias; `image`: the input's shape; `outputs`: K."""
    source, weight, *bias = inputs
    batch, channels, pixels = image[0], image[1], prod(image[2:])
    taken = minimum(pixels // LEAST_PIXELS, 1)
    rows, depth, steps = outputs, channels, (channels, 1)
    if which == "backward_data":
        rows, depth, steps = channels, outputs, (1, channels)
    several = batch * taken
    x = weight.part((several, rows, depth), (0, *steps), weight.offset)
    y = source.part((several, depth, pixels), (depth * pixels, pixels, 1), source.offset)
    result = out.part((several, rows, pixels), (rows * pixels, pixels, 1), out.offset)
    Product(planner, x, y, bias[0] if bias else None, result, epilogue, bias_of_rows=True).launch()
    return taken
