"""Samplers: which indices come, how often, and from which generator."""

import pytest

import flambeau as fl
from flambeau.data import BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler


def test_sequential():
    sampler = SequentialSampler("abc")
    assert list(sampler) == [0, 1, 2] and len(sampler) == 3


def test_random_without_replacement_is_a_permutation_anew_each_time():
    sampler = RandomSampler(range(50), generator=fl.Generator().manual_seed(0))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50)) and first != second
    assert list(RandomSampler(range(50), generator=fl.Generator().manual_seed(0))) == first


def test_random_from_the_default_generator():
    fl.manual_seed(5)
    first = list(RandomSampler(range(50)))
    fl.manual_seed(5)
    assert list(RandomSampler(range(50))) == first


def test_more_samples_than_there_are():
    order = list(RandomSampler(range(4), num_samples=10))
    assert len(order) == 10
    assert sorted(order[:4]) == sorted(order[4:8]) == [0, 1, 2, 3] and len(set(order[8:])) == 2


def test_with_replacement():
    generator = fl.Generator().manual_seed(0)
    sampler = RandomSampler(range(3), replacement=True, num_samples=70, generator=generator)
    order = list(sampler)
    assert len(order) == len(sampler) == 70 and set(order) == {0, 1, 2}


def test_the_length_follows_the_data():
    data = [1]
    sampler = RandomSampler(data)
    data.extend([2, 3])
    assert len(sampler) == 3 and sorted(sampler) == [0, 1, 2]


def test_subset_random():
    sampler = SubsetRandomSampler([5, 7, 9])
    assert sorted(sampler) == [5, 7, 9] and len(sampler) == 3


@pytest.mark.parametrize("drop_last, lists, length", [
    (False, [[0, 1, 2], [3, 4, 5], [6]], 3), (True, [[0, 1, 2], [3, 4, 5]], 2)])
def test_batches(drop_last, lists, length):
    sampler = BatchSampler(SequentialSampler(range(7)), 3, drop_last)
    assert list(sampler) == lists and len(sampler) == length
    assert list(BatchSampler(iter(range(7)), 3, drop_last)) == lists, "any iterable will do"


def test_bad_arguments():
    with pytest.raises(ValueError, match="got 0\n  hint: the dataset is empty"):
        RandomSampler([])
    with pytest.raises(ValueError, match="positive integer value: got -1"):
        RandomSampler([1], num_samples=-1)
    with pytest.raises(TypeError, match="boolean value: got 1"):
        RandomSampler([1], replacement=1)
    for size in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="batch_size should be a positive integer"):
            BatchSampler([1], size, False)
    with pytest.raises(ValueError, match="drop_last should be a boolean"):
        BatchSampler([1], 1, 0)
    with pytest.raises(NotImplementedError):
        iter(Sampler())
