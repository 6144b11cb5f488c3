"""Convolutions."""

import math

from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.linear import reset_bias
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import empty


class _Convolution(Module):
    """What the convolutions share: their sizes, their checks and the two parameters.

    A subclass gives `sizes`, which turns an int or a sequence into a tuple of its rank, and `forward`.
    """

    sizes = None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
                 bias=True, padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self.sizes(kernel_size)
        self.stride = self.sizes(stride)
        self.padding = padding if isinstance(padding, str) else self.sizes(padding)
        self.dilation = self.sizes(dilation)
        self.groups = groups
        self.padding_mode = padding_mode
        self._check()
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(self):
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {self.padding!r}, should be one of 'same', 'valid'")
            if self.padding == "same" and any(step != 1 for step in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError("padding_mode must be one of 'zeros', 'reflect', 'replicate', 'circular', "
                             f"but got padding_mode='{self.padding_mode}'")
        if self.padding_mode != "zeros":
            raise NotImplementedError(f"padding_mode='{self.padding_mode}' is not available yet; 'zeros' is")

    def reset_parameters(self):
        """Draw new starting values, uniform on +-1/sqrt(inputs of one output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        reset_bias(self.bias, self.weight)

    def extra_repr(self):
        rank = len(self.kernel_size)
        parts = [f"{self.in_channels}, {self.out_channels}",
                 f"kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * rank:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * rank:
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        return ", ".join(parts)


class Conv1d(_Convolution):
    """1-d convolution: (batch, in_channels, length) -> (batch, out_channels, length').

    `weight` is (out_channels, in_channels/groups, kernel).
    """

    sizes = staticmethod(F.single)

    def forward(self, input):
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Convolution):
    """2-d convolution: (batch, in_channels, height, width) -> (batch, out_channels, height', width').

    `weight` is (out_channels, in_channels/groups, kernel height, kernel width). `padding` is a size, a pair,
    'valid' (none) or 'same' (output as large as the input).

    Example::

        >>> nn.Conv2d(3, 8, 3, padding=1)(fl.randn(2, 3, 5, 5)).shape
        Size([2, 8, 5, 5])
    """

    sizes = staticmethod(F.pair)

    def forward(self, input):
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
