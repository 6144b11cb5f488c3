"""Modules as functions of their parameters, in the form of `import functorch`."""

import pytest

import flambeau as fl
from flambeau import func, nn
from flambeau.nn.utils.functional_module import (
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)

X = fl.arange(8.0).reshape(4, 2)


def test_a_function_of_copies_of_the_parameters():
    layer = nn.Linear(2, 3)
    function, parameters = make_functional(layer)
    assert parameters[0] is not layer.weight and parameters[0].requires_grad
    assert fl.equal(function(parameters, X), layer(X))
    doubled = tuple(2 * p for p in parameters)
    assert fl.allclose(function(doubled, X), 2 * layer(X))
    _, tangent = func.jvp(lambda p: function(p, X), (parameters,), (parameters,))
    assert fl.allclose(tangent, layer(X))
    assert not any(p.requires_grad for p in make_functional(layer, disable_autograd_tracking=True)[1])
    with pytest.raises(RuntimeError, match="buffers"):
        make_functional(nn.BatchNorm1d(3))


def test_buffers_and_shared_parameters():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer, nn.BatchNorm1d(2)).eval()
    function, parameters, buffers = make_functional_with_buffers(model)
    assert len(parameters) == 4 and len(buffers) == 3
    assert fl.equal(function(parameters, buffers, X), model(X))
    shifted = (buffers[0] + 1, *buffers[1:])
    assert not fl.equal(function(parameters, shifted, X), model(X))
    assert model[2].running_mean.tolist() == [0, 0]


def test_ensemble():
    models = [nn.Linear(2, 3) for _ in range(5)]
    function, parameters, buffers = combine_state_for_ensemble(models)
    assert parameters[0].shape == (5, 3, 2) and buffers == ()
    got = func.vmap(function, (0, 0, None))(parameters, buffers, X)
    assert fl.allclose(got, fl.stack([model(X) for model in models]), atol=1e-6)
    for wrong in ([], [nn.Linear(2, 3), nn.Identity()], [nn.Linear(2, 3), nn.Linear(2, 3).eval()]):
        with pytest.raises(RuntimeError):
            combine_state_for_ensemble(wrong)
