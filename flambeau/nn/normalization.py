"""Normalisation layers: per channel over the batch (BatchNorm), per example over its features (LayerNorm)."""

from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import empty, ones, tensor, zeros
from flambeau.types import dtype as dtypes


class _BatchNorm(Module):
    """What the batch norms share; a subclass says which ranks of input it takes."""

    ranks = ()

    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True,
                 device=None, dtype=None, *, bias=True):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        place = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(empty(num_features, **place)) if affine else None)
        self.register_parameter("bias", Parameter(empty(num_features, **place)) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **place) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **place) if tracked else None)
        counter = tensor(0, dtype=dtypes.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", counter)
        self.reset_parameters()

    def reset_running_stats(self):
        """Forget the batches seen so far."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Set the running statistics and the parameters to their starting values."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input):
        if input.dim() not in self.ranks:
            wanted = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def forward(self, input):
        self._check_input_dim(input)
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        updates = self.training and self.track_running_stats
        factor = 0.0 if self.momentum is None else self.momentum
        if updates and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / self.num_batches_tracked.item()
        keep = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if keep else None, self.running_var if keep else None,
                            self.weight, self.bias, use_batch, factor, self.eps)

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        counter = prefix + "num_batches_tracked"
        if self.num_batches_tracked is not None and counter not in state_dict:     # files of early versions
            state_dict[counter] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (batch, channels) or (batch, channels, length); see `BatchNorm2d`."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (batch, channels, height, width).

    In training each channel is normalised by the batch's own mean and variance, in evaluation by the running
    ones.

    Args:
        num_features: channels (axis 1).
        eps: added to the variance.
        momentum: share of the batch in the running statistics; None for the plain average of all batches.
        affine: whether there are `weight` (1 at first) and `bias` (0); `bias=False` leaves it out.
        track_running_stats: whether there are `running_mean` and `running_var`, used in evaluation.
    """

    ranks = (4,)


class LayerNorm(Module):
    """Normalise each example over its last axes, then scale and shift elementwise.

    Args:
        normalized_shape: sizes of the last axes (an int for one).
        eps: added to the variance.
        elementwise_affine: whether there are `weight` and `bias`, of that shape; `bias=False` leaves out
            the latter.
    """

    def __init__(self, normalized_shape, eps=1e-05, elementwise_affine=True, bias=True,
                 device=None, dtype=None):
        super().__init__()
        sizes = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(sizes)
        self.eps = eps
        self.elementwise_affine = elementwise_affine

        def parameter(present):
            return Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if present else None
        self.register_parameter("weight", parameter(elementwise_affine))
        self.register_parameter("bias", parameter(elementwise_affine and bias))
        self.reset_parameters()

    def reset_parameters(self):
        """Set the scale to 1 and the shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")
