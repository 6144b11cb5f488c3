"""What the native runtime adds to a kernel: a call of the pool, a block of memory, its first touch."""

import machine

FIRST_TOUCH_BYTES = 40 << 20


def first_touch():
    """(seconds to fill fresh memory, seconds to fill it again)."""
    from flambeau.runtime._core import MemoryBlock, memory_empty_cache

    fresh = []
    for _ in range(5):
        memory_empty_cache()
        block = MemoryBlock(FIRST_TOUCH_BYTES)
        fresh.append(machine.fastest(block.fill, 1)[0])
        again = machine.fastest(block.fill, 5)[0]
        block.release()
    return min(fresh), again


def report(roofs):
    """The table as text."""
    from flambeau.base.text import human_bytes, human_time, table
    from flambeau.runtime._core import _alloc_test_cost, _pool_test_cost

    def least(cost, *arguments):
        return human_time(min(cost(*arguments) for _ in range(7)) * 1e-9)

    fresh, again = first_touch()
    size = human_bytes(FIRST_TOUCH_BYTES)
    return table([
        ("parallel_for, one chunk", least(_pool_test_cost, 8, 8, 2000)),
        (f"parallel_for, {4 * roofs.threads} chunks", least(_pool_test_cost, 4 * roofs.threads, 1, 2000)),
        ("acquire and release 256 bytes", least(_alloc_test_cost, 256, 20_000)),
        ("acquire and release 4 MB", least(_alloc_test_cost, 4 << 20, 20_000)),
        (f"fill {size} of fresh memory", human_time(fresh)),
        (f"fill {size} again", human_time(again)),
    ], ("runtime", "least time"))
