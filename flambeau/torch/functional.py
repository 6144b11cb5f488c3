"""torch.functional"""

from flambeau.torch import _mirror
from flambeau.torch.nn import functional as F

__all__ = ["F"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau", "flambeau.nn.functional")
