"""torch.backends.mkldnn: not in use; Flambeau generates its kernels."""

enabled = True


def is_available():
    """False."""
    return False
