"""torch.nn.modules.padding"""

from flambeau.nn.padding import (_CircularPad as _CircularPadNd, _ConstantPad as _ConstantPadNd,
                                 _ReflectionPad as _ReflectionPadNd, _ReplicationPad as _ReplicationPadNd)
from flambeau.torch import _mirror

__all__ = ["_CircularPadNd", "_ConstantPadNd", "_ReflectionPadNd", "_ReplicationPadNd"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
