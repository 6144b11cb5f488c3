"""Hooks of all modules at once: what `nn.modules.module.register_module_...` does.

While there is one, every module is called by way of `hooks.call_with_hooks`; without any, calls are native
again.
"""

from collections import OrderedDict

from flambeau.nn import hooks
from flambeau.nn.module import Module

_NATIVE_CALL = Module.__dict__["__call__"]
_ON_CALLS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")


class Watched(OrderedDict):
    """A table of hooks that says when it changes."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        _choose_call()

    def pop(self, *arguments):
        found = super().pop(*arguments)
        _choose_call()
        return found


def _call(self, *args, **kwargs):
    return hooks.call_with_hooks(self, args, kwargs)


def _choose_call():
    hooked = any(hooks.EVERYWHERE[name] for name in _ON_CALLS)
    wanted = _call if hooked else _NATIVE_CALL
    if Module.__dict__["__call__"] is not wanted:
        Module.__call__ = wanted


hooks.EVERYWHERE.update({name: Watched() for name in _ON_CALLS})


def register_module_forward_pre_hook(hook):
    """Call `hook(module, args)` before `forward` of every module, before its own hooks; what it returns
    replaces the arguments. Returns a handle whose `remove()` takes the hook away."""
    return hooks.add_hook(hooks.EVERYWHERE["_forward_pre_hooks"], hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Call `hook(module, args, output)`, or `(module, args, kwargs, output)`, after `forward` of every
    module."""
    return hooks.add_hook(
        hooks.EVERYWHERE["_forward_hooks"],
        hook,
        marks=[
            (hooks.EVERYWHERE["_forward_hooks_with_kwargs"], with_kwargs),
            (hooks.EVERYWHERE["_forward_hooks_always_called"], always_call),
        ],
    )


def register_module_full_backward_hook(hook):
    """Call `hook(module, grad_input, grad_output)` when the gradients of a module's inputs are known."""
    return hooks.add_hook(hooks.EVERYWHERE["_backward_hooks"], hook)


def register_module_backward_hook(hook):
    """An older name of `register_module_full_backward_hook`."""
    return register_module_full_backward_hook(hook)


def register_module_full_backward_pre_hook(hook):
    """Call `hook(module, grad_output)` when the gradients of a module's outputs are known."""
    return hooks.add_hook(hooks.EVERYWHERE["_backward_pre_hooks"], hook)


def register_module_parameter_registration_hook(hook):
    """Call `hook(module, name, parameter)` for every parameter that is registered; what it returns takes its
    place."""
    return hooks.add_hook(hooks.EVERYWHERE["parameter"], hook)


def register_module_buffer_registration_hook(hook):
    """Call `hook(module, name, buffer)` for every buffer that is registered; what it returns takes its
    place."""
    return hooks.add_hook(hooks.EVERYWHERE["buffer"], hook)


def register_module_module_registration_hook(hook):
    """Call `hook(module, name, child)` for every child that is registered; what it returns takes its
    place."""
    return hooks.add_hook(hooks.EVERYWHERE["module"], hook)


__all__ = [name for name in list(globals()) if name.startswith("register_module_")]
