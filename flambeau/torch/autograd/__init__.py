"""torch.autograd"""

from flambeau.torch import _mirror
from flambeau.torch.autograd import gradcheck as _check        # before the function of its name takes its place


def Variable(data, requires_grad=False, volatile=False):        # noqa: N802 - PyTorch's name
    """The tensor itself, as a leaf if it is to require gradients: the old name of a tensor on the tape."""
    made = data.detach() if requires_grad and not data.requires_grad else data
    return made.requires_grad_(True) if requires_grad else made


def gradcheck(func, inputs, **options):
    """`flambeau.autograd.gradcheck`; also the name of a module."""
    return _check.gradcheck(func, inputs, **options)


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.autograd")
