"""Custom autograd Functions inside transforms.

Each level runs the function on the values below it, which may be values of further levels, and adds its own part: a node whose
derivative is the user's backward, tangents by the user's jvp, a batch by the user's vmap (or by running all of it on
batches).
"""

from collections import namedtuple

from flambeau.base import tree
from flambeau.base.errors import fail
from flambeau.ops.elementwise import full_like
from flambeau.ops.reduce import sum as total
from flambeau.ops.wrapped import wrapped_among
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.tensor.function import (
    Function,
    FunctionContext,
    _declared,
    checked_gradients,
)
from flambeau.transform.levels import below

VmapInfo = namedtuple("VmapInfo", ("batch_size", "randomness"))


class LevelContext(FunctionContext):
    """The context of a call at one level: what is saved are values below it, with their own history."""

    @property
    def saved_tensors(self):
        return self._saved


def _run(level, function, args, kwargs, shared=False):
    """(result of the function below a level, the context of the level).

    With `shared` the tape below may record the call with the same context: forward runs once, and both jvp and
    backward find what it left there.
    """
    lower, ctx = below(level, tuple(args)), LevelContext()
    ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
    if "setup_context" in _declared(function):
        result = function.apply(*lower, **kwargs)
        function.setup_context(ctx, lower, result)
        return result, ctx
    if shared and wrapped_among(lower) is None:
        ctx = FunctionContext()
        return function._call(ctx, lower, kwargs), ctx
    if wrapped_among(lower) is not None or any(isinstance(a, Tensor) and a.requires_grad for a in lower):
        fail(function.__name__, "inside several transforms an autograd.Function must have the setup_context staticmethod",
             hint="split forward(ctx, ...) into forward(...) and setup_context(ctx, inputs, output)")
    before = _core.set_grad_mode(False)
    try:
        return function.forward(ctx, *lower, **kwargs), ctx
    finally:
        _core.set_grad_mode(before)


def _listed(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _like(result, made):
    return type(result)(made) if isinstance(result, (tuple, list)) else made[0]


def _given_back(level, args, ctx, outputs, made):
    """The results, where an argument that was written in place is itself one: it becomes the result."""
    dirty = {id(t) for t in ctx._dirty}
    for place, output in enumerate(outputs):
        for arg in args:
            if id(output) in dirty and below(level, arg) is output:
                arg.take(made[place])
                made[place] = arg
    return made


# ---------------------------------------------------------------------------------- reverse
class _Backward:
    """What the walk backward asks of the node of a Function: its gradients are the user's."""

    kind = "function"

    def __init__(self, function, ctx):
        self.name, self.function, self.ctx = function.__name__, function, ctx

    def gradients(self, node, grads):
        if self.ctx._materialize:
            grads = [full_like(r, 0) if g is None and isinstance(r, Tensor) else g for g, r in zip(grads, node.results)]
        return checked_gradients(self.name, self.function.backward(self.ctx, *grads), len(node.operands))


def reverse(level, function, args, kwargs):
    """A call recorded on a reverse level."""
    from flambeau.transform.reverse import Node, Recorded
    result, ctx = _run(level, function, args, kwargs)
    outputs, sources = _listed(result), [level.source(a) for a in args]
    if not _core.grad_mode() or not any(s is not None for s in sources):
        return result
    level.count += 1
    silent = {id(t) for t in ctx._non_differentiable}
    node = Node(_Backward(function, ctx), below(level, list(args)), {}, tuple(outputs), sources, level.count)
    made = [Recorded.make(level, o, node=node, place=i)
            if isinstance(o, Tensor) and o.dtype.kind in "fc" and id(o) not in silent else o for i, o in enumerate(outputs)]
    return _like(result, _given_back(level, args, ctx, outputs, made))


# ---------------------------------------------------------------------------------- forward
def _jvp(function, ctx, tangents):
    """The user's jvp, where `saved_tensors` are those of save_for_forward if there was such a call."""
    if ctx._for_forward is None:
        return function.jvp(ctx, *tangents)
    kept = ctx._saved, ctx._outputs, ctx._versions, ctx._hidden
    ctx._saved, ctx._outputs, ctx._hidden = ctx._for_forward, {}, None
    ctx._versions = tuple(t._version if isinstance(t, Tensor) else 0 for t in ctx._saved)
    try:
        return function.jvp(ctx, *tangents)
    finally:
        ctx._saved, ctx._outputs, ctx._versions, ctx._hidden = kept


def forward(level, function, args, kwargs):
    """A call with tangents: by the function's jvp, else by the transpose of its backward."""
    result, ctx = _run(level, function, args, kwargs, shared="jvp" in _declared(function))
    outputs, tangents = _listed(result), [level.tangent_of(a) for a in args]
    if not _core.grad_mode() or all(t is None for t in tangents):
        return result
    silent = {id(t) for t in ctx._non_differentiable}
    wanted = [isinstance(o, Tensor) and o.dtype.kind in "fc" and id(o) not in silent for o in outputs]
    if "jvp" in _declared(function):
        found = _listed(_jvp(function, ctx, tangents))
    else:
        found = _transposed(function, ctx, below(level, list(args)), outputs, wanted, tangents)
    made = [level.dual(o, t if t is not None else full_like(o, 0)) if w else o for o, t, w in zip(outputs, found, wanted)]
    return _like(result, _given_back(level, args, ctx, outputs, made))


def _transposed(function, ctx, operands, outputs, wanted, tangents):
    from flambeau.transform.reverse import Node, ReverseLevel
    with ReverseLevel() as level:
        seeds = [level.input(full_like(o, 0)) if w else None for o, w in zip(outputs, wanted)]
        node = Node(_Backward(function, ctx), operands, {}, tuple(outputs), [])
        grads = node.operation.gradients(node, seeds)
        pairs = [(g, t) for g, t in zip(grads, tangents) if g is not None and t is not None]
        found = iter(level.gradients([g for g, _ in pairs], [t for _, t in pairs], [s.node for s in seeds if s is not None]))
    return [None if s is None else next(found) for s in seeds]


# ---------------------------------------------------------------------------------- batches
def batch(level, function, args, kwargs):
    """A call on a batch."""
    args = [level.unshared(a) for a in args]
    flags = tuple(map(level.batched, args))
    if not any(flags):
        return function.apply(*args, **kwargs)
    inner = [a.inner if has else a for a, has in zip(args, flags)]
    stated = "vmap" in _declared(function)
    if stated and function.generate_vmap_rule:
        fail(function.__name__, "has both vmap and generate_vmap_rule=True", hint="delete one of them")
    if stated:
        return _by_rule(level, function, inner, flags, kwargs)
    if not function.generate_vmap_rule:
        fail(function.__name__, "a custom autograd.Function inside vmap needs a rule",
             hint="set generate_vmap_rule = True, or override the vmap staticmethod")
    if "setup_context" not in _declared(function):
        fail(function.__name__, "generate_vmap_rule=True needs the setup_context staticmethod",
             hint="split forward(ctx, ...) into forward(...) and setup_context(ctx, inputs, output)")
    batched = _batched_function(function, flags, level.size, level.randomness)
    result = batched.apply(*inner, **kwargs)
    found = [level.wrap(o) if isinstance(o, Tensor) else o for o in _listed(result)]
    return _like(result, found)


def _by_rule(level, function, inner, flags, kwargs):
    from flambeau.transform.batch import _spread_over
    from flambeau.transform.batching import batch_front
    dims = tuple(0 if has else None for has in flags)
    found = function.vmap(VmapInfo(level.size, level.randomness), dims, *inner, **kwargs)
    if not isinstance(found, tuple) or len(found) != 2:
        fail(function.__name__, "vmap must return (output, out_dims)", type(found).__name__)
    output, out_dims = found
    leaves, structure = tree.flatten(output)
    places = _spread_over(out_dims, output, "out_dims")
    return tree.unflatten([leaf if dim is None or not isinstance(leaf, Tensor) else level.wrap(batch_front(leaf, dim))
                           for leaf, dim in zip(leaves, places)], structure)


def _batched_function(function, flags, size, randomness):
    """`function` over batches as a Function of the tensors below: forward, context and backward run on batches."""
    from flambeau.transform.batching import BatchLevel

    def wrapped(level, values, which):
        return [level.wrap(v) if has and isinstance(v, Tensor) else v for v, has in zip(values, which)]

    def held_by(ctx):
        return {n: v for n, v in vars(ctx).items() if not n.startswith("_") and n != "needs_input_grad"}

    key = flags, size, randomness
    known = function.__dict__.get("_flambeau_batched", {})
    if key in known:
        return known[key]

    class Over(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inner, **kwargs):
            with BatchLevel(size, randomness) as level:
                result = function.forward(*wrapped(level, inner, flags), **kwargs)
                made = [level.whole(o) if isinstance(o, Tensor) else o for o in _listed(result)]
            return _like(result, made)

        @staticmethod
        def setup_context(ctx, inputs, output):
            inside = LevelContext()
            inside.needs_input_grad = ctx.needs_input_grad
            with BatchLevel(size, randomness) as level:
                given, results = wrapped(level, inputs, flags), wrapped(level, _listed(output), [True] * len(_listed(output)))
                function.setup_context(inside, tuple(given), _like(output, results))
                ctx.batched_names = {name: level.batched(v) for name, v in held_by(inside).items()}
                for name, value in held_by(inside).items():
                    setattr(ctx, "of_" + name, below(level, value))
                ctx.has, saved = tuple(map(level.batched, inside._saved)), below(level, inside._saved)
                ctx.mark_non_differentiable(*below(level, tuple(inside._non_differentiable)))
            ctx.set_materialize_grads(inside._materialize)
            ctx.save_for_backward(*saved)

        @staticmethod
        def backward(ctx, *grads):
            with BatchLevel(size, randomness) as level:
                inside = LevelContext()
                inside.needs_input_grad = ctx.needs_input_grad
                inside.save_for_backward(*wrapped(level, ctx.saved_tensors, ctx.has))
                for name, has in ctx.batched_names.items():
                    value = getattr(ctx, "of_" + name)
                    setattr(inside, name, level.wrap(value) if has else value)
                given = [None if g is None else level.wrap(g) for g in grads]
                found = checked_gradients(function.__name__, function.backward(inside, *given), len(flags))
                return tuple(None if g is None else level.whole(g) if has else total(level.whole(g), 0)
                             for g, has in zip(found, flags))

    Over.__name__ = function.__name__
    function._flambeau_batched = {**known, key: Over}
    return Over
