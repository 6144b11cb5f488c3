"""torch.nn.modules.batchnorm"""

from flambeau.nn.normalization import _BatchNorm
from flambeau.torch import _mirror

__all__ = ["_BatchNorm"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
