"""Spectral normalisation (Miyato et al. 2018): a weight divided by its largest singular value."""

from flambeau.nn import functional as F
from flambeau.nn.parameter import Parameter
from flambeau.tensor import no_grad, randn


def start_vectors(matrix, eps, steps=15):
    """Random unit vectors, brought near the largest singular ones of the matrix (h, w): (h), (w)."""
    u = F.normalize(randn(matrix.shape[0], dtype=matrix.dtype), dim=0, eps=eps)
    v = F.normalize(randn(matrix.shape[1], dtype=matrix.dtype), dim=0, eps=eps)
    return power_iterations(matrix, u, v, steps, eps)


def power_iterations(matrix, u, v, count, eps):
    """The singular vectors after `count` steps of the power method."""
    with no_grad():
        for _ in range(count):
            u = F.normalize(matrix @ v, dim=0, eps=eps)
            v = F.normalize(matrix.t() @ u, dim=0, eps=eps)
    return u, v


class SpectralNorm:
    """The forward pre-hook that makes `weight` from `weight_orig` and the buffers `weight_u` and
    `weight_v`."""

    def __init__(self, name, n_power_iterations, dim, eps):
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got n_power_iterations="
                             f"{n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def matrix(self, weight):
        """The weight as (sizes along `dim`, everything else)."""
        return weight.transpose(0, self.dim).reshape(weight.shape[self.dim], -1)

    def compute_weight(self, module, training):
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = self.matrix(weight)
        if training:
            new_u, new_v = power_iterations(matrix.detach(), u, v, self.n_power_iterations, self.eps)
            u.copy_(new_u)
            v.copy_(new_v)
        return weight / (u.clone() * (matrix @ v.clone())).sum()

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide the parameter `name` by its largest singular value before each call; returns the module."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    hook, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
    u, v = start_vectors(hook.matrix(weight.detach()), eps, steps=0)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module, name="weight"):
    """Make the parameter a plain one, with its present value; returns the module."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, SpectralNorm) and hook.name == name:
            with no_grad():
                weight = hook.compute_weight(module, False)
            delattr(module, name)
            del module._parameters[name + "_orig"], module._buffers[name + "_u"], module._buffers[name + "_v"]
            module.register_parameter(name, Parameter(weight.detach()))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
