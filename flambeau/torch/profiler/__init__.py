"""torch.profiler"""

from flambeau.torch import _mirror


def kineto_available():
    """False: that is PyTorch's own recorder."""
    return False


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.profiler")
