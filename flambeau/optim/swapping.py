"""An optimizer on other parameters and another state for a while."""

import contextlib
from collections import defaultdict


def _refuse(problem):
    raise RuntimeError(f"swap_in_optimizer_params_and_state: {problem}")


def _checked(optimizer, parameters, state_dict):
    """(the state by number, the groups, the parameters) that are to be put in."""
    if not optimizer.state:
        _refuse("the optimizer has no state yet; step once before")
    state, groups = (
        state_dict.get(key) if isinstance(state_dict, dict) else None for key in ("state", "param_groups")
    )
    if not isinstance(state, dict) or not isinstance(groups, list):
        _refuse("the state must be a state_dict with 'state' and 'param_groups'")
    if len(groups) != len(optimizer.param_groups):
        _refuse(f"{len(groups)} groups were given for {len(optimizer.param_groups)}")
    for given, own in zip(groups, optimizer.param_groups):
        if len(given["params"]) != len(own["params"]):
            _refuse(f"a group of {len(given['params'])} parameters was given for one of {len(own['params'])}")
        if given.keys() != own.keys():
            _refuse(f"a group has other options: {sorted(given.keys() ^ own.keys())}")
    numbers = [number for group in groups for number in group["params"]]
    if len(parameters) != len(numbers):
        _refuse(f"{len(parameters)} parameters were given for {len(numbers)}")
    if surplus := [number for number in state if number not in numbers]:
        _refuse(f"the state names parameters that no group has: {surplus}")
    return state, groups, list(parameters.values())


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(optimizer, swapin_parameters, swapin_optim_state):
    """Inside the block the optimizer works on these parameters, with this state and these options.

    Args:
        optimizer: one that has stepped, or loaded a state.
        swapin_parameters: name -> tensor, in the order of the optimizer's parameters.
        swapin_optim_state: as `optimizer.state_dict()` gives it; its tensors are written in place.
    """
    state, groups, parameters = _checked(optimizer, swapin_parameters, swapin_optim_state)
    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    at, swapped = 0, defaultdict(dict)
    try:
        for group, given in zip(optimizer.param_groups, groups):
            chosen = parameters[at : at + len(given["params"])]
            at += len(chosen)
            group.update({**given, "params": chosen})
            swapped.update({p: dict(state.get(number, {})) for p, number in zip(chosen, given["params"])})
        optimizer.state = swapped
        yield
    finally:
        for group, own in zip(optimizer.param_groups, own_groups):
            group.clear()
            group.update(own)
        optimizer.state = own_state
