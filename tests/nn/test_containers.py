"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest

import flambeau as fl
from flambeau import nn


def names(module):
    return [type(each).__name__ for each in module]


def test_sequential_runs_in_order():
    model = nn.Sequential(nn.Flatten(), nn.Identity())
    assert tuple(model(fl.ones(2, 3, 4)).shape) == (2, 12)
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert named.b is named[1] and list(named[1:]._modules) == ["b"]


def test_sequential_as_a_list():
    model = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert names(model[:2]) == ["ReLU", "Tanh"] and isinstance(model[-1], nn.Sigmoid)
    model.append(nn.GELU()).insert(1, nn.SiLU())
    assert names(model) == ["ReLU", "SiLU", "Tanh", "Sigmoid", "GELU"]
    del model[0]
    assert isinstance(model.pop(-1), nn.GELU)
    model[0] = nn.Identity()
    assert names(model) == ["Identity", "Tanh", "Sigmoid"] and list(model._modules) == ["0", "1", "2"]
    assert names(model + nn.Sequential(nn.ReLU())) == ["Identity", "Tanh", "Sigmoid", "ReLU"]
    assert len(model * 2) == 6 and len(2 * model) == 6
    model *= 2
    model.extend([nn.ReLU()])
    del model[1:]
    assert names(model) == ["Identity"]


@pytest.mark.parametrize("act, kind", [
    (lambda m: m[3], IndexError), (lambda m: m["a"], TypeError), (lambda m: m + 3, ValueError),
    (lambda m: m * 0, ValueError), (lambda m: m.insert(9, nn.ReLU()), IndexError),
    (lambda m: m.append(3), TypeError),
])
def test_sequential_errors(act, kind):
    with pytest.raises(kind):
        act(nn.Sequential(nn.ReLU(), nn.Tanh()))


def test_module_list():
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    assert len(list(layers.parameters())) == 6 and len(layers) == 3
    layers += [nn.ReLU()]
    assert isinstance(layers[-1], nn.ReLU) and isinstance(layers[1:], nn.ModuleList) and len(layers[1:]) == 3
    layers.insert(0, nn.Tanh())
    assert isinstance(layers.pop(0), nn.Tanh)
    assert len(layers + [nn.ReLU()]) == 5
    assert repr(layers) == ("ModuleList(\n  (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)\n"
                            "  (3): ReLU()\n)")
    assert repr(nn.ModuleList()) == "ModuleList()"
    with pytest.raises(NotImplementedError):
        layers(1)
    with pytest.raises(TypeError, match="iterable"):
        nn.ModuleList(3)


def test_module_dict():
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Linear(1, 1)
    table.update([("a", nn.Tanh())])
    assert list(table) == ["a", "b"] == list(table.keys()) and "b" in table and len(table) == 2
    assert isinstance(table["a"], nn.Tanh) and list(table.state_dict()) == ["b.weight", "b.bias"]
    assert isinstance(table.pop("a"), nn.Tanh)
    table.clear()
    assert len(table) == 0
    with pytest.raises(ValueError, match="has length 3; 2 is required"):
        table.update([(1, 2, 3)])


def test_parameter_list():
    values = nn.ParameterList([fl.ones(2), nn.Parameter(fl.zeros(1)), "text"])
    assert all(isinstance(each, nn.Parameter) for each in values[:2]) and values[2] == "text"
    assert [name for name, _ in values.named_parameters()] == ["0", "1"]
    values.append(fl.ones(1))
    values[0] = fl.zeros(3)
    assert len(values) == 4 and tuple(values[-4].shape) == (3,)
    assert "(0): Parameter containing:" in repr(values) and "(2): Object of type: str" in repr(values)
    with pytest.raises(RuntimeError, match="should not be called"):
        values(1)
    with pytest.raises(IndexError):
        values[4]


def test_parameter_dict():
    table = nn.ParameterDict({"b": fl.ones(1), "a": fl.ones(2)})
    assert list(table) == ["a", "b"] and isinstance(table["a"], nn.Parameter)
    table["c"] = 3
    assert table.get("d", 4) == 4 and table.pop("c") == 3 and "c" not in table
    assert [name for name, _ in table.named_parameters()] == ["a", "b"]
    with pytest.raises(TypeError, match="not a string"):
        table[3] = fl.ones(1)
