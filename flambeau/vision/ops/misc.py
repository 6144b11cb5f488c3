"""Layers that many models share."""

from flambeau import nn
from flambeau.tensor import ones, zeros

__all__ = ["Conv2dNormActivation", "Conv3dNormActivation", "FrozenBatchNorm2d", "MLP", "Permute",
           "SqueezeExcitation"]


class FrozenBatchNorm2d(nn.Module):
    """BatchNorm2d whose statistics and weights never change: buffers, no parameters."""

    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps
        for name, start in (("weight", ones), ("bias", zeros), ("running_mean", zeros),
                            ("running_var", ones)):
            self.register_buffer(name, start(num_features))

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        state_dict.pop(prefix + "num_batches_tracked", None)       # files of BatchNorm2d have it
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x):
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        bias = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)

    def __repr__(self):
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


def same_padding(kernel_size, dilation, axes):
    """The padding that keeps the size at stride 1: an int, or a tuple if sizes differ by axis."""
    if isinstance(kernel_size, int) and isinstance(dilation, int):
        return (kernel_size - 1) // 2 * dilation
    sizes = kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size,) * axes
    steps = dilation if isinstance(dilation, (tuple, list)) else (dilation,) * axes
    return tuple((size - 1) // 2 * step for size, step in zip(sizes, steps))


class _ConvNormActivation(nn.Sequential):
    """Convolution, normalization and activation; the last two can be None."""

    convolution, axes = nn.Conv2d, 2

    def __init__(self, in_channels, out_channels, kernel_size=3, stride=1, padding=None, groups=1,
                 norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU, dilation=1, inplace=True, bias=None):
        if padding is None:
            padding = same_padding(kernel_size, dilation, self.axes)
        layers = [self.convolution(in_channels, out_channels, kernel_size, stride, padding, dilation=dilation,
                                   groups=groups, bias=norm_layer is None if bias is None else bias)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels


class Conv2dNormActivation(_ConvNormActivation):
    """Conv2d, normalization, activation; padding None keeps the size at stride 1.

    >>> Conv2dNormActivation(3, 8, stride=2)
    Conv2dNormActivation(
      (0): Conv2d(3, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False)
      (1): BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
      (2): ReLU(inplace=True)
    )
    """


class Conv3dNormActivation(_ConvNormActivation):
    """Conv3d, normalization, activation; padding None keeps the size at stride 1."""

    convolution, axes = nn.Conv3d, 3

    def __init__(self, in_channels, out_channels, kernel_size=3, stride=1, padding=None, groups=1,
                 norm_layer=nn.BatchNorm3d, activation_layer=nn.ReLU, dilation=1, inplace=True, bias=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer,
                         activation_layer, dilation, inplace, bias)


class SqueezeExcitation(nn.Module):
    """Scales each channel by a factor computed from the means of all. Source: Hu et al. 2018, figures 1 and
    3.
    """

    def __init__(self, input_channels, squeeze_channels, activation=nn.ReLU, scale_activation=nn.Sigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def _scale(self, input):
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))

    def forward(self, input):
        return self._scale(input) * input


class MLP(nn.Sequential):
    """Linear layers with (norm,) activation and dropout between; after the last only dropout."""

    def __init__(self, in_channels, hidden_channels, norm_layer=None, activation_layer=nn.ReLU, inplace=None,
                 bias=True, dropout=0.0):
        options = {} if inplace is None else {"inplace": inplace}
        layers, width = [], in_channels
        for hidden in hidden_channels[:-1]:
            layers.append(nn.Linear(width, hidden, bias=bias))
            if norm_layer is not None:
                layers.append(norm_layer(hidden))
            layers += [activation_layer(**options), nn.Dropout(dropout, **options)]
            width = hidden
        layers += [nn.Linear(width, hidden_channels[-1], bias=bias), nn.Dropout(dropout, **options)]
        super().__init__(*layers)


class Permute(nn.Module):
    """The axes in another order."""

    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.permute(self.dims)
