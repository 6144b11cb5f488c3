"""Writes by index in a tensor's own memory: the values of the out-of-place forms, and nothing but what is named is touched."""

import threading

import pytest

import flambeau as fl

ROWS, PLACES = fl.tensor([2, 0, 2]), fl.tensor([[0, 1, 1, 0], [3, 3, 0, 1], [2, 0, 1, 1]])


def source(dtype, seed, *shape):
    """Small numbers: sums and products are exact in every dtype."""
    fl.manual_seed(seed)
    numbers = fl.randint(0, 4, shape)
    return numbers.to(dtype) if not dtype.is_complex else fl.complex(numbers.float(), numbers.float()).to(dtype)


CALLS = {
    "scatter": lambda s: ((0, PLACES, s), {}),
    "scatter value": lambda s: ((0, PLACES), {"value": 2}),
    "scatter multiply": lambda s: ((0, PLACES, s), {"reduce": "multiply"}),
    "scatter_add": lambda s: ((0, PLACES, s), {}),
    "scatter_reduce": lambda s: ((0, PLACES, s, "amax"), {}),
    "scatter_reduce mean": lambda s: ((0, PLACES, s, "mean"), {}),
    "scatter_reduce alone": lambda s: ((0, PLACES, s, "prod"), {"include_self": False}),
    "index_add": lambda s: ((0, ROWS, s), {"alpha": 2}),
    "index_copy": lambda s: ((0, ROWS[:2], s[:2]), {}),
    "index_reduce": lambda s: ((0, ROWS, s, "amin"), {}),
    "index_fill": lambda s: ((0, ROWS, 3), {}),
    "index_put": lambda s: (((ROWS[:2], fl.tensor([1, 3])), s[0, :2]), {}),
    "index_put sum": lambda s: (((ROWS, ROWS), s[0, :3]), {"accumulate": True}),
    "put": lambda s: ((fl.tensor([5, 1, 14]), s[1, :3]), {}),
    "masked_scatter": lambda s: ((fl.arange(20).reshape(5, 4) % 3 == 0, s), {}),
}
DTYPES = (fl.float32, fl.float64, fl.bfloat16, fl.int64, fl.uint8, fl.bool, fl.complex64)
WINDOWS = {
    "whole": lambda t: t,
    "rows": lambda t: t[1:6],
    "columns": lambda t: t[:, 2:6],
    "turned": lambda t: t.T,
    "every other": lambda t: t[::2],
    "shown as longer": lambda t: t.view(5, 4),
}
SIZES = {"whole": (5, 4), "rows": (9, 4), "columns": (5, 9), "turned": (4, 5), "every other": (10, 4), "shown as longer": (20,)}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", CALLS)
def test_the_values_are_those_of_the_other_form_and_the_rest_stays(name, window):
    method = name.partition(" ")[0]
    for dtype in DTYPES:
        whole = source(dtype, 1, *SIZES[window])
        before, part = whole.clone(), WINDOWS[window](whole)
        given, named = CALLS[name](source(dtype, 2, 3, 4))
        try:
            wanted = getattr(part.contiguous(), method)(*given, **named)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                getattr(part, method + "_")(*given, **named)
            assert fl.equal(whole, before)
            continue
        for _ in range(2):                  # by the first call's path, and by what it remembers
            whole.copy_(before)
            assert getattr(part, method + "_")(*given, **named) is part
            assert fl.equal(part, wanted), dtype
            rest = before.clone()
            WINDOWS[window](rest).copy_(wanted)
            assert fl.equal(whole, rest), dtype


def test_operands_that_share_memory_with_the_target():
    x = fl.arange(12.0).reshape(3, 4)
    wanted = x.clone().index_copy(0, fl.tensor([1, 2]), x[:2].clone())
    assert fl.equal(x.index_copy_(0, fl.tensor([1, 2]), x[:2]), wanted)
    places = fl.tensor([[1, 2, 0]])
    wanted = places.scatter(1, places.clone(), places.clone() + 1)
    assert fl.equal(places.scatter_(1, places, places + 1), wanted)


@pytest.mark.parametrize("call", [
    lambda x: x.index_add_(0, fl.tensor([0, 7]), fl.ones(2, 4)),
    lambda x: x.scatter_(0, fl.tensor([[0, 9]]), 1.0),
    lambda x: x.put_(fl.tensor([0, 99]), fl.ones(2)),
    lambda x: x.index_fill_(0, fl.tensor([0, -8]), 1.0),
])
def test_a_wrong_index_changes_nothing(call):
    x = fl.zeros(3, 4)
    for _ in range(2):
        with pytest.raises((IndexError, RuntimeError)):
            call(x)
        assert not x.any() and x._version == 0


def test_writes_are_counted_and_named():
    x, w = fl.ones(3, requires_grad=True), fl.ones(3)
    loss = (x * w).sum()
    before = w._version
    w.index_add_(0, fl.tensor([1]), fl.ones(1))
    assert w._version == before + 1
    with pytest.raises(RuntimeError, match="index_add_"):
        loss.backward()
    rows = fl.ones(2, 3)
    loss = (x * rows[0]).sum()
    rows[1].index_fill_(0, fl.tensor([0]), 5.0)         # beside what is saved
    loss.backward()
    assert rows.tolist() == [[1, 1, 1], [5, 1, 1]]


def test_gradients_are_those_of_the_other_form():
    def loss(form):
        x, s = fl.arange(12.0).reshape(3, 4).requires_grad_(), fl.ones(2, 4, requires_grad=True)
        y = x * 2
        z = y.index_add_(0, fl.tensor([1, 1]), s) if form else y.index_add(0, fl.tensor([1, 1]), s)
        (z ** 2).sum().backward()
        return x.grad, s.grad
    assert all(fl.equal(a, b) for a, b in zip(loss(True), loss(False)))


def test_no_memory_is_taken_for_a_large_target():
    cache, one, place = fl.zeros(64, 1 << 14), fl.ones(1, 1 << 14), fl.tensor([5])
    cache.index_copy_(0, place, one)
    fl.memory.reset_peak()
    before = fl.memory.stats()["live_bytes"]
    cache.index_copy_(0, place, one).index_add_(0, place, one).index_fill_(0, place, 2.0)
    assert fl.memory.stats()["peak_bytes"] - before < cache.nbytes / 4
    assert cache[5, 0] == 2 and cache.sum() == 2 * (1 << 14)


def test_transforms_and_threads_see_no_other_tensor_written():
    def put(x, s):
        return x.clone().index_add_(0, fl.tensor([1]), s[None])
    x, s = fl.zeros(4, 3, 2), fl.randn(4, 2)
    got = fl.func.vmap(put)(x, s)
    assert fl.equal(got, fl.stack([put(a, b) for a, b in zip(x, s)]))
    totals = [fl.zeros(1000) for _ in range(4)]

    def work(t, number):
        for _ in range(200):
            t.index_add_(0, fl.tensor([number]), fl.ones(1))
    threads = [threading.Thread(target=work, args=(t, i)) for i, t in enumerate(totals)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(t[i] == 200 and t.sum() == 200 for i, t in enumerate(totals))
