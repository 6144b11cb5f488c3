"""torch.utils._mode_utils"""

from flambeau.torch.utils._python_dispatch import _disable_current_modes as no_dispatch

__all__ = ["no_dispatch"]
