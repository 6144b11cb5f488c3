"""torch.nn.modules.instancenorm"""

from flambeau.nn.normalization import _InstanceNorm
from flambeau.torch import _mirror

__all__ = ["_InstanceNorm"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
