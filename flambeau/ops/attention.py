"""Attention: softmax(query @ key.T * scale + mask) @ value, in kernels that keep no scores.

`attention` works on query (batch, heads, group, length, width), where the queries of a group share a head of key
and value (batch, heads, source, width). `scaled_dot_product_attention` brings every call there. What differentiates the gradient once more, and what
has no kernel (a width that is not known yet or huge), is written in matrix products that hold all scores.
"""

import math

from flambeau.base.errors import DTypeError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.compare import eq, ge
from flambeau.ops.create import full, iota
from flambeau.ops.elementwise import where
from flambeau.ops.kinds import Contraction, compute_dtype
from flambeau.ops.mathematics import exp, log
from flambeau.ops.matmul import matmul
from flambeau.ops.normalize import narrow, widen
from flambeau.ops.random import counters, uniform_element
from flambeau.ops.reduce import amax
from flambeau.ops.reduce import sum as total
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.ops.trace import current, unify
from flambeau.ops.view import expand, permute, reshape, transpose, unsqueeze
from flambeau.types.dtype import FLOATING, bool_, float32, float64
from flambeau.types.shape import broadcast_shapes, parse_axes, show_shape

numpy = LazyModule("numpy")
LARGEST_WIDTH = 2048        # for which the kernels have room
INFINITY = float("inf")
SIZES = parse_axes("b h g l d, b h s d, b h s e, b h g l s -> b h g l e")


def room_for(*widths):
    """The size class of the kernels' locals: 128, 512 or 2048."""
    return next(room for room in (128, 512, LARGEST_WIDTH) if room >= max(widths))


def optional(rest, absent):
    """(mask or None, (seed, probability) or ()) from the operands behind the scale."""
    rest = list(rest)
    mask = None if "attn_mask" in absent else rest.pop(0)
    return mask, tuple(rest)


class Attending(Contraction):
    """What attention and its gradient share: every operand but the mask, seed and dropout_p must be there.

    scale and dropout_p are numbers, seed is the key of a draw (`ops.random`). is_causal: a query meets the keys
    up to its own place. With time_first the output and all gradients are (batch, time, heads, group, width).
    """

    internal = True
    numbers = True
    dtypes = FLOATING
    tolerance = ulps(512)
    cases = [{"attn_mask": None, "seed": None, "dropout_p": None},
             {"attn_mask": None, "seed": None, "dropout_p": None, "is_causal": True, "time_first": True},
             {"seed": None, "dropout_p": None}]

    def prepare(self, values):
        traced = getattr(type(values["query"]), "tracer", None) or getattr(values["query"], "tracer", None)
        for name in ("scale", "dropout_p"):
            if traced is not None and isinstance(values[name], float):
                with traced:
                    values[name] = full((), values[name], float64)      # a graph's numbers are narrow
        return values


def samples(rng):
    """Two batches of two groups of three heads; 5 queries, 7 keys."""
    return [rng.uniform(-1, 1, s) for s in ((2, 2, 3, 5, 3), (2, 2, 7, 3), (2, 2, 7, 6))]


def late(x):
    """(batch, time, heads, ..., width) -> (batch, heads, ..., time, width)."""
    return permute(x, (0, *range(2, x.ndim - 1), 1, x.ndim - 1))


OPTIONS = "scale, attn_mask=None, seed=None, dropout_p=None, is_causal=False, time_first=False, room=128"


@op
class Attention(Attending):
    """(output, logsumexp of each query's scores) of query (b, h, g, l, d), key (b, h, s, d), value (b, h, s, e);
    attn_mask (b, h, g, l, s). A query without keys gives zeros and infinity."""

    signature = f"query, key, value, {OPTIONS}"
    operands = ("query", "key", "value", "scale", "attn_mask", "seed", "dropout_p")
    outputs = ("output", "logsumexp")

    def samples(rng, shape):
        return [*samples(rng), numpy.array(0.7), rng.uniform(-1, 1, (2, 2, 3, 5, 7)), numpy.array(5), numpy.array(0.5)]

    def infer_shape(q, k, v, scale, *rest, time_first=False, **attrs):
        mask, _ = optional(rest, [n for n in attrs if n == "attn_mask"])
        shapes = (q, k, v, mask or (*q[:4], k[2]))
        b, h, g, l, e = SIZES.output_shape(*shapes, op="attention", unify=unify if current() is not None else None)
        return (b, l, h, g, e) if time_first else (b, h, g, l, e), (b, h, g, l)

    def infer_dtype(query, *others, **attrs):
        return query, compute_dtype(query)

    def reference(query, key, value, scale, *rest, is_causal=False, time_first=False, room=None, **absent):
        mask, _ = optional(rest, absent)
        out, lse = attend_in_numpy(query, key, value, scale, mask, is_causal)
        return (numpy.moveaxis(out, 3, 1) if time_first else out), lse

    def lower(planner, inputs, outputs, *, is_causal, time_first, room, **absent):
        mask, dropout = optional(inputs[4:], absent)
        planner.templates.attention.launch(planner, *inputs[:4], mask, dropout, outputs, is_causal, time_first, room)

    def derivative(grad, out, query, key, value, scale, attn_mask=None, seed=None, dropout_p=None, *, is_causal,
                   time_first, room):
        delta = total(widen(grad[0]) * widen(out[0]), -1)
        delta = (permute(delta, (0, 2, 3, 1)) if time_first else delta) - grad[1]
        own = (grad[0], query, key, value, out[1], delta, scale, attn_mask, seed, dropout_p)
        grads = attention_gradient(*own, is_causal, time_first, room)      # noqa: F821
        grads = [late(g) if time_first else g for g in grads]
        scores = Scores(*own, is_causal, time_first)
        return (*grads, scores.scale_gradient(scores.changes()), scores.changes(), None, None)


@op
class AttentionGradient(Attending):
    """The gradients of query, key and value, from the gradient of the output and two numbers a query: the
    logsumexp, and delta = (sum of output * grad) - (gradient of the logsumexp)."""

    signature = f"grad, query, key, value, logsumexp, delta, {OPTIONS}"
    operands = ("grad", "query", "key", "value", "logsumexp", "delta", "scale", "attn_mask", "seed", "dropout_p")
    outputs = ("query_grad", "key_grad", "value_grad")
    large_derivative = True

    def infer_shape(grad, q, k, v, logsumexp, delta, scale, *rest, time_first=False, **attrs):
        if not time_first:
            return q, k, v
        return tuple((x[0], x[-2], *x[1:-2], x[-1]) for x in (q, k, v))

    def infer_dtype(grad, query, *others, **attrs):
        return (query,) * 3

    def lower(planner, inputs, outputs, *, is_causal, time_first, room, **absent):
        mask, dropout = optional(inputs[7:], absent)
        planner.templates.attention_backward.launch(planner, inputs[:6], inputs[6], mask, dropout, outputs,
                                                    is_causal, time_first, room)

    def derivative(grads, grad, query, key, value, logsumexp, delta, scale, attn_mask=None, seed=None,
                   dropout_p=None, *, is_causal, time_first, room):
        scores = Scores(grad, query, key, value, logsumexp, delta, scale, attn_mask, seed, dropout_p, is_causal,
                        time_first)
        return scores.second([late(g) if time_first else g for g in grads])


# ---------------------------------------------------------------------------------- with all scores in memory
class Scores:
    """Attention's gradient written in matrix products; operands as of `attention_gradient`, computed in float32
    at least. Tensors of scores are (batch, heads, group, query, key)."""

    def __init__(self, grad, query, key, value, logsumexp, delta, scale, mask, seed, dropout_p, is_causal,
                 time_first):
        self.dtypes = [x.dtype for x in (grad, query, key, value)]
        self.grad, self.time_first = widen(late(grad) if time_first else grad), time_first
        self.query, self.key, self.value = widen(query), each_member(key), each_member(value)
        self.scale = narrow_number(scale, self.query.dtype)
        self.products = matmul(self.query, flip(self.key))
        scores = masked(self.products * self.scale, mask, is_causal)
        self.weights = exp(scores - unsqueeze(logsumexp, -1))
        self.factors = None if seed is None else dropout_factors(self.weights, seed, dropout_p)
        self.delta, self.mask = delta, mask

    def dropped(self, x):
        return x if self.factors is None else x * self.factors

    def slopes(self):
        """The gradient of the weights, less delta."""
        return self.dropped(matmul(self.grad, flip(self.value))) - unsqueeze(self.delta, -1)

    def changes(self):
        """The gradient of the scores, which is that of the mask."""
        return self.weights * self.slopes()

    def scale_gradient(self, changes, more=0.0):
        """From the gradient of the scores, before the mask; `more` is added."""
        return reshape(total(changes * self.products) + more, tuple(self.scale.shape))

    def second(self, grads):
        """The gradients of all operands for gradients of the three results (of query, key and value)."""
        of_query, of_key, of_value = widen(grads[0]), each_member(grads[1]), each_member(grads[2])
        scale, weights, slopes = self.scale, self.weights, self.slopes()
        of_products = matmul(of_query, flip(self.key)) + matmul(self.query, flip(of_key))
        of_changes = of_products * scale
        of_slopes = weights * of_changes
        of_weights = of_changes * slopes + self.dropped(matmul(self.grad, flip(of_value)))
        of_scores, changes = weights * of_weights, weights * slopes
        dropped_slopes = self.dropped(of_slopes)
        grad = matmul(dropped_slopes, self.value) + matmul(self.dropped(weights), of_value)
        query = (matmul(of_scores, self.key) + matmul(changes, of_key)) * scale
        key = (matmul(flip(of_scores), self.query) + matmul(flip(changes), of_query)) * scale
        value = matmul(flip(dropped_slopes), self.grad)
        grad = permute(grad, (0, 3, 1, 2, 4)) if self.time_first else grad
        results = (grad, query, total(key, 2), total(value, 2))
        return (*map(narrow, results, self.dtypes), -total(of_scores, -1), -total(of_slopes, -1),
                self.scale_gradient(of_scores, total(of_products * changes)),
                None if self.mask is None else of_scores, None, None)


def narrow_number(number, dtype):
    """A number, or a tensor of one element, beside tensors of `dtype`."""
    return narrow(number, dtype) if hasattr(number, "dtype") else full((), float(number), dtype)


def flip(x):
    return transpose(x, -1, -2)


def each_member(x):
    """Keys or values (batch, heads, source, width) beside the members of their group."""
    return unsqueeze(widen(x), 2)


def masked(scores, mask, is_causal):
    """Scores with what the mask adds and -infinity for keys ahead of their query."""
    if mask is not None:
        scores = scores + (where(mask, 0.0, -INFINITY) if mask.dtype is bool_ else narrow(mask, scores.dtype))
    if is_causal:
        length, source = scores.shape[-2:]
        scores = where(ge(iota((length, 1), 0), iota((1, source), 1)), scores, -INFINITY)
    return scores


def dropout_factors(weights, seed, dropout_p):
    """0 where a weight is dropped, else 1 / (1 - p): the draw of the kernels."""
    kept = uniform_element(counters(weights), seed, float32) >= dropout_p
    return narrow(where(kept, 1.0 / (1.0 - dropout_p), 0.0), weights.dtype)


def attention_by_products(query, key, value, scale, attn_mask=None, seed=None, dropout_p=None, is_causal=False):
    """The output of `attention` with all scores in memory, for any width."""
    scores = masked(matmul(widen(query), flip(each_member(key))) * scale, attn_mask, is_causal)
    most = amax(scores, -1, True)
    none = eq(most, -INFINITY)
    weights = exp(scores - where(none, 0.0, most))
    sums = total(weights, -1, True)
    weights = weights / where(none, 1.0, sums)
    if seed is not None:
        weights = weights * dropout_factors(weights, seed, dropout_p)
    return narrow(matmul(weights, each_member(value)), query.dtype)


def attend_in_numpy(query, key, value, scale, mask, is_causal):
    """NumPy: (output, logsumexp)."""
    key, value = key[:, :, None], value[:, :, None]
    scores = query @ key.swapaxes(-1, -2) * scale
    if mask is not None:
        scores = numpy.where(mask, scores, -INFINITY) if mask.dtype == bool else scores + mask
    if is_causal:
        scores = numpy.where(numpy.tri(*scores.shape[-2:], dtype=bool), scores, -INFINITY)
    most = scores.max(-1, keepdims=True, initial=-INFINITY)
    weights = numpy.exp(scores - numpy.where(numpy.isinf(most), 0.0, most))
    sums = weights.sum(-1, keepdims=True)
    out = (weights @ value) / numpy.where(sums == 0, 1.0, sums)
    return out, numpy.where(sums == 0, INFINITY, most + numpy.log(sums))[..., 0]


# ---------------------------------------------------------------------------------- every call
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False, seed=None):
    """`softmax(query @ key.T * scale + mask) @ value`, in memory that grows with the length, not its square.

    Args:
        query: (..., heads, length, width). key: (..., heads, source, width). value: (..., heads, source,
            width'). Axes in front broadcast; two or three axes will do.
        attn_mask: True where a key takes part, or numbers to add: broadcast to (..., length, source).
        dropout_p: the probability that a weight is dropped, drawn with the key `seed`.
        is_causal: mask the keys after each query's own place. scale: default 1 / sqrt(width).
        enable_gqa: several heads of `query` share one of `key` and `value`.

    Returns:
        (..., heads, length, width'), zero for queries whose keys are all masked; laid out in memory as `query`.
        Gradients are kernels too, but for that of a mask of numbers, which is as large as the scores.
    """
    check_operands(query, key, value, attn_mask, dropout_p)
    scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else float(scale)
    batch = broadcast_shapes(*(tuple(x.shape[:-3]) for x in (query, key, value)), op="scaled_dot_product_attention")
    heads, group = grouped_heads(query, key, value, enable_gqa)
    shape = (*batch, heads * group, query.shape[-2], value.shape[-1])[-max(query.ndim, key.ndim, value.ndim):]
    query = four_axes(query, batch, heads * group)
    key, value = four_axes(key, batch, heads), four_axes(value, batch, heads)
    time_first = is_time_first(query)
    if attn_mask is not None:
        attn_mask = mask_of_members(attn_mask, batch, (heads, group, query.shape[2], key.shape[2]))
    query = reshape(query, (query.shape[0], heads, group, *query.shape[2:]))
    rest = (scale, attn_mask, *((seed, float(dropout_p)) if dropout_p > 0.0 else (None, None)), is_causal)
    widths = query.shape[-1], value.shape[-1]
    if all(isinstance(width, int) and width <= LARGEST_WIDTH for width in widths):
        out = attention(query, key, value, *rest, time_first, room_for(*widths))[0]     # noqa: F821
        out = late(out) if time_first else out
    else:
        out = attention_by_products(query, key, value, *rest)
    return reshape(out, shape)


def check_operands(query, key, value, attn_mask, dropout_p):
    """Errors where the operands do not fit each other."""
    name = "scaled_dot_product_attention"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        fail(name, "query, key and value need two axes at least", [query.ndim, key.ndim, value.ndim],
             kind=ShapeError)
    if not query.dtype is key.dtype is value.dtype:
        fail(name, "query, key and value differ in dtype", [query.dtype, key.dtype, value.dtype], "one dtype",
             kind=DTypeError)
    if query.dtype.kind != "f":
        fail(name, "the dtype is not floating point", query.dtype, kind=DTypeError)
    fits = query.shape[-1] == key.shape[-1] and key.shape[-2] == value.shape[-2]
    if not fits:
        fail(name, "the sizes do not fit", ", ".join(show_shape(x.shape) for x in (query, key, value)),
             "(..., length, width), (..., source, width), (..., source, width')", kind=ShapeError)
    if attn_mask is not None and attn_mask.dtype not in (bool_, float32, query.dtype):
        fail(name, "the mask's dtype does not fit", attn_mask.dtype, f"bool, float32 or {query.dtype}",
             kind=DTypeError)
    if not 0.0 <= dropout_p <= 1.0:
        fail(name, "dropout probability has to be between 0 and 1", dropout_p, kind=RuntimeError)


def grouped_heads(query, key, value, enable_gqa):
    """(heads of key and value, queries' heads that share one)."""
    heads, *own = (x.shape[-3] if x.ndim > 2 else 1 for x in (query, key, value))
    count = max(own)
    if all(n in (1, count) for n in own):
        if count in (1, heads) or enable_gqa and count and heads % count == 0:
            return count, heads // count if count else 1
        if heads == 1:
            return count, 1
    fail("scaled_dot_product_attention", "the numbers of heads do not fit",
         ", ".join(show_shape(x.shape) for x in (query, key, value)),
         "as many heads of key and value as of query, or with enable_gqa a divisor of them", kind=ShapeError)


def four_axes(x, batch, heads):
    """(..., heads, time, width) as (batch, heads, time, width), without a copy where the layout allows it."""
    x = x if x.ndim > 2 else unsqueeze(x, 0)
    shape = (*batch, heads, *x.shape[-2:])
    x = x if tuple(x.shape) == shape else expand(x, shape)
    return x if len(shape) == 4 else reshape(x, (math.prod(batch), *shape[-3:]))


def mask_of_members(mask, batch, sizes):
    """The mask expanded to (batch, heads, group, length, source), without strides where it is shared."""
    heads, group, length, source = sizes
    while mask.ndim > 3 and mask.shape[0] == 1:
        mask = reshape(mask, tuple(mask.shape[1:]))
    if mask.ndim > 4 or mask.ndim == 4 and len(batch) != 1:
        mask = reshape(expand(mask, (*batch, *mask.shape[-3:])), (math.prod(batch), *mask.shape[-3:]))
    if mask.ndim > 2 and mask.shape[-3] != 1:
        mask = reshape(mask, (*mask.shape[:-3], heads, group, *mask.shape[-2:]))
    elif mask.ndim > 2:
        mask = unsqueeze(mask, -3)
    return expand(mask, (math.prod(batch), *sizes))


def is_time_first(query):
    """True where (batch, time, heads, width) is the order in memory."""
    if getattr(type(query), "is_traced", False):
        return False
    strides = query.stride()
    return strides[2] > strides[1] and query.shape[1] > 1 and query.shape[2] > 1
