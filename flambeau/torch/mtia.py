"""torch.mtia: not there."""

from flambeau.torch import _absent, _mirror
from flambeau.torch._streams import Event, Stream, StreamContext, current_stream, stream

globals().update(
    _absent.answered(False, "is_available", "is_initialized", "is_bf16_supported", "_is_compiled",
        "_is_in_bad_fork"),
    **_absent.answered(0, "device_count", "memory_allocated", "max_memory_allocated"),
    **_absent.answered({}, "memory_stats"), **_absent.answered([], "get_rng_state_all"),
    **_absent.nothing("manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache", "synchronize",
        "set_stream",
                      "set_rng_state", "set_rng_state_all", "reset_peak_memory_stats",
        "record_memory_history"),
    **_absent.refused("mtia", "init", "_lazy_init", "current_device", "get_device_properties",
        "get_device_capability",
                      "get_rng_state", "initial_seed", "snapshot"))
default_stream = current_stream
device, _ = _absent.device_contexts("mtia")
set_device = _absent.set_device("mtia")

__getattr__, __dir__ = _mirror.mirror(__name__)
