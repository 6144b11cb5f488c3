"""Samplers: which indices come, how often, and from which generator."""

import pytest

import flambeau as fl
from flambeau.data import (
    BatchSampler, DistributedSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,
    WeightedRandomSampler)


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


def test_weighted():
    generator = fl.Generator().manual_seed(0)
    sampler = WeightedRandomSampler([1, 0, 3], 4000, generator=generator)
    drawn = list(sampler)
    assert len(sampler) == len(drawn) == 4000 and drawn.count(1) == 0
    assert drawn.count(2) / 4000 == pytest.approx(0.75, abs=0.03)
    assert sorted(WeightedRandomSampler([0.1, 5.0, 2.0], 3,
                  replacement=False, generator=generator)) == [0, 1, 2]


@pytest.mark.parametrize("arguments, message", [
    (([1.0], 0), "positive integer value"), (([1.0], 1, "no"), "should be a boolean"),
    (([[1.0]], 1), "1d sequence")])
def test_weighted_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        WeightedRandomSampler(*arguments)


@pytest.mark.parametrize("drop_last, length, total", [(False, 4, 12), (True, 3, 9)])
def test_distributed_shares_have_one_length_and_cover_the_data(drop_last, length, total):
    shares = []
    for rank in range(3):
        sampler = DistributedSampler(range(10), 3, rank, drop_last=drop_last)
        sampler.set_epoch(2)
        shares.append(list(sampler))
        assert len(sampler) == length
    together = [index for share in shares for index in share]
    assert len(together) == total and len(set(together)) == min(total, 10)
    with pytest.raises(ValueError, match="Invalid rank"):
        DistributedSampler(range(10), 3, 3)


def test_distributed_orders_differ_between_epochs():
    sampler = DistributedSampler(range(100), 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler) and list(DistributedSampler(range(4), 2, 1, shuffle=False)) == [1, 3]


@pytest.mark.parametrize("replacement", [True, False])
def test_samplers_are_lazy(replacement):
    sampler = RandomSampler(range(5), replacement, num_samples=10 ** 10)
    assert len(sampler) == 10 ** 10 and len(BatchSampler(sampler, 4, False)) == 25 * 10 ** 8
    first = [index for _, index in zip(range(40), sampler)]
    assert len(first) == 40 and set(first) <= set(range(5))


def test_without_a_process_group_the_share_must_be_named():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedSampler(range(4))
