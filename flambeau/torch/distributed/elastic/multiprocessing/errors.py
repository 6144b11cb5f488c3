"""`torch.distributed.elastic.multiprocessing.errors`."""

from flambeau.torch import _mirror


def record(fn, error_handler=None):
    """The function itself: nobody collects the errors of several processes."""
    return fn


__getattr__, __dir__ = _mirror.mirror(__name__)
