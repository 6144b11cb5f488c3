"""From an index to a batch: what a loader does in its own process, or has its workers do."""

import copy
from dataclasses import dataclass
from itertools import islice

from flambeau.data import tensors
from flambeau.data.collate import default_collate
from flambeau.data.dataset import IterableDataset, Subset, TensorDataset, samples_at


class Fetcher:
    """Makes the batches (or, if not `batched`, single samples) of a dataset; of a stream, one after the
    other.

    `fetch(index)` raises StopIteration at the end of a stream, where only the length of `index` counts.
    """

    def __init__(self, dataset, collate, batched, drop_last):
        self.dataset, self.collate, self.batched, self.drop_last = dataset, collate, batched, drop_last
        self.stream = None      # of an IterableDataset: its iterator
        self.ended = False      # whether the last batch was short, so that the stream is at its end

    @property
    def fetch(self):
        """The function index -> batch."""
        return self.next_of_stream if isinstance(self.dataset, IterableDataset) else self.batch_at

    def begin(self, position=None):
        """Start an epoch, at a Position in it."""
        place, state, self.ended = (position.state if position else None) or (None, None, False)
        if place == "dataset":
            self.dataset.load_state_dict(state)
        if not isinstance(self.dataset, IterableDataset):
            return
        self.stream = iter(() if self.ended else self.dataset)
        if self.ended:
            return
        if place == "stream":
            self.stream.load_state_dict(state)
        elif position and place is None:
            next(islice(self.stream, position.samples, position.samples), None)

    def batch_at(self, index):
        """The batch, or sample, of a Dataset at `index`."""
        if not self.batched:
            return self.collate(self.dataset[index])
        if self.collate is default_collate:
            batch = stacked_rows(self.dataset, index)
            if batch is not None:
                return batch
        return self.collate(samples_at(self.dataset, index))

    def next_of_stream(self, index):
        """The next batch, or sample, of an IterableDataset."""
        if not self.batched:
            return self.collate(next(self.stream))
        samples = [sample for _, sample in zip(index, self.stream)]
        self.ended = len(samples) < len(index)
        if not samples or self.drop_last and self.ended:
            raise StopIteration
        return self.collate(samples)

    def is_stateful(self):
        """True if `state` has something to say."""
        return is_stateful(self.stream) or is_stateful(self.dataset)

    def state(self, through=False):
        """(where it belongs, the state, `ended`) of a stream or dataset; None if they have none.

        through: the epoch is over; the stream, another one in each epoch, is not asked any more.
        """
        for place, owner in (("stream", self.stream), ("dataset", self.dataset)):
            if is_stateful(owner) and not (through and place == "stream"):
                return place, copy.deepcopy(owner.state_dict()), self.ended and not through
        return None


@dataclass(frozen=True)
class Position:
    """Where in an epoch to start: at a state of stream or dataset, or else behind so many samples of the stream."""

    state: object = None
    samples: int = 0


def is_stateful(owner):
    """True if `owner` can tell its state and go back to it."""
    return hasattr(owner, "state_dict") and hasattr(owner, "load_state_dict")


def stacked_rows(dataset, indices):
    """[tensor[indices] for each tensor] of a TensorDataset or a Subset of one; None for other datasets.

    This equals collating the samples only if indexing is not overridden: subclasses take the long way.
    """
    while type(dataset) is Subset and type(indices) is list:
        own = dataset.indices
        indices, dataset = [own[index] for index in indices], dataset.dataset
    if type(dataset) is not TensorDataset or not indices or type(indices) is not list:
        return None
    if set(map(type, indices)) != {int}:
        return None
    first, last = indices[0], indices[-1]
    if 0 <= first <= last < len(dataset) and indices == list(range(first, last + 1)):
        return [tensors.copy_of(tensor[first:last + 1]) for tensor in dataset.tensors]
    rows = tensors.integers(indices)        # (batch,) int64
    return [tensors.rows_at(tensor, rows) for tensor in dataset.tensors]
