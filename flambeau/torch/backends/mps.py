"""torch.backends.mps: not there."""


def is_available():
    """False."""
    return False


def is_built():
    """False."""
    return False
