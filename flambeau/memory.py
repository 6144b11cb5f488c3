"""Memory of tensors: what is in use, who holds it, what is left after a block, how much there may be.

>>> import flambeau as fl
>>> before = fl.memory.stats()["live_bytes"]
>>> x = fl.zeros(1000)
>>> fl.memory.stats()["live_bytes"] - before >= x.nbytes
True
"""

from flambeau.runtime._core import memory_empty_cache as empty_cache
from flambeau.runtime._core import memory_reset_peak as reset_peak
from flambeau.runtime._core import memory_stats as stats
from flambeau.tensor.alive import (LeakError, Live, leak_check, live_tensors, record_lines, set_limit,
                                   set_per_process_memory_fraction)

__all__ = ["LeakError", "Live", "empty_cache", "leak_check", "live_tensors", "record_lines", "reset_peak", "set_limit",
           "set_per_process_memory_fraction", "stats", "summary"]


def summary():
    """The counters of `stats()` as a table to print."""
    from flambeau.base.text import human_bytes, human_count, table

    counters = stats()
    share = counters["cache_hits"] / max(counters["allocations"], 1)
    rows = [("live", human_bytes(counters["live_bytes"]), f"in {human_count(counters['live_blocks'])} blocks"),
            ("peak", human_bytes(counters["peak_bytes"]), "most that was live at once"),
            ("cached", human_bytes(counters["cached_bytes"]), "free, kept for reuse"),
            ("requests", human_count(counters["allocations"]), f"{share:.1%} from the cache")]
    if counters["limit_bytes"]:
        rows.append(("limit", human_bytes(counters["limit_bytes"]), "live and cached together may not pass it"))
    return table(rows, ("memory", "amount", "meaning"))
