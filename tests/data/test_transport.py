"""Messages between processes: what travels in shared memory, what becomes of it, and that nothing is left over."""

import multiprocessing
import os

import numpy
import pytest

import flambeau as fl
from flambeau.data import DataLoader, Dataset
from flambeau.data.transport import Arrived, Channel

LINUX = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts by /proc")


@pytest.fixture
def ends():
    """Both ends of a line, in this process."""
    one, other = map(Channel, multiprocessing.Pipe())
    yield one, other
    one.close()
    other.close()


def test_everything_arrives_as_it_was(ends):
    one, other = ends
    sent = [fl.arange(5), fl.tensor(3.5), fl.rand(90, 70).t(), fl.zeros(0, 3), fl.ones(3, 1).expand(3, 9000),
            fl.rand(1000, 100)[::2, ::3], fl.ones(100, 100, dtype=fl.bfloat16), fl.rand(60, 60, dtype=fl.complex64),
            fl.ones(20000, dtype=fl.bool), fl.eye(3).to_sparse().to_dense()]
    one.send(sent)
    for a, b in zip(sent, other.receive(), strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape and fl.equal(a, b)
    one.send({"array": numpy.arange(9000.0), "order": numpy.asfortranarray(numpy.ones((90, 80))), "small": numpy.arange(3),
              "text": "x" * 50000, "list": list(range(20000)), "parameter": fl.nn.Parameter(fl.ones(2))})
    got = other.receive()
    assert (got["array"] == numpy.arange(9000.0)).all() and got["array"].flags.writeable
    assert got["order"].flags.f_contiguous and got["small"].tolist() == [0, 1, 2]
    assert got["text"] == "x" * 50000 and got["list"] == list(range(20000))
    assert type(got["parameter"]) is fl.nn.Parameter and got["parameter"].requires_grad


def test_strides_are_kept_where_the_memory_is_dense(ends):
    one, other = ends
    one.send([fl.rand(90, 70).t(), fl.ones(3, 1).expand(3, 9000), fl.rand(100, 100)[:, ::2]])
    assert [tensor.stride() for tensor in other.receive()] == [(1, 70), (1, 0), (50, 1)]


def test_a_slot_is_used_again_when_its_tensor_is_gone(ends):
    one, other = ends
    for number in range(6):
        one.send(fl.full((5000,), float(number)))
        got = other.receive()
        assert got[17] == number
        del got
        other.send("next")
        assert one.receive() == "next"
    assert len(one.slots.slots) == len(other.mappings) == 1
    first, = [one.send(fl.zeros(5000)) or other.receive()]
    one.send(fl.ones(5000))
    second = other.receive()
    assert first.sum() == 0 and second.sum() == 5000 and len(one.slots.slots) == 2


def test_a_tensor_made_in_a_slot_is_not_copied(ends):
    one, other = ends
    made = one.slots.tensor(fl.float32, (50, 100))
    made.fill_(3)
    one.send({"whole": made, "part": made[10:]})
    got = other.receive()
    assert len(one.slots.slots) == 1 and got["whole"].sum() == 15000 and got["part"].sum() == 12000
    made.fill_(4)
    assert got["whole"][0, 0] == 4      # the same memory
    del got
    other.send(None)
    one.receive()
    one.send(fl.zeros(5000))            # the slot is still used here
    other.receive()
    assert made[0, 0] == 4 and len(one.slots.slots) == 2


def test_a_forked_child_keeps_what_it_sees(ends):
    one, other = ends
    one.send(fl.full((5000,), 7.0))
    got = other.receive()
    Arrived.forks += 1                  # what happens before a fork
    del got
    other.send(None)
    one.receive()
    assert not one.slots.free and not one.slots.slots
    one.send(fl.zeros(5000))
    assert other.receive().sum() == 0 and list(other.mappings) == [1]


def test_few_free_slots_are_kept(ends):
    one, other = ends
    held = []
    for size in range(12):
        one.send(fl.zeros(5000 * (size + 1)))
        held.append(other.receive())
    held.clear()
    other.send(None)
    one.receive()
    one.send(None)
    other.receive()
    assert len(one.slots.slots) == len(one.slots.free) == len(other.mappings) == 8


def test_what_cannot_be_sent_sends_nothing(ends):
    one, other = ends
    with pytest.raises(RuntimeError, match=r"cannot leave a worker.*\n.*detach"):
        one.send([fl.zeros(5000), fl.ones(2, requires_grad=True) * 2])
    with pytest.raises(Exception, match="lambda"):
        one.send([fl.zeros(5000), lambda: 1])
    one.send("still works")
    assert other.receive() == "still works"
    assert all(slot.away == 0 for slot in one.slots.slots.values())


# ---------------------------------------------------------------------------------- with workers
class Rows(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, index):
        return fl.full((3000,), float(index)), index


def is_right(batch):
    return all(row.min() == row.max() == number for row, number in zip(*batch))


@LINUX
def test_batches_that_are_kept_stay_and_need_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    batches = list(DataLoader(Rows(), 2, num_workers=2))
    assert len(os.listdir("/proc/self/fd")) <= before
    assert len(batches) == 60 and all(map(is_right, batches))


@LINUX
def test_a_child_that_is_forked_meanwhile_sees_its_batch():
    loader = DataLoader(Rows(), 4, num_workers=1, persistent_workers=True)
    batches = iter(loader)
    held = next(batches)
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        os._exit(0 if is_right(held) else 1)
    del held
    for batch in batches:
        assert is_right(batch)
    for batch in loader:
        assert is_right(batch)
    os.write(go, b"x")
    assert os.waitpid(child, 0)[1] == 0
    loader._iterator._shutdown_workers()
    os.close(ready), os.close(go)
