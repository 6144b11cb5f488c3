"""torch.utils.hooks"""

from flambeau.torch import _mirror


def unserializable_hook(f):
    """Mark a hook that is not to be saved with its tensor."""
    f.__torch_unserializable__ = True
    return f


__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.tensor.hooks")
