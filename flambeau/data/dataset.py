"""Datasets: samples by index (Dataset) or in a stream (IterableDataset); combining and splitting them."""

import math
import types
import warnings
from bisect import bisect_right
from itertools import accumulate

from flambeau.base.errors import fail
from flambeau.data import tensors


class Dataset:
    """Samples by index: a subclass defines `__getitem__(index)` and, for the default samplers, `__len__()`.

    It may also define `__getitems__(indices) -> list of samples` to fetch a batch at once.
    """

    __class_getitem__ = classmethod(types.GenericAlias)

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples in a stream: a subclass defines `__iter__()`, and `__len__()` if it knows its length."""

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Tensors with one size of the first axis; sample i is the tuple of their rows i.

    A DataLoader with the default collate_fn fetches each batch by one indexing a tensor.

    >>> len(TensorDataset(images, labels))      # (1797, 8, 8), (1797,)      # doctest: +SKIP
    1797
    """

    def __init__(self, *tensors):
        sizes = [tensor.shape[0] for tensor in tensors]
        if len(set(sizes)) > 1:
            fail("TensorDataset", "Size mismatch between tensors", got=f"first axes of sizes {sizes}",
                 want="one size for all", kind=AssertionError)
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].shape[0]


class StackDataset(Dataset):
    """Datasets of one length side by side: sample i is the tuple of their samples i, or a dict if they are
    named.

    >>> StackDataset(images=["a", "b"], labels=[0, 1])[1]
    {'images': 'b', 'labels': 1}
    """

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            fail("StackDataset", "datasets are given in order or by name, not both" if args
                 else "at least one dataset is "
                 "needed", kind=ValueError)
        self.datasets = kwargs or args
        sizes = [len(dataset) for dataset in self._each()]
        if len(set(sizes)) > 1:
            fail("StackDataset", "Size mismatch between datasets", sizes, "one size for all", kind=ValueError)

    def _each(self):
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _together(self, samples):
        return dict(zip(self.datasets, samples)) if isinstance(self.datasets, dict) else tuple(samples)

    def __getitem__(self, index):
        return self._together([dataset[index] for dataset in self._each()])

    def __getitems__(self, indices):
        columns = [samples_at(dataset, indices) for dataset in self._each()]
        return [self._together(samples) for samples in zip(*columns)]

    def __len__(self):
        return len(next(iter(self._each())))


class ConcatDataset(Dataset):
    """Datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            fail("ConcatDataset", "datasets should not be an empty iterable", kind=AssertionError)
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            fail("ConcatDataset", "ConcatDataset does not support IterableDataset", kind=AssertionError,
                 hint="use ChainDataset for streams")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect_right(self.cumulative_sizes, index)
        if which == len(self.datasets):
            raise IndexError(f"index {index} is out of range for a ConcatDataset of {len(self)} samples")
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset):
    """Streams one after the other."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for dataset in self._streams():
            yield from dataset

    def __len__(self):
        return sum(len(dataset) for dataset in self._streams())

    def _streams(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                fail("ChainDataset", "ChainDataset only supports IterableDataset", got=type(dataset).__name__,
                     kind=AssertionError)
            yield dataset


class Subset(Dataset):
    """The samples of `dataset` at `indices`, in that order.

    A subclass that overrides `__getitem__` must override `__getitems__` too: batches are fetched through it.
    """

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            fail("Subset", f"{cls.__name__} overrides __getitem__ but not __getitems__",
                 hint="def __getitems__(self, indices): return [self[index] for index in indices]",
                 kind=NotImplementedError)

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices):
        return samples_at(self.dataset, [self.indices[index] for index in indices])

    def __len__(self):
        return len(self.indices)


def samples_at(dataset, indices):
    """The samples of a Dataset at a list of indices, by its `__getitems__` if it has one."""
    fetch = getattr(dataset, "__getitems__", None)
    return fetch(indices) if callable(fetch) else [dataset[index] for index in indices]


def random_split(dataset, lengths, generator=None):
    """Split `dataset` at random into disjoint Subsets.

    lengths: sizes that add up to len(dataset), or fractions that add up to 1 (each rounded down; samples left
    over go one by one to the first subsets). generator: makes the split reproducible.

    >>> train, test = random_split(dataset, [0.8, 0.2], fl.Generator().manual_seed(0))      # doctest: +SKIP
    """
    size = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _sizes_of_fractions(lengths, size)
    if sum(lengths) != size:
        fail("random_split", "Sum of input lengths does not equal the length of the input dataset!",
             got=f"{list(lengths)}, together {sum(lengths)}", want=size, kind=ValueError)
    order = tensors.permutation(size, generator)
    return [Subset(dataset, order[end - length:end]) for end, length in zip(accumulate(lengths), lengths)]


def _sizes_of_fractions(fractions, size):
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            fail("random_split", f"Fraction at index {i} is not between 0 and 1", fraction, kind=ValueError)
    sizes = [math.floor(size * fraction) for fraction in fractions]
    for i in range(size - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, length in enumerate(sizes):
        if length == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.",
                          stacklevel=3)
    return sizes
