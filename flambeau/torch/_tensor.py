"""torch._tensor"""

from flambeau.tensor import Tensor
from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.tensor.copying", "flambeau.tensor.torch_pickles")

__all__ = ["Tensor"]
