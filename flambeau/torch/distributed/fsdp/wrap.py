"""`torch.distributed.fsdp.wrap`: the names, for imports; what they do is refused."""

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals

globals().update(_refusals.classes(__name__, "CustomPolicy", "ModuleWrapPolicy"))
globals().update(
    _refusals.functions(
        __name__,
        "always_wrap_policy",
        "enable_wrap",
        "lambda_auto_wrap_policy",
        "size_based_auto_wrap_policy",
        "transformer_auto_wrap_policy",
        "wrap",
    )
)

__getattr__, __dir__ = _mirror.mirror(__name__)
