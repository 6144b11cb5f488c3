"""Activation checkpointing: less memory for a second forward pass (Chen et al., "Training Deep Nets with Sublinear Memory
Cost", 2016). Names and behaviour are those of `torch.utils.checkpoint`.

The forward pass runs as always, but in place of what its ops save the graph keeps numbers. The first time that the
backward pass asks for one of them, the function runs again and its saved tensors are collected by number.
"""

import warnings
import weakref
from contextlib import nullcontext

from flambeau.base import tree
from flambeau.base.errors import fail
from flambeau.ops import interpose
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor import graph
from flambeau.tensor.autograd import backward, enable_grad, no_grad
from flambeau.tensor.function import Function
from flambeau.tensor.rng import get_rng_state, set_rng_state

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "set_checkpoint_early_stop"]

_early_stop = [True]


class CheckpointError(RuntimeError):
    """The second forward pass was not like the first."""


class set_checkpoint_early_stop:        # noqa: N801 - PyTorch's name
    """Whether a second forward pass may stop once all saved tensors are there; for a block or from now on."""

    def __init__(self, enable):
        self.before = _early_stop[0]
        _early_stop[0] = bool(enable)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        _early_stop[0] = self.before


class _Stop(Exception):
    """All saved tensors are collected."""


class _Holder:
    """What the graph keeps in place of a saved tensor."""

    def __init__(self, frame, number):
        self.frame, self.number = frame, number


class _Frame:
    """One checkpointed call: how to run it again, and the tensors that the second run saved."""

    def __init__(self, function, args, kwargs, preserve_rng_state, context, determinism):
        self.function, self.context, self.determinism = function, context, determinism
        self.early_stop, self.interposers = _early_stop[0], interpose.lasting()
        self.state = get_rng_state() if preserve_rng_state else None
        leaves, self.structure = tree.flatten((args, kwargs))
        outer = graph._stack()[-1] if graph._stack() else None
        self.leaves = [self._kept(leaf, outer) for leaf in leaves]
        self.unpack_argument = outer[1] if outer else None
        self.described, self.holders, self.values, self.asked = [], [], {}, set()

    @staticmethod
    def _kept(leaf, outer):
        """An argument; tensors go through the hooks around this call, as anything that is saved does."""
        if isinstance(leaf, Tensor) and outer is not None and leaf.requires_grad:
            return True, outer[0](leaf.detach()), leaf.requires_grad
        return False, leaf, None

    def pack(self, tensor):
        number = len(self.described)
        holder = _Holder(self, number)
        self.described.append((tuple(tensor.shape), tensor.dtype))
        self.holders.append(weakref.ref(holder, lambda _, values=self.values: values.pop(number, None)))
        return holder

    def unpack(self, holder):
        if holder.number not in self.values:
            self.run_again()
        self.asked.add(holder.number)
        value = self.values[holder.number]
        if len(self.asked) == len(self.described):      # all were needed once: another pass runs the function again
            self.asked.clear()
            self.values.clear()
        return value

    def arguments(self):
        leaves = []
        for packed, leaf, requires_grad in self.leaves:
            if packed:
                leaf = self.unpack_argument(leaf).detach().requires_grad_(requires_grad)
            elif isinstance(leaf, Tensor):
                leaf = leaf.detach().requires_grad_(leaf.requires_grad) if leaf.grad_fn is not None else leaf
            leaves.append(leaf)
        return tree.unflatten(leaves, self.structure)

    def run_again(self):
        args, kwargs = self.arguments()
        seen = [0]

        def collect(tensor):
            number = seen[0]
            seen[0] += 1
            if number < len(self.described):
                self._check(number, tensor)
                if self.holders[number]() is not None:
                    self.values[number] = tensor.detach()
                if self.early_stop and seen[0] == len(self.described):
                    raise _Stop
            return tensor.detach()

        before = get_rng_state() if self.state is not None else None
        try:
            if self.state is not None:
                set_rng_state(self.state)
            with enable_grad(), interpose.replaced(self.interposers), self.context(), graph.saved_tensors_hooks(collect, lambda kept: kept):
                self.function(*args, **kwargs)
        except _Stop:
            pass
        finally:
            if before is not None:
                set_rng_state(before)
        if seen[0] != len(self.described):
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation: "
                f"{len(self.described)} at first, {seen[0]} in the second pass\n"
                "  hint: the function must do the same both times; pass what it depends on as arguments")

    def _check(self, number, tensor):
        shape, dtype = self.described[number]
        if self.determinism != "none" and (tuple(tensor.shape) != shape or tensor.dtype is not dtype):
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during the forward "
                f"pass: saved tensor {number} was {dtype} of shape {shape}, is {tensor.dtype} of shape "
                f"{tuple(tensor.shape)} now")


def checkpoint(function, *args, use_reentrant=None, context_fn=None, determinism_check="default", debug=False,
               early_stop=True, preserve_rng_state=True, **kwargs):
    """function(*args, **kwargs), whose inner tensors are not kept for the backward pass but computed again there.

    Args:
        function: does the same with the same arguments each time it is called.
        preserve_rng_state: draw the same random numbers (dropout) in the second pass.
        use_reentrant: True: the older form, which runs a backward pass of its own inside the backward pass; only
            tensors among the positional arguments get gradients.
        context_fn: returns two context managers, for the first and the second run of the function.
        determinism_check: 'default' compares shapes and dtypes of what both passes save, 'none' does not.
        early_stop: stop the second pass when all that is needed is there.

    Raises:
        CheckpointError: in the backward pass, if the second pass saves other tensors than the first.

    >>> x = fl.ones(3, requires_grad=True)
    >>> fl.autograd.checkpoint(lambda x: (x.exp() * x).sum(), x).backward()
    >>> x.grad
    tensor([5.4366, 5.4366, 5.4366])
    """
    if determinism_check not in ("default", "none"):
        fail("checkpoint", "unknown determinism_check", repr(determinism_check), "'default' or 'none'", kind=ValueError)
    if use_reentrant:
        if kwargs or context_fn is not None:
            raise ValueError("checkpoint: with use_reentrant=True there are no keyword arguments and no context_fn; pass "
                             "use_reentrant=False")
        return _reentrant(function, args, preserve_rng_state)
    forward_context, second = context_fn() if context_fn is not None else (nullcontext(), nullcontext())
    if not _core.grad_mode():
        with forward_context:
            return function(*args, **kwargs)
    frame = _Frame(function, args, kwargs, preserve_rng_state, lambda: second, determinism_check)
    frame.early_stop = frame.early_stop and early_stop and not debug
    with forward_context, graph.saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Run a sequence of modules with checkpoints around all of its `segments` parts but the last.

    Args:
        functions: a Sequential, or a list of modules or functions.
        segments: number of parts. input: of the first. preserve_rng_state: as of `checkpoint`.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def part(start, end):
        def forward(x):
            for function in functions[start:end]:
                x = function(x)
            return x
        return forward

    size = len(functions) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(end, len(functions))(input)


# ---------------------------------------------------------------------------------- the older form
class _Reentrant(Function):
    """The function without a graph; its backward pass builds one and walks it."""

    @staticmethod
    def forward(ctx, function, state, *args):
        ctx.function, ctx.state, ctx.args, ctx.interposers = function, state, args, interpose.lasting()
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx, *grads):
        args = [a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in ctx.args]
        before = get_rng_state()
        try:
            if ctx.state is not None:
                set_rng_state(ctx.state)
            with enable_grad(), interpose.replaced(ctx.interposers):
                outputs = ctx.function(*args)
        finally:
            set_rng_state(before)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad and g is not None]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *[a.grad if isinstance(a, Tensor) else None for a in args])


def _reentrant(function, args, preserve):
    if _core.grad_mode() and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)
    return _Reentrant.apply(function, get_rng_state() if preserve else None, *args)
