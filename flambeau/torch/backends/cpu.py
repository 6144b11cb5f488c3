"""torch.backends.cpu"""

from flambeau.backends import get_cpu_capability

__all__ = ["get_cpu_capability"]
