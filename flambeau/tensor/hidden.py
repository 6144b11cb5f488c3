"""Tensors that a custom Function keeps for backward and that are neither its arguments nor its results.

They have no history, so a second derivative through backward would miss how they depend on the arguments. While backward is
recorded (create_graph), they are joined to a node that finds out, when a gradient arrives, whether they depend: forward
runs twice on small stand-ins of the arguments that differ a little. If the tensor changed, the derivative is refused.
"""

from contextlib import contextmanager

from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor.function import Function, FunctionContext, _declared

STEP = 1e-3         # by which stand-ins of arguments differ


class _Refusal(Function):
    """The second operand as it is; a derivative of it raises."""

    @staticmethod
    def forward(message, value, *sources):
        return value.detach()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.message, ctx.count = inputs[0], len(inputs)

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError(ctx.message)


def refuse_derivative(message, value, *sources):
    """`value` as a result of `sources` whose derivative is an error."""
    return _Refusal.apply(message, value, *sources)


class _Edge(Function):
    """A stand-in of the arguments of a call: who gets a gradient through it depends on what the call hid."""

    @staticmethod
    def forward(check, *inputs):
        return _core.empty_strided((0,), None, inputs[0].dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.count = len(inputs)

    @staticmethod
    def backward(ctx, grad):
        return (None,) * ctx.count


class _Joined(Function):
    """A hidden tensor as a result of the arguments; its derivative checks whether it depends on them."""

    @staticmethod
    def forward(check, value, edge):
        return value.detach()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.check = inputs[0]

    @staticmethod
    def backward(ctx, grad):
        ctx.check()
        return None, None, None


class Hidden:
    """The hidden tensors of one call: `places` among the saved tensors, `names` of the context's attributes."""

    def __init__(self, function, places, names, edge, args, kwargs):
        self.function, self.places, self.names, self.edge = function, places, names, edge
        self.args = [(tuple(a.shape), a.dtype) if isinstance(a, Tensor) else a for a in args]
        self.tensors = [isinstance(a, Tensor) for a in args]
        self.kwargs = kwargs

    def shown(self, place, tensor):
        """A saved tensor as backward gets it."""
        if place not in self.places or not _core.grad_mode():
            return tensor
        return _Joined.apply(lambda: self.check(lambda ctx: ctx._saved[place], f"saved tensor {place}"), tensor, self.edge)

    @contextmanager
    def attributes_shown(self, ctx):
        """The context's attributes as backward gets them."""
        kept = {name: getattr(ctx, name) for name in self.names}
        for name, tensor in kept.items():
            joined = _Joined.apply(lambda name=name: self.check(lambda made: getattr(made, name), f"ctx.{name}"),
                                   tensor, self.edge)
            setattr(ctx, name, joined)
        try:
            yield
        finally:
            for name, tensor in kept.items():
                setattr(ctx, name, tensor)

    def check(self, read, what):
        """Raise if what `read` finds in the context depends on the arguments."""
        try:
            first, second = (read(self.run(step)) for step in (0.0, STEP))
            same = tuple(first.shape) == tuple(second.shape) and bool((first == second).all().item())
        except Exception:           # forward does not take the stand-ins: nothing is known, so the gradient is refused
            same = False
        if not same:
            raise RuntimeError(
                f"[{self.function.__name__}] {what} was computed inside forward, where nothing is recorded, so its share of the "
                "second derivative would be missing\n  hint: save inputs and outputs only and compute the rest in backward, return "
                "it as one more output, or mark backward with @once_differentiable")

    def run(self, step):
        """The context of forward on stand-ins of the arguments."""
        from flambeau.tensor.create import rand
        from flambeau.tensor.rng import Generator, default_generator
        state, fixed = default_generator.get_state(), Generator().manual_seed(0)
        given = []
        for is_tensor, arg in zip(self.tensors, self.args):
            if is_tensor:
                shape, dtype = arg
                drawn = rand(shape, generator=fixed) * 0.8 + 0.1
                arg = (drawn + step * drawn).to(dtype) if dtype.kind in "fc" else (drawn * 0).to(dtype)
            given.append(arg)
        ctx = FunctionContext()
        ctx.needs_input_grad = tuple(self.tensors)
        before = _core.set_grad_mode(False)
        try:
            if "setup_context" in _declared(self.function):
                self.function.setup_context(ctx, tuple(given), self.function.forward(*given, **self.kwargs))
            else:
                self.function.forward(ctx, *given, **self.kwargs)
        finally:
            _core.set_grad_mode(before)
            default_generator.set_state(state)
        return ctx


def hidden_in(function, ctx, args, kwargs, outputs):
    """The Hidden of a call, None if all that backward reads are arguments and results."""
    attributes = [name for name in vars(ctx) if not name.startswith("_") and name != "needs_input_grad"]
    if not ctx._saved and not attributes:
        return None
    known = {id(t) for t in (*args, *outputs, *ctx._outputs)}
    storages = {id(t.storage_) for t in (*args, *outputs) if isinstance(t, Tensor)}

    def hides(t):
        return (isinstance(t, Tensor) and t.dtype.kind in "fc" and id(t) not in known and not t.requires_grad
                and id(t.storage_) not in storages)

    places = {i for i, t in enumerate(ctx._saved) if i not in ctx._outputs and hides(t)}
    names = [name for name in attributes if hides(getattr(ctx, name))]
    if not places and not names or function in (_Joined, _Edge, _Refusal):
        return None
    sources = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    before = _core.set_grad_mode(True)
    try:
        return Hidden(function, places, names, _Edge.apply(None, *sources), args, kwargs)
    finally:
        _core.set_grad_mode(before)

