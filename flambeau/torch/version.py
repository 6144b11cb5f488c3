"""torch.version"""

from flambeau.torch import __version__

cuda = hip = None
