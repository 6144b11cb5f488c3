"""Function: an operation whose derivative the user writes (torch.autograd.Function).

What forward computes is not on the tape. A tensor that backward reads, but that is neither argument nor result of forward, so
has no history: its derivative would be lost, silently, in a double backward. Such tensors are joined to a node
(`hidden.py`) that raises when a second derivative goes through one that depends on the arguments.
"""

from flambeau.base.errors import fail
from flambeau.ops.wrapped import wrapped_among
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor


class FunctionContext:
    """What forward leaves for backward: saved tensors, flags, and any attributes of the user's."""

    def __init__(self):
        self._saved, self._outputs, self._node = (), {}, None
        self._non_differentiable, self._dirty, self._materialize = (), (), True
        self._for_forward, self._hidden = None, None
        self.needs_input_grad = ()

    def save_for_backward(self, *tensors):
        """Keep tensors (inputs, outputs or others; None is allowed) for `saved_tensors`."""
        self._saved = tensors

    @property
    def saved_tensors(self):
        """What `save_for_backward` was given; an output is joined to the tape again."""
        if self._released:
            raise RuntimeError("Trying to backward through the graph a second time (or directly access saved tensors after "
                               "they have already been freed). Pass retain_graph=True to the first backward.")
        found = []
        for i, t in enumerate(self._saved):
            if i in self._outputs and self._node is not None:
                t = self._node.join(t, self._outputs[i])
            elif self._hidden is not None:
                t = self._hidden.shown(i, t)
            elif isinstance(t, Tensor) and t._version != self._versions[i]:
                raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace "
                                   f"operation: saved tensor {i} of {self._name}")
            found.append(t)
        return tuple(found)

    def save_for_forward(self, *tensors):
        """Keep tensors for `jvp`, where they are `saved_tensors`."""
        self._for_forward = tensors

    def mark_non_differentiable(self, *outputs):
        """These outputs get no gradient."""
        self._non_differentiable = outputs

    def mark_dirty(self, *inputs):
        """These inputs were written in place."""
        self._dirty = inputs

    def set_materialize_grads(self, value):
        """False: backward receives None for outputs without gradient instead of zeros."""
        self._materialize = value

    _released, _versions = False, ()
    _name = "Function"

    def seal(self, name, outputs):
        """After forward: saved outputs are kept without their history, versions are noted."""
        self._name = name
        places = {id(o): i for i, o in enumerate(outputs) if isinstance(o, Tensor)}
        self._outputs = {i: places[id(t)] for i, t in enumerate(self._saved) if id(t) in places}
        self._saved = tuple(t.detach() if i in self._outputs else t for i, t in enumerate(self._saved))
        self._versions = tuple(t._version if isinstance(t, Tensor) else 0 for t in self._saved)


class _Operation:
    """What the tape asks of a recorded Function."""

    derivative_roles = (False, [], ["ctx"])
    wants_node = True

    def __init__(self, function):
        self.function, self.name = function, function.__name__
        self.native = _core.NativeOp(self, self.name, 0, True)
        self.native.backward_name = self.name + "Backward"
        self.rule = _core.BackwardRule(0, 0, False, [], [], None)

    def derivative_at(self, node, grad, ctx):
        """The user's backward on complete gradients."""
        from flambeau.ops.derive import zeros_of
        grads = grad if isinstance(grad, (list, tuple)) else [grad]
        if ctx._materialize and node.output_shapes_ is not None:
            grads = [zeros_of(s) if g is None and s is not None else g for g, s in zip(grads, node.output_shapes_)]
        ctx._node = node
        try:
            if ctx._hidden is not None and _core.grad_mode():
                with ctx._hidden.attributes_shown(ctx):
                    result = self.function.backward(ctx, *grads)
            else:
                result = self.function.backward(ctx, *grads)
        finally:
            ctx._node = None
        return checked_gradients(self.name, result, len(node.needs()))


def checked_gradients(name, result, wanted):
    """What backward returned as a tuple of `wanted` gradients."""
    result = result if isinstance(result, tuple) else (result,)
    if len(result) < wanted or any(r is not None for r in result[wanted:]):
        fail(name, "backward returned the wrong number of gradients", len(result), f"{wanted}, one for each "
             "argument of forward (None where there is none)")
    return result[:wanted]


class Function:
    """Base class: subclasses state static methods `forward` and `backward`; call them with `apply`.

    >>> class Double(fl.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> Double.apply(fl.ones(2, requires_grad=True)).sum().backward()
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function "
                                  "to use it with backward mode AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap static method or "
                                  "set generate_vmap_rule=True.")

    @staticmethod
    def jvp(ctx, *tangents):
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward "
                                  "mode AD.")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run forward outside the tape and record the call."""
        wrapped = wrapped_among(args)
        if wrapped is not None:
            return wrapped.level.custom_function(cls, args, kwargs)
        return cls._call(FunctionContext(), args, kwargs)

    @classmethod
    def _call(cls, ctx, args, kwargs):
        """`apply` to plain tensors, with a context that the caller keeps."""
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        recorded = _core.grad_mode() and any(ctx.needs_input_grad)
        before = _core.set_grad_mode(False)
        try:
            if "setup_context" in _declared(cls):
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        finally:
            _core.set_grad_mode(before)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        inputs = {id(a) for a in args if isinstance(a, Tensor)}
        dirty = {id(t) for t in ctx._dirty}
        outputs = [o.detach() if id(o) in inputs and id(o) not in dirty else o for o in outputs]
        ctx.seal(cls.__name__, outputs)
        if recorded:
            from flambeau.tensor.hidden import hidden_in
            ctx._hidden = hidden_in(cls, ctx, args, kwargs, outputs)
            cls._record(ctx, args, outputs)
        return type(result)(outputs) if isinstance(result, (tuple, list)) else outputs[0]

    @classmethod
    def _record(cls, ctx, args, outputs):
        operation = cls.__dict__.get("_flambeau_operation")
        if operation is None:
            operation = _Operation(cls)
            cls._flambeau_operation = operation
        silent = {id(t) for t in ctx._non_differentiable}
        kept = [o if isinstance(o, Tensor) and id(o) not in silent and o.dtype.kind in "fc" else None for o in outputs]
        if any(k is not None for k in kept):
            _core.record(operation.native, operation.rule, args, kept, {"ctx": ctx}, False)


def _declared(cls):
    return {name for base in cls.__mro__[:-1] if base is not Function for name in vars(base)}


def once_differentiable(backward):
    """Decorator of a backward that cannot itself be differentiated: a derivative of its results is an error."""
    def wrapped(ctx, *grads):
        from flambeau.tensor.hidden import refuse_derivative
        before = _core.set_grad_mode(False)
        try:
            found = backward(ctx, *[g.detach() if isinstance(g, Tensor) else g for g in grads])
        finally:
            _core.set_grad_mode(before)
        recorded = [g for g in grads if isinstance(g, Tensor) and g.requires_grad]
        if not before or not recorded:
            return found
        results = found if isinstance(found, tuple) else (found,)
        message = "trying to differentiate twice a function that was marked with @once_differentiable"
        made = tuple(refuse_derivative(message, r, *recorded) if isinstance(r, Tensor) else r for r in results)
        return made if isinstance(found, tuple) else made[0]
    return wrapped


# PyTorch's names for the context and for a Function without hidden context
FunctionCtx = FunctionContext


class InplaceFunction(Function):
    """A Function that writes in place: the old base class, with `inplace` as an attribute."""

    def __init__(self, inplace=False):
        self.inplace = inplace
