"""Starting values: ranges, spreads and the few exact ones."""

import math

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import init


def values(tensor):
    return np.array(tensor.tolist())


@pytest.mark.parametrize("fill, deviation", [
    (init.xavier_uniform_, math.sqrt(2 / 500)), (init.xavier_normal_, math.sqrt(2 / 500)),
    (init.kaiming_uniform_, math.sqrt(2 / 200)), (init.kaiming_normal_, math.sqrt(2 / 200)),
    (lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 300)),
    (lambda w: init.kaiming_uniform_(w, a=math.sqrt(5)), math.sqrt(1 / 600)),
    (lambda w: init.normal_(w, std=3.0), 3.0), (lambda w: init.uniform_(w, -1, 1), math.sqrt(1 / 3)),
    (lambda w: init.trunc_normal_(w, std=0.5), 0.5),
])
def test_spread(fill, deviation):
    weight = nn.Parameter(fl.empty(300, 200))
    assert fill(weight) is weight and weight.requires_grad and weight.is_leaf
    got = values(weight.detach())
    assert abs(got.mean()) < 0.03 * deviation
    assert abs(got.std() / deviation - 1) < 0.02


def test_bounds():
    layer = nn.Linear(100, 50)
    for parameter in (layer.weight, layer.bias):
        assert np.abs(values(parameter.detach())).max() <= 0.1
    assert np.abs(values(layer.weight.detach())).max() > 0.09
    for low, high in ((-0.5, 0.5), (1.5, 2.0)):
        got = values(init.trunc_normal_(fl.empty(2000), a=low, b=high))
        assert got.min() >= low and got.max() <= high and np.ptp(got) > 0.9 * (high - low)


def test_convolution_counts_its_window():
    assert init.fans(fl.empty(8, 3, 5, 2)) == (30, 80)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(fl.empty(3))


def test_constants():
    assert init.zeros_(fl.ones(2)).tolist() == [0, 0] and init.ones_(fl.zeros(2)).tolist() == [1, 1]
    assert init.constant_(fl.zeros(2), 3).tolist() == [3, 3]
    assert init.eye_(fl.ones(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_gain():
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("linear") == 1
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    with pytest.raises(ValueError, match="Unsupported nonlinearity foo"):
        init.calculate_gain("foo")
    with pytest.raises(ValueError, match="Mode fan not supported"):
        init.kaiming_normal_(fl.empty(2, 2), mode="fan")
    with pytest.warns(UserWarning, match="no-op"):
        init.kaiming_normal_(fl.empty(0, 2))
