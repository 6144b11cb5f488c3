"""`torch.utils.mobile_optimizer`: refused."""

from flambeau.torch import _mirror


def optimize_for_mobile(*args, **kwargs):
    """Refused: there are no TorchScript modules to optimize."""
    raise NotImplementedError("[utils.mobile_optimizer.optimize_for_mobile] there are no TorchScript modules here")


__getattr__, __dir__ = _mirror.mirror(__name__)
