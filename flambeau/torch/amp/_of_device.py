"""The older names of torch.amp, which mean one device: torch.cuda.amp and torch.cpu.amp."""

import warnings

from flambeau import amp


def _old(name, device, more=""):
    warnings.warn(f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use "
                  f"`torch.amp.{name}({more or repr(device) + ', args...'})` instead.", FutureWarning,
        stacklevel=3)


def classes(device, short):
    """(autocast, GradScaler) of the device; `short` is the dtype that its autocast casts to."""
    class autocast(amp.autocast):       # noqa: N801 - PyTorch's name
        def __init__(self, enabled=True, dtype=short, cache_enabled=True):
            _old("autocast", device)
            super().__init__(device, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    class GradScaler(amp.GradScaler):
        def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
            enabled=True):
            _old("GradScaler", device)
            super().__init__(device, init_scale=init_scale, growth_factor=growth_factor,
                backoff_factor=backoff_factor,
                             growth_interval=growth_interval, enabled=enabled)

    for made, parent in ((autocast, amp.autocast), (GradScaler, amp.GradScaler)):
        made.__doc__ = f"`torch.amp.{parent.__name__}` for {device!r}, by its older name."
        made.__module__, made.__qualname__ = f"torch.{device}.amp", parent.__name__
    return autocast, GradScaler


def decorators(device):
    """(custom_fwd, custom_bwd) of the device."""
    def custom_fwd(fwd=None, *, cast_inputs=None):
        """`torch.amp.custom_fwd` by its older name."""
        _old("custom_fwd", device, f"args..., device_type={device!r}")
        return amp.custom_fwd(fwd, device_type=device, cast_inputs=cast_inputs)

    def custom_bwd(bwd=None):
        """`torch.amp.custom_bwd` by its older name."""
        _old("custom_bwd", device, f"args..., device_type={device!r}")
        return amp.custom_bwd(bwd, device_type=device)

    return custom_fwd, custom_bwd
