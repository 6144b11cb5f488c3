"""Normalisation layers: per channel over the batch (BatchNorm), per example over its features (LayerNorm)."""

from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import empty, ones, tensor, zeros
from flambeau.types import dtype as dtypes


class _RunningNorm(Module):
    """What batch and instance norms share; a subclass says which ranks of input it takes."""

    ranks = ()
    _version = 2                # 1 had no count of batches

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

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        counter = prefix + "num_batches_tracked"
        early = local_metadata.get("version") is None or local_metadata["version"] < 2
        if early and self.num_batches_tracked is not None and counter not in state_dict:
            state_dict[counter] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")


class _BatchNorm(_RunningNorm):
    """The batch norms, for `isinstance`."""


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


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (batch, channels, depth, height, width); see `BatchNorm2d`."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; in one process it is plain batch
    normalisation."""

    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True,
                 process_group=None, device=None, dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with every batch norm in it replaced by one of these, with its state."""
        if isinstance(module, _BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine,
                       module.track_running_stats, process_group, bias=module.bias is not None)
            made.load_state_dict(module.state_dict())
            made.train(module.training)
            return made
        for name, child in module.named_children():
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module


class _InstanceNorm(_RunningNorm):
    """Normalise each channel of each example over its own elements; an input without batch axis has one less.

    Without `affine` there are no `weight` and `bias`; without `track_running_stats` no running statistics.
    """

    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False,
                 device=None, dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input):
        self._check_input_dim(input)
        batched = input if input.dim() == max(self.ranks) else input.unsqueeze(0)
        if batched.shape[1] != self.num_features and self.affine:
            raise ValueError(f"expected input's size at dim={input.dim() - max(self.ranks) + 1} to match "
                             f"num_features "
                             f"({self.num_features}), but got: {batched.shape[1]}.")
        output = F.instance_norm(batched, self.running_mean, self.running_var, self.weight, self.bias,
                                 self.training or not self.track_running_stats,
                                 0.0 if self.momentum is None else self.momentum, self.eps)
        return output if batched is input else output.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    ranks = (4, 5)


class GroupNorm(Module):
    """Normalise each of `num_groups` groups of neighbouring channels of each example."""

    def __init__(self, num_groups, num_channels, eps=1e-05, affine=True, device=None, dtype=None, *,
                 bias=True):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        place = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(empty(num_channels, **place)) if affine else None)
        self.register_parameter("bias", Parameter(empty(num_channels, **place)) if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Set the scale to 1 and the shift to 0."""
        _reset_affine(self)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")


def _reset_affine(module):
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


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


class RMSNorm(Module):
    """`input / sqrt(mean of squares + eps) * weight` over the last axes; eps None: the dtype's epsilon."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        sizes = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(sizes)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        weight = Parameter(empty(self.normalized_shape, device=device,
                                 dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self):
        """Set the scale to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Divide by a power of the mean square of the `size` neighbouring channels."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """An older name of `LocalResponseNorm` for images."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__(size, alpha, beta, k)
