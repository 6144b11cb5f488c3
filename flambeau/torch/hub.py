"""torch.hub"""

from flambeau.hub.download import home as _get_torch_home      # noqa: F401 - used by programs under this name
from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.hub")
