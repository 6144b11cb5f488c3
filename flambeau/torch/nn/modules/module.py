"""torch.nn.modules.module"""

from flambeau.nn.names import indent_block as _addindent
from flambeau.nn.state import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX, IncompatibleKeys as _IncompatibleKeys
from flambeau.torch import _mirror

__all__ = ["_EXTRA_STATE_KEY_SUFFIX", "_IncompatibleKeys", "_addindent"]

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.nn", "flambeau.nn.global_hooks")
