"""torch.nn.modules.transformer"""

import copy

from flambeau.nn.container import ModuleList as _ModuleList
from flambeau.nn.transformer import (activation_of as _get_activation_fn,
                                     causal_mask as _generate_square_subsequent_mask, is_causal_mask)
from flambeau.torch import _mirror

__all__ = ["_detect_is_causal_mask", "_generate_square_subsequent_mask", "_get_activation_fn", "_get_clones",
           "_get_seq_len"]


def _get_clones(module, N):         # noqa: N803 - PyTorch's name
    """A ModuleList of N copies."""
    return _ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_seq_len(src, batch_first):
    """The length of (length, width), (length, batch, width) or, `batch_first`, (batch, length, width);
    None for a nested tensor."""
    return None if src.is_nested else src.shape[1 if batch_first and src.dim() == 3 else 0]


def _detect_is_causal_mask(mask, is_causal=None, size=None):
    """Whether a mask is the causal one (of that size, or of its own)."""
    return is_causal_mask(mask, is_causal, size if size is not None or mask is None else mask.shape[-1])


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
