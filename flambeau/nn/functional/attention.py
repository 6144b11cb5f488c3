"""Attention: of queries to keys, and with many heads."""

import math

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.ops.interpose import visible
from flambeau.tensor import cat, ones, zeros
from flambeau.tensor.rng import chosen, next_key
from flambeau.types.dtype import bool_

from .activations import softmax
from .dropouts import dropout


@visible
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                 scale=None, enable_gqa=False):
    """`softmax(query @ key.T * scale + mask) @ value`, one kernel each way that keeps no scores.

    Args:
        query: (..., heads, length, width). key: (..., heads, source, width). value: (..., heads, source,
            width').
        attn_mask: True where a key takes part, or numbers to add: broadcast to (..., length, source).
        dropout_p: probability that a weight is dropped; pass 0 in evaluation.
        is_causal: mask the keys after each query's own place. scale: default 1 / sqrt(width).
        enable_gqa: several heads of `query` share one of `key` and `value`.

    >>> import flambeau as fl
    >>> query, key, value = (fl.randn(2, 8, 100, 16) for _ in range(3))
    >>> fl.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True).shape
    flambeau.Size([2, 8, 100, 16])
    """
    if is_causal and attn_mask is not None:
        fail("scaled_dot_product_attention", "Explicit attn_mask should not be set when is_causal=True",
             kind=RuntimeError)
    if query.is_nested:
        from flambeau.tensor.nested_rules import item_wise
        return item_wise(lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale,
                                                                      enable_gqa), query, key, value)
    if chosen.pytorch and dropout_p > 0.0:
        return attention_with_mask(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return ops.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale,
                                            enable_gqa, next_key() if dropout_p > 0.0 else None)


def attention_with_mask(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """The same with the weights in memory: dropout of PyTorch's stream draws for (..., heads, length, source) at once."""
    if enable_gqa and query.dim() > 2:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * scale) @ key.transpose(-2, -1)
    if is_causal:
        attn_mask = ones(scores.shape[-2:], dtype=bool_).tril()
    if attn_mask is None:
        return dropout(softmax(scores, -1), dropout_p) @ value
    if attn_mask.dtype is bool_:
        scores = ops.where(attn_mask, scores, -math.inf)
    else:
        scores = scores + attn_mask
    return dropout(_weights_of(scores), dropout_p) @ value


# ---------------------------------------------------------------------------------- many heads

def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight,
                                 in_proj_bias,
                                 bias_k, bias_v, add_zero_attn, dropout_p, out_proj_weight, out_proj_bias,
                                 training=True, key_padding_mask=None, need_weights=True, attn_mask=None,
                                 use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
                                 v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
                                 is_causal=False):
    """Attention with `num_heads` heads: projections, attention of each head, output projection.

    Args:
        query: (length, batch, width) or (length, width); key and value: (source, batch, width').
        in_proj_weight: (3 * width, width), or three matrices with `use_separate_proj_weight`.
        bias_k, bias_v: a further key and value; add_zero_attn: a further pair of zeros.
        key_padding_mask: (batch, source), True where a key is left out, or numbers to add.
        attn_mask: (length, source) or (batch * heads, length, source), the same.

    Returns:
        (output in the shape of query, weights (batch, length, source) averaged over the heads or None).
    """
    batched = check_heads(query, key, value, embed_dim_to_check, num_heads, key_padding_mask, attn_mask,
                          is_causal)
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    more_keys = bias_k is not None or add_zero_attn
    is_causal = is_causal and key_padding_mask is None and not need_weights and not more_keys
    attn_mask = None if is_causal else attn_mask        # the kernel knows it without
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = project(query, key, value, in_proj_weight, in_proj_bias, separate)
    length, batch, width = q.shape
    attn_mask, key_padding_mask = additive(attn_mask, q.dtype), additive(key_padding_mask, q.dtype)
    if bias_k is not None and bias_v is not None:
        k, v = cat((k, bias_k.expand(1, batch, width)), 0), cat((v, bias_v.expand(1, batch, width)), 0)
        attn_mask, key_padding_mask = longer(attn_mask), longer(key_padding_mask)
    k = heads(k, num_heads) if static_k is None else static_k
    v = heads(v, num_heads) if static_v is None else static_v
    q = heads(q, num_heads)                             # (batch * heads, length, width / heads)
    if add_zero_attn:
        k, v = (cat((x, zeros((x.shape[0], 1, x.shape[2]), dtype=x.dtype)), 1) for x in (k, v))
        attn_mask, key_padding_mask = longer(attn_mask), longer(key_padding_mask)
    q, k, v = (x.reshape(batch, num_heads, x.shape[1], x.shape[2]) for x in (q, k, v))
    mask = merged_mask(attn_mask, key_padding_mask, batch, num_heads)
    output, weights = attend(q, k, v, mask, dropout_p if training else 0.0, is_causal, need_weights)
    output = output.permute(2, 0, 1, 3).reshape(length * batch, width)
    output = ops.linear(output, out_proj_weight, out_proj_bias).reshape(length, batch, -1)
    if need_weights:
        weights = weights.mean(1) if average_attn_weights else weights
    if not batched:
        output, weights = output.squeeze(1), weights.squeeze(0) if need_weights else None
    return output, weights if need_weights else None


def check_heads(query, key, value, width, num_heads, key_padding_mask, attn_mask, is_causal):
    """Whether the operands have a batch axis; errors where they do not fit."""
    if query.dim() not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received "
                             f"{query.dim()}-D query "
                             "tensor")
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(f"For {query.dim()}-D `query`, expected `key` and `value` to be {query.dim()}-D "
                             f"but found "
                             f"{key.dim()}-D and {value.dim()}-D tensors respectively")
    if query.shape[-1] != width:
        raise AssertionError(f"was expecting embedding dimension of {width}, but got {query.shape[-1]}")
    if width % num_heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if key.shape[0] != value.shape[0]:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    return query.dim() == 3


def project(query, key, value, weight, bias, separate):
    """The projections of query, key and value."""
    width = query.shape[-1]
    if separate is None:
        separate = weight.chunk(3) if hasattr(weight, "chunk") else [weight[i * width:(i + 1) * width]
                                                                      for i in range(3)]
    biases = (None,) * 3 if bias is None else [bias[i * width:(i + 1) * width] for i in range(3)]
    return tuple(ops.linear(x, w, b) for x, w, b in zip((query, key, value), separate, biases))


def heads(x, count):
    """(source, batch, width) -> (batch * heads, source, width / heads)."""
    source, batch, width = x.shape
    return x.reshape(source, batch * count, width // count).transpose(0, 1)


def additive(mask, dtype):
    """A mask that is True where a key is left out as numbers to add."""
    if mask is None:
        return None
    if mask.dtype is bool_:
        return ops.where(mask, -math.inf, zeros(tuple(mask.shape), dtype=dtype))
    return mask.to(dtype)


def longer(mask):
    """The mask with one more key, which takes part."""
    if mask is None:
        return None
    return cat((mask, zeros((*mask.shape[:-1], 1), dtype=mask.dtype)), -1)


def merged_mask(attn_mask, key_padding_mask, batch, num_heads):
    """Both masks as one that is added to (batch, heads, length, source)."""
    if attn_mask is not None and attn_mask.dim() == 3:
        attn_mask = attn_mask.reshape(batch, num_heads, *attn_mask.shape[1:])
    if key_padding_mask is None:
        return attn_mask
    padding = key_padding_mask.reshape(batch, 1, 1, -1)
    return padding if attn_mask is None else attn_mask + padding


def attend(q, k, v, mask, dropout_p, is_causal, need_weights):
    """(output, weights or None) of heads (batch, heads, length, width)."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal), None
    scores = (q * math.sqrt(1.0 / q.shape[-1])) @ k.transpose(-2, -1)
    weights = softmax(scores, -1) if mask is None else _weights_of(scores + mask)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return weights @ v, weights


def _weights_of(scores):
    """The softmax of masked scores; a row with every key masked looks at none: all 0, as the kernel has it."""
    nothing = scores.amax(-1, True) == float("-inf")
    return ops.where(nothing, 0.0, softmax(ops.where(nothing, 0.0, scores), -1))

__all__ = ["multi_head_attention_forward", "ones", "scaled_dot_product_attention"]
