"""DataLoader: iterates over a dataset in batches, in the calling process or in worker processes.

An iteration is three parts: a sampler gives indices, the dataset gives samples, collate_fn makes a batch. The
last two fall together where that changes nothing: a batch of a TensorDataset (or a Subset of one) under the
default collate_fn takes one indexing a tensor instead of a stack of single rows.
"""

import functools
import types
import warnings
from itertools import repeat

from flambeau.base.errors import fail
from flambeau.data import tensors, workers
from flambeau.data.collate import default_collate, default_convert
from flambeau.data.dataset import IterableDataset, Subset, TensorDataset, samples_at
from flambeau.data.sampler import BatchSampler, RandomSampler, SequentialSampler

_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class DataLoader:
    """Batches of `dataset`, anew at each iteration.

    batch_size: samples a batch; None loads single samples without collating.
    shuffle: a new random order each iteration, drawn from `generator` (None: from the default generator).
    sampler: iterable of indices in place of shuffle. batch_sampler: iterable of lists of indices in place of
        batch_size, shuffle, sampler and drop_last.
    collate_fn: makes a batch of a list of samples (default: `default_collate`).
    drop_last: leave out a last batch that is not full.
    num_workers: worker processes that fetch and collate; 0 does it in this process. With workers: timeout (seconds for a
        batch, 0: no limit), worker_init_fn(number), prefetch_factor (batches a worker is ahead, default 2),
        persistent_workers (kept between iterations), multiprocessing_context ('fork', 'spawn', ...).

    >>> for images, labels in DataLoader(dataset, batch_size=64, shuffle=True): ...     # doctest: +SKIP
    """

    __class_getitem__ = classmethod(types.GenericAlias)
    _ready = False      # from the end of __init__ on, the attributes in _FIXED stay

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None,
                 persistent_workers=False, pin_memory_device="", in_order=True):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        _check_combination(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if pin_memory:
            warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device "
                          "pinned memory won't be used.", stacklevel=2)
        self.dataset, self.generator = dataset, generator
        self.num_workers, self.persistent_workers = num_workers, persistent_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.in_order, self._crew = in_order, None
        self.sampler = _default_sampler(dataset, shuffle, generator) if sampler is None else sampler
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler, self.batch_size, self.drop_last = batch_sampler, batch_size, drop_last
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self._announced = None      # the length that an IterableDataset said it has
        self._ready = True

    def __setattr__(self, name, value):
        if self._ready and name in _FIXED:
            fail("DataLoader", f"{name} attribute should not be set after DataLoader is initialized",
                 hint=f"make another one: DataLoader(dataset, {name}=...)" if name != "dataset" else
                 "make another one: DataLoader(new_dataset, ...)", kind=ValueError)
        super().__setattr__(name, value)

    def __iter__(self):
        return _WorkerIteration(self) if self.num_workers else _Iteration(self)

    def __len__(self):
        """The number of batches (of samples, if batch_size is None)."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        self._announced = length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


def fetch_batch(collate, batched, drop_last, dataset, stream, index):
    """One batch (or single sample) of `dataset` at `index`, or the next of its `stream`; StopIteration at its end."""
    if stream is None:
        return fetch_at(collate, batched, dataset, index)
    if not batched:
        return collate(next(stream))
    samples = [sample for _, sample in zip(index, stream)]
    if not samples or drop_last and len(samples) < len(index):
        raise StopIteration
    return collate(samples)


def fetch_at(collate, batched, dataset, index):
    """The batch (or single sample) of a Dataset at `index`."""
    if not batched:
        return collate(dataset[index])
    if collate is default_collate:
        batch = stacked_rows(dataset, index)
        if batch is not None:
            return batch
    return collate(samples_at(dataset, index))


class _WorkerIteration:
    """One pass over a DataLoader with worker processes."""

    def __init__(self, loader):
        self.loader = loader
        seed = tensors.draw_seed(loader.generator) % (1 << 62)
        batched = loader.batch_sampler is not None
        crew = loader._crew
        if crew is None or not crew.processes:
            is_stream = isinstance(loader.dataset, IterableDataset)
            fetch = functools.partial(fetch_batch, loader.collate_fn, batched, loader.drop_last)
            job = workers.Job(loader.dataset, fetch, is_stream, loader.worker_init_fn, loader.num_workers)
            crew = workers.Crew(job, loader.num_workers, seed, loader.multiprocessing_context or workers.default_context(),
                                loader.prefetch_factor, loader.timeout)
        self.crew = crew
        if loader.persistent_workers:
            loader._crew = crew
        self.batches = crew.batches(loader.batch_sampler if batched else loader.sampler, seed)

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.loader)

    def __next__(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.end()
            raise

    def end(self):
        """Let the workers go, unless the loader keeps them."""
        if not self.loader.persistent_workers:
            self.crew.close()

    def __del__(self):
        if hasattr(self, "crew"):
            self.end()


class _Iteration:
    """One pass over a DataLoader in this process."""

    def __init__(self, loader):
        self.loader, self.yielded, self.announced = loader, 0, loader._announced
        self.batched = loader.batch_sampler is not None
        # PyTorch draws a seed for its workers here, also without workers: so equal seeds give equal orders.
        tensors.draw_seed(loader.generator)
        self.indices = iter(loader.batch_sampler if self.batched else loader.sampler)
        self.stream = iter(loader.dataset) if isinstance(loader.dataset, IterableDataset) else None

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.loader)

    def __next__(self):
        index = next(self.indices)
        loader = self.loader
        try:
            batch = fetch_batch(loader.collate_fn, self.batched, loader.drop_last, loader.dataset, self.stream, index)
        except StopIteration:
            self.indices, self.stream = iter(()), iter(())
            raise
        self.yielded += 1
        if self.stream is not None:
            self.compare_with_announced()
        return batch

    def compare_with_announced(self):
        if self.announced is not None and self.yielded > self.announced:
            warnings.warn(f"Length of IterableDataset {self.loader.dataset} was reported to be "
                          f"{self.announced} (when accessing len(dataloader)), but {self.yielded} samples "
                          "have been fetched.",
                          stacklevel=3)


def stacked_rows(dataset, indices):
    """[tensor[indices] for each tensor] of a TensorDataset or a Subset of one; None for other datasets.

    This equals collating the samples only if indexing is not overridden: subclasses take the long way.
    """
    while type(dataset) is Subset and type(indices) is list:
        indices, dataset = [dataset.indices[index] for index in indices], dataset.dataset
    if type(dataset) is not TensorDataset or not indices or type(indices) is not list:
        return None
    if not all(type(index) is int for index in indices):
        return None
    rows = tensors.integers(indices)        # (batch,) int64
    return [tensor[rows] for tensor in dataset.tensors]


# ---------------------------------------------------------------------------------------- arguments
def _default_sampler(dataset, shuffle, generator):
    if isinstance(dataset, IterableDataset):
        return repeat(None)         # endless: the stream itself says when it ends
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context):
    if num_workers < 0:
        _refuse("num_workers option should be non-negative", "num_workers=0 loads in the calling process")
    if timeout < 0:
        _refuse("timeout option should be non-negative")
    if num_workers > 0:
        if prefetch_factor is not None and prefetch_factor < 1:
            _refuse("prefetch_factor option should be positive")
        return
    if prefetch_factor is not None:
        _refuse("prefetch_factor option could only be specified in multiprocessing", hint="leave it out")
    if persistent_workers:
        _refuse("persistent_workers option needs num_workers > 0", hint="leave it out")
    if multiprocessing_context is not None:
        _refuse("multiprocessing_context can only be used with multi-process loading", hint="leave it out")


def _check_combination(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last):
    """Refuse arguments that contradict each other."""
    if isinstance(dataset, IterableDataset):
        given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
        for name, value in given.items():
            if value is not None:
                _refuse(f"DataLoader with IterableDataset: expected unspecified {name} option, got {value}",
                        hint="a stream has its own order: shuffle inside the dataset's __iter__")
    if sampler is not None and shuffle:
        _refuse("sampler option is mutually exclusive with shuffle", "use RandomSampler, or leave one out")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            _refuse("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                    "drop_last")
    elif batch_size is None and drop_last:
        _refuse("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def _refuse(problem, hint=None):
    fail("DataLoader", problem, hint=hint, kind=ValueError)
