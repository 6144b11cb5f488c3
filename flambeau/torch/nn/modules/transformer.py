"""torch.nn.modules.transformer"""

import copy

from flambeau.nn.container import ModuleList as _ModuleList
from flambeau.nn.transformer import (activation_of as _get_activation_fn, causal_mask as _generate_square_subsequent_mask)
from flambeau.torch import _mirror

__all__ = ["_generate_square_subsequent_mask", "_get_activation_fn", "_get_clones"]


def _get_clones(module, N):         # noqa: N803 - PyTorch's name
    """A ModuleList of N copies."""
    return _ModuleList([copy.deepcopy(module) for _ in range(N)])


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
