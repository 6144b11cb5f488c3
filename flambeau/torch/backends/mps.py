"""torch.backends.mps: not there."""


def is_available():
    """False."""
    return False


def is_built():
    """False."""
    return False


def is_macos_or_newer(major, minor):
    """False."""
    return False


def is_macos13_or_newer(minor=0):
    """False."""
    return False
