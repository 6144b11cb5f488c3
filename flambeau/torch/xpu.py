"""torch.xpu: not there."""

from flambeau.torch import _absent, _mirror
from flambeau.torch._streams import Event, Stream, StreamContext, current_stream, stream

globals().update(
    _absent.answered(False, "is_available", "is_initialized", "is_bf16_supported", "is_tf32_supported",
        "_is_compiled",
                     "_is_in_bad_fork"),
    **_absent.answered(0, "device_count", "memory_allocated", "max_memory_allocated", "memory_reserved",
                       "max_memory_reserved"),
    **_absent.answered({}, "memory_stats", "memory_stats_as_nested_dict"),
    **_absent.answered([], "get_arch_list", "get_rng_state_all", "memory_snapshot"),
    **_absent.answered("", "get_gencode_flags"),
    **_absent.nothing("manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache", "synchronize",
        "set_stream",
                      "set_rng_state", "set_rng_state_all", "reset_peak_memory_stats",
        "reset_accumulated_memory_stats"),
    **_absent.refused("xpu", "init", "_lazy_init", "current_device", "get_device_name",
        "get_device_properties",
                      "get_device_capability", "get_rng_state", "initial_seed", "mem_get_info",
                      "can_device_access_peer", "set_per_process_memory_fraction"))
default_generators = ()
device, device_of = _absent.device_contexts("xpu")
set_device = _absent.set_device("xpu")

__getattr__, __dir__ = _mirror.mirror(__name__)
