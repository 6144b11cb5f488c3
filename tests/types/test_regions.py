"""disjoint never says so of windows that meet, and says so of slices, columns and blocks that do not."""

import random

import numpy
import pytest

from flambeau.types.regions import disjoint


def window(base, view):
    offset = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return offset, view.itemsize, view.shape, view.strides


def meets(base, first, second):
    marks = numpy.zeros(base.size, int)
    for number, view in ((1, first), (2, second)):
        offset = (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // view.itemsize
        strides = [s // view.itemsize for s in view.strides]
        for index in numpy.ndindex(view.shape):
            marks[offset + sum(i * s for i, s in zip(index, strides))] |= number
    return bool((marks == 3).any())


@pytest.mark.parametrize("first, second", [
    (numpy.s_[:2], numpy.s_[2:]), (numpy.s_[:, :3], numpy.s_[:, 3:]), (numpy.s_[:, ::2], numpy.s_[:, 1::2]),
    (numpy.s_[1:3, 1:3], numpy.s_[1:3, 4:]), (numpy.s_[::2], numpy.s_[1::2]), (numpy.s_[:, :, 0], numpy.s_[:, :, 2:]),
    (numpy.s_[1], numpy.s_[2]), (numpy.s_[::-1, :2], numpy.s_[:, 2:4]), (numpy.s_[0:0], numpy.s_[:])])
def test_pieces_side_by_side(first, second):
    base = numpy.zeros((4, 6, 5), numpy.float32)
    assert disjoint(window(base, base[first]), window(base, base[second]))


def test_random_windows():
    rng, found = random.Random(0), 0
    for _ in range(3000):
        base = numpy.zeros(rng.choice([(24,), (4, 6), (3, 4, 5)]), numpy.float32)
        views = []
        for _ in range(2):
            index = []
            for size in base.shape:
                start, stop = sorted(rng.sample(range(size + 1), 2))
                index.append(rng.choice([slice(start, stop, rng.choice([1, 2])), start % size]))
            view = base[tuple(index)]
            views.append(view.T if rng.random() < 0.2 and isinstance(view, numpy.ndarray) else numpy.asarray(view))
        if not all(numpy.shares_memory(v, base) or not v.size for v in views):
            continue
        if disjoint(window(base, views[0]), window(base, views[1])):
            found += 1
            assert not meets(base, *views)
    assert found > 500
