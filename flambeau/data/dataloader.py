"""DataLoader: iterates over a dataset in batches, in the calling process or in worker processes.

An iteration is three parts: a sampler gives indices, the dataset gives samples, collate_fn makes a batch. The
last two fall together where that changes nothing: a batch of a TensorDataset (or a Subset of one) under the
default collate_fn takes one indexing a tensor instead of a stack of single rows.
"""

import types
import warnings

from flambeau.base.errors import fail
from flambeau.data import state
from flambeau.data.collate import default_collate, default_convert
from flambeau.data.dataset import IterableDataset
from flambeau.data.iteration import _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
from flambeau.data.sampler import BatchSampler, RandomSampler, SequentialSampler, _InfiniteConstantSampler

_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class DataLoader:
    """Batches of `dataset`, anew at each iteration.

    batch_size: samples a batch; None loads single samples without collating.
    shuffle: a new random order each iteration, drawn from `generator` (None: from the default generator).
    sampler: iterable of indices in place of shuffle. batch_sampler: iterable of lists of indices in place of
        batch_size, shuffle, sampler and drop_last.
    collate_fn: makes a batch of a list of samples (default: `default_collate`).
    drop_last: leave out a last batch that is not full.
    num_workers: worker processes that fetch and collate; 0 does it in this process. With workers: timeout
        (seconds for a batch, 0: no limit), worker_init_fn(number), prefetch_factor (batches a worker is
        ahead, default 2), persistent_workers (kept between iterations), multiprocessing_context ('fork',
        'spawn', ...), in_order (False: hand out what is ready first). An exception of a worker comes with its
        traceback; a dead worker is a RuntimeError.
    pin_memory, pin_memory_device: accepted; there is no accelerator to copy to.

    `state_dict()` and `load_state_dict()` go on within an epoch, in another process too.

    >>> for images, labels in DataLoader(dataset, batch_size=64, shuffle=True): ...     # doctest: +SKIP
    """

    __class_getitem__ = classmethod(types.GenericAlias)
    _ready = False      # from the end of __init__ on, the attributes in _FIXED stay

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                 collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                 multiprocessing_context=None, generator=None, *, prefetch_factor=None,
                 persistent_workers=False, pin_memory_device="", in_order=True):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_combination(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if pin_memory:
            warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device "
                          "pinned memory won't be used.", stacklevel=2)
        self.dataset, self.generator = dataset, generator
        self.num_workers, self.persistent_workers = num_workers, persistent_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.timeout = pin_memory, pin_memory_device, timeout
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.in_order = in_order
        self._iterator = None       # the one of persistent workers
        self._progress = None       # a Progress: how far the last iteration came
        self._resume = None         # a state that the next iteration goes on from
        self.sampler = _default_sampler(dataset, shuffle, generator) if sampler is None else sampler
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler, self.batch_size, self.drop_last = batch_sampler, batch_size, drop_last
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self._IterableDataset_len_called = None      # the length that an IterableDataset said it has
        self._ready = True

    def __setattr__(self, name, value):
        if self._ready and name in _FIXED:
            fail("DataLoader", f"{name} attribute should not be set after DataLoader is initialized",
                 hint=f"make another one: DataLoader(dataset, {name}=...)" if name != "dataset" else
                 "make another one: DataLoader(new_dataset, ...)", kind=ValueError)
        super().__setattr__(name, value)

    def __iter__(self):
        if not self.persistent_workers or not self.num_workers:
            return self._get_iterator()
        if self._iterator is None or not self._iterator._workers:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self):
        """A new iterator. Libraries override this, and call it."""
        kind = _MultiProcessingDataLoaderIter if self.num_workers else _SingleProcessDataLoaderIter
        return kind(self)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    @property
    def _dataset_kind(self):
        return _DatasetKind.Iterable if isinstance(self.dataset, IterableDataset) else _DatasetKind.Map

    @property
    def multiprocessing_context(self):
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value):
        self._context = _checked_context(value, self.num_workers)

    def state_dict(self):
        """How far the present iteration came: with it, another loader can hand out the rest of the epoch.

        Numbers, lists and generator states, and the states of a dataset, a stream or a sampler that have
        `state_dict` and `load_state_dict` themselves. Of a stream without them, the samples handed out are
        fetched again and left out.
        """
        return state.state_of(self)

    def load_state_dict(self, state_dict):
        """The next iteration hands out the rest of that epoch; those after it are as they would have been.

        Generators of the loader and of its samplers are set. The default generator is not: where it draws the
        order, restore it as well (`set_rng_state`). Samples that a dataset draws at random in a worker are new.
        """
        state.load(self, state_dict)

    def __len__(self):
        """The number of batches (of samples, if batch_size is None)."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        self._IterableDataset_len_called = length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


class StatefulDataLoader(DataLoader):
    """A DataLoader under the name that torchdata gives to one with `state_dict`.

    snapshot_every_n_steps: accepted; the state is at hand after each batch.
    """

    def __init__(self, *args, snapshot_every_n_steps=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.snapshot_every_n_steps = snapshot_every_n_steps


class _DatasetKind:
    """What a loader's `_dataset_kind` says."""

    Map, Iterable = 0, 1


# ---------------------------------------------------------------------------------------- arguments
def _default_sampler(dataset, shuffle, generator):
    if isinstance(dataset, IterableDataset):
        return _InfiniteConstantSampler()       # the stream itself says when it ends
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _check_workers(num_workers, timeout, prefetch_factor, persistent_workers):
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


def _checked_context(context, num_workers):
    """The value of multiprocessing_context: None, a context, or the context of a start method's name."""
    if context is None:
        return None
    if not num_workers:
        _refuse("multiprocessing_context can only be used with multi-process loading", hint="leave it out")
    import multiprocessing
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            _refuse(f"multiprocessing_context option should specify a valid start method in {methods!r}, "
                    f"got {context!r}")
        return multiprocessing.get_context(context)
    if not hasattr(context, "Process"):
        fail("DataLoader", "multiprocessing_context option should be a valid context object or a string "
             "specifying the start method", got=type(context).__name__, kind=TypeError)
    return context


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
