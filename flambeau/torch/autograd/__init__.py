"""torch.autograd"""

from flambeau.torch import _mirror


def Variable(data, requires_grad=False, volatile=False):        # noqa: N802 - PyTorch's name
    """The tensor itself, as a leaf if it is to require gradients: the old name of a tensor on the tape."""
    made = data.detach() if requires_grad and not data.requires_grad else data
    return made.requires_grad_(True) if requires_grad else made


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.autograd")
