"""`torch.utils.model_zoo`."""

from flambeau.hub import load_state_dict_from_url as load_url      # noqa: F401 - its name here
from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__)
