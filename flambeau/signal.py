"""Signal processing: `signal.windows` has the window functions of torch.signal.windows."""

from flambeau.ops import windows

__all__ = ["windows"]
