"""Memory shared between processes: by fork, and as arguments and through queues."""

import multiprocessing

import pytest

import flambeau as fl


def add_one(x):
    with fl.no_grad():
        x.add_(1)


def answer(tensors, done):
    x = tensors.get()
    x.mul_(2)
    done.put(x.is_shared())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_writes_into_shared_memory(method):
    x, p = fl.arange(6.0).reshape(2, 3).t(), fl.nn.Parameter(fl.zeros(4))
    assert x.share_memory_() is x and x.is_shared() and x.stride() == (1, 3)
    p.share_memory_()
    plain = fl.zeros(2)
    context = multiprocessing.get_context(method)
    for tensor in (x, p, plain):
        process = context.Process(target=add_one, args=(tensor,))
        process.start()
        process.join(60)
        assert process.exitcode == 0
    assert x.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert p.tolist() == [1, 1, 1, 1] and p.requires_grad and p.is_leaf
    assert plain.tolist() == ([0, 0] if method == "fork" else [1, 1])      # sent: it moved into shared memory


def test_through_a_queue():
    context = multiprocessing.get_context("fork")
    tensors, done = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(tensors, done))
    process.start()
    x = fl.ones(3).share_memory_()
    tensors.put(x)
    assert done.get(timeout=60)
    process.join(60)
    assert x.tolist() == [2, 2, 2]


def test_the_rest_stays():
    x = fl.rand(3, dtype=fl.float64, requires_grad=True)
    before = x.tolist()
    assert not x.is_shared()
    (x.share_memory_() * 2).sum().backward()
    assert x.tolist() == before and x.grad.tolist() == [2, 2, 2]
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address and fl.empty(0).share_memory_().shape == (0,)
    assert x[1:].is_shared() and not x.clone().is_shared()
    module = fl.nn.Linear(2, 2).share_memory()
    assert all(p.is_shared() for p in module.parameters())
