"""torch.storage"""

from flambeau.tensor.storage import UntypedStorage as _StorageBase
from flambeau.torch import _mirror

__all__ = ["_StorageBase"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.tensor.storage", "flambeau.tensor.torch_pickles")
