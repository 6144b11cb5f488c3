"""Gradients: `backward`, `grad` and the modes of recording."""

from flambeau.tensor.autograd import (backward, enable_grad, grad, inference_mode, is_grad_enabled, no_grad,
                                      set_grad_enabled)
from flambeau.tensor.function import Function, once_differentiable

__all__ = ["Function", "backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "no_grad", "once_differentiable",
           "set_grad_enabled"]
