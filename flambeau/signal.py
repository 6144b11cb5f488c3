"""Signal processing: `signal.windows` has the window functions of torch.signal.windows."""

import flambeau.tensor      # noqa: F401 - makes results tensors, also for a program that begins with a window
from flambeau.ops import windows

__all__ = ["windows"]
