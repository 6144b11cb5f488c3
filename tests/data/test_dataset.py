"""Datasets: samples, combinations, subsets and random splits."""

import pytest

import flambeau as fl
from flambeau.data import (
    ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split)


class Squares(Dataset):
    def __init__(self, size):
        self.size = size

    def __getitem__(self, index):
        return index ** 2

    def __len__(self):
        return self.size


class Countdown(IterableDataset):
    def __init__(self, start):
        self.start = start

    def __iter__(self):
        return iter(range(self.start, 0, -1))

    def __len__(self):
        return self.start


def test_tensor_dataset():
    x, y = fl.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), fl.tensor([7, 8, 9])
    dataset = TensorDataset(x, y)
    assert len(dataset) == 3
    row, label = dataset[1]
    assert row.tolist() == [3, 4] and label.item() == 8
    rows, labels = dataset[fl.tensor([2, 0])]
    assert rows.tolist() == [[5, 6], [1, 2]] and labels.tolist() == [9, 7]
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors: got .* sizes \[3, 2\]"):
        TensorDataset(x, y[:2])


def test_a_dataset_without_getitem_says_so():
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        Dataset()[0]
    assert Dataset[int] is not None, "may be subscribed in annotations"


def test_concatenation():
    dataset = Squares(2) + Squares(0) + Squares(3)
    assert isinstance(dataset, ConcatDataset) and len(dataset) == 5
    assert [dataset[i] for i in range(5)] == [0, 1, 0, 1, 4]
    assert dataset[-1] == 4 and dataset[-5] == 0
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        dataset[-6]
    with pytest.raises(IndexError, match="5 is out of range"):
        dataset[5]
    with pytest.raises(AssertionError, match="not be an empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="ChainDataset"):
        ConcatDataset([Countdown(2)])


def test_chain_of_streams():
    dataset = Countdown(2) + Countdown(1)
    assert isinstance(dataset, ChainDataset) and list(dataset) == [2, 1, 1] and len(dataset) == 3
    with pytest.raises(AssertionError, match="only supports IterableDataset: got Squares"):
        list(ChainDataset([Squares(2)]))


def test_subset():
    subset = Subset(Subset(Squares(10), [9, 8, 7, 6]), [3, 0])
    assert len(subset) == 2 and subset[0] == 36 and subset[1] == 81 and subset[-1] == 81
    assert subset.__getitems__([1, 0, 1]) == [81, 36, 81]


def test_a_subset_fetches_through_getitems_of_its_dataset():
    class Batched(Squares):
        def __getitems__(self, indices):
            return [f"batched {i}" for i in indices]
    assert Subset(Batched(9), [5, 6]).__getitems__([1]) == ["batched 6"]


def test_a_half_overridden_subset_is_refused():
    class Half(Subset):
        def __getitem__(self, index):
            return 0
    with pytest.raises(NotImplementedError, match="Half overrides __getitem__ but not __getitems__"):
        Half(Squares(3), [0])


def test_random_split_is_a_reproducible_partition():
    parts = random_split(Squares(10), [3, 0, 7], generator=fl.Generator().manual_seed(1))
    assert [len(part) for part in parts] == [3, 0, 7]
    assert sorted(i for part in parts for i in part.indices) == list(range(10))
    again = random_split(Squares(10), [3, 0, 7], generator=fl.Generator().manual_seed(1))
    other = random_split(Squares(10), [3, 0, 7], generator=fl.Generator().manual_seed(2))
    assert [p.indices for p in parts] == [p.indices for p in again] != [p.indices for p in other]


def test_the_default_generator_splits_too():
    fl.manual_seed(3)
    first = random_split(range(20), [10, 10])[0].indices
    fl.manual_seed(3)
    assert random_split(range(20), [10, 10])[0].indices == first


@pytest.mark.parametrize("fractions, sizes", [
    ([0.5, 0.5], [5, 5]), ([0.33, 0.33, 0.34], [4, 3, 3]), ([1.0], [10]), ([0.25] * 4, [3, 3, 2, 2])])
def test_fractions(fractions, sizes):
    assert [len(part) for part in random_split(range(10), fractions)] == sizes


def test_bad_splits():
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        random_split(range(10), [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        random_split(range(10), [-0.5, 1.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])


def test_stacked_datasets_give_tuples_or_dicts():
    pairs, named = StackDataset("abc", [1, 2, 3]), StackDataset(letters="abc", numbers=[1, 2, 3])
    assert len(pairs) == 3 and pairs[1] == ("b", 2) and named[2] == {"letters": "c", "numbers": 3}
    assert pairs.__getitems__([0, 2]) == [("a", 1), ("c", 3)]
    assert named.__getitems__([1]) == [{"letters": "b", "numbers": 2}]


@pytest.mark.parametrize("args, kwargs, message", [
    ((), {}, "at least one dataset"), (("a",), {"b": "b"}, "not both"), (("a", "bc"), {}, "Size mismatch")])
def test_stacked_datasets_refuse(args, kwargs, message):
    with pytest.raises(ValueError, match=message):
        StackDataset(*args, **kwargs)
