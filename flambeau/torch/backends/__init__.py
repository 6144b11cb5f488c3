"""torch.backends: switches of libraries that Flambeau does not use. They can be set and change nothing."""

from flambeau.torch import _mirror

__getattr__, __dir__ = _mirror.mirror(__name__)
