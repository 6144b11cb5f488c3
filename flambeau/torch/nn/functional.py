"""torch.nn.functional, with the names that old code takes from here."""

from typing import Optional

from flambeau.overrides import (handle_torch_function, has_torch_function, has_torch_function_unary,
                                has_torch_function_variadic)
from flambeau.nn.functional import linear
from flambeau.nn.functional.attention import additive, project
from flambeau.tensor import Tensor
from flambeau.torch import _mirror
from flambeau.torch.nn import _reduction as _Reduction      # noqa: N812 - PyTorch's name
from flambeau.torch.nn.modules.utils import _pair, _quadruple, _single, _triple
from flambeau.types.dtype import bool_

_IMPORTED = (Optional, Tensor, handle_torch_function, has_torch_function, has_torch_function_unary,
             has_torch_function_variadic, _Reduction, _pair, _quadruple, _single, _triple)

def _none_or_dtype(input):
    """The dtype of a mask, or None where there is none."""
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask as numbers to add: of a boolean one minus infinity where it is true."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype is not bool_:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    return additive(mask, target_type)


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """The three projections of attention."""
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _in_projection_packed(q, k, v, w, b=None):
    """The three projections of attention, their weights and biases one above the other."""
    return list(project(q, k, v, w, b, None))


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn.functional")
