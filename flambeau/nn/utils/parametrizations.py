"""Parametrizations that are ready to use: weight and spectral normalisation."""

from flambeau.nn.module import Module
from flambeau.nn.utils.parametrize import register_parametrization
from flambeau.nn.utils.spectral_norm import power_iterations, start_vectors
from flambeau.nn.utils.weight_norm import norm_except_dim


class _WeightNorm(Module):
    """A weight from its length (`original0`) and direction (`original1`)."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Train the length of a weight along `dim` and its direction in its place; returns the module."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iterations follow in training."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got n_power_iterations="
                             f"{n_power_iterations}")
        self.dim = dim % max(weight.dim(), 1)
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.dim() > 1:
            u, v = start_vectors(self._matrix(weight), eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def _matrix(self, weight):
        return weight.transpose(0, self.dim).reshape(weight.shape[self.dim], -1)

    def forward(self, weight):
        if weight.dim() == 1:
            return weight / weight.norm().clamp(min=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            u, v = power_iterations(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
            self._u.copy_(u)
            self._v.copy_(v)
        sigma = (self._u.clone() * (matrix @ self._v.clone())).sum()
        return weight / sigma

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its largest singular value; returns the module."""
    weight = getattr(module, name, None)
    if weight is None:
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    return register_parametrization(module, name,
                                    _SpectralNorm(weight.detach(), n_power_iterations, dim, eps))
