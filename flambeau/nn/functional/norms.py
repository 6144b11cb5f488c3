"""Normalisation, in the order of arguments of `nn.functional`, with the refusal of batches too small to have
a variance."""

from flambeau import ops
from flambeau.ops import running

group_norm, rms_norm, local_response_norm = running.group_norm, running.rms_norm, running.local_response_norm


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
               eps=1e-05):
    """Normalise each channel (axis 1) over all other axes.

    In training the batch's own mean and variance are used and the running ones, where given, are moved
    towards them by the factor `momentum`; the running variance takes the unbiased estimate.
    """
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if training and input.numel():
        if input.dim() < 2 or input.numel() == input.shape[1]:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size "
                             f"{input.shape}")
    if input.dim() == 1 and not input.numel():
        return input.clone()
    return running.normalize_batch(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-05):
    """Normalise each channel of each example over its own elements, or by the running statistics."""
    if use_input_stats and input.numel() == input.shape[0] * input.shape[1] and input.numel():
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return running.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum,
                                 eps)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """Normalise over the last axes, whose sizes are `normalized_shape`."""
    return ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divide by the p-norm along `dim`, at least `eps`."""
    result = running.normalize(input, p, dim, eps)
    return result if out is None else out.copy_(result)
