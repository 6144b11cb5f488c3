"""The facade: PyTorch's module paths over Flambeau, so that `flambeau run script.py` can serve it as `torch`.

    from flambeau import torch
    from flambeau.torch import nn
    from flambeau.torch.utils.data import DataLoader

Its modules are thin: each says where its names stand in the house (see `_mirror`). Importing it makes the
process-wide choice that objects are shown with PyTorch's names (`torch.float32`) and random numbers are PyTorch's.
"""

from flambeau.base.choices import set_stream
from flambeau.torch import _mirror
from flambeau.torch.torch_version import TorchVersion as _Version
from flambeau.types.dtype import set_repr_prefix

__version__ = _Version("2.13.0+flambeau.0.1.0")      # the PyTorch whose API is meant, and what stands behind it

set_repr_prefix("torch")
set_stream("pytorch")

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.torch._files", "flambeau", "flambeau.torch._top", "flambeau.torch._foreach",
                                         "flambeau.torch._scripts", "flambeau.torch._checks")
