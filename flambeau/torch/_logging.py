"""torch._logging: logs of the parts of PyTorch's compiler. There is nothing to log."""

from flambeau.torch import _absent

globals().update(_absent.nothing("set_logs", "getArtifactLogger", "trace_structured"))
