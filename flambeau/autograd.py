"""Gradients: `backward`, `grad` and the modes of recording."""

from flambeau.tensor.autograd import (backward, enable_grad, grad, inference_mode, is_grad_enabled, no_grad,
                                      set_grad_enabled)

__all__ = ["backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]
