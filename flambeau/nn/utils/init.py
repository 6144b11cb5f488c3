"""Modules without their starting values."""

import inspect


def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters are not set: for weights that are loaded right after."""
    from flambeau.nn.module import Module
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
