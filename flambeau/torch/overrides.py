"""torch.overrides: importing it opens the doors of `flambeau.ops.overrides`, for types that are no tensors."""

import flambeau.namespace as _namespace      # noqa: F401 - knows which functions get doors
from flambeau.ops.overrides import open_doors as _open_doors
from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__, "flambeau.overrides")

_open_doors()
