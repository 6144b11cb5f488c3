"""States of a model and its optimizers by the names of the parameters."""

import pytest

import flambeau.torch as torch
from flambeau.torch.distributed.checkpoint import state_dict as states


def trained(groups):
    """A model, and an optimizer that has made one step; `groups(model)` are its parameters."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.Adam(groups(model), lr=0.1)
    model(torch.ones(3, 2) + torch.arange(3.0)[:, None]).square().sum().backward()
    optimizer.step()
    return model, optimizer


def in_two(model):
    return [{"params": [model[0].weight]}, {"params": [model[1].weight, model[1].bias], "lr": 0.5}]


def turned(model):
    return [{"params": [model[1].bias, model[1].weight]}, {"params": [model[0].weight]}]


@pytest.mark.parametrize("flat", [False, True])
def test_states_go_to_the_parameters_of_the_same_names(flat):
    model, optimizer = trained(in_two)
    options = states.StateDictOptions(flatten_optimizer_state_dict=flat)
    of_model, of_optimizer = states.get_state_dict(model, optimizer, options=options)
    assert ("state.0.weight.exp_avg" if flat else "state") in of_optimizer
    other, target = trained(turned)
    with torch.no_grad():
        other[0].weight.zero_()
    keys = states.set_state_dict(other, target, model_state_dict=of_model, optim_state_dict=of_optimizer, options=options)
    assert not keys.missing_keys and not keys.unexpected_keys
    assert [g["lr"] for g in target.param_groups] == [0.5, 0.1]
    for (_, p), (_, q) in zip(model.named_parameters(), other.named_parameters()):
        assert torch.equal(p, q)
        if p.requires_grad:
            assert torch.equal(optimizer.state[p]["exp_avg"], target.state[q]["exp_avg"])
            assert target.state[q]["step"] == 1


def test_asking_steps_nothing():
    model = torch.nn.Linear(1, 1, bias=False)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    before = model.weight.item()
    assert states.get_optimizer_state_dict(model, [adam])["state"] == {}
    model(torch.ones(1, 1)).sum().backward()
    adam.step()
    assert model.weight.item() == pytest.approx(before - 0.1)


def test_a_part_of_a_model():
    model, optimizer = trained(in_two)
    frozen = states.StateDictOptions(ignore_frozen_params=True)
    assert "0.bias" not in states.get_model_state_dict(model, options=frozen)
    assert list(states.get_model_state_dict(model, submodules={model[0]})) == ["0.weight", "0.bias"]
    short = states.StateDictOptions(keep_submodule_prefixes=False)
    assert list(states.get_model_state_dict(model, submodules={model[0]}, options=short)) == ["weight", "bias"]
    found = states.get_optimizer_state_dict(model, optimizer, submodules={model[1]})
    assert list(found["state"]) == ["1.weight", "1.bias"]


def test_what_does_not_fit_is_refused():
    model, optimizer = trained(in_two)
    with pytest.raises(RuntimeError, match="Missing key"):
        states.set_model_state_dict(model, {"x": torch.ones(1)})
    with pytest.raises(ValueError, match="no group of a parameter"):
        states.set_optimizer_state_dict(model, optimizer, {"state": {}, "param_groups": []})
    with pytest.raises(KeyError, match="the model has not"):
        states.get_optimizer_state_dict(torch.nn.Linear(1, 1), optimizer)
