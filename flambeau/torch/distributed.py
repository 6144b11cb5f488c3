"""torch.distributed: not there (yet); scripts ask first."""

from flambeau.torch import _mirror


def is_available():
    """False."""
    return False


def is_initialized():
    """False."""
    return False


def _refused(name):
    def refuse(*args, **kwargs):
        raise RuntimeError(f"[distributed.{name}] working in several processes is not available yet\n"
                           "  hint: ask torch.distributed.is_available() first")
    refuse.__name__ = name
    refuse.__doc__ = "Refused."
    return refuse


init_process_group, destroy_process_group, get_rank, get_world_size, barrier, all_reduce, broadcast, all_gather = map(
    _refused, ("init_process_group", "destroy_process_group", "get_rank", "get_world_size", "barrier", "all_reduce",
               "broadcast", "all_gather"))


__getattr__, __dir__ = _mirror.mirror(__name__)
