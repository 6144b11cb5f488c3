"""Pooling over windows."""

from flambeau.nn import functional as F
from flambeau.nn.module import Module


class MaxPool2d(Module):
    """Maximum over windows: (batch, channels, height, width) -> (batch, channels, height', width').

    Args:
        kernel_size: window, an int or (height, width).
        stride: step of the window (default: the window itself).
        padding: border of minus infinity on each side.
        dilation: step within the window.
        ceil_mode: whether a window may hang over the far border.
    """

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False,
                 ceil_mode=False):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            self.ceil_mode, self.return_indices)

    def extra_repr(self):
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")
