"""torch.multiprocessing: functions in several processes, their failures, and tensors shared with them."""

import os
import pickle
import signal
import time

import pytest

import flambeau.torch as torch
import flambeau.torch.multiprocessing as mp


def add_number(number, x):
    x[number] += number + 1


def raise_in_second(number):
    if number == 1:
        raise ValueError("oh no")
    time.sleep(30)


def kill_first(number):
    if number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(30)


def exit_with_seven(number):
    raise SystemExit(7)


def sleep(number):
    time.sleep(30)


def square(x):
    return x * x


def answer(tensors, done):
    x = tensors.get()
    x += 1
    done.put((x.is_shared(), x.requires_grad))


def train(number, model):
    torch.manual_seed(number)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(200):
        x = torch.rand(8, 3)
        optimizer.zero_grad()
        ((model(x) - x.sum(1, keepdim=True)) ** 2).mean().backward()
        optimizer.step()


def use_all_threads(number, x):
    torch.set_num_threads(2)
    x[number] = torch.ones(1 << 20).sum() + (torch.rand(300, 300) @ torch.ones(300, 300)).isfinite().all()


def test_spawn_shares_its_arguments():
    x = torch.zeros(2)
    assert mp.spawn(add_number, args=(x,), nprocs=2) is None
    assert x.tolist() == [1, 2] and x.is_shared()


def test_a_context_is_joined_when_it_is_asked():
    context = mp.start_processes(sleep, nprocs=2, join=False, start_method="fork")
    assert isinstance(context, mp.ProcessContext) and len(set(context.pids())) == 2
    assert context.join(timeout=0.01) is False
    os.kill(context.pids()[1], signal.SIGTERM)
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with signal SIGTERM"):
        while not context.join(5):
            pass
    assert not any(process.is_alive() for process in context.processes)


def test_an_exception_comes_with_the_traceback_of_the_child():
    began = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match="Process 1 terminated(.|\n)*raise_in_second(.|\n)*oh no") as caught:
        mp.start_processes(raise_in_second, nprocs=2, start_method="fork")
    assert caught.value.error_index == 1 and caught.value.error_pid > 0 and time.monotonic() - began < 10
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is mp.ProcessRaisedException and str(again) == str(caught.value)


@pytest.mark.parametrize("function, index, name, code", [(kill_first, 0, "SIGKILL", -9), (exit_with_seven, None, None, 7)])
def test_an_end_without_exception(function, index, name, code):
    with pytest.raises(mp.ProcessExitedException) as caught:
        mp.start_processes(function, nprocs=2, start_method="fork")
    assert (caught.value.signal_name, caught.value.exit_code) == (name, code)
    assert index is None or caught.value.error_index == index
    assert pickle.loads(pickle.dumps(caught.value)).exit_code == code


def test_queues_pipes_and_pools():
    tensors, done = mp.Queue(), mp.SimpleQueue()
    process = mp.get_context("fork").Process(target=answer, args=(tensors, done))
    process.start()
    x = torch.zeros(3, requires_grad=True).detach()
    tensors.put(x)
    assert done.get() == (True, False) and x.tolist() == [1, 1, 1] and x.is_shared()
    process.join()
    mine, theirs = mp.Pipe()
    mine.send({"x": x[1:], "none": torch.zeros(0, 2), "parameter": torch.nn.Parameter(torch.ones(2))})
    got = theirs.recv()
    got["x"].zero_()
    assert x.tolist() == [1, 0, 0] and got["none"].shape == (0, 2) and got["parameter"].requires_grad
    with mp.get_context("fork").Pool(2) as pool:
        assert [y.tolist() for y in pool.map(square, [torch.tensor([k, 2.0]) for k in range(3)])] == [[0, 4], [1, 4], [4, 4]]


def test_what_the_tape_made_does_not_travel():
    mine, _ = mp.Pipe()
    with pytest.raises(RuntimeError, match="the tape does not cross processes\n.*detach"):
        mine.send(torch.ones(2, requires_grad=True) * 2)


def test_processes_train_one_model():
    """Hogwild: the parameters are shared, the gradients are each process's own."""
    model = torch.nn.Linear(3, 1)
    model.share_memory()
    assert all(parameter.grad is None and parameter.is_shared() for parameter in model.parameters())
    mp.start_processes(train, (model,), nprocs=2, start_method="fork")
    assert torch.allclose(model.weight, torch.ones(1, 3), atol=0.2)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_forked_child_has_threads_of_its_own():
    torch.ones(1 << 20).sum()               # the pool of this process is running
    x = torch.zeros(2).share_memory_()
    mp.start_processes(use_all_threads, (x,), nprocs=2, start_method="fork")
    assert x.tolist() == [(1 << 20) + 1] * 2


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts by /proc")
def test_shared_tensors_and_contexts_give_their_descriptors_back():
    x = torch.zeros(2).share_memory_()
    mp.start_processes(add_number, (x,), nprocs=2, start_method="fork")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        mp.start_processes(add_number, (torch.zeros(2).share_memory_(),), nprocs=2, start_method="fork")
        with pytest.raises(mp.ProcessExitedException):
            mp.start_processes(exit_with_seven, nprocs=2, start_method="fork")
    assert len(os.listdir("/proc/self/fd")) <= before


def test_sharing_strategies():
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("pigeons")
