"""torch.nn.modules.batchnorm"""

from flambeau.nn.normalization import _BatchNorm, _RunningNorm as _NormBase
from flambeau.torch import _mirror

__all__ = ["_BatchNorm", "_NormBase"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
