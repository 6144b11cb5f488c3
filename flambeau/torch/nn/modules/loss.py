"""torch.nn.modules.loss"""

from flambeau.nn.loss import _Loss, _WeightedLoss
from flambeau.torch import _mirror

__all__ = ["_Loss", "_WeightedLoss"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn")
