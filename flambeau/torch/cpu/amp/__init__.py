"""torch.cpu.amp"""

from flambeau.torch.amp import _of_device
from flambeau.types.dtype import bfloat16 as _bfloat16

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = _of_device.classes("cpu", _bfloat16)
