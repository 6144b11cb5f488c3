"""torch.optim.optimizer"""

import functools as _functools
from collections.abc import Iterable as _Iterable
from typing import Any as _Any, Union as _Union

from flambeau.ops import view_as_real as _as_pairs
from flambeau.tensor import Tensor as _Tensor, set_grad_enabled as _set_grad_enabled
from flambeau.torch import _mirror
from flambeau.types.dtype import float32 as _float32, float64 as _float64, get_default_dtype as _get_default_dtype

ParamsT = params_t = _Union[_Iterable[_Tensor], _Iterable[dict[str, _Any]], _Iterable[tuple[str, _Tensor]]]

# What optimizers of other authors, written after PyTorch's own, take from here.
_foreach_doc = "foreach: whether parameters are updated as lists; there is one way here."
_fused_doc = "fused: whether one kernel does the whole step; there is one way here."
_capturable_doc = "capturable: for graphs of CUDA; no effect."
_differentiable_doc = "differentiable: whether autograd records the step."
_maximize_doc = "maximize: climb instead of descending."
_params_doc = "params: parameters, (name, parameter) pairs, or dicts, one a group."


def _use_grad_for_differentiable(func):
    """A `step` that autograd records where `self.defaults["differentiable"]` says so, and only there."""
    @_functools.wraps(func)
    def step(self, *args, **kwargs):
        with _set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)
    return step


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(False, False): neither `fused` nor `foreach` is chosen for parameters on the CPU."""
    return False, False


def _get_value(x):
    """The number of a tensor of one element, or of a number."""
    return x.item() if isinstance(x, _Tensor) else x


def _stack_if_compiling(x):
    """x"""
    return x


def _get_scalar_dtype(is_fused=None):
    """The dtype of step counts."""
    return _float64 if not is_fused and _get_default_dtype() is _float64 else _float32


def _view_as_real(params, *state_and_grads):
    """In these lists, tensors of pairs in the place of complex ones, wherever the parameter is complex."""
    for i, parameter in enumerate(params):
        if parameter.is_complex():
            for each in (params, *state_and_grads):
                each[i] = _as_pairs(each[i])


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.optim.optimizer", "flambeau.optim")
