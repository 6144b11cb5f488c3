"""The call of a module's `forward` between its hooks.

A module without hooks never comes here: `Module.__call__` goes straight to `forward`.
"""

import warnings

from flambeau.tensor.hooks import RemovableHandle, add_hook

__all__ = ["RemovableHandle", "add_hook", "call_with_hooks"]


def call_with_hooks(module, args, kwargs):
    """Run the forward pre-hooks, `forward` and the forward hooks of `module`."""
    called = set()
    result = None
    try:
        args, kwargs = _run_pre_hooks(module, args, kwargs)
        result = module.forward(*args, **kwargs)
        for identity, hook in list(module._forward_hooks.items()):
            called.add(identity)
            result = _run_forward_hook(module, identity, hook, args, kwargs, result)
        return result
    except Exception:
        _run_always_called(module, called, args, kwargs, result)
        raise


def _run_pre_hooks(module, args, kwargs):
    for identity, hook in list(module._forward_pre_hooks.items()):
        if identity in module._forward_pre_hooks_with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError("forward pre-hook must return None or a tuple "
                                   f"of (new_args, new_kwargs), but got {changed}.")
            args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def _run_forward_hook(module, identity, hook, args, kwargs, result):
    if identity in module._forward_hooks_with_kwargs:
        changed = hook(module, args, kwargs, result)
    else:
        changed = hook(module, args, result)
    return result if changed is None else changed


def _run_always_called(module, called, args, kwargs, result):
    """After an error: run the hooks registered with `always_call=True` that have not run yet."""
    for identity, hook in list(module._forward_hooks.items()):
        if identity not in module._forward_hooks_always_called or identity in called:
            continue
        try:
            result = _run_forward_hook(module, identity, hook, args, kwargs, result)
        except Exception as error:
            warnings.warn("module forward hook with ``always_call=True`` raised an exception "
                          f"that was silenced as another error was raised in forward: {error}", stacklevel=3)
