"""`torch.utils.tensorboard`."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.track.writer")
