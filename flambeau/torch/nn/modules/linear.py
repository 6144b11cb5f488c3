"""torch.nn.modules.linear"""

from flambeau.nn.attention import NonDynamicallyQuantizableLinear
from flambeau.torch import _mirror

__all__ = ["NonDynamicallyQuantizableLinear"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
