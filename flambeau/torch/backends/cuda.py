"""torch.backends.cuda: switches that scripts set are kept and change nothing."""

from contextlib import contextmanager

from flambeau.torch import _mirror
from flambeau.torch.backends._switch import Switches as _Switches

matmul = _Switches(allow_tf32=False, allow_fp16_reduced_precision_reduction=True,
                   allow_bf16_reduced_precision_reduction=True, allow_fp16_accumulation=False,
    fp32_precision="none")
_attention = _Switches(flash=True, mem_efficient=True, math=True, cudnn=True)


def is_built():
    """False."""
    return False


def _attention_switch(name):
    def enabled():
        return getattr(_attention, name)

    def enable(enabled):
        setattr(_attention, name, bool(enabled))

    enabled.__name__, enable.__name__ = f"{name}_sdp_enabled", f"enable_{name}_sdp"
    enabled.__doc__ = "What was set last; there is one kernel for attention."
    enable.__doc__ = "Remembered only; there is one kernel for attention."
    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _attention_switch("flash")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _attention_switch("mem_efficient")
math_sdp_enabled, enable_math_sdp = _attention_switch("math")
cudnn_sdp_enabled, enable_cudnn_sdp = _attention_switch("cudnn")


@contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """A block with these choices; there is one kernel for attention."""
    before = dict(vars(_attention))
    vars(_attention).update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient,
        cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        vars(_attention).update(before)


def is_flash_attention_available():
    """False: that kernel is for CUDA devices. `scaled_dot_product_attention` works blockwise here too."""
    return False


def can_use_flash_attention(params, debug=False):
    """False."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def preferred_linalg_library(backend=None):
    """'default': there is one."""
    return "default"


preferred_blas_library = preferred_rocm_fa_library = preferred_linalg_library


def fp16_bf16_reduction_math_sdp_allowed():
    """False."""
    return False


def allow_fp16_bf16_reduction_math_sdp(enabled):
    """Changes nothing."""


def __getattr__(name):
    if name == "SDPBackend":
        from flambeau.torch.nn.attention import SDPBackend
        return SDPBackend
    return _find(name)


_find, __dir__ = _mirror.mirror(__name__)
