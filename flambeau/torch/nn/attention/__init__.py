"""torch.nn.attention: which kernel computes attention. There is one, so a choice changes nothing."""

import contextlib
import enum

from flambeau.torch import _mirror


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels of scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """A block, or a decorated function, that names the kernels it would take.

    >>> with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    ...     pass
    """
    for backend in backends if isinstance(backends, (list, tuple)) else (backends,):
        if not isinstance(backend, SDPBackend):
            raise AssertionError(f"Backend must be an instance of SDPBackend or a list of them, "
                                 f"got {backend!r}")
    yield


__getattr__, __dir__ = _mirror.mirror(__name__)
