"""torch.backends.cuda: switches that scripts set are kept and change nothing."""

import types

matmul = types.SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True,
                               allow_bf16_reduced_precision_reduction=True)


def is_built():
    """False."""
    return False


def flash_sdp_enabled():
    """False."""
    return False


mem_efficient_sdp_enabled = cudnn_sdp_enabled = flash_sdp_enabled


def math_sdp_enabled():
    """True."""
    return True


def enable_flash_sdp(enabled):
    """Changes nothing."""


enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = enable_flash_sdp
