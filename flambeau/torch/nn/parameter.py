"""torch.nn.parameter"""

from flambeau.nn.parameter import _Uninitialized as UninitializedTensorMixin
from flambeau.torch import _mirror

__all__ = ["UninitializedTensorMixin"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn.parameter")
