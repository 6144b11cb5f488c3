"""Custom autograd Functions under autocast: their forward may ask for one dtype, their backward runs as the
forward did.
"""

import functools

from flambeau.amp.casting import _mapped, autocast, get_autocast_dtype, is_autocast_enabled

__all__ = ["custom_bwd", "custom_fwd"]


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorator of the static method `forward` of a `Function`.

    Args:
        device_type: 'cpu', or another for which nothing changes here.
        cast_inputs: a dtype: under autocast all floating point tensors come in it, and autocast is off.
            Without it the forward runs under autocast like everything else.

    >>> class Double(fl.autograd.Function):
    ...     @staticmethod
    ...     @fl.amp.custom_fwd(device_type="cpu", cast_inputs=fl.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @fl.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> with fl.amp.autocast("cpu"):
    ...     Double.apply(fl.ones(1, dtype=fl.bfloat16)).dtype
    flambeau.float32
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    _check("custom_fwd", device_type)

    @functools.wraps(fwd)
    def forward(ctx, *args, **kwargs):
        ctx._dtype, enabled = get_autocast_dtype(device_type), is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(ctx, *args, **kwargs)
        args, kwargs = _mapped((args, kwargs), lambda tensor: tensor.to(cast_inputs))
        with autocast(device_type, enabled=False):
            return fwd(ctx, *args, **kwargs)
    return forward


def custom_bwd(bwd=None, *, device_type):
    """Decorator of the static method `backward` of a `Function` whose forward has `custom_fwd`: under
    autocast if that was.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    _check("custom_bwd", device_type)

    @functools.wraps(bwd)
    def backward(ctx, *grads):
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *grads)
    return backward


def _check(name, device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"[{name}] Expected `device_type` of type `str`, got: `{type(device_type)}`")
