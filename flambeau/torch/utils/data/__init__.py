"""torch.utils.data"""

from flambeau.data.dataloader import _DatasetKind  # noqa: F401
from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.data")
