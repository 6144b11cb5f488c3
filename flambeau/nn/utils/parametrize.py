"""Parametrizations: a parameter that is computed from other ones by a module, each time it is read.

`register_parametrization(layer, "weight", module)` moves the parameter to
`layer.parametrizations.weight.original` and puts a property into its place, which calls the module on it.
The layer's class becomes a subclass of its own for that.
"""

import contextlib
import copy

from flambeau.nn.container import ModuleDict, ModuleList
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor, no_grad

_cache, _caching = {}, 0


@contextlib.contextmanager
def cached():
    """While the block runs, every parametrized tensor is computed once."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The modules of one tensor, called one after the other on `original` (or `original0`, `original1`,
    ...)."""

    def __init__(self, modules, original, unsafe=False):
        if not len(modules):
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        parts = self._inverse(original)
        self.is_tensor = isinstance(parts, Tensor)
        self.ntensors = 1 if self.is_tensor else len(parts)
        trained = isinstance(original, Parameter)
        for i, part in enumerate([parts] if self.is_tensor else parts):
            name = "original" if self.is_tensor else f"original{i}"
            if trained:
                setattr(self, name, Parameter(part.detach(), original.requires_grad))
            else:
                self.register_buffer(name, part)

    def _inverse(self, value):
        """What the modules make `value` from; the value itself where they do not say."""
        with no_grad():
            for module in reversed(list(self)):
                inverse = getattr(module, "right_inverse", None)
                if inverse is not None:
                    value = inverse(value)
        return value

    def right_inverse(self, value):
        """Set the originals so that the parametrized tensor becomes `value`."""
        with no_grad():
            parts = self._inverse(value)
            for i, part in enumerate([parts] if self.is_tensor else parts):
                getattr(self, "original" if self.is_tensor else f"original{i}").data = part

    def forward(self):
        """The parametrized tensor."""
        parts = [self.original] if self.is_tensor else [getattr(self, f"original{i}")
                                                        for i in range(self.ntensors)]
        modules = list(self)
        value = modules[0](*parts)
        for module in modules[1:]:
            value = module(value)
        return value


def _read(name):
    def getter(self):
        key = id(self), name
        if not _caching:
            return self.parametrizations[name]()
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def setter(self, value):
        self.parametrizations[name].right_inverse(value)
    return property(getter, setter)


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Let `parametrization` (a Module) compute the parameter or buffer `tensor_name` of `module`; returns
    `module`.

    A `right_inverse(value)` of the parametrization says which original gives a value. Unless `unsafe` the
    shape and dtype must stay.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        before = getattr(module, tensor_name)
        own = module.parametrizations[tensor_name]
        if getattr(parametrization, "right_inverse", None) is not None:
            with no_grad():
                own.right_inverse(parametrization.right_inverse(before))
        own.append(parametrization)
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        before = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
        own = ParametrizationList([parametrization], before, unsafe)
        module._parameters.pop(tensor_name, None)
        module._buffers.pop(tensor_name, None)
        _become_parametrized(module)
        module.parametrizations[tensor_name] = own
        setattr(type(module), tensor_name, _read(tensor_name))
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
                         f"with name "
                         f"'{tensor_name}'")
    if not unsafe:
        _check_same(module, tensor_name, before)
    return module


def _become_parametrized(module):
    """Give the module a class of its own, for its properties, and the table of parametrizations."""
    if "parametrizations" in module._modules:
        return
    module.__class__ = _own_class(type(module))
    module.parametrizations = ModuleDict()


def _own_class(base):
    return type(f"Parametrized{base.__name__}", (base,),
                {"__module__": base.__module__, "__deepcopy__": _deep_copy})


def _deep_copy(module, memo):
    """A copy with a class of its own."""
    base = type(module).__mro__[1]
    made = memo[id(module)] = base.__new__(base)
    made.__dict__.update(copy.deepcopy(module.__dict__, memo))
    made.__class__ = _own_class(base)
    for name in made.parametrizations:
        setattr(type(made), name, _read(name))
    return made


def _check_same(module, tensor_name, before):
    after = getattr(module, tensor_name)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after)}.")
    if after.dtype is not before.dtype or tuple(after.shape) != tuple(before.shape):
        raise ValueError(f"Registering a parametrization may not change the dtype or shape of the tensor, "
                         f"unless `unsafe` "
                         f"flag is enabled. {tensor_name}: {before.dtype} {tuple(before.shape)} before, "
                         f"{after.dtype} "
                         f"{tuple(after.shape)} after")


def is_parametrized(module, tensor_name=None):
    """Whether the module has parametrizations, or one of that tensor."""
    table = getattr(module, "parametrizations", None)
    if not isinstance(table, ModuleDict):
        return False
    return len(table) > 0 if tensor_name is None else tensor_name in table


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make the tensor a plain one again: with its present value, or with its original; returns `module`."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    own = module.parametrizations[tensor_name]
    if not leave_parametrized and not own.is_tensor:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
                         "parametrized in terms "
                         "of a sequence of tensors.")
    value = getattr(module, tensor_name) if leave_parametrized else own.original
    first = own.original if own.is_tensor else own.original0
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(first, Parameter):
        module.register_parameter(tensor_name, Parameter(value.detach(), first.requires_grad))
    else:
        module.register_buffer(tensor_name, value.detach())
    if not len(module.parametrizations):
        del module._modules["parametrizations"]
        module.__class__ = type(module).__mro__[1]
    return module


def type_before_parametrizations(module):
    """The module's class without what parametrizations made of it."""
    return type(module).__mro__[1] if is_parametrized(module) else type(module)


__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization",
           "remove_parametrizations", "type_before_parametrizations"]
