"""`torch.distributed._tensor`: the older name of `torch.distributed.tensor`."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.torch.distributed.tensor")
