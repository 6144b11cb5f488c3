"""state_dict and load_state_dict: another loader hands out the rest of the epoch and the same epochs after it."""

import io

import pytest

import flambeau as fl
from flambeau.data import (
    BatchSampler, DataLoader, DistributedSampler, IterableDataset, RandomSampler, Sampler, StatefulDataLoader,
    SubsetRandomSampler, WeightedRandomSampler, get_worker_info)
from flambeau.tensor.rng import get_rng_state, manual_seed, set_rng_state

DATA = list(range(20))


def seeded(seed):
    return fl.Generator().manual_seed(seed)


def share():
    """(number of this worker, how many there are)."""
    info = get_worker_info()
    return (info.id, info.num_workers) if info else (0, 1)


class Stream(IterableDataset):
    """Without a state: what was handed out is fetched again."""

    def __iter__(self):
        number, count = share()
        return iter(range(number, 17, count))


class Counting(IterableDataset):
    """With a state: it must not be asked again for what it has given."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        number, count = share()
        while self.at * count + number < 17:
            self.at += 1
            yield (self.at - 1) * count + number
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Ticks:
    """An iterator with a state of its own."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        number, count = share()
        if self.at * count + number >= 17:
            raise StopIteration
        self.at += 1
        return (self.at - 1) * count + number

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class OfTicks(IterableDataset):
    def __iter__(self):
        return Ticks()


class Remembers(Sampler):
    """A sampler with a state, and draws that nothing else could repeat."""

    def __init__(self):
        self.order, self.at, self.epoch = None, 0, 0

    def __iter__(self):
        if self.order is None:
            self.order = [(i * 7 + self.epoch) % 20 for i in range(20)]
        while self.at < len(self.order):
            self.at += 1
            yield self.order[self.at - 1]
        self.order, self.at, self.epoch = None, 0, self.epoch + 1

    def __len__(self):
        return 20

    def state_dict(self):
        return dict(vars(self))

    def load_state_dict(self, state):
        vars(self).update(state)


LOADERS = {
    "shuffled": lambda seed, **kw: DataLoader(DATA, 3, shuffle=True, generator=seeded(seed), **kw),
    "not batched": lambda seed, **kw: DataLoader(DATA, None, shuffle=True, generator=seeded(seed), **kw),
    "own sampler": lambda seed, **kw: DataLoader(DATA, 3, sampler=RandomSampler(DATA, generator=seeded(seed)), **kw),
    "replacement": lambda seed, **kw: DataLoader(
        DATA, 3, sampler=RandomSampler(DATA, True, 100, seeded(seed)), **kw),
    "subset": lambda seed, **kw: DataLoader(
        DATA, 3, sampler=SubsetRandomSampler(range(5, 20), seeded(seed)), **kw),
    "weighted": lambda seed, **kw: DataLoader(
        DATA, 3, sampler=WeightedRandomSampler([1.0] * 20, 20, generator=seeded(seed)), **kw),
    "batch sampler": lambda seed, **kw: DataLoader(
        DATA, batch_sampler=BatchSampler(RandomSampler(DATA, generator=seeded(seed)), 3, False), **kw),
    "stateful sampler": lambda seed, **kw: DataLoader(DATA, 3, sampler=Remembers(), **kw),
    "stream": lambda seed, **kw: DataLoader(Stream(), 2, **kw),
    "stream not batched": lambda seed, **kw: DataLoader(Stream(), None, **kw),
    "stateful stream": lambda seed, **kw: DataLoader(Counting(), 2, **kw),
    "stateful iterator": lambda seed, **kw: DataLoader(OfTicks(), 2, **kw),
}


def flat(batches):
    return [tuple(batch.tolist()) if isinstance(batch, fl.Tensor) and batch.ndim else int(batch) for batch in batches]


def saved(state):
    """The state after a trip through a file."""
    file = io.BytesIO()
    fl.save(state, file)
    file.seek(0)
    return fl.load(file)


def check(make, steps, **kw):
    """Stop after `steps` batches of the second epoch; restored elsewhere, all that follows is the same."""
    first = make(1, **kw)
    flat(first)
    batches = iter(first)
    begun = flat(next(batches) for _ in range(steps))
    state = saved(first.state_dict())
    rest = flat(batches)
    assert len(begun) == steps and rest
    second = make(2, **kw)
    second.load_state_dict(state)
    assert flat(second) == rest
    assert flat(second) == flat(first)
    third = make(3, **kw)
    third.load_state_dict(saved(first.state_dict()))        # between two epochs
    assert flat(third) == flat(first)


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("steps", [0, 4])
def test_in_this_process(name, steps):
    check(LOADERS[name], steps)


@pytest.mark.parametrize("name", ["shuffled", "replacement", "batch sampler", "stateful sampler", "stream",
                                  "stateful stream", "stateful iterator"])
def test_with_workers(name):
    check(LOADERS[name], 3, num_workers=2)


@pytest.mark.parametrize("name", ["shuffled", "stateful stream"])
def test_with_persistent_workers(name):
    check(LOADERS[name], 3, num_workers=2, persistent_workers=True)


def test_a_persistent_loader_goes_back_itself():
    loader = DataLoader(DATA, 3, shuffle=True, generator=seeded(0), num_workers=1, persistent_workers=True)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    rest, following = flat(batches), flat(loader)
    loader.load_state_dict(state)
    assert flat(loader) == rest and flat(loader) == following
    loader._iterator._shutdown_workers()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["shuffled", "stateful sampler", "stateful stream", "stateful iterator"])
def test_behind_the_last_batch_the_rest_is_empty(name, workers):
    """Also where that batch was short: then sampler or stream have begun anew already."""
    first = LOADERS[name](1, num_workers=workers)
    batches = iter(first)
    for _ in range(len(flat(LOADERS[name](1)))):
        next(batches)
    second = LOADERS[name](2, num_workers=workers)
    second.load_state_dict(first.state_dict())
    assert next(batches, None) is None
    assert flat(second) == [] and flat(second) == flat(first)


def test_states_of_restored_loaders_are_states():
    first = LOADERS["shuffled"](1)
    batches = iter(first)
    next(batches)
    second = LOADERS["shuffled"](2)
    second.load_state_dict(first.state_dict())
    third = LOADERS["shuffled"](3)
    third.load_state_dict(second.state_dict())              # not begun
    again = iter(third)
    assert flat([next(again)]) == flat([next(batches)])
    fourth = LOADERS["shuffled"](4)
    fourth.load_state_dict(third.state_dict())
    assert flat(fourth) == flat(batches) == flat(again)


def test_the_iterator_may_be_gone():
    loader = LOADERS["shuffled"](1)
    for _ in loader:
        break
    second = LOADERS["shuffled"](2)
    second.load_state_dict(loader.state_dict())
    assert len(flat(second)) == 6


def test_the_default_generator_is_left_alone():
    """Where it draws the order, whoever restores a program restores it too."""
    manual_seed(3)
    first = DataLoader(DATA, 3, shuffle=True)
    batches = iter(first)
    next(batches)
    state, randomness = first.state_dict(), get_rng_state()
    rest, following = flat(batches), flat(first)
    manual_seed(99)
    second = DataLoader(DATA, 3, shuffle=True)
    set_rng_state(randomness)
    second.load_state_dict(state)
    assert flat(second) == rest and get_rng_state().tolist() == randomness.tolist()
    assert flat(second) == following


def test_the_epoch_of_a_distributed_sampler():
    def make():
        return DataLoader(DATA, 2, sampler=DistributedSampler(DATA, 2, 0))
    first = make()
    first.sampler.set_epoch(5)
    batches = iter(first)
    next(batches)
    second = make()
    second.load_state_dict(first.state_dict())
    assert flat(second) == flat(batches)


def test_the_name_that_torchdata_uses():
    loader = StatefulDataLoader(DATA, batch_size=4, snapshot_every_n_steps=2)
    assert isinstance(loader, DataLoader) and loader.state_dict()["batches"] == 0


def test_what_does_not_fit_is_refused():
    loader = DataLoader(DATA, 3)
    with pytest.raises(RuntimeError, match="no state of a DataLoader"):
        loader.load_state_dict({"a": 1})
    with pytest.raises(ValueError, match="other generators"):
        loader.load_state_dict(LOADERS["shuffled"](1).state_dict())
    stream = DataLoader(Counting(), 2)
    next(iter(stream))
    with pytest.raises(ValueError, match="goes on with the workers it had"):
        DataLoader(Counting(), 2, num_workers=1).load_state_dict(stream.state_dict())
    with pytest.raises(RuntimeError, match="in_order=True"):
        DataLoader(DATA, 3, num_workers=1, in_order=False).state_dict()
