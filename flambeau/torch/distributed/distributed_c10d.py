"""`torch.distributed.distributed_c10d`."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.torch.distributed")
