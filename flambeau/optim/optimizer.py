"""Optimizer: parameter groups, the state of each parameter, and a `step` that subclasses define.

The state dict has PyTorch's layout: parameters are numbered through all groups in order,
`{"state": {number: {...}}, "param_groups": [{..., "params": [numbers]}]}`.
"""

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy

from flambeau.optim.updating import Updates
from flambeau.tensor import Tensor, enable_grad, no_grad
from flambeau.tensor.hooks import add_hook


class _Required:
    """The default of an option that every group must give."""

    def __repr__(self):
        return "<required parameter>"


required = _Required()
_OPTIONS = frozenset((      # what tells one kind of optimizer from another, in the groups of a state dict
    "alpha", "amsgrad", "beta2_decay", "betas", "centered", "d", "dampening", "eps", "etas", "history_size",
    "initial_accumulator_value", "lambd", "lr_decay", "momentum", "momentum_decay", "nesterov", "ns_steps",
                      "rho",
    "step_sizes", "t0"))


def _holds_tensors(module):
    """Whether a module can itself be gone through as parameters, as a ParameterList can."""
    return isinstance(module, Iterable) and all(isinstance(entry, Tensor) for entry in module)


class Optimizer:
    """Base of all optimizers.

    Args:
        params: parameters, (name, parameter) pairs, or dicts `{"params": [...], option: value}`, one a group.
        defaults: options of the groups that do not give their own.
    """

    _HOOKS = ("_step_pre_hooks", "_step_post_hooks", "_state_dict_pre_hooks", "_state_dict_post_hooks",
              "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.step)

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or "
                            f"dicts, but got {params.type()}")
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._make_hooks()
        if hasattr(params, "parameters") and not _holds_tensors(params):
            raise TypeError(f"[optimizer] a {type(params).__name__} is no list of parameters\n"
                            "  hint: pass model.parameters()")
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self):
        for table in Optimizer._HOOKS:
            self.__dict__.setdefault(table, OrderedDict())

    def step(self, closure=None):
        """Update the parameters from their gradients.

        Args:
            closure: computes the loss and its gradients anew and returns the loss.

        Returns:
            What `closure` returned, or None without one.
        """
        raise NotImplementedError(f"{type(self).__name__} says in step() how parameters change")

    def _update_groups(self, closure, update):
        """The body of most steps: run `closure` with gradients on, let `update(group, updates)` of every group add to
        the Updates of the step, run them."""
        loss, updates = None, Updates()
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                update(group, updates)
            updates.run()
        return loss

    def zero_grad(self, set_to_none=True):
        """Drop the gradients of all parameters, or set them to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif (gradient := parameter.grad) is not None:
                    if gradient.requires_grad:
                        gradient = parameter.grad = gradient.detach()
                    gradient.zero_()

    # ------------------------------------------------------------------ groups

    def add_param_group(self, param_group):
        """Add a group `{"params": [...], option: value}`; options not given take the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        param_group["params"] = _list_of_parameters(param_group["params"])
        _split_names(param_group)
        for parameter in param_group["params"]:
            self._check_parameter(parameter)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError("parameter group didn't specify a value of required optimization "
                                 f"parameter {name}")
            param_group.setdefault(name, default)
        self._check_group(param_group)
        self.param_groups.append(param_group)

    def _check_parameter(self, parameter):
        if not isinstance(parameter, Tensor):
            raise TypeError("optimizer can only optimize Tensors, "
                            f"but one of the params is {type(parameter).__name__}")
        if not (parameter.is_leaf or parameter.retains_grad or self.defaults.get("differentiable")):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_group(self, param_group):
        own = {id(parameter) for parameter in param_group["params"]}
        if len(own) != len(param_group["params"]):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; "
                          "in future, this will cause an error", stacklevel=4)
        named = "param_names" in param_group
        for group in self.param_groups:
            if named != ("param_names" in group):
                raise ValueError("all optimizer param groups should be with/without names. cannot add "
                                 f"param group {'with' if named else 'without'} names to the optimizer")
            if any(id(parameter) in own for parameter in group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")

    # ------------------------------------------------------------------ state

    def state_dict(self):
        """The state of all parameters and the options of all groups, without the parameters themselves."""
        for hook in self._state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
        groups = [{**{key: value for key, value in group.items() if key != "params"},
                   "params": [numbers[id(parameter)] for parameter in group["params"]]}
                  for group in self.param_groups]
        state = {numbers[id(key)] if isinstance(key, Tensor) else key: value
                 for key, value in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict):
        """Take over a state that `state_dict` returned, cast to each parameter's dtype and device.

        Raises:
            ValueError: if the groups are not as many, or as long, as this optimizer's.
        """
        state_dict = dict(state_dict)
        for hook in self._load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        _check_same_groups(groups, saved)
        self._check_own_options(saved)
        numbered = {number: parameter for group, saved_group in zip(groups, saved)
                    for parameter, number in zip(group["params"], saved_group["params"])}
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in numbered:
                state[numbered[key]] = _cast_state(numbered[key], value)
            else:
                state[key] = value
        for group, saved_group in zip(groups, saved):
            saved_group["params"] = group["params"]
            if "param_names" in group:
                saved_group.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._load_state_dict_post_hooks.values():
            hook(self)

    def _check_own_options(self, saved):
        """Refuse the state of another kind of optimizer before anything is taken over."""
        for group, saved_group in zip(self.param_groups, saved):
            foreign = sorted(_OPTIONS.intersection(saved_group) - set(self.defaults) - set(group))
            if foreign:
                raise ValueError(f"[{type(self).__name__}] this is the state of another optimizer: its groups have "
                                 f"{', '.join(foreign)}, which {type(self).__name__} does not take")

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._make_hooks()
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    # ------------------------------------------------------------------ hooks

    def register_step_pre_hook(self, hook):
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new (args, kwargs)."""
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Call `hook(optimizer)` before `state_dict` collects."""
        return add_hook(self._state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Call `hook(optimizer, state_dict)`; what it returns, if not None, replaces the dict."""
        return add_hook(self._state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Call `hook(optimizer, state_dict)` before loading; what it returns replaces the dict."""
        return add_hook(self._load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Call `hook(optimizer)` after loading."""
        return add_hook(self._load_state_dict_post_hooks, hook, prepend=prepend)

    def __repr__(self):
        lines = []
        for number, group in enumerate(self.param_groups):
            lines.append(f"\nParameter Group {number}\n")
            lines.extend(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return f"{type(self).__name__} ({''.join(lines)})"


_EVERY_STEP = {"before": OrderedDict(), "after": OrderedDict()}


def register_optimizer_step_pre_hook(hook):
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer; it may return others of both."""
    return add_hook(_EVERY_STEP["before"], hook)


def register_optimizer_step_post_hook(hook):
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return add_hook(_EVERY_STEP["after"], hook)


def _with_hooks(step):
    """`step` between the optimizer's step hooks."""
    @functools.wraps(step)
    def hooked(self, *args, **kwargs):
        self._opt_called = True                                 # for the schedulers' warning
        for hook in (*_EVERY_STEP["before"].values(), *self._step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), "
                                   f"but got {changed}.")
            args, kwargs = changed
        result = step(self, *args, **kwargs)
        for hook in (*self._step_post_hooks.values(), *_EVERY_STEP["after"].values()):
            hook(self, args, kwargs)
        return result
    return hooked


def _list_of_parameters(params):
    if isinstance(params, Tensor):
        return [params]
    if isinstance(params, set):
        raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering "
                        "of tensors in sets will change between runs. Please use a list instead.")
    return list(params)


def _split_names(group):
    """Turn (name, parameter) pairs into parameters and `param_names`."""
    entries = group["params"]
    named = [entry for entry in entries if isinstance(entry, tuple)]
    if not named:
        return
    if len(named) != len(entries):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    group["param_names"] = [name for name, _ in entries]
    group["params"] = [parameter for _, parameter in entries]


def _check_same_groups(groups, saved):
    if len(groups) != len(saved):
        raise ValueError("loaded state dict has a different number of parameter groups")
    if any(len(group["params"]) != len(other["params"]) for group, other in zip(groups, saved)):
        raise ValueError("loaded state dict contains a parameter group "
                         "that doesn't match the size of optimizer's group")


def _cast_state(parameter, value, key=None):
    """A copy of a parameter's state; tensors get its device and, but for `step`, its floating dtype."""
    if isinstance(value, Tensor):
        if key == "step":
            return value
        dtype = parameter.dtype if parameter.is_floating_point() else value.dtype
        return value.to(device=parameter.device, dtype=dtype)
    if isinstance(value, dict):
        return {name: _cast_state(parameter, each, name) for name, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_cast_state(parameter, each) for each in value)
    return value


def as_number(value):
    """A Python number from a number or a tensor of one element."""
    return value.item() if isinstance(value, Tensor) else value


def check_option(name, value, low=0.0, high=None):
    """ValueError 'Invalid `name`: value' unless low <= value (< high)."""
    if not value >= low or (high is not None and not value < high):
        raise ValueError(f"Invalid {name}: {value}")


def check_flags(lr, foreach, fused, differentiable):
    """The checks of the options that say how, not what, an optimizer computes."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if differentiable:
        raise NotImplementedError("differentiable=True is not available yet")
