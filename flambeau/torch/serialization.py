"""torch.serialization"""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.tensor.serialization", "flambeau.tensor.torch_pickles")
