"""The DataLoader: batches, order, the fast path, streams and refusals."""

import subprocess
import sys
import warnings

import pytest

import flambeau as fl
from flambeau.data import (
    DataLoader, Dataset, IterableDataset, SequentialSampler, Subset, TensorDataset,
    random_split)


def dataset(size=7):
    """Row i is [2i, 2i + 1], label i."""
    return TensorDataset(fl.arange(2 * size).reshape(size, 2), fl.arange(size))


class Stream(IterableDataset):
    def __init__(self, size, announced=None):
        self.size, self.announced = size, size if announced is None else announced

    def __iter__(self):
        return iter(range(self.size))

    def __len__(self):
        return self.announced


def labels(loader):
    return [batch[1].tolist() for batch in loader]


def test_batches_in_order():
    loader = DataLoader(dataset(), batch_size=3)
    batches = list(loader)
    assert len(loader) == len(batches) == 3 and len(iter(loader)) == 3
    assert isinstance(batches[0], list)
    assert batches[0][0].tolist() == [[0, 1], [2, 3], [4, 5]] and batches[2][0].tolist() == [[12, 13]]
    assert labels(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    assert labels(DataLoader(dataset(), batch_size=3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    assert labels(DataLoader(dataset(2))) == [[0], [1]]


def test_shuffling_draws_a_new_order_each_time_and_is_reproducible():
    loader = DataLoader(dataset(30), batch_size=8, shuffle=True, generator=fl.Generator().manual_seed(0))
    first, second = labels(loader), labels(loader)
    assert sorted(sum(first, [])) == list(range(30)) and first != second
    again = DataLoader(dataset(30), batch_size=8, shuffle=True, generator=fl.Generator().manual_seed(0))
    assert labels(again) == first
    fl.manual_seed(4)
    order = labels(DataLoader(dataset(30), shuffle=True))
    fl.manual_seed(4)
    assert labels(DataLoader(dataset(30), shuffle=True)) == order


def test_rows_and_labels_stay_together():
    for rows, numbers in DataLoader(dataset(30), batch_size=4, shuffle=True):
        assert rows[:, 0].tolist() == [2 * i for i in numbers.tolist()]


class Watched(TensorDataset):
    """A subclass, so that the long way is taken."""


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, [5, 3, 1, 1]),
                                  lambda d: Subset(Subset(d, range(1, 7)), [5, 0, 2]),
                                  lambda d: Subset(d, fl.tensor([4, 2]))])
def test_the_fast_path_gives_what_collating_samples_gives(wrap):
    fast = list(DataLoader(wrap(dataset()), batch_size=3))
    slow = list(DataLoader(wrap(Watched(*dataset().tensors)), batch_size=3))
    assert [[t.tolist() for t in batch] for batch in fast] == [[t.tolist() for t in batch] for batch in slow]
    assert all(a.dtype == b.dtype and a.shape == b.shape for x, y in zip(fast, slow) for a, b in zip(x, y))


def test_the_fast_path_reads_no_single_rows(monkeypatch):
    monkeypatch.setattr(TensorDataset, "__getitem__", None)
    assert labels(DataLoader(dataset(4), batch_size=2)) == [[0, 1], [2, 3]]
    assert labels(DataLoader(Subset(dataset(4), [3, 0]), batch_size=2)) == [[3, 0]]


def test_a_batch_does_not_share_memory_with_the_dataset():
    data = dataset(4)
    for rows, _ in DataLoader(data, batch_size=2):
        rows.zero_()
    assert data.tensors[0].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_own_samplers():
    assert labels(DataLoader(dataset(), batch_size=2, sampler=[6, 0, 6])) == [[6, 0], [6]]
    loader = DataLoader(dataset(), batch_sampler=[[0], [1, 2], [-1]])
    assert labels(loader) == [[0], [1, 2], [6]] and len(loader) == 3
    assert loader.batch_size is None and isinstance(loader.sampler, SequentialSampler)


def test_own_collate_function_gets_the_samples():
    def labels_of(samples):
        return [label.item() for _, label in samples]
    assert list(DataLoader(dataset(3), batch_size=2, collate_fn=labels_of)) == [[0, 1], [2]]


def test_datasets_of_other_values_and_getitems():
    class Names(Dataset):
        def __getitem__(self, index):
            return {"name": f"n{index}", "index": index}

        def __len__(self):
            return 3

    class Batched(Names):
        def __getitems__(self, indices):
            return [{"name": "all", "index": -i} for i in indices]
    batch, _ = DataLoader(Names(), batch_size=2)
    assert batch["name"] == ["n0", "n1"] and batch["index"].tolist() == [0, 1]
    assert [b["index"].tolist() for b in DataLoader(Batched(), batch_size=2)] == [[0, -1], [-2]]


def test_without_batching():
    loader = DataLoader(dataset(3), batch_size=None)
    assert len(loader) == 3 and [label.item() for _, label in loader] == [0, 1, 2]
    assert list(DataLoader([1, "a", None], batch_size=None)) == [1, "a", None]


def test_split_then_load():
    train, test = random_split(dataset(10), [7, 3], generator=fl.Generator().manual_seed(0))
    found = sum(labels(DataLoader(train, batch_size=4)) + labels(DataLoader(test, batch_size=4)), [])
    assert sorted(found) == list(range(10))


# -------------------------------------------------------------------------------------------- streams
def test_streams():
    assert [b.tolist() for b in DataLoader(Stream(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in DataLoader(Stream(5), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    assert [b.tolist() for b in DataLoader(Stream(4), batch_size=2)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert list(DataLoader(Stream(0), batch_size=2)) == []
    assert [len(DataLoader(Stream(5), batch_size=2, drop_last=d)) for d in (False, True)] == [3, 2]


def test_a_stream_longer_than_it_said_warns():
    loader = DataLoader(Stream(3, announced=1), batch_size=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader)        # nobody has asked for the length yet
    assert len(loader) == 1
    iterator = iter(loader)
    assert next(iterator) == 0
    with pytest.warns(UserWarning, match="reported to be 1 .*, but 2 samples have been fetched"):
        assert next(iterator) == 1


# ------------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize("arguments, message", [
    (dict(num_workers=-1), "num_workers option should be non-negative"),
    (dict(timeout=-1), "timeout option should be non-negative"),
    (dict(prefetch_factor=2), "prefetch_factor option could only be specified in multiprocessing"),
    (dict(persistent_workers=True), "persistent_workers option needs num_workers > 0"),
    (dict(multiprocessing_context="fork"), "multiprocessing_context can only be used with multi-process"),
    (dict(sampler=[0], shuffle=True), "sampler option is mutually exclusive with shuffle"),
    (dict(batch_sampler=[[0]], batch_size=2), "batch_sampler option is mutually exclusive with batch_size"),
    (dict(batch_sampler=[[0]], shuffle=True), "batch_sampler option is mutually exclusive"),
    (dict(batch_sampler=[[0]], drop_last=True), "batch_sampler option is mutually exclusive"),
    (dict(batch_sampler=[[0]], sampler=[0]), "batch_sampler option is mutually exclusive"),
    (dict(batch_size=None, drop_last=True), "batch_size=None option disables auto-batching"),
    (dict(batch_size=0), "batch_size should be a positive integer value"),
])
def test_contradictions_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(dataset(), **arguments)


@pytest.mark.parametrize("arguments", [dict(shuffle=True), dict(sampler=[0]), dict(batch_sampler=[[0]])])
def test_a_stream_takes_no_order(arguments):
    name, = arguments
    with pytest.raises(ValueError, match=f"IterableDataset: expected unspecified {name} option"):
        DataLoader(Stream(3), **arguments)
    DataLoader(Stream(3), shuffle=False)


def test_fixed_attributes():
    loader = DataLoader(dataset())
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader"):
        loader.batch_size = 2
    loader.generator = None


def test_pin_memory_warns_that_nothing_is_pinned():
    with pytest.warns(UserWarning, match="no accelerator is found"):
        DataLoader(dataset(), pin_memory=True)


def test_importing_data_imports_nothing_slow():
    code = "import sys, flambeau.data; print({'numpy', 'llvmlite', 'multiprocessing'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
