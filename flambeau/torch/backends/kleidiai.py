"""torch.backends.kleidiai: not in use; Flambeau generates its kernels."""


def is_available():
    """False."""
    return False
