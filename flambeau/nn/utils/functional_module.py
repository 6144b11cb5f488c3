"""Modules as functions of their parameters, in the older form that `import functorch` offers.

The newer form is `flambeau.func.functional_call` and `stack_module_state`.
"""

import copy

from flambeau.nn.module import Module
from flambeau.nn.utils.stateless import functional_call
from flambeau.ops.join import stack

__all__ = ["FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "make_functional",
           "make_functional_with_buffers"]


class FunctionalModule(Module):
    """A module without state of its own: call it with (parameters, *inputs)."""

    def __init__(self, model):
        super().__init__()
        self.stateless_model = copy.deepcopy(model)
        self.param_names = tuple(name for name, _ in model.named_parameters())

    def forward(self, params, *args, **kwargs):
        """The model's result with `params` in the order of `param_names`."""
        return functional_call(self.stateless_model, dict(zip(self.param_names, params)), args, kwargs)


class FunctionalModuleWithBuffers(FunctionalModule):
    """A module without state of its own: call it with (parameters, buffers, *inputs)."""

    def __init__(self, model):
        super().__init__(model)
        self.buffer_names = tuple(name for name, _ in model.named_buffers())

    def forward(self, params, buffers, *args, **kwargs):
        """The model's result with `params` and `buffers` in the order of their names."""
        state = dict(zip(self.param_names, params)) | dict(zip(self.buffer_names, buffers))
        return functional_call(self.stateless_model, state, args, kwargs)


def _parameters(model, disable_autograd_tracking):
    found = tuple(copy.deepcopy(model).parameters())
    if disable_autograd_tracking:
        for parameter in found:
            parameter.requires_grad_(False)
    return found


def make_functional(model, disable_autograd_tracking=False):
    """(function, parameters): function(parameters, *inputs) is the model's result; the parameters are copies.

    Raises:
        RuntimeError: if the model has buffers.

    >>> function, parameters = make_functional(nn.Linear(2, 3))
    >>> function(parameters, fl.ones(4, 2)).shape
    flambeau.Size([4, 3])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional: the model has buffers. Please use make_functional_with_buffers(model) instead.")
    return FunctionalModule(model), _parameters(model, disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """(function, parameters, buffers): function(parameters, buffers, *inputs) is the model's result.

    >>> function, parameters, buffers = make_functional_with_buffers(nn.BatchNorm1d(3))
    >>> len(parameters), len(buffers)
    (2, 3)
    """
    buffers = tuple(copy.deepcopy(model).buffers())
    return FunctionalModuleWithBuffers(model), _parameters(model, disable_autograd_tracking), buffers


def combine_state_for_ensemble(models):
    """(function, parameters, buffers) of several modules of one kind, each value stacked along a new first axis.

    Raises:
        RuntimeError: if there is no model, or they differ in class or in mode.

    >>> function, parameters, buffers = combine_state_for_ensemble([nn.Linear(2, 3) for _ in range(4)])
    >>> parameters[0].shape
    flambeau.Size([4, 3, 2])
    """
    models = list(models)
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    function = FunctionalModuleWithBuffers(models[0])
    parameters = tuple(stack([p.detach() for p in same]) for same in zip(*[model.parameters() for model in models]))
    return function, parameters, tuple(stack(list(same)) for same in zip(*[model.buffers() for model in models]))
