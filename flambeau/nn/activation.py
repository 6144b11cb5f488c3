"""Activations: layers without parameters (but PReLU) around the functions of `functional`."""

from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import empty


class _InPlace(Module):
    """A layer whose only option is whether it writes into its input."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """The larger of each element and 0, written into the input if `inplace`."""

    def forward(self, input):
        return F.relu(input, self.inplace)


class SiLU(_InPlace):
    """`x * sigmoid(x)`, written into the input if `inplace`."""

    def forward(self, input):
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """`x * tanh(softplus(x))`, written into the input if `inplace`."""

    def forward(self, input):
        return F.mish(input, self.inplace)


class SELU(_InPlace):
    """`elu` with the scale and alpha that keep mean 0 and variance 1."""

    def forward(self, input):
        return F.selu(input, self.inplace)


class Hardswish(_InPlace):
    """`x * hardsigmoid(x)`, written into the input if `inplace`."""

    def extra_repr(self):
        return ""

    def forward(self, input):
        return F.hardswish(input, self.inplace)


class Hardsigmoid(Hardswish):
    """`(x + 3) / 6` limited to [0, 1]."""

    def forward(self, input):
        return F.hardsigmoid(input, self.inplace)


class Hardtanh(Module):
    """The elements limited to [min_val, max_val]."""

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError("max_val must be larger than min_val")

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """The elements limited to [0, 6]."""

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """The element where positive, else `negative_slope` times it."""

    def __init__(self, negative_slope=1e-2, inplace=False):
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """`LeakyReLU` with slopes drawn between `lower` and `upper` in training, their mean in evaluation."""

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class _Alpha(Module):
    """A layer with the option `alpha`."""

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self):
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_Alpha):
    """The element where positive, else `alpha * (exp(x) - 1)`."""

    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """The element where positive, else `alpha * (exp(x / alpha) - 1)`."""

    def forward(self, input):
        return F.celu(input, self.alpha, self.inplace)


class Threshold(Module):
    """The element where above `threshold`, else `value`."""

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class GELU(Module):
    """`x * P(X <= x)` for a standard normal X; `approximate` is 'none' (exact) or 'tanh'."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`; x itself where `beta * x > threshold`."""

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class _Shrink(Module):
    """A layer with the option `lambd`."""

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self):
        return str(self.lambd)


class Hardshrink(_Shrink):
    """0 where `|x| <= lambd`, else x."""

    def forward(self, input):
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by `lambd`, 0 where it would cross it."""

    def forward(self, input):
        return F.softshrink(input, self.lambd)


class Tanhshrink(Module):
    """`x - tanh(x)`."""

    def forward(self, input):
        return F.tanhshrink(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input):
        return F.tanh(input)


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`."""

    def forward(self, input):
        return F.sigmoid(input)


class LogSigmoid(Module):
    """`log(sigmoid(x))`."""

    def forward(self, input):
        return F.logsigmoid(input)


class Softsign(Module):
    """`x / (1 + |x|)`."""

    def forward(self, input):
        return F.softsign(input)


class GLU(Module):
    """The first half along `dim` times the sigmoid of the second."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class PReLU(Module):
    """x where positive, else `weight * x`; `num_parameters` is 1 or the number of channels (axis 1)."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set the slopes to their starting value."""
        init.constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class _AlongAxis(Module):
    """A layer that works along the axis `dim`."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmax(_AlongAxis):
    """`exp(x)` divided by its sum along the axis `dim`."""

    def forward(self, input):
        return F.softmax(input, self.dim)


class Softmin(_AlongAxis):
    """`softmax(-x)` along the axis `dim`."""

    def forward(self, input):
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongAxis):
    """The logarithm of the softmax along the axis `dim`."""

    def forward(self, input):
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """`Softmax` over the channels of (batch, channels, h, w) or (channels, h, w)."""

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)
