"""`torch.distributed.tensor.parallel`: the names, for imports; what they do is refused."""

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals

globals().update(
    _refusals.classes(
        __name__,
        "ColwiseParallel",
        "ParallelStyle",
        "PrepareModuleInput",
        "PrepareModuleOutput",
        "RowwiseParallel",
        "SequenceParallel",
    )
)
globals().update(_refusals.functions(__name__, "loss_parallel", "parallelize_module"))

__getattr__, __dir__ = _mirror.mirror(__name__)
