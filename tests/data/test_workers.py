"""DataLoader with worker processes: order, seeds, streams, errors, dead workers."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import flambeau as fl
from flambeau.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info


class Squares(Dataset):
    def __init__(self, size=20, action=None):
        self.size, self.action = size, action

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if self.action is not None:
            self.action(index)
        return fl.tensor([index, index ** 2]), get_worker_info().id if get_worker_info() else -1


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, 11, info.num_workers))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_batches_come_in_order(workers):
    loader = DataLoader(Squares(), batch_size=3, num_workers=workers)
    seen = [row for rows, _ in loader for row in rows.tolist()]
    assert seen == [[i, i ** 2] for i in range(20)] and len(loader) == 7


def test_work_is_shared_and_the_same_as_without_workers():
    fl.manual_seed(0)
    alone = [b.tolist() for b, _ in DataLoader(Squares(), batch_size=4, shuffle=True)]
    fl.manual_seed(0)
    shared, ids = [], set()
    for b, worker in DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=2):
        shared.append(b.tolist())
        ids |= set(worker.tolist())
    assert shared == alone and ids == {0, 1}


def test_tensor_dataset_and_no_batching():
    data = TensorDataset(fl.arange(6), fl.arange(6) * 2)
    assert [b[1].tolist() for b in DataLoader(data, batch_size=4, num_workers=2)] == [[0, 2, 4, 6], [8, 10]]
    assert [int(a) for a, _ in DataLoader(data, batch_size=None, num_workers=2)] == list(range(6))


def test_streams_end_worker_by_worker():
    got = sorted(v for batch in DataLoader(Stream(), batch_size=2, num_workers=3) for v in batch.tolist())
    assert got == list(range(11))


class Noise(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return fl.rand(())


def test_workers_draw_numbers_of_their_own():
    fl.manual_seed(1)
    first = [b.tolist() for b in DataLoader(Noise(), batch_size=3, num_workers=2)]
    fl.manual_seed(1)
    again = [b.tolist() for b in DataLoader(Noise(), batch_size=3, num_workers=2)]
    assert first == again and first[0] != first[1]


def test_persistent_workers_keep_their_processes():
    loader = DataLoader(Squares(action=None), batch_size=5, num_workers=2, persistent_workers=True)
    list(loader)
    pids = [p.pid for p in loader._iterator._workers]
    assert len(list(loader)) == 4 and [p.pid for p in loader._iterator._workers] == pids
    loader._iterator._shutdown_workers()


def fail_at_seven(index):
    if index == 7:
        raise KeyError("seven")


def test_an_error_comes_with_the_worker_s_traceback():
    with pytest.raises(KeyError) as caught:
        list(DataLoader(Squares(action=fail_at_seven), batch_size=2, num_workers=2))
    text = str(caught.value)
    assert "Caught KeyError in DataLoader worker process" in text and "fail_at_seven" in text


def die_at_five(index):
    if index == 5:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_noticed_at_once_and_its_siblings_are_reaped():
    loader = DataLoader(Squares(action=die_at_five), batch_size=2, num_workers=2)
    iteration, began = iter(loader), time.monotonic()
    pids = [p.pid for p in iteration._workers]
    with pytest.raises(RuntimeError, match=r"pid \d+\) is killed by signal: SIGKILL.*samples \[4, 5\]"):
        list(iteration)
    assert time.monotonic() - began < 5
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def children():
    """Process ids of the children of this process."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read().split()


def raise_at_nine(index):
    if index == 9:
        raise ZeroDivisionError("nine")


LINUX = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts by /proc")


@LINUX
def test_nothing_is_left_over():
    list(DataLoader(Squares(), batch_size=4, num_workers=2))
    gc.collect()            # of what other tests left in cycles
    before, young = len(os.listdir("/proc/self/fd")), children()
    for _ in range(3):
        list(DataLoader(Squares(), batch_size=4, num_workers=2))
        for _ in DataLoader(Squares(), batch_size=2, num_workers=2):
            break
        with pytest.raises(ZeroDivisionError):
            list(DataLoader(Squares(action=raise_at_nine), batch_size=2, num_workers=2))
        with pytest.raises(RuntimeError, match="killed"):
            list(DataLoader(Squares(action=die_at_five), batch_size=2, num_workers=2))
        list(DataLoader(Squares(), batch_size=4, num_workers=2, persistent_workers=True))
    assert len(os.listdir("/proc/self/fd")) <= before and set(children()) <= set(young)


def test_an_iteration_left_early_ends_its_workers():
    iteration = iter(DataLoader(Squares(), batch_size=2, num_workers=2))
    next(iteration)
    pids = [p.pid for p in iteration._workers]
    del iteration
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def sleep(index):
    time.sleep(30)


def test_timeout():
    with pytest.raises(RuntimeError, match="timed out after 0.2 seconds"):
        list(DataLoader(Squares(action=sleep), num_workers=1, timeout=0.2))


def test_spawned_workers():
    loader = DataLoader(TensorDataset(fl.arange(5)), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert [b[0].tolist() for b in loader] == [[0, 1], [2, 3], [4]]


def test_worker_init_fn():
    def init(number):
        os.environ["WORKER_TEST"] = str(number)

    class Reads(Squares):
        def __getitem__(self, index):
            return int(os.environ["WORKER_TEST"])

    assert [b.tolist() for b in DataLoader(Reads(4), batch_size=2, num_workers=2, worker_init_fn=init)] == [[0, 0], [1, 1]]


def test_after_an_error_the_other_batches_still_come():
    iteration, got = iter(DataLoader(Squares(action=raise_at_nine), batch_size=2, num_workers=2)), []
    for _ in range(4):
        got.append(next(iteration)[0][0, 0].item())
    with pytest.raises(ZeroDivisionError, match="nine"):
        next(iteration)
    assert got == [0, 2, 4, 6] and [rows[0, 0].item() for rows, _ in iteration] == [10, 12, 14, 16, 18]


class Unlike(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def raise_unlike(index):
    raise Unlike(1, 2)


def raise_local(index):
    class Local(Exception):
        pass
    raise Local("here")


@pytest.mark.parametrize("action, name", [(raise_unlike, "Unlike"), (raise_local, "Local")])
def test_an_error_that_cannot_be_made_again_is_a_runtime_error(action, name):
    with pytest.raises(RuntimeError, match=f"Caught {name} in DataLoader worker process 0"):
        list(DataLoader(Squares(action=action), num_workers=1))


def test_a_worker_that_exits_is_reported():
    with pytest.raises(RuntimeError, match=r"worker \(pid \d+\) exited unexpectedly with exit code 3, at its work on sample 0"):
        list(DataLoader(Squares(action=lambda index: sys.exit(3)), batch_size=None, num_workers=1))


def test_a_dead_worker_is_noticed_while_another_is_waited_for():
    def act(index):
        if index == 0:
            time.sleep(20)
        if index == 5:
            os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(DataLoader(Squares(action=act), batch_size=4, num_workers=2))
    assert time.monotonic() - began < 1


@LINUX
def test_a_death_is_noticed_though_another_process_holds_the_line():
    """As one may that another thread started at the wrong moment: here the workers' ends go to a child of this one."""
    loader = DataLoader(Squares(action=die_at_five), batch_size=2, num_workers=1)
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiprocessing.context.BaseContext.Pipe", pipe_that_keeps(kept))
        iteration = iter(loader)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(iteration)
    assert time.monotonic() - began < 2
    for descriptor in kept:
        os.close(descriptor)


def pipe_that_keeps(kept):
    """BaseContext.Pipe, which keeps a copy of the worker's end."""
    from multiprocessing.connection import Pipe

    def pipe(self, duplex=True):
        mine, theirs = Pipe(duplex)
        kept.append(os.dup(theirs.fileno()))
        return mine, theirs
    return pipe


def test_out_of_order():
    def act(index):
        time.sleep(0.3 if index == 0 else 0)
    loader = DataLoader(Squares(action=act), batch_size=2, num_workers=2, in_order=False)
    got = [rows[0, 0].item() for rows, _ in loader]
    assert sorted(got) == list(range(0, 20, 2)) and got[0] != 0


def test_ctrl_c_ends_the_workers():
    young = children() if os.path.isdir("/proc/self/fd") else None
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in DataLoader(Squares(400, action=lambda index: time.sleep(0.05)), batch_size=4, num_workers=2):
            pass
    timer.join()
    assert time.monotonic() - began < 5
    assert young is None or set(children()) <= set(young)


def test_in_threads():
    sums = []

    def load():
        sums.append(sum(int(rows[:, 0].sum()) for rows, _ in DataLoader(Squares(60), batch_size=5, num_workers=1)))
    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [1770] * 3


class Draws(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        import numpy
        info = get_worker_info()
        return info.id, info.seed, random.random(), numpy.random.rand(), fl.rand(()).item()


@pytest.mark.parametrize("persistent", [False, True])
def test_every_worker_and_epoch_draws_other_numbers_and_the_same_ones_again(persistent):
    def two_epochs():
        fl.manual_seed(4)
        loader = DataLoader(Draws(), batch_size=None, num_workers=2, persistent_workers=persistent)
        return [tuple(sample) for _ in range(2) for sample in loader]
    first = two_epochs()
    assert first == two_epochs()
    for which in (2, 3, 4):
        assert len({sample[which] for sample in first}) == 16
    assert len({sample[1] for sample in first}) == (2 if persistent else 4)


def test_seeds_as_pytorch_gives_them(monkeypatch):
    """The seed, Python's and NumPy's first number of two workers, as PyTorch 2.13 draws them from one base seed."""
    import numpy  # noqa: F401 - the workers seed it if it is there
    monkeypatch.setattr("flambeau.data.tensors.draw_seed", lambda generator: 937055941807507096)
    samples = list(DataLoader(Draws(), batch_size=None, num_workers=2))[:2]
    assert [sample[1] for sample in samples] == [937055941807507096, 937055941807507097]
    assert [round(sample[2], 4) for sample in samples] == [0.2179, 0.0905]
    assert [round(sample[3], 8) for sample in samples] == [0.87948628, 0.13554666]


def test_the_seed_of_persistent_workers_is_drawn_once():
    """So the order of the second epoch follows directly on the first."""
    def orders(persistent):
        generator = fl.Generator().manual_seed(3)
        loader = DataLoader(range(8), None, shuffle=True, num_workers=1, generator=generator, persistent_workers=persistent)
        return list(loader), list(loader)
    generator = fl.Generator().manual_seed(3)
    fl.empty((), dtype=fl.int64).random_(generator=generator)
    expected = [fl.randperm(8, generator=generator).tolist() for _ in range(4)]
    assert orders(True) == (expected[0], expected[2])       # each epoch ends with a permutation of which it takes none
    assert orders(False)[0] == expected[0] and orders(False)[1] != expected[2]


LATE = """
import sys
from flambeau.data import DataLoader, tensors
tensors.draw_seed = lambda generator: 937055941807507096
class Draws:
    def __len__(self): return 2
    def __getitem__(self, index):
        import numpy
        return numpy.random.rand()
loader = DataLoader(Draws(), batch_size=None, num_workers=2)
print("numpy" in sys.modules, *[round(x, 8) for x in loader])
"""


def test_numpy_is_seeded_when_a_worker_imports_it():
    done = subprocess.run([sys.executable, "-c", LATE], stdout=subprocess.PIPE, text=True)
    assert done.stdout.split() == ["False", "0.87948628", "0.13554666"]


LONELY = """
import os, sys
from flambeau.data import DataLoader
loader = DataLoader(list(range(100)), num_workers=2, persistent_workers=True)
other = DataLoader(list(range(100)), num_workers=1, persistent_workers=True)
it, that = iter(loader), iter(other)
next(it), next(that)
print(*[process.pid for process in it._workers + that._workers], flush=True)
os.kill(os.getpid(), 9)
"""


def test_workers_leave_when_their_caller_dies():
    done = subprocess.run([sys.executable, "-c", LONELY], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 3
    until = time.monotonic() + 5
    for pid in pids:
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
            time.sleep(0.02)
        assert not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().split()[2] == "Z"


@pytest.mark.parametrize("value, kind", [("nowhere", ValueError), (3, TypeError)])
def test_contexts_are_checked(value, kind):
    with pytest.raises(kind, match="multiprocessing_context option should"):
        DataLoader(Squares(), num_workers=1, multiprocessing_context=value)


def test_a_batch_of_pictures_is_shared_not_sent():
    """The loader never reads or writes the bytes of a large batch."""
    sizes = []
    loader = DataLoader(TensorDataset(fl.rand(8, 3, 64, 64)), batch_size=4, num_workers=1)
    iteration = iter(loader)
    line = iteration._crew.channels[0].pipe
    receive = line.recv_bytes

    def counting():
        data = receive()
        sizes.append(len(data))
        return data
    line.recv_bytes = counting
    batches = list(iteration)
    assert [b[0].shape for b in batches] == [(4, 3, 64, 64)] * 2 and max(sizes) < 2000
