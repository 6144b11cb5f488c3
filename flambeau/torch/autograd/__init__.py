"""torch.autograd"""

from flambeau.tensor.function import FunctionCtx
from flambeau.tensor.legacy import Variable
from flambeau.torch import _mirror
from flambeau.torch.autograd import gradcheck as _check        # before the function of its name takes its place


class set_multithreading_enabled:                                # noqa: N801 - PyTorch's name
    """A switch, also for `with`, that changes nothing: a backward pass walks in the thread that asked for it."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def gradcheck(func, inputs, **options):
    """`flambeau.autograd.gradcheck`; also the name of a module."""
    return _check.gradcheck(func, inputs, **options)


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.autograd")
