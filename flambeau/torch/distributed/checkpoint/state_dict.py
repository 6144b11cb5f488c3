"""`torch.distributed.checkpoint.state_dict`: the names, for imports; what they do is refused."""

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals

globals().update(_refusals.classes(__name__, "StateDictOptions"))
globals().update(
    _refusals.functions(
        __name__,
        "get_model_state_dict",
        "get_optimizer_state_dict",
        "get_state_dict",
        "set_model_state_dict",
        "set_optimizer_state_dict",
        "set_state_dict",
    )
)

__getattr__, __dir__ = _mirror.mirror(__name__)
