"""What the tape costs: recording, walking back and freeing, an op, with many nodes alive at once."""

import gc
import time

LIVE_NODES = 200_000
CHAIN = 1_000_000
TARGET = 500e-9         # seconds an op to record with LIVE_NODES alive


def record(shape, count, keep):
    """(seconds an op, what must stay alive): x * 1.0 in a chain, or `count` results kept in a list."""
    import flambeau as fl

    x = fl.ones(*shape, requires_grad=True)
    y, kept = x, []
    began = time.perf_counter()
    if keep:
        for _ in range(count):
            kept.append(x * 1.0)
    else:
        for _ in range(count):
            y = y * 1.0
    return (time.perf_counter() - began) / count, (x, y, kept)


def plain(shape, count):
    """Seconds an op without a tape, for comparison."""
    import flambeau as fl

    x = fl.ones(*shape)
    began = time.perf_counter()
    for _ in range(count):
        x * 1.0
    return (time.perf_counter() - began) / count


def chain(count):
    """Seconds an op of a chain: recorded, walked back, freed."""
    recorded, (x, y, _) = record((), count, keep=False)
    began = time.perf_counter()
    y.backward()
    walked = (time.perf_counter() - began) / count
    _, (other, y, _) = record((), count, keep=False)
    began = time.perf_counter()
    del y, other, _
    return recorded, walked, (time.perf_counter() - began) / count


def report(roofs):
    """The table as text; gc.collect() stands where Python would collect at some point anyway."""
    from flambeau.base.text import human_time, table

    record((8, 8), 1000, keep=True)
    bare = min(plain((8, 8), 100_000) for _ in range(3))
    live = []
    for _ in range(3):
        gc.collect()
        cost, kept = record((8, 8), LIVE_NODES, keep=True)
        live.append(cost)
        del kept
    recorded, walked, freed = (min(values) for values in zip(*(chain(CHAIN) for _ in range(2))))
    met = "met" if min(live) <= TARGET else "missed"
    return table([
        ("op on 8x8, not recorded", human_time(bare), ""),
        (f"op on 8x8, {LIVE_NODES:,} nodes alive", human_time(min(live)),
         f"at most {human_time(TARGET)}: {met}"),
        (f"chain of {CHAIN:,}, recorded", human_time(recorded), "an op"),
        (f"chain of {CHAIN:,}, walked back", human_time(walked), "an op"),
        (f"chain of {CHAIN:,}, freed without a walk", human_time(freed), "an op"),
    ], ("tape", "least time", ""))
