"""torch.nn.modules.dropout"""

from flambeau.nn.dropout import _Dropout as _DropoutNd
from flambeau.torch import _mirror

__all__ = ["_DropoutNd"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
