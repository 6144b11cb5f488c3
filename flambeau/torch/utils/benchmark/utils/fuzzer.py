"""`torch.utils.benchmark.utils.fuzzer`."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.measure.fuzzer")
