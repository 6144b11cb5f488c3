"""Other parameters and state in an optimizer for a while; hooks of all steps."""

import copy

import pytest

import flambeau as fl
from flambeau import optim
from flambeau.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook


def stepped(steps=2):
    parameters = [fl.nn.Parameter(fl.ones(3)), fl.nn.Parameter(fl.ones(2) * 2)]
    made = optim.Adam([{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.5}], lr=0.1)
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = fl.ones_like(parameter)
        made.step()
    return made, parameters


def test_steps_go_to_what_was_put_in():
    optimizer, own = stepped()
    other, theirs = stepped(4)
    before, state, groups = (
        [p.detach().clone() for p in own],
        copy.deepcopy(optimizer.state_dict()),
        optimizer.param_groups,
    )
    given = copy.deepcopy(other.state_dict())
    for parameter in theirs:
        parameter.grad = fl.ones_like(parameter)
    copies = {"a": theirs[0].detach().clone(), "b": theirs[1].detach().clone()}
    for parameter in copies.values():
        parameter.grad = fl.ones_like(parameter)
    with optim.swap_in_optimizer_params_and_state(optimizer, copies, given):
        assert (
            optimizer.param_groups[1]["lr"] == 0.5 and optimizer.param_groups[0]["params"][0] is copies["a"]
        )
        optimizer.step()
    other.step()
    assert all((a == b).all() for a, b in zip(copies.values(), theirs))
    assert given["state"][0]["step"].item() == 5  # written in place
    assert optimizer.param_groups is groups and groups[0]["params"][0] is own[0]
    assert all((p == b).all() for p, b in zip(own, before))
    assert optimizer.state_dict()["state"][0]["step"].item() == state["state"][0]["step"].item() == 2


def test_everything_comes_back_after_an_error():
    optimizer, own = stepped()
    with (
        pytest.raises(ZeroDivisionError),
        optim.swap_in_optimizer_params_and_state(
            optimizer, {"a": fl.ones(3), "b": fl.ones(2)}, optimizer.state_dict()
        ),
    ):
        1 / 0
    assert optimizer.param_groups[0]["params"] == [own[0]] and own[0] in optimizer.state


def test_what_does_not_fit_is_refused():
    optimizer, _ = stepped()
    two, good = {"a": fl.ones(3), "b": fl.ones(2)}, optimizer.state_dict()
    surplus = {"state": {**good["state"], 9: {}}, "param_groups": good["param_groups"]}
    for parameters, state, message in (
        ({"a": fl.ones(3)}, good, "1 parameters"),
        (two, {"state": {}}, "state_dict"),
        (two, {"state": {}, "param_groups": []}, "0 groups"),
        (two, surplus, "no group"),
        (two, None, "state_dict"),
    ):
        with (
            pytest.raises(RuntimeError, match=message),
            optim.swap_in_optimizer_params_and_state(optimizer, parameters, state),
        ):
            pass
    with (
        pytest.raises(RuntimeError, match="no state"),
        optim.swap_in_optimizer_params_and_state(stepped(0)[0], two, good),
    ):
        pass


def test_hooks_of_every_step():
    seen = []
    handles = [
        register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("before")),
        register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("after")),
    ]
    optimizer, _ = stepped(1)
    optimizer.register_step_pre_hook(lambda *given: seen.append("own"))
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert seen == ["before", "after", "before", "own", "after", "own"]
