"""torch.mps: not there."""

from flambeau.torch import _absent, _mirror
from flambeau.torch._streams import Event

globals().update(_absent.answered(False, "is_available", "_is_in_bad_fork"), **_absent.answered(
    0, "device_count", "current_allocated_memory", "driver_allocated_memory", "recommended_max_memory"),
    **_absent.nothing("manual_seed", "seed", "empty_cache", "synchronize", "set_rng_state",
                      "set_per_process_memory_fraction"),
    **_absent.refused("mps", "get_rng_state", "compile_shader", "load_metallib"))
event = Event

__getattr__, __dir__ = _mirror.mirror(__name__)
