"""torch.version"""

from flambeau.torch import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

cuda = hip = rocm = xpu = None
debug = False
git_version = "unknown"         # the house has a version, not a commit
