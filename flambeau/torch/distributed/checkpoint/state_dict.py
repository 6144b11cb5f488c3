"""`torch.distributed.checkpoint.state_dict`: the states of a model and of its optimizers, by the names of the
parameters. There is one process, so `full_state_dict`, `cpu_offload` and `broadcast_from_rank0` change nothing."""

from dataclasses import dataclass

from flambeau.base.errors import fail
from flambeau.torch import _mirror

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclass
class StateDictOptions:
    """What the functions of this module leave out, check and flatten."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


# ------------------------------------------------------------------------------ models
def get_model_state_dict(model, *, submodules=None, options=None):
    """`model.state_dict()`, of `submodules` only if there are any.

    >>> import flambeau.torch as torch
    >>> list(get_model_state_dict(torch.nn.Linear(1, 1)))
    ['weight', 'bias']
    """
    options = options or StateDictOptions()
    found = model.state_dict()
    if options.ignore_frozen_params:
        frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
        found = {name: value for name, value in found.items() if name not in frozen}
    if not submodules:
        return found
    chosen = {}
    for prefix, module in model.named_modules():
        if module in submodules and prefix:
            at = 0 if options.keep_submodule_prefixes else len(prefix) + 1
            chosen |= {k[at:]: v for k, v in found.items() if k.startswith(prefix + ".")}
    return chosen


def set_model_state_dict(model, model_state_dict, *, options=None):
    """`model.load_state_dict(model_state_dict)`, strict if the options are; returns the keys that did not fit."""
    return model.load_state_dict(model_state_dict, strict=(options or StateDictOptions()).strict)


# ------------------------------------------------------------------------------ optimizers
def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """The states of one optimizer or several as one: `state` by the name of the parameter, and `param_groups` with names.

    Nothing is stepped: a parameter that had no step yet has no state.
    """
    options = options or StateDictOptions()
    names, inside = _names(model), _names(model) if not submodules else _names_in(model, submodules)
    state, groups = {}, []
    for optimizer in _listed(optimizers):
        given = optimizer.state_dict()
        for own, group in zip(optimizer.param_groups, given["param_groups"]):
            called = [_name(names, p) for p in own["params"]]
            state |= {n: given["state"][k] for n, k in zip(called, group["params"]) if k in given["state"]}
            groups.append({k: v for k, v in group.items() if k not in ("params", "param_names")} | {"params": called})
    if submodules:
        kept = set(inside.values())
        state = {n: s for n, s in state.items() if n in kept}
        groups = [g | {"params": [n for n in g["params"] if n in kept]} for g in groups]
    found = {"state": state, "param_groups": groups}
    return _flat(found) if options.flatten_optimizer_state_dict else found


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Give each optimizer what `get_optimizer_state_dict` found of its parameters; groups are found by their parameters."""
    names = _names(model)
    if any(k.startswith(("state.", "param_groups.")) for k in optim_state_dict):
        optim_state_dict = _nested(optim_state_dict)
    state = optim_state_dict["state"]
    group_of = {n: g for g in optim_state_dict["param_groups"] for n in g["params"]}
    for optimizer in _listed(optimizers):
        given = optimizer.state_dict()
        loaded, groups = {}, []
        for own, group in zip(optimizer.param_groups, given["param_groups"]):
            called = [_name(names, p) for p in own["params"]]
            missing = [n for n in called if n not in group_of]
            if missing:
                fail("set_optimizer_state_dict", "the state has no group of a parameter", missing,
                     f"groups of {', '.join(called)}", kind=ValueError)
            loaded |= {k: state[n] for n, k in zip(called, group["params"]) if n in state}
            source = {k: v for k, v in group_of[called[0]].items() if k != "params"} if called else {}
            groups.append(group | source)
        optimizer.load_state_dict({"state": loaded, "param_groups": groups})


# ------------------------------------------------------------------------------ both
def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """(that of the model, that of the optimizers)."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """Set both; returns the keys of the model that did not fit."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


# ------------------------------------------------------------------------------ helpers
def _listed(optimizers):
    return list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]


def _names(model):
    """Parameter -> its name."""
    return {p: name for name, p in model.named_parameters()}


def _names_in(model, submodules):
    """The same for the parameters of some submodules."""
    inside = {p for module in submodules for p in module.parameters()}
    return {p: name for p, name in _names(model).items() if p in inside}


def _name(names, parameter):
    if parameter not in names:
        fail("get_optimizer_state_dict", "the optimizer has a parameter that the model has not",
             tuple(parameter.shape), "parameters of the model", kind=KeyError)
    return names[parameter]


def _flat(found):
    """One level: 'state.<name>.<entry>' and 'param_groups.<name>.<option>'."""
    flat = {f"state.{n}.{k}": v for n, entries in found["state"].items() for k, v in entries.items()}
    for group in found["param_groups"]:
        for n in group["params"]:
            flat |= {f"param_groups.{n}.{k}": v for k, v in group.items() if k != "params"}
    return flat


def _nested(flat):
    """The inverse of `_flat`, with a group for each parameter."""
    state, groups = {}, {}
    for key, value in flat.items():
        kind, _, rest = key.partition(".")
        name, _, entry = rest.rpartition(".")
        (state if kind == "state" else groups).setdefault(name, {})[entry] = value
    return {"state": state, "param_groups": [{**g, "params": [n]} for n, g in groups.items()]}


__getattr__, __dir__ = _mirror.mirror(__name__)
