"""The level of forward-mode transforms: every value carries its directional derivative.

The tangent of a result follows from statements that ops have already. A view of a pair is the pair of views. Elementwise
ops have a diagonal Jacobian, so their derivative takes tangents as well as gradients. For the rest the gradient of
the operands is a linear function of the gradient of the results; its own gradient, taken by a reverse level, is the
Jacobian times a vector (the transpose of a transpose).
"""

from flambeau.ops import derive, plans, trace
from flambeau.ops.elementwise import cast, full_like
from flambeau.ops.spec import bind
from flambeau.ops.view import expand
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.transform.levels import Level, below
from flambeau.transform.reverse import (
    Node,
    ReverseLevel,
    derivative_graph,
    has_derivative,
    operand_gradients,
)
from flambeau.transform.window import Movable


class Dual(Movable):
    """A tensor with a tangent: `inner` and `tangent` have one shape; tangent None for a constant made inside."""

    requires_grad = property(lambda self: self.tangent is not None, lambda self, value: None)


class ForwardLevel(Level):
    """Propagates tangents from the operands of every op to its results."""

    name = "jvp"

    def dual(self, primal, tangent):
        return Dual.make(self, primal, tangent=tangent)

    def tangent_of(self, value):
        """The tangent of a value of this level, None where it does not depend on the inputs."""
        if not isinstance(value, Dual) or value.level is not self:
            return None
        value.refresh()
        return value.tangent

    def is_constant(self, value):
        return self.tangent_of(value) is None

    def fresh(self, made):
        return self.dual(made, None)

    def process(self, operation, values):
        if self.ended:
            return bind(operation, (), {name: below(self, value) for name, value in values.items()})
        if operation.recorded is not None and _core.grad_mode():
            return operation.recorded(values)
        operands, attrs = operation.split(values)
        lower = [below(self, o) for o in operands]
        result = plans.interpret(operation, lower, {name: below(self, value) for name, value in values.items()})
        tangents = [self.tangent_of(o) if isinstance(o, Tensor) and o.dtype.kind in "fc" else None for o in operands]
        results = result if isinstance(result, tuple) else (result,)
        if all(self.tangent_of(o) is None for o in operands):       # of constants made inside
            made = [None] * len(results)
        elif has_derivative(operation) and _core.grad_mode() and any(t is not None for t in tangents):
            made = self.tangents(operation, lower, attrs, results, tangents)
        elif operation.kind == "view":
            made = [None]
        else:
            return result
        pairs = [self.dual(r, t) for r, t in zip(results, made)]
        if operation.kind == "view":
            pairs[0].__dict__["window"] = (operands[0], operation, attrs, operands[0].changes)
        return operation.pack(pairs) if isinstance(result, tuple) else pairs[0]

    def tangents(self, operation, operands, attrs, results, tangents):
        """The tangent of each result, None for those that are not floating point."""
        if operation.kind == "view":
            return [plans.apply(operation, tangents, attrs)]
        if operation.kind == "elementwise" and operation.outputs is None and operation.derivative is not None:
            return [self.diagonal(operation, operands, attrs, results[0], tangents)]
        with ReverseLevel() as level:
            seeds = [level.input(full_like(r, 0)) if r.dtype.kind in "fc" else None for r in results]
            node = Node(operation, operands, attrs, results, [True if t is not None else None for t in tangents], 0)
            grads = operand_gradients(node, list(seeds))
            pairs = [(g, t) for g, t in zip(grads, tangents) if g is not None and t is not None]
            wanted = [s.node for s in seeds if s is not None]
            found = iter(level.gradients([g for g, _ in pairs], [_like(t, g) for g, t in pairs], wanted))
        return [None if s is None else _or_zeros(next(found), r) for s, r in zip(seeds, results)]

    def diagonal(self, operation, operands, attrs, result, tangents):
        total = None
        for i, tangent in enumerate(tangents):
            if tangent is None:
                continue
            graph, roles, targets = derivative_graph(operation, operands, attrs, 1 << i)
            if not targets:
                continue
            tangent = cast(tangent, result.dtype) if tangent.dtype is not result.dtype else tangent
            if tuple(tangent.shape) != tuple(result.shape):
                tangent = expand(tangent, tuple(result.shape))
            feed = [tangent if r < 100 else operands[r - 100] if r < 200 else result for r in roles]
            feed = [f if isinstance(f, Tensor) else derive.as_tensor(f, v.dtype) for f, v in zip(feed, graph.inputs)]
            part = trace.replay(graph, feed)[0]
            part = cast(part, result.dtype) if part.dtype is not result.dtype else part
            total = part if total is None else total + part
        return _or_zeros(total, result)

    def custom_function(self, function, args, kwargs):
        from flambeau.transform import custom
        return custom.forward(self, function, args, kwargs)

    def detached(self, tensor):
        return tensor.inner

    def read(self, tensor, what):
        return tensor.inner

    def replace(self, target, result):
        """target takes the value of `result`."""
        target.__dict__.update(inner=below(self, result), tangent=self.tangent_of(result))


def _like(tangent, grad):
    tangent = cast(tangent, grad.dtype) if tangent.dtype is not grad.dtype else tangent
    return tangent


def _or_zeros(tangent, like):
    if tangent is None:
        return full_like(like, 0)
    return expand(tangent, tuple(like.shape)) if tuple(tangent.shape) != tuple(like.shape) else tangent

