"""Loaders against PyTorch: orders, seeds of workers, numbers drawn there, shapes and types of batches."""

import importlib
import random

import numpy
import pytest
import torch

import flambeau.torch as facade


def data_of(library):
    return importlib.import_module("torch.utils.data" if library is torch else "flambeau.torch.utils.data")


class Draws:
    """Samples that say who made them, and with which numbers."""

    def __init__(self, library):
        self.library = library

    def __len__(self):
        return 10

    def __getitem__(self, index):
        info = data_of(self.library).get_worker_info()
        who = (info.id, info.seed) if info else (-1, 0)
        return index, *who, random.random(), numpy.random.rand(), self.library.rand(()).item()


def values(batch):
    if hasattr(batch, "tolist"):
        return str(batch.dtype), batch.tolist()
    if isinstance(batch, dict):
        return {key: values(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch).__name__, [values(value) for value in batch]
    return batch


def both(make):
    """What `make(library, data module)` gives under PyTorch and here."""
    found = []
    for library in (torch, facade):
        library.manual_seed(11)
        random.seed(11)
        numpy.random.seed(11)
        found.append(values(list(make(library, data_of(library)))))
    return found


def seeded(library):
    return library.Generator().manual_seed(5)


LOADERS = {
    "default generator": lambda t, d: d.DataLoader(range(30), 4, shuffle=True),
    "own generator": lambda t, d: d.DataLoader(range(30), 4, shuffle=True, generator=seeded(t)),
    "replacement": lambda t, d: d.DataLoader(range(30), 4, sampler=d.RandomSampler(range(30), True, 70)),
    "many": lambda t, d: d.DataLoader(range(7), 4, sampler=d.RandomSampler(range(7), num_samples=17)),
    "subset": lambda t, d: d.DataLoader(range(30), 4, sampler=d.SubsetRandomSampler([3, 9, 27, 1])),
    "weighted": lambda t, d: d.DataLoader(
        range(30), 4, sampler=d.WeightedRandomSampler([i + 1.0 for i in range(30)], 20)),
    "distributed": lambda t, d: d.DataLoader(range(30), 4, sampler=d.DistributedSampler(range(30), 4, 2, seed=3)),
    "not batched": lambda t, d: d.DataLoader(range(30), None, shuffle=True),
    "draws here": lambda t, d: d.DataLoader(Draws(t), 3, shuffle=True),
    "draws there": lambda t, d: d.DataLoader(Draws(t), 3, shuffle=True, num_workers=2),
    "structures": lambda t, d: d.DataLoader(
        [{"a": i, "b": (float(i), str(i)), "c": [t.ones(2) * i, numpy.float32(i)], "d": i > 2} for i in range(5)], 2),
    "split": lambda t, d: [part.indices for part in d.random_split(range(11), [0.5, 0.3, 0.2], seeded(t))],
}


@pytest.mark.parametrize("name", LOADERS)
def test_the_same_batches(name):
    theirs, ours = both(LOADERS[name])
    assert ours == theirs


@pytest.mark.parametrize("persistent", [False, True])
def test_the_same_epochs_with_workers(persistent):
    def epochs(t, d):
        loader = d.DataLoader(Draws(t), 3, shuffle=True, num_workers=2, persistent_workers=persistent,
                              generator=seeded(t))
        return [list(loader) for _ in range(3)]
    theirs, ours = both(epochs)
    assert ours == theirs
