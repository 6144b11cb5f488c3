"""Samplers: iterables of indices (or, BatchSampler, of lists of indices) that say in which order to load."""

import types
from itertools import islice, repeat

from flambeau.base.errors import fail
from flambeau.data import tensors


class Sampler:
    """An iterable of indices: a subclass defines `__iter__` and usually `__len__`."""

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler):
    """0, 1, ... len(data_source) - 1."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class _InfiniteConstantSampler(Sampler):
    """None, endlessly: the indices of a stream."""

    def __iter__(self):
        return repeat(None)


class RandomSampler(Sampler):
    """Indices of `data_source` at random.

    replacement: draw each independently; otherwise each comes once before any comes again.
    num_samples: how many (default: len(data_source), looked up at each use).
    generator: draws them; None: a new one, seeded by the default generator at each iteration.
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if not isinstance(replacement, bool):
            fail("RandomSampler", "replacement should be a boolean value", repr(replacement), kind=TypeError)
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            fail("RandomSampler", "num_samples should be a positive integer value", got=self.num_samples,
                 hint="the dataset is empty" if num_samples is None else None, kind=ValueError)

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        size, count = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = tensors.seeded_generator(tensors.draw_seed(None))
        if self.replacement:        # in chunks of 32: the same draws as PyTorch's
            for start in range(0, count, 32):
                yield from tensors.draws(size, min(32, count - start), generator)
            return
        for _ in range(count // size):
            yield from tensors.permutation(size, generator)
        yield from tensors.permutation(size, generator)[:count % size]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order, each once."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        for i in tensors.permutation(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` indices, each drawn with its weight; the weights need not sum to one."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            fail("WeightedRandomSampler", "num_samples should be a positive integer value", repr(num_samples),
                 kind=ValueError)
        if not isinstance(replacement, bool):
            fail("WeightedRandomSampler", "replacement should be a boolean value", repr(replacement),
                 kind=ValueError)
        self.weights = tensors.weights(weights)
        if self.weights.ndim != 1:
            fail("WeightedRandomSampler", "weights should be a 1d sequence", tuple(self.weights.shape),
                 kind=ValueError)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self):
        yield from tensors.weighted_draws(self.weights, self.num_samples, self.replacement, self.generator)

    def __len__(self):
        return self.num_samples


class DistributedSampler(Sampler):
    """The share of one of several processes in the indices of a dataset; every share has the same length.

    dataset: what is sampled. num_replicas, rank: number of processes, and which of them this is.
    shuffle: another order for each epoch, the same in all processes (see `set_epoch`). seed: of that order.
    drop_last: leave out the rest that cannot be shared evenly; otherwise some indices come twice.
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            fail("DistributedSampler", "Default process group has not been initialized",
                 hint="pass num_replicas and rank", kind=ValueError)
        if not 0 <= rank < num_replicas:
            fail("DistributedSampler", "Invalid rank", rank, f"0 to {num_replicas - 1}", kind=ValueError)
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else -(-size // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        size = len(self.dataset)
        indices = list(range(size))
        if self.shuffle:
            indices = tensors.permutation(size, tensors.seeded_generator(self.seed + self.epoch))
        while indices and len(indices) < self.total_size:
            indices += indices[:self.total_size - len(indices)]
        return iter(indices[self.rank:self.total_size:self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Choose the order of the next iteration; give each epoch its own."""
        self.epoch = epoch


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of another sampler; `drop_last` leaves out a last list that is shorter.

    >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            fail("BatchSampler", "batch_size should be a positive integer value", got=repr(batch_size),
                 kind=ValueError)
        if not isinstance(drop_last, bool):
            fail("BatchSampler", "drop_last should be a boolean value", got=repr(drop_last), kind=ValueError)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self):
        if self.drop_last:
            return len(self.sampler) // self.batch_size
        return (len(self.sampler) + self.batch_size - 1) // self.batch_size
