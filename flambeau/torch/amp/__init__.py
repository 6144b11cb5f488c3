"""torch.amp where there is no CUDA device: for CUDA it is switched off with a warning, as PyTorch does."""

import functools
import warnings

from flambeau.torch import _mirror


class autocast:         # noqa: N801 - PyTorch's name
    """A block, or a decorated function, that computes in a shorter dtype. For 'cuda' it does nothing here."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        if enabled and device_type == "cuda":
            warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2)
        elif enabled:
            raise NotImplementedError(f"[autocast] there is no autocast on {device_type!r} yet\n"
                                      "  hint: cast the model and its inputs, as with .bfloat16()")
        self.device, self._enabled = device_type, False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return inside


class GradScaler:
    """Scales losses of half precision on CUDA devices. There is none here: losses and gradients stay as they are."""

    def __init__(self, device="cuda", init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        if enabled:
            warnings.warn("GradScaler is enabled, but CUDA is not available. Disabling.", stacklevel=2)

    def is_enabled(self):
        """False."""
        return False

    def scale(self, outputs):
        """The outputs as they are."""
        return outputs

    def unscale_(self, optimizer):
        """Changes nothing."""

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step()"""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Changes nothing."""

    def get_scale(self):
        """1.0"""
        return 1.0

    def state_dict(self):
        """An empty dict."""
        return {}

    def load_state_dict(self, state_dict):
        """Changes nothing."""


def is_autocast_available(device_type):
    """False."""
    return False


__getattr__, __dir__ = _mirror.mirror(__name__)
