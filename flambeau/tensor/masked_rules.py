"""How ops run on masked tensors, and the walk back from one.

An elementwise op runs on the elements and keeps the mask; where two are masked, their masks must be the same. Views and
joins move elements and masks alike. A reduction leaves out what is masked, and its result is masked where nothing was
left. Everything else is refused.
"""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.elementwise import cast, where
from flambeau.ops.masked import amax, amin, keep, mean, prod, sum as total, var
from flambeau.ops.mathematics import sqrt
from flambeau.ops.reduce import highest, lowest
from flambeau.ops.spec import bind
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime._core import Tensor
from flambeau.tensor import autograd
from flambeau.tensor.constants import full
from flambeau.tensor.function import Function
from flambeau.tensor.masked_tensor import MaskedTensor
from flambeau.types.dtype import bool_, float32
from flambeau.types.shape import broadcast_shapes


def process(operation, values):
    """Run a call in which masked tensors take part."""
    masked = _among(values)
    rule = RULES.get(operation.name) or KINDS.get(operation.kind, refuse)
    if all(m.derived and m.form is None for m in masked) and not _ruled(rule, operation, masked):
        return bind(operation, (), _replaced(values, _zeroed))
    if any(m.form is not None for m in masked) and rule not in ON_SPARSE:
        flat = operation.name == "reshape" and len(values["shape"]) == 1
        if not flat:
            refuse(operation, values, masked)
        masked = [masked[0].to_dense()]
        values = {**values, "input": masked[0]}
    result = rule(operation, values, masked)
    if any(m.derived for m in masked):
        for made in result if isinstance(result, tuple) else (result,):
            made._carried()
    return result


def _ruled(rule, operation, masked):
    """True if the masks of gradients can be kept; else they go on as plain ones, 0 where they are masked out."""
    return rule is not refuse and (rule is not elementwise or all(_same(operation, masked[0], m) for m in masked[1:]))


def _zeroed(value):
    return where(value.kept, value.inner, 0) if isinstance(value, MaskedTensor) else value


def refuse(operation, values, masked):
    kind = "a masked tensor" if masked[0].form is None else f"a masked tensor of layout {masked[0].layout}"
    fail(operation.name, f"not available for {kind}", hint="call .to_tensor(value) to fill in what is masked out, or "
         ".get_data() for all elements", kind=NotImplementedError)


def _among(values):
    found = []
    for value in values.values():
        found.extend(v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, MaskedTensor))
    return found


def _replaced(values, change):
    """The arguments with every tensor changed, in tuples too."""
    def new(value):
        if isinstance(value, tuple) and value and isinstance(value[0], Tensor):
            return tuple(new(v) for v in value)
        return change(value) if isinstance(value, Tensor) else value
    return {name: new(value) for name, value in values.items()}


# ---------------------------------------------------------------------------------- elementwise
def elementwise(operation, values, masked):
    first = masked[0]
    for other in masked[1:]:
        check_match(operation, first, other)
    result = bind(operation, (), _replaced(values, lambda t: _operand(operation, t, first)))
    kept = first.kept
    if first.form is None and tuple(kept.shape) != tuple(result.shape):
        kept = ops.expand(kept, tuple(result.shape))
    return MaskedTensor.of(result, kept, first.form)


def check_match(operation, first, second):
    """Masks, and places of sparse elements, must be the same."""
    if first.layout is not second.layout:
        fail(operation.name, "masked tensors of two layouts", first.layout, second.layout, kind=ValueError,
             hint="bring both into one, by .to_dense() or .to_sparse()")
    if first.form is not None and not first.form._same_places(second.form):
        raise ValueError(f"{str(first.layout).split('.')[-1]} indices must match. If you need support for this, please "
                         "open an issue on Github.")
    if not _same(operation, first, second):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")


def _same(operation, first, second):
    """True if both masks, broadcast, are the same."""
    a, b = first.kept, second.kept
    if a is b:
        return True
    if tuple(a.shape) != tuple(b.shape):
        shape = broadcast_shapes(tuple(a.shape), tuple(b.shape), op=operation.name)
        a, b = ops.expand(a, shape), ops.expand(b, shape)
    return bool((a == b).all())


def _operand(operation, value, like):
    """What stands beside the elements of `like`."""
    if isinstance(value, MaskedTensor):
        return value.inner
    if like.form is None or value.ndim == 0:
        return value
    if tuple(value.shape) != tuple(like.shape):
        fail(operation.name, "a sparse masked tensor does not broadcast", tuple(value.shape), tuple(like.shape),
             kind=ValueError)
    return like.form.values_of(value)


class Where(Function):
    """where() whose gradients are masked where the other operand was taken."""

    @staticmethod
    def forward(ctx, condition, input, other):
        ctx.condition = condition
        return where(condition, input, other)

    @staticmethod
    def backward(ctx, grad):
        if not is_wrapped(grad):
            return None, where(ctx.condition, grad, 0), where(ctx.condition, 0, grad)
        taken, other = grad.kept & ctx.condition, grad.kept & ~ctx.condition
        return None, MaskedTensor.of(grad.inner, taken)._carried(), MaskedTensor.of(grad.inner, other)._carried()


def choose(operation, values, masked):
    """where(): elements and masks from the operand that the condition names. A number is specified, but in the rules of
    derivatives, which mean the gradient of what was masked."""
    condition, *pair = (values[name] for name in operation.operands)
    if isinstance(condition, MaskedTensor):
        fail("where", "the condition is a masked tensor", hint="call .to_tensor(False) on it", kind=NotImplementedError)
    shape = broadcast_shapes(*[tuple(v.shape) for v in (condition, *pair) if isinstance(v, Tensor)], op="where")
    if not all(isinstance(v, Tensor) for v in pair):
        wide = {n: v.inner if isinstance(v, MaskedTensor) else v for n, v in values.items()}
        kept = [_kept(v) if isinstance(v, Tensor) else True for v in pair]
        kept = ops.expand(masked[0].kept, shape) if masked[0].derived else where(condition, *kept)
        return MaskedTensor.of(bind(operation, (), wide), kept)
    condition = ops.expand(condition, shape)
    inner, kept = zip(*[(ops.expand(_plain(v), shape), ops.expand(_kept(v), shape)) for v in pair])
    if inner[0].dtype is not inner[1].dtype:
        from flambeau.types.dtype import promote
        common = promote(inner[0].dtype, inner[1].dtype)
        inner = [cast(v, common) for v in inner]
    return MaskedTensor.of(Where.apply(condition, *inner), where(condition, *kept))


def _plain(value):
    return value.inner if isinstance(value, MaskedTensor) else value


def _kept(value):
    return value.kept if isinstance(value, MaskedTensor) else full(tuple(value.shape), True, dtype=bool_)


# ---------------------------------------------------------------------------------- views and joins
def structure(operation, values, masked):
    """The same op on elements and mask; a plain tensor among those that are joined is all specified."""
    joined = any(isinstance(v, tuple) and any(isinstance(t, MaskedTensor) for t in v) for v in values.values())
    kept = bind(operation, (), _replaced(values, _kept if joined else lambda t: getattr(t, "kept", t)))
    return _both(bind(operation, (), _replaced(values, _plain)), kept)


def _both(result, kept):
    if isinstance(result, tuple):
        return tuple(_both(r, k) for r, k in zip(result, kept))
    return MaskedTensor.of(result, kept)


def summing(operation, values, masked):
    """What adds elements at their places (derivatives of views): masked where nothing specified came to."""
    count = bind(operation, (), _replaced(values, lambda t: cast(t.kept, float32) if isinstance(t, MaskedTensor) else t))
    return MaskedTensor.of(bind(operation, (), _replaced(values, _plain)), count != 0)


# ---------------------------------------------------------------------------------- reductions
class Filled(Function):
    """The elements with a number where they are masked out; their gradient is masked there."""

    @staticmethod
    def forward(ctx, inner, kept, number, passage):
        ctx.kept, ctx.passage = kept, passage
        return keep(inner, kept, number)

    @staticmethod
    def backward(ctx, grad):
        if is_wrapped(grad):
            grad = MaskedTensor.of(grad.inner, grad.kept & ctx.kept)._carried()
        elif ctx.passage:
            grad = MaskedTensor.of(grad, ctx.kept)._carried()
        else:
            grad = where(ctx.kept, grad, 0)
        return grad, None, None, None


class Bared(Function):
    """A result whose gradient goes on without a mask, 0 where it is masked, until `Filled` puts the mask on again."""

    @staticmethod
    def forward(ctx, inner, kept, passage):
        ctx.kept, ctx.passage = kept, passage
        return inner.detach()

    @staticmethod
    def backward(ctx, grad):
        if is_wrapped(grad):
            ctx.passage.append(True)
            return where(grad.kept & ctx.kept, grad.inner, 0), None, None
        return where(ctx.kept, grad, 0), None, None


def _filled(masked, number=0, passage=()):
    return Filled.apply(masked.inner, masked.kept, number, passage)


FUNCTIONS = {"sum": total, "mean": mean, "prod": prod, "amin": amin, "amax": amax}
NEUTRAL = {"all": True, "any": False}


def reduction(operation, values, masked):
    (x,), name, dim, keepdim = masked, operation.name, values.get("dim"), bool(values.get("keepdim"))
    if x.form is not None and dim is not None:
        fail(name, "not available along an axis of a sparse masked tensor", x.layout, hint="call .to_dense() first",
             kind=NotImplementedError)
    if name in NEUTRAL:
        given = {**values, "input": keep(x.inner, x.kept, NEUTRAL[name])}
        return MaskedTensor.of(bind(operation, (), given), ops.any(x.kept, dim, keepdim))
    number = 1 if name == "prod" else 0
    data = x.inner if name in ("amin", "amax") else _filled(x, number)
    dtype = {} if values.get("dtype") is None else {"dtype": values["dtype"]}
    if name in ("amin", "amax"):
        data = _filled(x, (highest if name == "amin" else lowest)(x.dtype))
    result = FUNCTIONS[name](data, dim, keepdim=keepdim, mask=x.kept, **dtype)
    return MaskedTensor.of(result, ops.any(x.kept, dim, keepdim))


def spread(operation, values, masked):
    """var and its root std."""
    x, dim = masked[0], values.get("dim")
    keepdim, correction = bool(values.get("keepdim")), values.get("correction")
    result = var(_filled(x), dim, correction=1 if correction is None else correction, keepdim=keepdim, mask=x.kept)
    result = sqrt(result) if operation.name == "std" else result
    return MaskedTensor.of(result, ops.any(x.kept, dim, keepdim))


def extreme(operation, values, masked):
    """(values, places) of the largest or smallest along an axis; the places in the dtype of the elements, as elsewhere
    in flambeau.masked."""
    x, dim, keepdim = masked[0], values["dim"], values.get("keepdim", False)
    number = (lowest if operation.name == "max_along" else highest)(x.dtype)
    left = ops.any(x.kept, dim, keepdim)
    largest, places = bind(operation, (), {**values, "input": _filled(x, number)})
    return MaskedTensor.of(largest, left), MaskedTensor.of(cast(places, x.dtype), left)


def softmax(operation, values, masked):
    """Over what is specified; a slice without any stays masked."""
    x, passage = masked[0], []
    found = bind(operation, (), {**values, "input": _filled(x, lowest(x.dtype), passage)})
    return MaskedTensor.of(Bared.apply(found, x.kept, passage), x.kept)


def composite(operation, values, masked):
    """A composite goes through its parts."""
    return operation.compute(**values)


# ---------------------------------------------------------------------------------- the walk back
def walk_back(root, gradient, retain_graph, create_graph, inputs):
    """`backward` of a masked tensor: `grad` for every leaf, added to what it has."""
    if not root.requires_grad:
        return autograd.backward(root.inner, gradient)      # which says so
    leaves = inputs if inputs is not None else leaves_of(root.inner)
    leaves = [leaves] if isinstance(leaves, Tensor) else list(leaves)
    start = None if gradient is None else [gradient]
    found = autograd.grad([root], leaves, start, retain_graph, create_graph, allow_unused=True)
    for leaf, grad in zip(leaves, found):
        if grad is not None:
            before = leaf.grad
            if isinstance(grad, MaskedTensor):
                grad.__dict__["derived"] = False
            leaf.grad = grad if before is None else before + grad


def leaves_of(tensor):
    """The leaves that a tensor depends on."""
    if tensor.grad_fn is None:
        return [tensor]
    found, seen, waiting = [], set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, autograd.AccumulateGrad):
            found.append(node.variable)
        waiting.extend(following for following, _ in node.next_functions)
    return found


VIEWS = ("reshape", "permute", "expand", "unsqueeze", "squeeze", "slice_", "view", "transpose", "diagonal", "unfold",
         "_reversed", "cat", "index_select", "gather", "_repeated")
PLACEWISE = ("i0", "igamma", "igammac", "gcd", "lcm", "_special_i1", "_special_i0e", "_special_i1e")
SUMS = ("unslice", "index_sum", "gather_sum", "sparse_rows")
RULES = {**dict.fromkeys(VIEWS, structure), **dict.fromkeys(SUMS, summing), **dict.fromkeys(PLACEWISE, elementwise),
         "where": choose, "var": spread,
         "std": spread, "softmax": softmax, "log_softmax": softmax, "max_along": extreme, "min_along": extreme,
         "norm": composite, "_power_norm": composite}
KINDS = {"elementwise": elementwise, "reduction": reduction}
ON_SPARSE = (elementwise, reduction, spread, composite, refuse)
