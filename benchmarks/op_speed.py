"""The time of single ops, small and large, and how near the large ones are to what memory allows."""

import time

SECONDS = 0.3               # a case


def cases():
    """(name, function of no arguments, bytes it must move or 0)."""
    import flambeau as fl
    from flambeau import nn
    a, b, g = fl.randn(8, 8), fl.randn(8, 8), fl.randn(8, 8, requires_grad=True)
    row, one = fl.randn(8), fl.randn(1, requires_grad=True)
    large, other, million, matrix = fl.randn(10_000_000), fl.randn(10_000_000), fl.randn(1_000_000), fl.randn(4096, 1024)
    norm, linear, batch = nn.LayerNorm(1024), nn.Linear(64, 64), fl.randn(32, 64)
    square = fl.randn(1024, 1024)

    def tiny():
        one.grad = None
        ((one * 2 + 1).tanh().sum()).backward()

    return (
        ("add 8x8", lambda: fl.add(a, b), 0), ("add 8x8 with gradient", lambda: fl.add(g, b), 0),
        ("mul 8x8 by a number", lambda: a * 2.5, 0), ("add 8x8 and 8", lambda: fl.add(a, row), 0),
        ("index a row", lambda: a[3], 0), ("tiny forward and backward", tiny, 0),
        ("linear 32x64", lambda: linear(batch), 0), ("add 10M", lambda: fl.add(large, other), 120e6),
        ("exp 1M", lambda: fl.exp(million), 8e6), ("tanh 1M", lambda: fl.tanh(million), 8e6),
        ("gelu 1M", lambda: fl.gelu(million), 8e6), ("sum 10M", lambda: fl.sum(large), 40e6),
        ("softmax 4096x1024", lambda: fl.softmax(matrix, -1), 2 * 4 * 4096 * 1024),
        ("layer norm 4096x1024", lambda: norm(matrix), 2 * 4 * 4096 * 1024),
        ("randn 1M", lambda: fl.randn(1_000_000), 4e6), ("matmul 1024", lambda: fl.matmul(square, square), 0),
    )


def least_time(function):
    """Seconds of one call: the least of repeated runs of some milliseconds each."""
    for _ in range(3):
        function()
    began = time.perf_counter()
    function()
    inner = max(1, min(5000, int(0.003 / max(time.perf_counter() - began, 1e-7))))
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        for _ in range(inner):
            function()
        best = min(best, (time.perf_counter() - began) / inner)
    return best


def report(roofs):
    """A table as text; the floor is the bytes at the measured bandwidth (data in a cache can be quicker)."""
    from flambeau.base.text import human_time, table
    rows = []
    for name, function, moved in cases():
        seconds = least_time(function)
        floor = roofs.floor(moved, 0) if moved else 0
        rows.append((name, human_time(seconds), human_time(floor) if floor else "", f"{floor / seconds:.0%}" if floor else ""))
    return table(rows, ("op", "time", "floor", "of the floor"))
