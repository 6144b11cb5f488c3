"""torch.cuda where there is no CUDA device: it says so; seeding, clearing and waiting do nothing, what needs
a device is refused. `memory_summary` is a table of the CPU's memory, events are a clock, streams are
inert."""

from flambeau.torch import _absent, _mirror
from flambeau.torch._streams import Event, Stream, StreamContext, current_stream, stream
from flambeau.torch.cuda.graphs import (CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing,
                                        make_graphed_callables)
from flambeau.torch.cuda.memory import *  # noqa: F403 - the names of torch.cuda.memory are torch.cuda's too
from flambeau.torch.cuda.random import (get_rng_state, get_rng_state_all, initial_seed, manual_seed,
                                        manual_seed_all, seed, seed_all, set_rng_state, set_rng_state_all)

has_half, has_magma = True, False
default_generators = ()
default_stream = get_stream_from_external = current_stream
ExternalStream = Stream
device, device_of = _absent.device_contexts("cuda")
set_device = _absent.set_device("cuda")
Device = _CudaDeviceProperties = _absent.refused_class("cuda", "Device")
_initialized = False


class DeferredCudaCallError(Exception):
    """Never raised here."""


class CudaError(RuntimeError):
    """Never raised here."""


def is_available():
    """False."""
    return False


def device_count():
    """0."""
    return 0


globals().update(
    _absent.answered(False, "is_initialized", "is_bf16_supported", "is_tf32_supported", "_is_compiled",
                     "_is_in_bad_fork"),
    **_absent.answered([], "get_arch_list"), **_absent.answered("", "get_gencode_flags"),
    **_absent.answered(0, "get_sync_debug_mode"),
    **_absent.nothing("synchronize", "ipc_collect", "set_stream", "set_sync_debug_mode", "_lazy_call"),
    **_absent.refused("cuda", "init", "_lazy_init", "current_device", "get_device_name",
        "get_device_properties",
                      "get_device_capability", "can_device_access_peer", "cudart", "current_blas_handle",
                      "utilization", "temperature", "power_draw", "clock_rate", "memory_usage",
                      "device_memory_used", "check_error", "_sleep"))


def _refused_types():
    names = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
    return {name + kind: _absent.refused_class("cuda", name + kind) for name in names
        for kind in ("Tensor", "Storage")}


globals().update(_refused_types())


def __getattr__(name):
    if name in ("OutOfMemoryError", "AcceleratorError"):
        from flambeau import torch
        return getattr(torch, name)
    return _find(name)


_find, __dir__ = _mirror.mirror(__name__)
