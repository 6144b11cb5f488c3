"""Layers that learn the size of their input from the first call.

Until then their parameters are `UninitializedParameter`s; loading a state dict or the first call gives them
their shape, and the layer becomes one of the usual class.
"""

from flambeau.nn import conv, normalization
from flambeau.nn.linear import Linear

from flambeau.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from flambeau.tensor import empty, tensor
from flambeau.types.dtype import int64


class LazyModuleMixin:
    """What lazy layers share: `initialize_parameters(input)` runs before the first `forward`.

    `cls_to_become` is the class of the layer afterwards.
    """

    cls_to_become = None
    _sized = False

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def has_uninitialized_params(self):
        """Whether some parameter or buffer has no shape yet."""
        return any(is_lazy(x) for table in (self._parameters, self._buffers) for x in table.values())

    def _lazy_load_hook(self, state_dict, prefix, *rest):
        """Take over the shapes of a state dict."""
        for name, member in (*self._parameters.items(), *self._buffers.items()):
            key = prefix + name
            if key in state_dict and is_lazy(member) and not is_lazy(state_dict[key]):
                self._make(name, tuple(state_dict[key].shape))

    def _infer_parameters(self, module, args, kwargs=None):
        """Give the parameters their shapes by the first input, and drop what made the layer lazy."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module.__dict__["_initialize_hook"], module.__dict__["_load_hook"]
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def reset_parameters(self):
        """Draw new starting values, once the shapes are known."""
        if self._sized:
            super().reset_parameters()

    def _make(self, name, shape):
        """Give a parameter its shape, or put a buffer of that shape in the place of one without."""
        if name in self._parameters:
            self._parameters[name].materialize(shape)
        else:
            self._buffers[name] = empty(shape, dtype=self._buffers[name].dtype)

    def _start(self, **shapes):
        """Make the members that have no shape yet, and draw their starting values."""
        for name, shape in shapes.items():
            if is_lazy(getattr(self, name)):
                self._make(name, shape)
        self._sized = True
        self.reset_parameters()

    def _empty(self, bias, device, dtype):
        """Parameters without shape."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` is the last size of its first input."""

    cls_to_become = Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False)
        self._empty(bias, device, dtype)
        self.out_features = out_features

    def initialize_parameters(self, input):
        """Make the parameters for inputs like this."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self._start(weight=(self.out_features, self.in_features), bias=(self.out_features,))
        if self.in_features == 0:
            self.in_features = self.weight.shape[-1]


class _LazyConvolution(LazyModuleMixin):
    """A convolution whose `in_channels` is that of its first input."""

    def __init__(self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._empty(bias, device, dtype)
        self.out_channels = out_channels

    def initialize_parameters(self, input, *args, **kwargs):
        """Make the parameters for inputs like this."""
        if not self.has_uninitialized_params():
            return
        rank = len(self.kernel_size)
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to "
                               f"{type(self).__name__}, but got input of size: {input.shape}")
        self.in_channels = input.shape[-rank - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        self._start(weight=self._weight_shape(), bias=(self.out_channels,))


class _LazyTransposed(_LazyConvolution):
    """A transposed convolution whose `in_channels` is that of its first input."""

    def __init__(self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                 dilation=1, padding_mode="zeros", device=None, dtype=None):
        LazyModuleMixin.__init__(self, 0, 0, kernel_size, stride, padding, output_padding, groups, False,
                                 dilation, padding_mode)
        self._empty(bias, device, dtype)
        self.out_channels = out_channels


class _LazyNorm(LazyModuleMixin):
    """A norm of channels whose `num_features` is that of its first input."""

    default_affine = default_tracking = True

    def __init__(self, eps=1e-5, momentum=0.1, affine=None, track_running_stats=None, device=None, dtype=None,
                 *, bias=True):
        affine = self.default_affine if affine is None else affine
        tracking = self.default_tracking if track_running_stats is None else track_running_stats
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, tracking
        place = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**place) if affine else None
        self.bias = UninitializedParameter(**place) if affine and bias else None
        if tracking:
            self.running_mean = UninitializedBuffer(**place)
            self.running_var = UninitializedBuffer(**place)
            self.num_batches_tracked = tensor(0, dtype=int64)

    def reset_running_stats(self):
        """Forget the batches seen so far."""
        if self._sized:
            super().reset_running_stats()

    def initialize_parameters(self, input):
        """Make the parameters and statistics for inputs like this."""
        if not self.has_uninitialized_params():
            return
        self._check_input_dim(input)
        axis = 0 if input.dim() == max(self.ranks) - 1 and isinstance(self,
                                                                      normalization._InstanceNorm) else 1
        self.num_features = input.shape[axis]
        shape = (self.num_features,)
        self._start(weight=shape, bias=shape, running_mean=shape, running_var=shape)


def _lazy(mixin, name, **members):
    """The lazy class of the usual class `name`."""
    usual = getattr(conv, name, None) or getattr(normalization, name)
    body = {"cls_to_become": usual, "__doc__": f"`{name}` that learns its number of channels from its first "
                                               f"input.",
            "__module__": __name__, **members}
    return type(f"Lazy{name}", (mixin, usual), body)


LazyConv1d, LazyConv2d, LazyConv3d = (_lazy(_LazyConvolution, f"Conv{rank}d") for rank in (1, 2, 3))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(_LazyTransposed, f"ConvTranspose{rank}d") for rank in (1, 2, 3))
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (_lazy(_LazyNorm, f"BatchNorm{rank}d")
                                                     for rank in (1, 2, 3))
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(_LazyNorm, f"InstanceNorm{rank}d", default_affine=False, default_tracking=False)
    for rank in (1, 2, 3))

