"""Pooling over windows of the last 1, 2 or 3 axes: (batch, channels, *sizes) -> (batch, channels,
*sizes')."""

from flambeau.nn import functional as F
from flambeau.nn.functional.sizes import tuple_of
from flambeau.nn.module import Module


class _MaxPool(Module):
    """Maximum over windows.

    Args:
        kernel_size: window, an int or a size for each axis.
        stride: step of the window (default: the window itself).
        padding: border of minus infinity on each side.
        dilation: step within the window.
        return_indices: whether the places of the maxima are returned too.
        ceil_mode: whether a window may hang over the far border.
    """

    function = None

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
        return self.function(input, self.kernel_size, self.stride, self.padding, self.dilation,
                             self.ceil_mode, self.return_indices)

    def extra_repr(self):
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")


class MaxPool1d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    __doc__ = _MaxPool.__doc__
    function = staticmethod(F.max_pool3d)


class _MaxUnpool(Module):
    """The values back at the places of the maxima that a max pooling returned, zeros elsewhere."""

    function, rank = None, 0

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size = tuple_of(kernel_size, self.rank)
        self.stride = tuple_of(kernel_size if stride is None else stride, self.rank)
        self.padding = tuple_of(padding, self.rank)

    def forward(self, input, indices, output_size=None):
        return self.function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    function, rank = staticmethod(F.max_unpool1d), 1


class MaxUnpool2d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    function, rank = staticmethod(F.max_unpool2d), 2


class MaxUnpool3d(_MaxUnpool):
    __doc__ = _MaxUnpool.__doc__
    function, rank = staticmethod(F.max_unpool3d), 3


class AvgPool1d(Module):
    """Mean over windows of the last axis; `count_include_pad` says whether padding counts as elements."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        self.kernel_size = F.single(kernel_size)
        self.stride = F.single(kernel_size if stride is None else stride)
        self.padding = F.single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input):
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """Mean over windows of the last 2 axes; `divisor_override` divides the sums instead of the count."""

    function = staticmethod(F.avg_pool2d)

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                 divisor_override=None):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        return self.function(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                             self.count_include_pad, self.divisor_override)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool3d(AvgPool2d):
    """Mean over windows of the last 3 axes; `divisor_override` divides the sums instead of the count."""

    function = staticmethod(F.avg_pool3d)


class _LPPool(Module):
    """The p-norm of each window."""

    function = None

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return self.function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self):
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"ceil_mode={self.ceil_mode}")


class LPPool1d(_LPPool):
    __doc__ = _LPPool.__doc__
    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    __doc__ = _LPPool.__doc__
    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    __doc__ = _LPPool.__doc__
    function = staticmethod(F.lp_pool3d)


class _AdaptiveMaxPool(Module):
    """Maxima of `output_size` windows that cover the input evenly; None keeps a size."""

    function = None

    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input):
        return self.function(input, self.output_size, self.return_indices)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    __doc__ = _AdaptiveMaxPool.__doc__
    function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPool(Module):
    """Means of `output_size` windows that cover the input evenly; None keeps a size."""

    function = None

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, input):
        return self.function(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    __doc__ = _AdaptiveAvgPool.__doc__
    function = staticmethod(F.adaptive_avg_pool3d)


class _FractionalMaxPool(Module):
    """Maxima of windows at random about even places; `output_size` or `output_ratio` (0 to 1) says how
    many."""

    function, rank = None, 0

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                 _random_samples=None):
        super().__init__()
        self.kernel_size = tuple_of(kernel_size, self.rank)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else tuple_of(output_size, self.rank)
        ratios = (output_ratio,) * self.rank if isinstance(output_ratio, float) else output_ratio
        self.output_ratio = ratios
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if ratios is not None and not all(0 < ratio < 1 for ratio in ratios):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input):
        return self.function(input, self.kernel_size, self.output_size, self.output_ratio,
                             self.return_indices, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    __doc__ = _FractionalMaxPool.__doc__
    function, rank = staticmethod(F.fractional_max_pool2d), 2


class FractionalMaxPool3d(_FractionalMaxPool):
    __doc__ = _FractionalMaxPool.__doc__
    function, rank = staticmethod(F.fractional_max_pool3d), 3
