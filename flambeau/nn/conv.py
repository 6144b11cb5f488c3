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

    A subclass gives `sizes`, which turns an int or a sequence into a tuple of its rank, and `function`.
    """

    sizes = function = None
    transposed = False

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
        self.transposed = type(self).transposed
        self._reversed_padding_repeated_twice = self._sides()
        self.output_padding = (0,) * len(self.kernel_size)
        self.weight = self._make_parameter(self._weight_shape(), device, dtype)
        if bias:
            self.bias = self._make_parameter((out_channels,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _make_parameter(self, shape, device, dtype):
        return Parameter(empty(shape, device=device, dtype=dtype))

    def _weight_shape(self):
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return first, second // self.groups, *self.kernel_size

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
        if self.output_padding != (0,) * rank:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


    def forward(self, input):
        """Convolve; paddings other than zeros are put around the input first."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input, weight, bias):
        """The same with other parameters, for layers that make theirs from `weight` in each call."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = 0
        return self.function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _sides(self):
        """The padding as `functional.pad` takes it."""
        if self.padding == "valid":
            return (0,) * (2 * len(self.kernel_size))
        sides = []
        for axis in reversed(range(len(self.kernel_size))):
            if self.padding == "same":
                whole = self.dilation[axis] * (self.kernel_size[axis] - 1)
                sides += [whole // 2, whole - whole // 2]
            else:
                sides += [self.padding[axis]] * 2
        return tuple(sides)


class Conv1d(_Convolution):
    """1-d convolution: (batch, in_channels, length) -> (batch, out_channels, length').

    `weight` is (out_channels, in_channels/groups, kernel).
    """

    sizes, function = staticmethod(F.single), staticmethod(F.conv1d)


class Conv2d(_Convolution):
    """2-d convolution: (batch, in_channels, height, width) -> (batch, out_channels, height', width').

    `weight` is (out_channels, in_channels/groups, kernel height, kernel width). `padding` is a size, a pair,
    'valid' (none) or 'same' (output as large as the input).

    Example::

        >>> nn.Conv2d(3, 8, 3, padding=1)(fl.randn(2, 3, 5, 5)).shape
        flambeau.Size([2, 8, 5, 5])
    """

    sizes, function = staticmethod(F.pair), staticmethod(F.conv2d)


class Conv3d(_Convolution):
    """3-d convolution: (batch, in_channels, d, h, w) -> (batch, out_channels, d', h', w').

    `weight` is (out_channels, in_channels/groups, *kernel_size).
    """

    sizes, function = staticmethod(F.triple), staticmethod(F.conv3d)


# ---------------------------------------------------------------------------------- transposed

class _TransposedConvolution(_Convolution):
    """What the transposed convolutions share. `weight` is (in_channels, out_channels/groups,
    *kernel_size)."""

    transposed = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0,
                 groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
                         padding_mode, device, dtype)
        self.output_padding = self.sizes(output_padding)

    def forward(self, input, output_size=None):
        """Convolve; `output_size` chooses among the sizes that have the same convolution."""
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size,
                                     len(self.kernel_size), self.dilation)
        return self.function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                             self.dilation)

    def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims,
                        dilation=None):
        """How much longer than the least the result is on each axis, for it to have `output_size`."""
        if output_size is None:
            return self.output_padding
        rank, sizes = num_spatial_dims, list(output_size)
        if len(sizes) == input.dim():
            sizes = sizes[-rank:]
        if len(sizes) != rank:
            raise ValueError(f"{type(self).__name__}: for {input.dim()}D input, output_size must have {rank} "
                             f"or {input.dim()} elements (got {len(sizes)})")
        extra = []
        for axis, wanted in enumerate(sizes):
            least = ((input.shape[axis - rank] - 1) * stride[axis] - 2 * padding[axis]
                     + (1 if dilation is None else dilation[axis]) * (kernel_size[axis] - 1) + 1)
            if not least <= wanted < least + stride[axis]:
                raise ValueError(f"requested an output size of {sizes}, but valid sizes of axis {axis} range "
                                 f"from {least} to {least + stride[axis] - 1} (for an input of "
                                 f"{input.shape[-rank:]})")
            extra.append(wanted - least)
        return tuple(extra)


class ConvTranspose1d(_TransposedConvolution):
    """The transpose of `Conv1d`: (batch, in_channels, length) -> (batch, out_channels, length')."""

    sizes, function = staticmethod(F.single), staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_TransposedConvolution):
    """The transpose of `Conv2d`: (batch, in_channels, h, w) -> (batch, out_channels, h', w')."""

    sizes, function = staticmethod(F.pair), staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_TransposedConvolution):
    """The transpose of `Conv3d`: (batch, in_channels, d, h, w) -> (batch, out_channels, d', h', w')."""

    sizes, function = staticmethod(F.triple), staticmethod(F.conv_transpose3d)
