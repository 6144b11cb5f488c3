"""Dropout: random zeros in training."""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.tensor import empty, ones
from flambeau.tensor import stream
from flambeau.tensor.rng import chosen, next_key

_ALPHA = 1.7580993408473766         # minus the limit of selu at minus infinity


def check_probability(p):
    """`p` lies between 0 and 1."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _into(input, result, inplace):
    return input.copy_(result) if inplace else result


def dropout(input, p=0.5, training=True, inplace=False):
    """In training set each element to 0 with probability `p` and divide the others by `1 - p`."""
    check_probability(p)
    if not training or p == 0:
        return input
    return _into(input, _dropped(input, float(p)), inplace)


def _dropped(input, p):
    """Dropout by a key, or from PyTorch's stream by a mask."""
    if not chosen.pytorch or input.is_nested:
        return ops.dropout_with_key(input, next_key(), p)
    if p == 1.0 or not input.numel() or input.is_meta:
        return input * 0.0
    return ops.dropout_with_mask(input, stream.mask(input, p), stream.scale_of_kept(p, input.dtype))


def _channels(input, p, rank):
    """Factors of the channels: (batch, channels, 1, ...), 0 with probability p, else 1 / (1 - p)."""
    lead = input.dim() - rank
    shape = (*input.shape[:lead], *(1,) * rank)
    return _dropped(ones(shape, dtype=input.dtype), float(p))


def _channel_dropout(rank, input, p, training, inplace):
    check_probability(p)
    if input.dim() not in (rank + 1, rank + 2):
        fail(f"dropout{rank}d", "the input's rank is wrong", f"{input.dim()} axes",
             f"{rank + 1} or {rank + 2}", kind=RuntimeError)
    if not training or p == 0:
        return input
    return _into(input, input * _channels(input, p, rank), inplace)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """`dropout` of whole channels of (batch, channels, length) or (channels, length)."""
    return _channel_dropout(1, input, p, training, inplace)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """`dropout` of whole channels of (batch, channels, h, w), or of (channels, h, w) taken as (batch,
    channels, w)."""
    check_probability(p)
    if input.dim() < 2:
        fail("dropout2d", "the input needs 2 axes at least", tuple(input.shape), kind=RuntimeError)
    if not training or p == 0:
        return input
    return _into(input, input * _channels(input, p, input.dim() - 2), inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """`dropout` of whole channels of (batch, channels, d, h, w)."""
    return dropout2d(input, p, training, inplace)


def _alpha(input, p, training, inplace, shape):
    """Dropped elements become selu's limit; then mean 0 and variance 1 are restored."""
    check_probability(p)
    if not training or p == 0:
        return input
    if p == 1:
        return _into(input, input * 0.0, inplace)
    kept = empty(shape, dtype=input.dtype).bernoulli_(1.0 - p)
    scale = (_ALPHA ** 2 * p + 1) ** -0.5 * (1 - p) ** -0.5
    shift = scale * _ALPHA * p
    return _into(input, input * (kept * scale) + ((kept - 1.0) * (_ALPHA * scale) + shift), inplace)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean 0 and variance 1 of selu's outputs."""
    return _alpha(input, p, training, inplace, tuple(input.shape))


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """`alpha_dropout` of whole channels (axis 1)."""
    if input.dim() < 2 and training:
        fail("feature_alpha_dropout", "the input needs 2 axes at least", tuple(input.shape),
             kind=RuntimeError)
    return _alpha(input, p, training, inplace, (*input.shape[:2], *(1,) * (input.dim() - 2)))
