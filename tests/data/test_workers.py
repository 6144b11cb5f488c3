"""DataLoader with worker processes: order, seeds, streams, errors, dead workers."""

import os
import signal
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
    pids = [p.pid for p in loader._crew.processes]
    assert len(list(loader)) == 4 and [p.pid for p in loader._crew.processes] == pids
    loader._crew.close()


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
    pids = [p.pid for p in iteration.crew.processes]
    with pytest.raises(RuntimeError, match=r"pid \d+\) is killed by signal: SIGKILL.*samples \[4, 5\]"):
        list(iteration)
    assert time.monotonic() - began < 5
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_descriptors_do_not_leak():
    list(DataLoader(Squares(), batch_size=4, num_workers=2))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(3):
        list(DataLoader(Squares(), batch_size=4, num_workers=2))
    after = len(os.listdir("/proc/self/fd")) if before else 0
    assert after <= before


def test_an_iteration_left_early_ends_its_workers():
    iteration = iter(DataLoader(Squares(), batch_size=2, num_workers=2))
    next(iteration)
    pids = [p.pid for p in iteration.crew.processes]
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
