"""torch.backends: switches of libraries that Flambeau does not use. They can be set and change nothing."""

from contextlib import contextmanager

from flambeau.torch import _mirror

fp32_precision = "none"


def disable_global_flags():
    """Changes nothing: switches can always be set."""


def flags_frozen():
    """False."""
    return False


@contextmanager
def __allow_nonbracketed_mutation():
    """A block that changes nothing."""
    yield


__getattr__, __dir__ = _mirror.mirror(__name__)
