"""`torch.distributed.device_mesh`: the names, for imports; what they do is refused."""

from flambeau.torch import _mirror
from flambeau.torch.distributed import _refusals

globals().update(_refusals.classes(__name__, "DeviceMesh"))
globals().update(_refusals.functions(__name__, "init_device_mesh"))

__getattr__, __dir__ = _mirror.mirror(__name__)
