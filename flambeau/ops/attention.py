"""Attention: softmax(query @ key.T * scale + mask) @ value, in kernels that keep no scores.

`attention` works on query (batch, heads, group, length, width), where the queries of a group share a head of
key and value (batch, heads, source, width). `scaled_dot_product_attention` brings every call there. What
differentiates the gradient once more, and what has no kernel (a width that is not known yet or huge), is
written in matrix products that hold all scores.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from flambeau.base.errors import DTypeError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.compare import eq, ge
from flambeau.ops.create import full, iota
from flambeau.ops.elementwise import where
from flambeau.ops.kinds import Contraction, compute_dtype
from flambeau.ops.mathematics import exp, rsqrt
from flambeau.ops.matmul import matmul
from flambeau.ops.normalize import narrow, widen
from flambeau.ops.random import counters, uniform_element
from flambeau.ops.reduce import amax
from flambeau.ops.reduce import sum as total
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.ops.trace import current, unify
from flambeau.ops.view import expand, permute, reshape, squeeze, transpose, unsqueeze
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

    scale and dropout_p are numbers, seed is the key of a draw (`ops.random`). is_causal: a query meets the
    keys up to its own place. With time_first the output and all gradients are (batch, time, heads, group,
    width). room: the kernels' size class of widths.
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
    """(output, logsumexp of each query's scores) of query (b, h, g, l, d), key (b, h, s, d), value
    (b, h, s, e) and attn_mask (b, h, g, l, s). A query without keys gives zeros and infinity."""

    signature = f"query, key, value, {OPTIONS}"
    operands = ("query", "key", "value", "scale", "attn_mask", "seed", "dropout_p")
    outputs = ("output", "logsumexp")

    def samples(rng, shape):
        mask = rng.uniform(-1, 1, (2, 2, 3, 5, 7))
        return [*samples(rng), numpy.array(0.7), mask, numpy.array(5), numpy.array(0.5)]

    def infer_shape(q, k, v, scale, *rest, time_first=False, **attrs):
        mask, _ = optional(rest, [n for n in attrs if n == "attn_mask"])
        shapes = (q, k, v, mask or (*q[:4], k[2]))
        equal = unify if current() is not None else None
        b, h, g, l, e = SIZES.output_shape(*shapes, op="attention", unify=equal)
        return (b, l, h, g, e) if time_first else (b, h, g, l, e), (b, h, g, l)

    def infer_dtype(query, *others, **attrs):
        return query, compute_dtype(query)

    def reference(query, key, value, scale, *rest, is_causal=False, time_first=False, room=None, **absent):
        mask, _ = optional(rest, absent)
        out, lse = attend_in_numpy(query, key, value, scale, mask, is_causal)
        return (numpy.moveaxis(out, 3, 1) if time_first else out), lse

    def lower(planner, inputs, outputs, *, is_causal, time_first, room, **absent):
        mask, dropout = optional(inputs[4:], absent)
        planner.templates.attention.forward(planner, *inputs[:4], mask, dropout, outputs, is_causal,
                                            time_first, room)

    def derivative(grad, out, query, key, value, scale, attn_mask=None, seed=None, dropout_p=None, *,
                   is_causal, time_first, room):
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
    operands = ("grad", "query", "key", "value", "logsumexp", "delta", "scale", "attn_mask", "seed",
                "dropout_p")
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
        planner.templates.attention.backward(planner, inputs[:6], inputs[6], mask, dropout, outputs,
                                             is_causal, time_first, room)

    def derivative(grads, grad, query, key, value, logsumexp, delta, scale, attn_mask=None, seed=None,
                   dropout_p=None, *, is_causal, time_first, room):
        scores = Scores(grad, query, key, value, logsumexp, delta, scale, attn_mask, seed, dropout_p,
                        is_causal, time_first)
        return scores.second([late(g) if time_first else g for g in grads])


# ---------------------------------------------------------------------------------- with all scores in memory
class Scores:
    """Attention's gradient written in matrix products; operands as of `attention_gradient`, computed in
    float32 at least. Tensors of scores are (batch, heads, group, query, key)."""

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


def attention_by_products(query, key, value, scale, attn_mask=None, seed=None, dropout_p=None,
                          is_causal=False):
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
NAME = "scaled_dot_product_attention"


@dataclass(frozen=True)
class Arrangement:
    """How the operands of a call become those of `attention`; `result` is the shape of what comes out."""

    batch: tuple
    heads: int              # of key and value
    group: int
    query: tuple            # shapes with four axes; grouped: with five
    grouped: tuple
    key: tuple
    value: tuple
    result: tuple
    scale: float | None     # where the call names none; None: the width is not known yet
    room: int | None        # None: no kernel


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                 scale=None, enable_gqa=False, seed=None):
    """What `nn.functional.scaled_dot_product_attention` says; seed: the key of dropout's draw.

    Memory grows with the lengths, not with their product. The output lies in memory as `query` does. Queries
    whose keys are all masked give zeros. Gradients are kernels too, but for that of a mask of numbers, which
    is as large as the scores, and those of a gradient.
    """
    traced = getattr(type(query), "is_traced", False)
    if traced:
        agree(query, key, value, enable_gqa)
    find = arrange.__wrapped__ if traced else arrange
    call = find(tuple(query.shape), tuple(key.shape), tuple(value.shape), query.dtype, key.dtype, value.dtype,
                enable_gqa)
    query, key = four_axes(query, call.query), four_axes(key, call.key)
    value, time_first = four_axes(value, call.value), not traced and is_time_first(query)
    if attn_mask is not None:
        attn_mask = mask_of_members(attn_mask, call, query.dtype)
    dropout = (None, None)
    if dropout_p:
        if not 0.0 < dropout_p <= 1.0:
            fail(NAME, "dropout probability has to be between 0 and 1", dropout_p, kind=RuntimeError)
        dropout = seed, float(dropout_p)
    scale = call.scale if scale is None else float(scale)
    if scale is None:
        scale = rsqrt(full((), 1.0, widen(query).dtype) * query.shape[-1])
    rest = (scale, attn_mask, *dropout, is_causal)
    single = isinstance(call.group, int) and call.group == 1
    query = unsqueeze(query, 2) if single else reshape(query, call.grouped)
    if call.room is None:
        out = attention_by_products(query, key, value, *rest)
    else:
        out = attention(query, key, value, *rest, time_first, call.room)[0]         # noqa: F821
        out = late(out) if time_first else out
    if single and len(call.result) == 4:
        return squeeze(out, 2)
    return reshape(out, call.result)


def agree(query, key, value, enable_gqa):
    """Declare sizes that are not known yet equal where the operands share an axis."""
    with query.tracer:
        for x, y, axes in ((query, key, (-1, *range(-query.ndim, -3 if enable_gqa else -2))),
                           (key, value, range(-key.ndim, -1))):
            for axis in axes:
                sizes = (x.shape[axis], y.shape[axis]) if -axis <= min(x.ndim, y.ndim) else (1, 1)
                if not all(isinstance(size, int) for size in sizes) and 1 not in sizes:
                    unify(*sizes)


@lru_cache(512)
def arrange(query, key, value, query_dtype, key_dtype, value_dtype, enable_gqa):
    """The Arrangement for operands of these shapes and dtypes; errors where they do not fit."""
    shapes = query, key, value
    if min(map(len, shapes)) < 2:
        fail(NAME, "query, key and value need two axes at least", [len(s) for s in shapes], kind=ShapeError)
    if not query_dtype is key_dtype is value_dtype:
        fail(NAME, "query, key and value differ in dtype", [query_dtype, key_dtype, value_dtype], "one dtype",
             kind=DTypeError)
    if query_dtype.kind != "f":
        fail(NAME, "the dtype is not floating point", query_dtype, kind=DTypeError)
    if query[-1] != key[-1] or key[-2] != value[-2]:
        fail(NAME, "the sizes do not fit", ", ".join(map(show_shape, shapes)),
             "(..., length, width), (..., source, width), (..., source, width')", kind=ShapeError)
    batch = tuple(broadcast_shapes(*(s[:-3] for s in shapes), op=NAME))
    heads, group = grouped_heads(shapes, enable_gqa)
    count = batch[0] if len(batch) == 1 else math.prod(batch)
    widths = query[-1], value[-1]
    known = all(isinstance(width, int) and width <= LARGEST_WIDTH for width in widths)
    result = (*batch, heads * group, query[-2], value[-1])[-max(map(len, shapes)):]
    return Arrangement(batch, heads, group, (*batch, heads * group, *query[-2:]),
                       (count, heads, group, *query[-2:]), (*batch, heads, *key[-2:]),
                       (*batch, heads, *value[-2:]), result,
                       1 / math.sqrt(max(query[-1], 1)) if isinstance(query[-1], int) else None,
                       room_for(*widths) if known else None)


def grouped_heads(shapes, enable_gqa):
    """(heads of key and value, queries' heads that share one)."""
    heads, *own = (s[-3] if len(s) > 2 else 1 for s in shapes)
    count = own[1] if own[0] == 1 else own[0]
    if all(n == 1 or n == count for n in own):
        if count == 1 or count == heads or enable_gqa and count and heads % count == 0:
            return count, heads // count if count else 1
        if heads == 1:
            return count, 1
    fail(NAME, "the numbers of heads do not fit", ", ".join(map(show_shape, shapes)),
         "as many heads of key and value as of query, or with enable_gqa a divisor of them", kind=ShapeError)


def four_axes(x, shape):
    """(..., heads, time, width) as (batch, heads, time, width), without a copy where the layout allows it."""
    if tuple(x.shape) != shape:
        x = expand(x if x.ndim > 2 else unsqueeze(x, 0), shape)
    return x if len(shape) == 4 else reshape(x, (math.prod(shape[:-3]), *shape[-3:]))


def mask_of_members(mask, call, dtype):
    """The mask expanded to (batch, heads, group, length, source), without strides where it is shared."""
    if mask.dtype not in (bool_, float32, dtype):
        fail(NAME, "the mask's dtype does not fit", mask.dtype, f"bool, float32 or {dtype}", kind=DTypeError)
    while mask.ndim > 3 and mask.shape[0] == 1:
        mask = reshape(mask, tuple(mask.shape[1:]))
    if mask.ndim > 4 or mask.ndim == 4 and len(call.batch) != 1:
        mask = reshape(expand(mask, (*call.batch, *mask.shape[-3:])), (call.grouped[0], *mask.shape[-3:]))
    if mask.ndim > 2 and mask.shape[-3] != 1:
        mask = reshape(mask, (*mask.shape[:-3], call.heads, call.group, *mask.shape[-2:]))
    elif mask.ndim > 2:
        mask = unsqueeze(mask, -3)
    return expand(mask, (*call.grouped[:4], call.key[-2]))


def is_time_first(query):
    """True where (batch, time, heads, width) is the order in memory."""
    batch, heads, time, width = query.stride()
    return time > heads and query.shape[1] > 1 and query.shape[2] > 1
