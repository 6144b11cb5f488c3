"""One pass over a DataLoader: in this process, or with worker processes.

The classes have PyTorch's names; libraries test iterators for them and call `_reset` and `_shutdown_workers`.
"""

import copy
import warnings

from flambeau.base.errors import fail
from flambeau.data import state, tensors, workers
from flambeau.data.fetch import Fetcher


class _BaseDataLoaderIter:
    """What both have: the indices to come and the count of batches handed out."""

    def __init__(self, loader):
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._drop_last = loader._auto_collation, loader.drop_last
        self._index_sampler, self._collate_fn = loader._index_sampler, loader.collate_fn
        self._num_workers, self._timeout = loader.num_workers, loader.timeout
        self._persistent_workers, self._pin_memory = loader.persistent_workers, False
        self._begin(loader, True)

    def _begin(self, loader, draws_seed):
        self._announced = loader._IterableDataset_len_called
        self._progress, self._sampler_iter, self._resume = state.begin(loader, draws_seed)
        self._base_seed = self._progress.base_seed

    def _fetcher(self):
        return Fetcher(self._dataset, self._collate_fn, self._auto_collation, self._drop_last)

    def _reset(self, loader, first_iter=False):
        """Start the next epoch."""
        self._begin(loader, False)

    @property
    def _num_yielded(self):
        return self._progress.batches

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._index_sampler)

    def _compare_with_announced(self):
        """Warn if a stream gives more than its length said."""
        if self._announced is not None and self._progress.batches > self._announced:
            hint = " Does each worker give its share only? See get_worker_info()." if self._num_workers else ""
            warnings.warn(f"Length of IterableDataset {self._dataset} was reported to be {self._announced} (when "
                          f"accessing len(dataloader)), but {self._progress.batches} samples have been fetched.{hint}",
                          stacklevel=3)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """One pass over a DataLoader in this process."""

    def __init__(self, loader):
        super().__init__(loader)
        self._dataset_fetcher = fetcher = self._fetcher()
        self._fetch = fetcher.fetch
        fetcher.begin(state.position_in_process(loader, self._resume))
        if fetcher.is_stateful():
            self._progress.fetcher = fetcher

    def __next__(self):
        try:
            index = next(self._sampler_iter)
            batch = self._fetch(index)
        except StopIteration:
            self._progress.finished = True
            self._sampler_iter = iter(())
            raise
        self._progress.batches += 1
        self._progress.index = index
        if self._dataset_kind:
            self._compare_with_announced()
        return batch


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """One pass over a DataLoader with worker processes; with persistent ones, one after the other.

    Batch `task` is asked of the workers in turn, `prefetch_factor` batches of each ahead of the caller.
    """

    def __init__(self, loader):
        super().__init__(loader)
        self._in_order, self._epoch = loader.in_order, 0
        self._ahead = loader.prefetch_factor * loader.num_workers
        job = workers.Job(self._fetcher(), loader.worker_init_fn, self._num_workers, self._base_seed,
                          tensors.random_stream())
        self._crew = workers.Crew(job, loader.multiprocessing_context or workers.default_context())
        self._start(loader)

    def _reset(self, loader, first_iter=False):
        super()._reset(loader)
        self._start(loader)

    def _start(self, loader):
        """Ask for the first batches of an epoch."""
        self._epoch += 1
        self._waiting, self._arrived = {}, {}       # task -> (worker, index); task -> (worker, result, state)
        self._snapshots = {}                        # task -> (state of the sampler behind its index, index)
        self._stateful_sampler = state.stateful_sampler(loader)
        self._asked = self._following = 0
        saved = self._resume["workers"] if self._resume else None
        self._progress.workers = worker_progress(saved, self._num_workers, self._resume)
        self._turn = self._progress.workers.last + 1
        self._over = set(self._progress.workers.through)
        for number, position in enumerate(state.positions_of_workers(loader, self._resume)):
            self._send(number, (self._epoch, position))
        for _ in range(self._ahead):
            self._ask()

    def _ask(self):
        """Hand the next index to the next worker whose stream goes on."""
        if len(self._over) == self._num_workers:
            return
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        while self._turn % self._num_workers in self._over:
            self._turn += 1
        worker, task = self._turn % self._num_workers, self._asked
        self._turn, self._asked = self._turn + 1, self._asked + 1
        self._waiting[task] = worker, index
        if self._stateful_sampler is not None:
            self._snapshots[task] = copy.deepcopy(self._stateful_sampler.state_dict()), index
        self._send(worker, (self._epoch, task, index))

    def _send(self, worker, message):
        if not self._crew.send(worker, message):
            self._lost(worker)

    def __next__(self):
        while self._waiting or self._arrived:
            task = self._next_arrived()
            self._following = task + 1
            worker, result, dataset_state = self._arrived.pop(task)
            ended = isinstance(result, workers.EndOfStream)
            if ended:
                self._over.add(worker)
                self._progress.workers.through = sorted(self._over)
                self._progress.workers.states[worker] = dataset_state
            else:
                self._count(task, worker, dataset_state)
            self._ask()
            if ended:
                continue
            if isinstance(result, workers.Failure):
                result.raise_again()
            if self._dataset_kind:
                self._compare_with_announced()
            return result
        self._progress.finished = True
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _count(self, task, worker, dataset_state):
        progress = self._progress
        progress.batches += 1
        progress.workers.batches[worker] += 1
        progress.workers.states[worker], progress.workers.last = dataset_state, worker
        if self._stateful_sampler is not None:
            progress.sampler, progress.index = self._snapshots.pop(task)

    def _next_arrived(self):
        """The next task to hand out, when it has arrived."""
        while True:
            task = self._following if self._in_order else next(iter(self._arrived), None)
            if task in self._arrived:
                return task
            self._receive()

    def _receive(self):
        """Wait until at least one message is here, or a worker is lost."""
        dead = None
        try:
            ready = self._crew.ready(self._timeout)
            for worker in ready:
                epoch, task, result, dataset_state = self._crew.receive(worker)
                if epoch == self._epoch:
                    del self._waiting[task]
                    self._arrived[task] = worker, result, dataset_state
        except workers.Gone as gone:
            dead = gone.number
        except BaseException:           # Ctrl-C amid a message: the rest of it cannot be told from the next
            self._give_up()
            raise
        if dead is not None:
            self._lost(dead)
        if not ready:
            self._give_up()
            fail("DataLoader", f"timed out after {self._timeout} seconds", f"no batch {self._progress.batches}",
                 hint="a worker hangs, or a batch takes longer: pass a larger timeout=")

    def _lost(self, worker):
        index = next((index for number, index in self._waiting.values() if number == worker), None)
        crew = self._crew
        self._waiting, self._arrived, self._over = {}, {}, set(range(self._num_workers))
        crew.lost(worker, index)

    def _give_up(self):
        self._waiting, self._arrived, self._over = {}, {}, set(range(self._num_workers))
        self._crew.close(at_once=True)

    def _shutdown_workers(self):
        """Let the workers go."""
        self._crew.close()

    @property
    def _workers(self):
        return self._crew.processes

    def __del__(self):
        if hasattr(self, "_crew"):
            self._shutdown_workers()


def worker_progress(saved, count, resume):
    """A WorkerProgress to begin with, from that of a state."""
    if saved is not None and len(saved["batches"]) == count and not resume["finished"]:
        return state.WorkerProgress(**saved)
    turn = 0 if resume is None else resume["batches"] % count
    return state.WorkerProgress([0] * count, [None] * count, last=turn - 1)
