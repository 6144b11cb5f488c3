"""The recorded graph: its nodes and edges, and hooks on what it saves.

Names and behaviour are those of `torch.autograd.graph`.
"""

import threading
from contextlib import contextmanager
from typing import NamedTuple

from flambeau.base.errors import fail
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor.hooks import RemovableHandle

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
           "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]

Node = _core.Node
_local = threading.local()


class GradientEdge(NamedTuple):
    """A place in the graph: output `output_nr` of `node`."""

    node: object
    output_nr: int


def get_gradient_edge(tensor):
    """The edge that a tensor's gradient arrives on; it can stand for the tensor in `autograd.grad`."""
    if not tensor.requires_grad:
        fail("get_gradient_edge", "the tensor does not require grad", tuple(tensor.shape))
    node = tensor.grad_fn
    if node is None:
        from flambeau.tensor.autograd import AccumulateGrad
        return GradientEdge(AccumulateGrad(tensor), 0)
    return GradientEdge(node, tensor.output_nr)


# ---------------------------------------------------------------------------------- hooks on saved tensors
def _stack():
    if not hasattr(_local, "hooks"):
        _local.hooks, _local.forbidden = [], []
    return _local.hooks


def _innermost():
    return _stack()[-1]


class saved_tensors_hooks:      # noqa: N801 - PyTorch's name
    """Inside, a tensor that an op saves for the backward pass is replaced by `pack_hook(tensor)`, and brought back there by
    `unpack_hook(packed)`, which must return a tensor of the same shape and dtype. The innermost pair counts.

    >>> kept = []
    >>> with fl.autograd.graph.saved_tensors_hooks(lambda x: (kept.append(x), len(kept) - 1)[1], lambda i: kept[i]):
    ...     y = fl.ones(3, requires_grad=True).exp().sum()
    >>> len(kept)
    1
    >>> y.backward()
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        stack = _stack()
        if _local.forbidden:
            raise RuntimeError(_local.forbidden[-1])
        stack.append((self._packed, self.unpack_hook))
        _core.set_saved_hooks(True)
        return self

    def __exit__(self, *error):
        stack = _stack()
        stack.pop()
        _core.set_saved_hooks(bool(stack))

    def _packed(self, tensor):
        """The pack hook on an alias that is not on the tape, so that what it keeps does not keep the graph."""
        before = tensor._version
        _core.set_saved_hooks(False)
        try:
            packed = self.pack_hook(tensor)
        finally:
            _core.set_saved_hooks(True)
        if tensor._version != before:
            fail("saved_tensors_hooks", "the pack hook wrote to the tensor that it was given", tuple(tensor.shape),
                 hint="clone() it first")
        return packed


class save_on_cpu(saved_tensors_hooks):     # noqa: N801
    """Saved tensors are copied to the CPU's memory until they are needed; on the CPU that is a copy of each."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(tensor):
            copied = tensor.detach().clone()
            return copied, tensor.requires_grad
        super().__init__(pack, lambda packed: packed[0].requires_grad_(packed[1]) if packed[1] else packed[0])


@contextmanager
def disable_saved_tensors_hooks(error_message):
    """Inside, entering `saved_tensors_hooks` raises RuntimeError with this message."""
    _stack()
    _local.forbidden.append(error_message)
    try:
        yield
    finally:
        _local.forbidden.pop()


@contextmanager
def allow_mutation_on_saved_tensors():
    """Inside, tensors that the graph saved may be written to: the backward pass sees the values of the forward pass.

    Each saved tensor is copied when it is saved, which costs its memory.
    """
    with saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda copied: copied):
        yield


def increment_version(tensor):
    """Tell the graph that the memory of a tensor, or of several, was written to behind its back."""
    for each in [tensor] if isinstance(tensor, Tensor) else tensor:
        each._bump_version()


# ---------------------------------------------------------------------------------- hooks on several gradients
def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Call `fn` in a backward pass when gradients of `tensors` are known: once with the list of all of them (None for
    those without), or with mode 'any' once with the first.

    Returns a handle with `remove()`.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    state = {"grads": [None] * len(tensors), "left": len(tensors), "called": False}
    lock = threading.Lock()

    def watcher(place):
        def hook(gradient):
            with lock:
                state["grads"][place] = gradient
                state["left"] -= 1
                ready = state["left"] == 0 if mode == "all" else not state["called"]
                state["called"] = True
                grads = list(state["grads"])
                if state["left"] == 0:
                    state.update(grads=[None] * len(tensors), left=len(tensors), called=False)
            if ready:
                fn(grads if mode == "all" else gradient)
        return hook

    handles = [tensor.register_hook(watcher(place)) for place, tensor in enumerate(tensors)]
    return _Handles(handles)


class _Handles(RemovableHandle):
    """The handle of hooks that belong together."""

    def __init__(self, handles):
        self.handles = tuple(handles)

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __getstate__(self):
        return self.handles

    def __setstate__(self, handles):
        self.handles = handles


def saved_by_name(node, name):
    """The operand (self: the first) or result (result) called `name` that a node saved."""
    operation = node.operation.python
    if name in ("result", "output"):
        found = node.outputs()
        found = found[0] if isinstance(found, tuple) else found
    else:
        names = ["self" if operand == "input" else operand for operand in getattr(operation, "operands", ())]
        inputs = node.inputs()
        found = inputs[names.index(name)] if name in names[:len(inputs)] else None
        found = None if isinstance(found, Tensor) and found.storage_ is None else found
    if found is None:
        raise AttributeError(f"'{node.name()}' saved no '{name}'")
    return found


def node_hook(node, number, function):
    """Register a hook of a node: before its step (number 0) with the gradients of its outputs, or after it (-1)."""
    from flambeau.tensor.methods import HookHandle
    entry = node._add_hook(number, function if number < 0 else _before(function))
    return HookHandle(lambda: node._remove_hook(entry))


def _before(function):
    def hook(gradient):
        found = function((gradient,))
        return found[0] if isinstance(found, tuple) else found
    return hook


def after_node(node, grads, grad):
    """The gradients that the hooks after a node's step make of those of its inputs."""
    outer = tuple(grad) if isinstance(grad, list) else (grad,)
    inner = tuple(grads)
    for number, function in node.hook_list():
        if number < 0:
            found = function(inner, outer)
            inner = inner if found is None else found if isinstance(found, tuple) else (found,)
    return inner


def _stand_in(leaf, value):
    """A tensor with the elements of `value` and the gradient of `leaf`."""
    from flambeau.ops import plans
    from flambeau.ops.spec import REGISTRY
    out = value.detach()
    plans.record_python(REGISTRY["copy"], (leaf,), out, {})
    return out


_core.set_hook("saved_hooks", _innermost)
_core.set_hook("node_hook", node_hook)
_core.set_hook("after_node", after_node)
_core.set_hook("stand_in", _stand_in)
