"""torch.backends.cudnn: not there; the switches that scripts set are kept and change nothing."""

enabled = False
deterministic = True
benchmark = False
allow_tf32 = False


def is_available():
    """False."""
    return False


def version():
    """None."""
