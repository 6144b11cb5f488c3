"""torch.nn.attention.bias: causal masks for queries and keys of different lengths."""

import enum

from flambeau.overrides import DisableTorchFunctionSubclass
from flambeau.tensor import Tensor, ones
from flambeau.torch import _mirror
from flambeau.types.dtype import bool_


class CausalVariant(enum.IntEnum):
    """What is aligned: the first query with the first key, or the last with the last."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """The (queries, keys) mask of a variant, true where a query may see a key; what is computed from it is a
    Tensor."""

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        lower_right = CausalVariant(variant) is CausalVariant.LOWER_RIGHT
        mask = ones(seq_len_q, seq_len_kv, dtype=bool_).tril(seq_len_kv - seq_len_q if lower_right else 0)
        return Tensor._make_subclass(cls, mask)

    def __init__(self, variant, seq_len_q, seq_len_kv):
        self.variant, self.seq_len_q, self.seq_len_kv = CausalVariant(variant), seq_len_q, seq_len_kv

    def __repr__(self, *, tensor_contents=None):
        return repr(self.detach())

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


def causal_upper_left(*size):
    """The mask that `is_causal=True` stands for: query i sees the keys up to i.

    >>> print(causal_upper_left(2, 3))
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_two(size))


def causal_lower_right(*size):
    """The mask of queries that are the last of as many places as there are keys.

    >>> print(causal_lower_right(2, 3))
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two(size))


def _two(size):
    if len(size) != 2:
        raise AssertionError(f"the sizes of queries and keys are wanted, got {len(size)} sizes")
    return size


__getattr__, __dir__ = _mirror.mirror(__name__)
