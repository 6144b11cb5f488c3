"""Memory of tensors: what is in use, what was at most, what is kept for reuse.

>>> import flambeau as fl
>>> before = fl.memory.stats()["live_bytes"]
>>> x = fl.zeros(1000)
>>> fl.memory.stats()["live_bytes"] - before >= x.nbytes
True
"""

from flambeau.runtime._core import memory_empty_cache as empty_cache
from flambeau.runtime._core import memory_reset_peak as reset_peak
from flambeau.runtime._core import memory_stats as stats

__all__ = ["empty_cache", "reset_peak", "stats", "summary"]


def summary():
    """The counters of `stats()` as a table to print."""
    from flambeau.base.text import human_bytes, human_count, table

    counters = stats()
    share = counters["cache_hits"] / max(counters["allocations"], 1)
    return table([
        ("live", human_bytes(counters["live_bytes"]), f"in {human_count(counters['live_blocks'])} blocks"),
        ("peak", human_bytes(counters["peak_bytes"]), "most that was live at once"),
        ("cached", human_bytes(counters["cached_bytes"]), "free, kept for reuse"),
        ("requests", human_count(counters["allocations"]), f"{share:.1%} from the cache"),
    ], ("memory", "amount", "meaning"))
