"""`torch.distributed.checkpoint`: the names, for imports; what they do is refused."""

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals

globals().update(
    _refusals.classes(
        __name__,
        "DefaultLoadPlanner",
        "DefaultSavePlanner",
        "FileSystemReader",
        "FileSystemWriter",
        "Metadata",
    )
)
globals().update(
    _refusals.functions(__name__, "async_save", "load", "load_state_dict", "save", "save_state_dict")
)

__getattr__, __dir__ = _mirror.mirror(__name__)
