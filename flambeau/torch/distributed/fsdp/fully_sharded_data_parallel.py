"""`torch.distributed.fsdp.fully_sharded_data_parallel`."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.torch.distributed.fsdp")
