"""Parameters computed from others: by property and by hook."""

import copy

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import parametrizations, parametrize, remove_spectral_norm, spectral_norm


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


def test_a_property_computes_the_parameter():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert layer.weight.tolist() == layer.weight.mT.tolist() and parametrize.is_parametrized(layer, "weight")
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    layer.weight = fl.ones(3, 3)
    assert layer.weight.tolist() == [[1.0] * 3] * 3
    layer(fl.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None
    with parametrize.cached():
        assert layer.weight is layer.weight
    other = copy.deepcopy(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and sorted(layer.state_dict()) == ["bias", "weight"]
    assert parametrize.is_parametrized(other) and other.weight.tolist() == layer.weight.tolist()


def test_another_shape_is_refused():
    class Half(nn.Module):
        def forward(self, x):
            return x[:1]
    with pytest.raises(ValueError, match="may not change the dtype or shape"):
        parametrize.register_parametrization(nn.Linear(3, 3), "weight", Half())


def test_weight_norm():
    layer, x = nn.Linear(3, 2), fl.randn(4, 3)
    before = layer(x).detach().numpy()
    parametrizations.weight_norm(layer)
    np.testing.assert_allclose(layer(x).detach().numpy(), before, rtol=1e-5, atol=1e-6)
    lengths = layer.parametrizations.weight.original0
    lengths.data = lengths.data * 2
    np.testing.assert_allclose((layer(x) - layer.bias).detach().numpy(), 2 * (before - layer.bias.detach().numpy()),
                               rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalize", [parametrizations.spectral_norm, spectral_norm])
def test_spectral_norm(normalize):
    layer, x = normalize(nn.Linear(4, 3)), fl.ones(1, 4)
    for _ in range(30):
        layer(x)
    assert np.linalg.norm(layer.weight.detach().numpy(), 2) == pytest.approx(1.0, rel=2e-2)
    if normalize is spectral_norm:
        remove_spectral_norm(layer)
        assert sorted(layer.state_dict()) == ["bias", "weight"]
