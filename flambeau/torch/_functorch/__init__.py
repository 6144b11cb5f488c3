"""`functorch`, the package that was there before `torch.func`."""

from flambeau.torch import _mirror
from flambeau.torch._functorch import config

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.func", "flambeau.nn.utils.functional_module")
