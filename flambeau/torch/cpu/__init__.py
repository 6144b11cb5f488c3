"""torch.cpu: the one device. Its calls are complete when they return."""

from flambeau.torch import _mirror
from flambeau.torch._streams import Event, Stream, StreamContext, current_stream, stream


def is_available():
    """True."""
    return True


def is_initialized():
    """True."""
    return True


def device_count():
    """1."""
    return 1


def current_device():
    """'cpu'."""
    return "cpu"


def set_device(device):
    """Does nothing: there is one."""


def synchronize(device=None):
    """Does nothing: an operation is complete when it returns."""


def get_capabilities():
    """What vector code this machine runs: {'avx512_f': True, ...} of the processor that kernels are made
    for.
    """
    from flambeau.compiler import target

    present = target.current().features
    known = ("avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512bf16", "avx512vnni",
        "neon")
    return {name.replace("avx512f", "avx512_f"): name in present for name in known}


__getattr__, __dir__ = _mirror.mirror(__name__)
