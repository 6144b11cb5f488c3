"""torch.nn.utils"""

from flambeau.nn import utils as _utils
from flambeau.torch import _mirror
from flambeau.torch.nn.utils import spectral_norm, weight_norm      # noqa: F401 - loaded before their names are taken

spectral_norm, weight_norm = _utils.spectral_norm, _utils.weight_norm      # functions, as in PyTorch, not the modules

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn.utils")
