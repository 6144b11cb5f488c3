"""torch.signal.windows"""

import flambeau.signal as _signal       # noqa: F401 - a program may begin with a window
from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.ops.windows")
