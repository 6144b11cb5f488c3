"""torch.autograd"""

from flambeau.tensor.legacy import Variable
from flambeau.torch import _mirror
from flambeau.torch.autograd import gradcheck as _check        # before the function of its name takes its place


def gradcheck(func, inputs, **options):
    """`flambeau.autograd.gradcheck`; also the name of a module."""
    return _check.gradcheck(func, inputs, **options)


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.autograd")
