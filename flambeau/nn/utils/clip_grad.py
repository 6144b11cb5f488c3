"""Gradients made smaller: by their common norm, or element by element. In place, outside the tape."""

import warnings

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.tensor import Tensor, no_grad, stack, tensor


def _listed(tensors):
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters):
    return [parameter.grad for parameter in _listed(parameters) if parameter.grad is not None]


def _elements(gradient):
    """All elements of a gradient in a row; of a sparse one those that it specifies."""
    return (gradient.coalesce().values() if gradient.is_sparse else gradient).detach().reshape(-1)


def _check_limit(function, name, value):
    """A negative limit would turn gradients round."""
    if not float(value) >= 0:
        fail(function, f"{name} is below 0", value, "a number that is 0 or more", kind=ValueError)


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The p-norm of all elements of all tensors together.

    Raises:
        RuntimeError: if `error_if_nonfinite` and the norm is NaN or infinite.
    """
    tensors = [each for each in _listed(tensors) if each.numel()]
    if not tensors:
        return tensor(0.0)
    with no_grad():
        norms = [ops.norm(_elements(each), float(norm_type)) for each in tensors]
        total = ops.norm(stack([each.to(norms[0].dtype) for each in norms]), float(norm_type))
    if error_if_nonfinite and not abs(total.item()) < float("inf"):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is "
                           f"non-finite, so it "
                           "cannot be clipped. To disable this error and scale the gradients by the "
                           "non-finite norm "
                           "anyway, set `error_if_nonfinite=False`")
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Multiply all gradients by `max_norm / total_norm` where that is below 1."""
    with no_grad():
        factor = ops.minimum(float(max_norm) / (total_norm + 1e-6), 1.0)
        for gradient in _gradients(parameters):
            gradient.detach().mul_(factor.to(gradient.dtype))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scale the gradients so that their common norm is at most `max_norm`; returns the norm before.

    Args:
        parameters: a tensor or several. norm_type: p of the norm, also inf.
    """
    parameters = _listed(parameters)
    _check_limit("clip_grad_norm_", "max_norm", max_norm)
    if not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """An older name of `clip_grad_norm_`."""
    warnings.warn("`clip_grad_norm` is now deprecated in favor of `clip_grad_norm_`.", FutureWarning,
                  stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limit each element of the gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    _check_limit("clip_grad_value_", "clip_value", clip_value)
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.detach().clamp_(-clip_value, clip_value)
