"""torch.cuda.amp"""

import functools

from flambeau.torch import _mirror, amp

autocast = functools.partial(amp.autocast, "cuda")
GradScaler = functools.partial(amp.GradScaler, "cuda")

__getattr__, __dir__ = _mirror.mirror(__name__)
