"""torch.nn.modules.pooling"""

from flambeau.nn.pooling import (_AdaptiveAvgPool as _AdaptiveAvgPoolNd, _AdaptiveMaxPool as _AdaptiveMaxPoolNd,
                                 _LPPool as _LPPoolNd, _MaxPool as _MaxPoolNd, _MaxUnpool as _MaxUnpoolNd)
from flambeau.torch import _mirror

__all__ = ["_AdaptiveAvgPoolNd", "_AdaptiveMaxPoolNd", "_LPPoolNd", "_MaxPoolNd", "_MaxUnpoolNd"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
