"""Matrices, convolutions, windows as columns, and padding."""

from flambeau import ops
from flambeau.base.errors import ShapeError, fail
from flambeau.ops import convolution, padding

conv1d, conv2d, conv3d = convolution.conv1d, convolution.conv2d, convolution.conv3d
conv_transpose1d, conv_transpose2d = convolution.conv_transpose1d, convolution.conv_transpose2d
conv_transpose3d = convolution.conv_transpose3d
pad = padding.pad


def linear(input, weight, bias=None):
    """`input @ weight.T + bias`: (..., in), (out, in), (out) -> (..., out)."""
    return ops.linear(input, weight, bias)


def bilinear(input1, input2, weight, bias=None):
    """`input1 @ weight[k] @ input2 + bias[k]`: (..., in1), (..., in2), (out, in1, in2), (out) -> (..., out)."""
    outputs, first, second = weight.shape
    if input1.shape[-1] != first or input2.shape[-1] != second or input1.shape[:-1] != input2.shape[:-1]:
        fail("bilinear", "the inputs do not fit the weight", f"{tuple(input1.shape)}, {tuple(input2.shape)}",
             f"(..., {first}) and (..., {second})", kind=ShapeError)
    rows = input1.reshape(-1, first) @ weight.permute(1, 0, 2).reshape(first, outputs * second)
    rows = rows.reshape(-1, outputs, second) @ input2.reshape(-1, second, 1)
    out = rows.reshape(*input1.shape[:-1], outputs)
    return out if bias is None else out + bias


def conv_tbc(input, weight, bias, pad=0):
    """1-d convolution of (time, batch, in) with (kernel, in, out) -> (time', batch, out)."""
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Each window as a column: (batch, channels, h, w) -> (batch, channels * kernel, windows)."""
    return convolution.unfold_windows(input, kernel_size, dilation, padding, stride)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns added at their windows: (batch, channels * kernel, windows) -> (batch, channels, *output_size)."""
    return convolution.fold_windows(input, output_size, kernel_size, dilation, padding, stride)
