"""torch.utils.data.datapipes: refused, name by name. PyTorch has given them up in favour of plain datasets."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__)
