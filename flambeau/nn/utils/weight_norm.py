"""Weights as a length and a direction (Salimans and Kingma 2016)."""

from flambeau import ops
from flambeau.nn.parameter import Parameter


def norm_except_dim(v, dim):
    """The norms of the slices along `dim` (None: of the whole), with the other axes kept as 1."""
    if dim is None or dim == -1:
        return ops.norm(v)
    axes = tuple(a for a in range(v.dim()) if a != dim % v.dim())
    return ops.norm(v, 2.0, axes, True) if axes else abs(v)


class WeightNorm:
    """The forward pre-hook that makes `weight` from its length `weight_g` and direction `weight_v`."""

    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def compute_weight(self, module):
        length, direction = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return direction * (length / norm_except_dim(direction, self.dim))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name="weight", dim=0):
    """Replace the parameter `name` by its length `name_g` along `dim` and direction `name_v`; returns the
    module."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook, weight = WeightNorm(name, dim), getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module, name="weight"):
    """Make the parameter whole again; returns the module."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, WeightNorm) and hook.name == name:
            weight = hook.compute_weight(module).detach()
            delattr(module, name)
            del module._parameters[name + "_g"], module._parameters[name + "_v"]
            setattr(module, name, Parameter(weight))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
