"""Matrices, convolutions, windows as columns, and padding."""

from flambeau.ops import convolution, matmul, padding, products

conv1d, conv2d, conv3d = convolution.conv1d, convolution.conv2d, convolution.conv3d
conv_transpose1d, conv_transpose2d = convolution.conv_transpose1d, convolution.conv_transpose2d
conv_transpose3d, conv_tbc = convolution.conv_transpose3d, convolution.conv_tbc
bilinear, pad, linear = products.bilinear, padding.pad, matmul.linear


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Each window as a column: (batch, channels, h, w) -> (batch, channels * kernel, windows)."""
    return convolution.unfold_windows(input, kernel_size, dilation, padding, stride)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns added at their windows: (batch, channels * kernel, windows) -> (batch, channels,
    *output_size)."""
    return convolution.fold_windows(input, output_size, kernel_size, dilation, padding, stride)
