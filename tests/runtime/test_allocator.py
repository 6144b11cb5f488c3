"""The caching allocator: sizes, reuse, counters, the trim rule, and what it says when memory is out."""

import gc

import pytest

from flambeau.runtime._core import (
    MemoryBlock,
    _alloc_test_cost,
    memory_empty_cache,
    memory_reset_peak,
    memory_stats,
)

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def empty():
    gc.collect()
    memory_empty_cache()
    memory_reset_peak()
    yield
    memory_empty_cache()


def difference(before, key):
    return memory_stats()[key] - before[key]


def test_aligned_large_enough_and_writable():
    for nbytes in [0, 1, 63, 64, 65, 511, 512, 513, 4096, 100_000, MEGABYTE, MEGABYTE + 1, 5 * MEGABYTE + 3]:
        block = MemoryBlock(nbytes)
        assert block.address % 64 == 0
        assert block.size >= nbytes
        block.fill(7)


def test_small_sizes_waste_an_eighth_at_most_and_large_ones_a_page():
    for nbytes in range(1, 70_000, 37):
        size = MemoryBlock(nbytes).size
        assert size - nbytes < 64 or (size - nbytes) * 8 <= nbytes
    for nbytes in [MEGABYTE + 1, 3 * MEGABYTE + 5000, 9 * MEGABYTE]:
        assert MemoryBlock(nbytes).size - nbytes < 4096
        memory_empty_cache()


def test_eight_classes_an_octave():
    assert len({MemoryBlock(nbytes).size for nbytes in range(1025, 2049)}) == 8
    assert len({MemoryBlock(nbytes).size for nbytes in range(65_537, 131_073, 64)}) == 8


@pytest.mark.parametrize("nbytes", [1, 64, 100, 5000, MEGABYTE, MEGABYTE + 1, 20 * MEGABYTE])
def test_a_released_block_is_reused(nbytes):
    first = MemoryBlock(nbytes)
    address, size = first.address, first.size
    before = memory_stats()
    first.release()
    second = MemoryBlock(nbytes)
    assert (second.address, second.size) == (address, size)
    assert difference(before, "cache_hits") == 1
    assert difference(before, "allocations") == 1
    assert difference(before, "live_bytes") == 0
    assert memory_stats()["cached_bytes"] == 0


def test_large_blocks_serve_down_to_three_quarters():
    block = MemoryBlock(8 * MEGABYTE)
    address = block.address
    block.release()
    assert MemoryBlock(6 * MEGABYTE).address == address
    other = MemoryBlock(6 * MEGABYTE - 8192)
    assert other.address != address
    assert other.size == 6 * MEGABYTE - 8192


def test_large_request_takes_the_smallest_block_that_fits():
    blocks = [MemoryBlock(size * MEGABYTE // 100) for size in (1009, 1003, 1006)]
    sizes = sorted(block.size for block in blocks)
    for block in blocks:
        block.release()
    taken = [MemoryBlock(10 * MEGABYTE) for _ in range(3)]
    assert [block.size for block in taken] == sizes


def test_counters():
    before = memory_stats()
    blocks = [MemoryBlock(4000) for _ in range(5)]
    assert difference(before, "live_blocks") == 5
    assert difference(before, "live_bytes") == sum(block.size for block in blocks)
    peak = memory_stats()["peak_bytes"]
    assert peak == memory_stats()["live_bytes"]
    for block in blocks:
        block.release()
    after = memory_stats()
    assert after["live_bytes"] == before["live_bytes"]
    assert after["peak_bytes"] == peak
    assert after["cached_bytes"] == 5 * 4096
    memory_reset_peak()
    assert memory_stats()["peak_bytes"] == after["live_bytes"]
    assert memory_empty_cache() == 5 * 4096
    assert memory_stats()["cached_bytes"] == 0


def test_small_blocks_are_cut_from_slabs_and_used_again():
    """They do not count as cached: a slab stays with the process."""
    before = memory_stats()
    blocks = [MemoryBlock(2048) for _ in range(3000)]
    assert 3000 * 2048 <= memory_stats()["slab_bytes"] and memory_stats()["slab_bytes"] % (2 << 20) == 0
    assert len({block.address // 2048 for block in blocks}) == 3000 and all(b.address % 64 == 0 for b in blocks)
    held = memory_stats()["slab_bytes"]
    for block in blocks:
        block.release()
    assert memory_stats()["cached_bytes"] == before["cached_bytes"]
    again = [MemoryBlock(2048) for _ in range(3000)]
    assert memory_stats()["slab_bytes"] == held and len(again) == 3000


def test_cache_stays_bounded_and_keeps_what_was_used_last():
    sizes = [20, 60, 100, 140, 180, 220, 260]           # no block serves the next size
    for size in sizes:
        MemoryBlock(size * MEGABYTE).release()
        stats = memory_stats()
        limit = stats["peak_bytes"] + max(256 * MEGABYTE, stats["peak_bytes"] // 4)
        assert stats["live_bytes"] + stats["cached_bytes"] <= limit
    before = memory_stats()
    MemoryBlock(260 * MEGABYTE).release()
    assert difference(before, "cache_hits") == 1
    MemoryBlock(20 * MEGABYTE).release()
    assert difference(before, "cache_hits") == 1


def test_trim_gives_back_the_class_used_longest_ago():
    old, useful = MemoryBlock(100 * MEGABYTE), MemoryBlock(150 * MEGABYTE)
    old.release()
    useful.release()
    memory_reset_peak()
    for _ in range(2):
        MemoryBlock(150 * MEGABYTE).release()
    MemoryBlock(230 * MEGABYTE).release()
    before = memory_stats()
    MemoryBlock(150 * MEGABYTE).release()
    assert difference(before, "cache_hits") == 1


def test_out_of_memory_names_the_numbers_and_leaves_all_usable():
    kept = MemoryBlock(3000)
    MemoryBlock(10_000).release()
    numbers = r"wanted 36028797018963968 bytes; \d+ bytes are live in \d+ blocks, \d+ cached, peak \d+"
    with pytest.raises(MemoryError, match=numbers):
        MemoryBlock(1 << 55)
    assert memory_stats()["cached_bytes"] == 0              # it emptied the cache before giving up
    with pytest.raises(MemoryError):
        MemoryBlock((1 << 64) - 1)
    kept.fill(1)
    MemoryBlock(3000).fill(2)


def test_hot_path_is_quick():
    assert min(_alloc_test_cost(256, 20_000) for _ in range(5)) < 100      # nanoseconds; about 5 when idle


def test_public_names():
    from flambeau import memory

    stats = memory.stats()
    block = MemoryBlock(2 * MEGABYTE)
    assert memory.stats()["live_bytes"] - stats["live_bytes"] == 2 * MEGABYTE
    text = memory.summary()
    assert all(word in text for word in ("live", "peak", "cached", "from the cache"))
    block.release()
    assert memory.empty_cache() >= 2 * MEGABYTE
    memory.reset_peak()
