"""torch._tensor_str"""

from flambeau.tensor.printing import OPTIONS as PRINT_OPTS
from flambeau.torch import _mirror

__all__ = ["PRINT_OPTS"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.tensor.printing")
