"""torch.cuda.amp: without a device it is switched off, with a warning."""

from flambeau.torch.amp import _of_device
from flambeau.types.dtype import float16 as _float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = _of_device.classes("cuda", _float16)
custom_fwd, custom_bwd = _of_device.decorators("cuda")


def amp_definitely_not_available():
    """True."""
    return True
