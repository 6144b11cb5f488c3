"""torch.cuda.amp.autocast_mode"""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.torch.cuda.amp")
