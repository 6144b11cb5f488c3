"""`torch.distributed.optim`: the names, for imports; what they do is refused."""

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals

globals().update(
    _refusals.classes(__name__, "DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer")
)

__getattr__, __dir__ = _mirror.mirror(__name__)
