"""torch.nn.modules.conv"""

from flambeau.nn.conv import _Convolution as _ConvNd, _TransposedConvolution as _ConvTransposeNd
from flambeau.torch import _mirror

__all__ = ["_ConvNd", "_ConvTransposeNd"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
