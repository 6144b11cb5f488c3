"""The time of single ops, small and large, and how near the large ones are to what memory allows."""

import time

SECONDS = 0.3               # a case


def cases():
    """(name, function of no arguments, bytes it must move, scalar operations it must do; 0 where they are few)."""
    return (*_small(), *_rows(), *_movement(), *_products(), *_windows())


def _small():
    import flambeau as fl
    from flambeau import nn
    a, b, g = fl.randn(8, 8), fl.randn(8, 8), fl.randn(8, 8, requires_grad=True)
    row, one = fl.randn(8), fl.randn(1, requires_grad=True)
    linear, norm, batch = nn.Linear(64, 64), nn.LayerNorm(64), fl.randn(32, 64)

    def tiny():
        one.grad = None
        ((one * 2 + 1).tanh().sum()).backward()

    return (
        ("add 8x8", lambda: fl.add(a, b), 0, 0), ("add 8x8 with gradient", lambda: fl.add(g, b), 0, 0),
        ("mul 8x8 by a number", lambda: a * 2.5, 0, 0), ("add 8x8 and 8", lambda: fl.add(a, row), 0, 0),
        ("index a row", lambda: a[3], 0, 0), ("tiny forward and backward", tiny, 0, 0),
        ("linear 32x64", lambda: linear(batch), 0, 0), ("layer norm 32x64", lambda: norm(batch), 0, 0),
    )


def _rows():
    import flambeau as fl
    from flambeau import nn
    functional = nn.functional
    large, other, million, matrix = fl.randn(10_000_000), fl.randn(10_000_000), fl.randn(1_000_000), fl.randn(4096, 1024)
    norm, tracked = nn.LayerNorm(1024), fl.randn(4096, 1024, requires_grad=True)
    logits, classes = fl.randn(1024, 50257, requires_grad=True), fl.randint(50257, (1024,))
    size, words = 4 * 4096 * 1024, 4 * 1024 * 50257
    return (
        ("add 1M", lambda: fl.add(million, million), 8e6, 0), ("add 10M", lambda: fl.add(large, other), 120e6, 0),
        ("exp 1M", lambda: fl.exp(million), 8e6, 0), ("tanh 1M", lambda: fl.tanh(million), 8e6, 0),
        ("gelu 1M", lambda: functional.gelu(million), 8e6, 0), ("sum 10M", lambda: fl.sum(large), 40e6, 0),
        ("sum of columns 4096x1024", lambda: matrix.sum(0), size, 0),
        ("softmax 4096x1024", lambda: fl.softmax(matrix, -1), 2 * size, 0),
        ("layer norm 4096x1024", lambda: norm(matrix), 2 * size, 0),
        ("layer norm, both ways", _both(norm, tracked), 5 * size, 0),
        ("cross entropy 1024x50257", _both(lambda x: functional.cross_entropy(x, classes), logits), 3 * words, 0),
        ("randn 1M", lambda: fl.randn(1_000_000), 4e6, 0),
        ("dropout 1M", lambda: functional.dropout(million, 0.1, True), 8e6, 0),
        ("AdamW 4M", _optimizer(fl.optim.AdamW), 7 * 16e6, 0),
    )


def _both(function, *inputs):
    def run():
        for x in inputs:
            x.grad = None
        function(*inputs).sum().backward()
    return run


def _optimizer(kind):
    import flambeau as fl
    from flambeau import nn
    parameters = [nn.Parameter(fl.randn(1000, 1000)) for _ in range(4)]
    for parameter in parameters:
        parameter.grad = fl.randn(1000, 1000)
    return kind(parameters, 1e-3).step


def _movement():
    import flambeau as fl
    from flambeau import nn
    square, million, table = fl.randn(2048, 2048), fl.randn(1_000_000), fl.randn(50257, 768)
    words, out = fl.randint(50257, (1024,)), fl.zeros(100_000, 16)
    index, source = fl.randint(100_000, (62_500,)), fl.randn(62_500, 16)
    return (
        ("transpose 2048", lambda: square.t().contiguous(), 8 * 2048 * 2048, 0),
        ("cat of two 1M", lambda: fl.cat((million, million)), 16e6, 0),
        ("gather rows 1024x768", lambda: nn.functional.embedding(words, table), 8 * 1024 * 768, 0),
        ("scatter add 1M", lambda: out.index_add_(0, index, source), 12e6, 0),
        ("sort 1M", lambda: fl.sort(million), 16e6, 0), ("cumsum 1M", lambda: million.cumsum(0), 8e6, 0),
        ("topk 10 of 1M", lambda: fl.topk(million, 10), 4e6, 0),
        ("nonzero of 1M", lambda: fl.nonzero(million > 0), 9e6, 0),
    )


def _products():
    import flambeau as fl
    from flambeau import nn

    def product(m, k, n):
        a, b = fl.randn(m, k), fl.randn(k, n)
        return f"matmul {m}x{k}x{n}", lambda: fl.matmul(a, b), 4 * (m * k + k * n + m * n), 2 * m * k * n

    batches = fl.randn(48, 64, 32), fl.randn(48, 32, 64)
    heads = [fl.randn(8, 6, 256, 64, requires_grad=True) for _ in range(3)]
    attend = lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)      # noqa: E731
    recurrent, steps = nn.LSTM(128, 128, 2), fl.randn(35, 20, 128)
    seen = 8 * 6 * 64 * 256 * 257 * 2           # both products of what causal attention sees
    return (
        product(64, 64, 64), product(256, 256, 256), product(1024, 1024, 1024), product(1024, 384, 1536),
        product(1, 4096, 4096), ("48 of 64x32x64", lambda: fl.bmm(*batches), 0, 48 * 2 * 64 * 32 * 64),
        ("attention 8x6x256x64", lambda: attend(*[h.detach() for h in heads]), 0, seen),
        ("attention, both ways", _both(attend, *heads), 0, seen * 7 / 2),
        ("LSTM 35x20x128, 2 layers", lambda: recurrent(steps), 0, 35 * 20 * 2 * 2 * 256 * 512),
    )


def _windows():
    import flambeau as fl
    from flambeau import nn
    functional = nn.functional

    def convolution(n, c, k, size, window=3, stride=1, both=False):
        x, w = fl.randn(n, c, size, size), fl.randn(k, c, window, window)
        run = lambda x, w: functional.conv2d(x, w, stride=stride, padding=window // 2)      # noqa: E731
        work = 2 * n * c * k * window ** 2 * (size // stride) ** 2
        name = f"conv {window}x{window} {n}x{c}x{size} to {k}" + (f" step {stride}" if stride > 1 else "")
        if both:
            return name + ", both ways", _both(run, x.requires_grad_(), w.requires_grad_()), 0, 3 * work
        return name, lambda: run(x, w), 0, work

    planes, each = fl.randn(8, 96, 56, 56), fl.randn(96, 1, 3, 3)
    images, norm = fl.randn(16, 64, 32, 32), nn.BatchNorm2d(64)
    return (
        convolution(1, 64, 64, 56), convolution(1, 256, 256, 14), convolution(1, 3, 64, 224, 7, 2),
        convolution(1, 256, 64, 56, 1), convolution(16, 64, 64, 32), convolution(16, 64, 64, 32, both=True),
        ("depthwise 3x3 8x96x56", lambda: functional.conv2d(planes, each, padding=1, groups=96), 8 * 8 * 96 * 56 ** 2, 0),
        ("max pool 16x64x32", lambda: functional.max_pool2d(images, 2), 5 * 16 * 64 * 32 ** 2, 0),
        ("batch norm 16x64x32", lambda: norm(images), 8 * 16 * 64 * 32 ** 2, 0),
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
    """A table as text. The floor is the bytes at the measured bandwidth or the operations at the multiply-add peak,
    whichever takes longer; data in a cache can be quicker."""
    from flambeau.base.text import human_time, table
    rows = []
    for name, function, moved, work in cases():
        seconds = least_time(function)
        floor = roofs.floor(moved, work) if moved or work else 0
        bound = "" if not floor else "products" if work and roofs.floor(0, work) == floor else "memory"
        rows.append((name, human_time(seconds), human_time(floor) if floor else "",
                     f"{floor / seconds:.0%}" if floor else "", bound))
    return table(rows, ("op", "time", "floor", "of the floor", "limit"))
