"""torch.cuda.memory: no device memory, so counts are 0; the summary is a table of the CPU's."""

from collections import OrderedDict
from contextlib import nullcontext as _no_choice

from flambeau.torch import _absent

_COUNTS = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "memory_cached",
           "max_memory_cached")
_SILENT = ("empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
           "reset_accumulated_memory_stats", "reset_peak_host_memory_stats",
           "reset_accumulated_host_memory_stats", "caching_allocator_enable", "_record_memory_history",
    "_dump_snapshot")
_REFUSED = ("mem_get_info", "caching_allocator_alloc", "caching_allocator_delete", "change_current_allocator",
            "set_per_process_memory_fraction", "get_per_process_memory_fraction")

CUDAPluggableAllocator = _absent.refused_class("cuda", "CUDAPluggableAllocator")
MemPool = _absent.refused_class("cuda", "MemPool")

globals().update(_absent.answered(0, *_COUNTS), **_absent.nothing(*_SILENT),
    **_absent.refused("cuda", *_REFUSED),
                 **_absent.answered(OrderedDict(), "memory_stats", "host_memory_stats"),
                 **_absent.answered({}, "memory_stats_as_nested_dict", "host_memory_stats_as_nested_dict"),
                 **_absent.answered([], "memory_snapshot"), **_absent.answered("native", "get_allocator_backend"),
                 **_absent.answered("", "list_gpu_processes"))


def memory_summary(device=None, abbreviated=False):
    """A table of the memory of tensors on the CPU: live, peak, cached.

    >>> print(memory_summary().splitlines()[0].split())
    ['memory', 'amount', 'meaning']
    """
    from flambeau import memory
    return memory.summary()


def use_mem_pool(pool, device=None):
    """A block that changes nothing."""
    return _no_choice()


def caching_allocator_disabled():
    """A block that changes nothing."""
    return _no_choice()


__all__ = [name for name in globals() if not name.startswith("_") and name != "OrderedDict"]
