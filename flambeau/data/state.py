"""Where a loader stands in its epoch, so that another one can go on from there.

A state holds how many batches were handed out and the states that the generators had when the epoch began. To
go on, the order is drawn once more from those and the first indices are left out; no sample is loaded for it.
A sampler, dataset or stream with `state_dict` and `load_state_dict` is asked for its own state instead. After
the last batch, the state is that of the generators before the next epoch.
"""

import contextlib
import copy
from dataclasses import dataclass, field
from itertools import chain, islice

from flambeau.base.errors import fail
from flambeau.data import tensors
from flambeau.data.fetch import Position, is_stateful

FORMAT = 1


@dataclass
class Progress:
    """An iteration as it goes. `randomness`: (default generator, the loader's generators) when it began."""

    randomness: tuple
    base_seed: int
    drew_seed: bool
    batches: int = 0
    finished: bool = False
    fetcher: object = None          # of an iteration in this process
    sampler: object = None          # with workers: the state of the sampler as of the last batch
    index: object = None            # of the last batch
    workers: object = None          # a WorkerProgress

    def dataset_state(self):
        return self.fetcher.state(self.finished) if self.fetcher is not None else None


@dataclass
class WorkerProgress:
    """By worker: batches handed out and state of its dataset. through: whose streams are. last: whose turn it was."""

    batches: list
    states: list
    through: list = field(default_factory=list)
    last: int = -1


# ---------------------------------------------------------------------------------- to and from states
def state_of(loader):
    """A dict of numbers, lists and tensors (and of what samplers and datasets tell)."""
    if loader._resume is not None:
        return copy.deepcopy(loader._resume)
    if not loader.in_order and loader.num_workers:
        fail("DataLoader", "with in_order=False the batches of an epoch have no order to go on with",
             hint="state_dict() needs in_order=True")
    progress = loader._progress
    over = progress is None or progress.finished
    state = {"format": FORMAT, "finished": over, "batches": 0 if over else progress.batches,
             "num_workers": loader.num_workers, "epoch": epoch_of(loader), "default_generator": None,
             "sampler": None, "dataset": None, "workers": None}
    if over:
        keeps_seed = progress is not None and loader.persistent_workers
        state["base_seed"] = progress.base_seed if keeps_seed else None
        state["generators"] = [generator.get_state() for generator in generators_of(loader)]
    else:
        state["default_generator"], state["generators"] = progress.randomness
        state["base_seed"], state["drew_seed"] = progress.base_seed, progress.drew_seed
    if progress is None:
        return state
    sampler = stateful_sampler(loader)
    if sampler is not None:
        in_process = progress.workers is None
        state["sampler"] = copy.deepcopy(sampler.state_dict()) if in_process else progress.sampler
        state["sampler_ended"] = not over and is_short(loader, progress.index)
    state["dataset"] = progress.dataset_state()
    if progress.workers is not None and (not over or loader.persistent_workers):
        state["workers"] = copy.deepcopy(vars(progress.workers))
    return state


def load(loader, state):
    """The next iteration of `loader` goes on from `state`."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        fail("DataLoader", "this is no state of a DataLoader", got=type(state).__name__,
             want="what state_dict() returned")
    if not state["finished"] and state["num_workers"] != loader.num_workers and (
            state["workers"] or state["dataset"]) and loader._dataset_kind:
        fail("DataLoader", "a stream goes on with the workers it had", got=f"num_workers={loader.num_workers}",
             want=f"num_workers={state['num_workers']}", kind=ValueError)
    generators = generators_of(loader)
    if len(generators) != len(state["generators"]):
        fail("DataLoader", "the state is of a loader with other generators", got=f"{len(generators)} generators",
             want=len(state["generators"]), kind=ValueError)
    for generator, saved in zip(generators, state["generators"]):
        generator.set_state(saved)
    if state["epoch"] is not None:
        loader.sampler.set_epoch(state["epoch"])
    loader._resume, loader._progress = copy.deepcopy(state), None


def generators_of(loader):
    """The generators that belong to a loader and to its samplers."""
    found = []
    owners = (loader, loader.batch_sampler, loader.sampler, getattr(loader.batch_sampler, "sampler", None))
    for owner in owners:
        generator = getattr(owner, "generator", None)
        if hasattr(generator, "set_state") and all(generator is not known for known in found):
            found.append(generator)
    return found


def stateful_sampler(loader):
    """The sampler of a loader that can tell its state, or None."""
    return next((each for each in (loader.batch_sampler, loader.sampler) if is_stateful(each)), None)


def is_short(loader, index):
    """True if `index` is the last one of an epoch, for which the sampler has come to its end already."""
    return isinstance(index, list) and len(index) < (getattr(loader.batch_sampler, "batch_size", None) or 0)


def epoch_of(loader):
    """The epoch of a sampler with `set_epoch`, such as DistributedSampler; else None."""
    sampler = loader.sampler
    return getattr(sampler, "epoch", None) if hasattr(sampler, "set_epoch") else None


# ---------------------------------------------------------------------------------- the start of an iteration
def begin(loader, draws_seed):
    """(progress, iterator of indices, state to go on from or None) of a new iteration.

    draws_seed: whether this iteration draws the seed of its workers.
    """
    resume, loader._resume = loader._resume, None
    if resume is None or resume["finished"]:
        if resume is not None and resume["sampler"] is not None:
            stateful_sampler(loader).load_state_dict(resume["sampler"])
        kept = loader._progress if resume is None and not draws_seed else None
        progress, indices = fresh(loader, resume["base_seed"] if resume else kept and kept.base_seed)
    else:
        progress, indices = replayed(loader, resume)
    loader._progress = progress
    return progress, indices, resume


def fresh(loader, base_seed):
    """A new epoch. base_seed: the one that persistent workers were started with, or None."""
    randomness = tensors.random_state(), [generator.get_state() for generator in generators_of(loader)]
    indices = iter(loader._index_sampler)
    draws = base_seed is None
    return Progress(randomness, tensors.draw_seed(loader.generator) if draws else base_seed, draws), indices


def replayed(loader, state):
    """The epoch of a state from its next batch on; the default generator is left as it is."""
    randomness = state["default_generator"], state["generators"]
    progress = Progress(randomness, state["base_seed"], state["drew_seed"], state["batches"])
    sampler = stateful_sampler(loader) if state["sampler"] is not None else None
    with drawing_again(loader, state):
        if sampler is not None:
            sampler.load_state_dict(state["sampler"])
            progress.sampler = state["sampler"]
        indices = iter(() if sampler is not None and state["sampler_ended"] else loader._index_sampler)
        if state["drew_seed"]:
            tensors.draw_seed(loader.generator)
        left_out = 0 if sampler is not None else state["batches"]
        ahead = list(islice(indices, left_out, left_out + 1))       # samplers draw when they are first asked
    return progress, chain(ahead, indices) if ahead else indices


@contextlib.contextmanager
def drawing_again(loader, state):
    """A block in which all generators are as at the start of the epoch."""
    now = tensors.random_state()
    for generator, saved in zip(generators_of(loader), state["generators"]):
        generator.set_state(saved)
    tensors.set_random_state(state["default_generator"])
    try:
        yield
    finally:
        tensors.set_random_state(now)


def position_in_process(loader, state):
    """The Position of a dataset in this process."""
    if state is None:
        return None
    return Position(state["dataset"], 0 if state["finished"] else state["batches"] * (loader.batch_size or 1))


def positions_of_workers(loader, state):
    """The Position of each worker's dataset."""
    workers = None if state is None else state["workers"]
    if workers is None or len(workers["batches"]) != loader.num_workers:
        return [None] * loader.num_workers
    counts = [0] * loader.num_workers if state["finished"] else workers["batches"]
    size = loader.batch_size or 1
    return [Position(saved, count * size) for saved, count in zip(workers["states"], counts)]
