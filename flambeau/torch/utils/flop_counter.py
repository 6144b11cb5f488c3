"""`torch.utils.flop_counter`."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.measure.flop_counter")
