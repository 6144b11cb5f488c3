"""The call of a module's `forward` between its hooks, and the hooks of its backward pass.

A module without hooks never comes here: `Module.__call__` goes straight to `forward`.
"""

import warnings
from collections import OrderedDict

from flambeau.runtime import _core
from flambeau.tensor import Tensor, is_grad_enabled
from flambeau.tensor.function import Function
from flambeau.tensor.hooks import RemovableHandle, add_hook

__all__ = ["EVERYWHERE", "RemovableHandle", "add_hook", "call_with_hooks", "registered"]

# Hooks of all modules, by the name of the table that a module has for its own; global_hooks.py fills them.
EVERYWHERE = {name: OrderedDict() for name in (
    "_forward_pre_hooks", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_backward_hooks",
    "_backward_pre_hooks", "parameter", "buffer", "module")}


def _hooks(module, table):
    """(id, hook) of every hook that a module's call runs: those of all modules first."""
    return [*EVERYWHERE[table].items(), *getattr(module, table).items()]


def _marked(module, table, identity):
    return identity in getattr(module, table) or identity in EVERYWHERE[table]


def registered(kind, module, name, value):
    """The 'parameter', 'buffer' or 'module' that is registered: what the hooks of all modules make of it."""
    for hook in list(EVERYWHERE[kind].values()):
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


def call_with_hooks(module, args, kwargs):
    """Run the forward pre-hooks, `forward` and the forward hooks of `module`."""
    called = set()
    result = None
    try:
        args, kwargs = _run_pre_hooks(module, args, kwargs)
        watched = _hooks(module, "_backward_hooks"), _hooks(module, "_backward_pre_hooks")
        watch = BackwardWatch(module, *watched) if any(watched) else None
        if watch is not None:
            args = watch.enter(args)
        result = module.forward(*args, **kwargs)
        for identity, hook in _hooks(module, "_forward_hooks"):
            called.add(identity)
            result = _run_forward_hook(module, identity, hook, args, kwargs, result)
        return result if watch is None else watch.leave(result)
    except Exception:
        _run_always_called(module, called, args, kwargs, result)
        raise


def _run_pre_hooks(module, args, kwargs):
    for identity, hook in _hooks(module, "_forward_pre_hooks"):
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
    if _marked(module, "_forward_hooks_with_kwargs", identity):
        changed = hook(module, args, kwargs, result)
    else:
        changed = hook(module, args, result)
    return result if changed is None else changed


def _run_always_called(module, called, args, kwargs, result):
    """After an error: run the hooks registered with `always_call=True` that have not run yet."""
    for identity, hook in _hooks(module, "_forward_hooks"):
        if identity in called or not _marked(module, "_forward_hooks_always_called", identity):
            continue
        try:
            result = _run_forward_hook(module, identity, hook, args, kwargs, result)
        except Exception as error:
            warnings.warn("module forward hook with ``always_call=True`` raised an exception "
                          f"that was silenced as another error was raised in forward: {error}", stacklevel=3)


class _Passing(Function):
    """Tensors pass unchanged; `seen(gradients)` says what goes on instead of their gradients."""

    @staticmethod
    def forward(ctx, seen, *tensors):
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        return (None, *ctx.seen(grads))


class BackwardWatch:
    """Calls a module's backward hooks: the pre-hooks when the gradients of its outputs are known, the others when those
    of its inputs are too. The module returns the very objects that `forward` did; only their place on the tape is later.
    """

    def __init__(self, module, hooks, pre_hooks):
        self.module = module
        self.hooks = [hook for _, hook in hooks]
        self.pre_hooks = [hook for _, hook in pre_hooks]
        self.grad_outputs = self.inputs = self.outputs = None
        self.input_count = self.output_count = 0
        self.given = {}             # id of a watched argument -> (the argument, the caller's tensor)

    def enter(self, args):
        """The arguments, watched."""
        self.input_count = len(args)
        places, passed = self._pass(args, self._of_inputs) if self.hooks else (None, ())
        if places is None:
            return args
        self.inputs, watched = places, list(args)
        for i, tensor in zip(places, passed):
            self.given[id(tensor)] = tensor, args[i]
            watched[i] = tensor
        return tuple(watched)

    def leave(self, result):
        """The result, watched."""
        several = isinstance(result, (tuple, list))
        values = tuple(result) if several else (result,)
        self.output_count = len(values)
        self.outputs, passed = self._pass(values, self._of_outputs)
        restored = tuple(self.given[id(value)][1] if id(value) in self.given else value for value in values)
        for i, tensor in zip(self.outputs or (), passed):
            if restored[i].grad_fn is not None:
                _core.rebase(restored[i], tensor)
            else:                               # a leaf that only passed through the module
                restored[i].register_hook(self._of_leaf)
        if not several:
            return restored[0]
        return type(result)(*restored) if hasattr(result, "_fields") else type(result)(restored)

    def _pass(self, values, seen):
        """(the places of tensors among `values`, those tensors passed through the tape), (None, ()) without gradient."""
        places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        if not is_grad_enabled() or not any(values[i].requires_grad for i in places):
            return None, ()
        return places, _Passing.apply(seen, *(values[i] for i in places))

    def _of_leaf(self, grad):
        passed = self._of_outputs((grad,) * len(self.outputs))
        return self._of_inputs(passed)[0] if self.inputs is not None else passed[0]

    def _of_outputs(self, grads):
        self.grad_outputs = _placed(grads, self.outputs, self.output_count)
        for hook in self.pre_hooks:
            changed = _as_tuple(hook(self.module, self.grad_outputs))
            if changed is not None:
                self.grad_outputs = _same_count("Backward pre hook", "grad_output", changed,
                                                self.grad_outputs)
        passed = tuple(self.grad_outputs[i] for i in self.outputs)
        if self.inputs is None:                     # nothing comes after the outputs' gradients
            for hook in self.hooks:
                changed = hook(self.module, (None,) * self.input_count, self.grad_outputs)
                if changed is not None and any(each is not None for each in _as_tuple(changed)):
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should "
                                       "always "
                                       "return None or None for all gradients.")
            self.grad_outputs = None
        return passed

    def _of_inputs(self, grads):
        if self.grad_outputs is None:               # the gradient came another way than through the outputs
            return grads
        given = _placed(grads, self.inputs, self.input_count)
        for hook in self.hooks:
            changed = _as_tuple(hook(self.module, given, self.grad_outputs))
            if changed is not None:
                given = _same_count("Backward hook", "grad_input", changed, given)
        self.grad_outputs = None
        return tuple(given[i] for i in self.inputs)


def _placed(grads, places, count):
    """Gradients at their places among `count` values, None elsewhere."""
    placed = [None] * count
    for i, grad in zip(places, grads):
        placed[i] = grad
    return tuple(placed)


def _as_tuple(changed):
    return (changed,) if isinstance(changed, Tensor) else changed


def _same_count(what, name, changed, given):
    if len(changed) != len(given):
        raise RuntimeError(f"{what} returned an invalid number of {name}, got {len(changed)}, but expected "
                           f"{len(given)}")
    return changed
