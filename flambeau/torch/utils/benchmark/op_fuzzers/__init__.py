"""`torch.utils.benchmark.op_fuzzers`."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__)
