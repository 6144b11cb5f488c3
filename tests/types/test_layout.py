"""Strides against NumPy's own, and the rules for symbolic sizes."""

import numpy
import pytest
from hypothesis import given, settings, strategies as st

from flambeau.types.dim import symbol
from flambeau.types.layout import (coalesce, contiguous_strides, dense_strides_like, expand_strides,
                                   is_contiguous, is_dense, storage_range, view_strides)

s, t = symbol("s"), symbol("t")


def strides_of(array):
    return tuple(stride // array.itemsize for stride in array.strides)


def offsets(shape, strides):
    return [sum(i * n for i, n in zip(index, strides)) for index in numpy.ndindex(*shape)]


SHAPES = st.lists(st.integers(1, 3), max_size=4).map(tuple)


@st.composite
def arrays(draw):
    """A NumPy view: permuted, sliced with steps of either sign, broadcast."""
    shape = draw(SHAPES)
    array = numpy.zeros(shape, numpy.int8).transpose(draw(st.permutations(range(len(shape)))))
    steps = draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=array.ndim, max_size=array.ndim))
    array = array[tuple(slice(None, None, step) for step in steps)]
    return numpy.broadcast_to(array, draw(st.sampled_from([(), (2,), (1,)])) + array.shape)


def test_contiguous():
    assert contiguous_strides(()) == ()
    assert contiguous_strides((2, 0, 3)) == (3, 3, 1)
    assert contiguous_strides((2, s, 3)) == (3 * s, 3, 1)
    assert is_contiguous((2, s, 3), (3 * s, 3, 1)) and not is_contiguous((2, s, 3), (3, 6, 1))
    assert is_contiguous((5, 1, 3), (3, 77, 1)) and is_contiguous((0, 3), (9, 9))


def test_dense():
    assert is_dense((2, s), (1, 2)) and is_dense((s, t), (1, s)) and is_dense((s, 3), (3, 1))
    assert not is_dense((2, 3), (0, 1)) and not is_dense((2, 3), (6, 2))
    assert dense_strides_like((2, 3, 4), (1, 8, 2)) == (1, 8, 2)
    assert dense_strides_like((2, 3), (0, 1)) == (3, 1)


def test_expand():
    assert expand_strides((1, s), (9, 1), (4, 3, s)) == (0, 0, 1)
    assert expand_strides((), (), (2, 3)) == (0, 0)


@settings(max_examples=80, deadline=None, database=None)
@given(arrays())
def test_questions_agree_with_numpy(array):
    shape, strides = array.shape, strides_of(array)
    assert is_contiguous(shape, strides) == array.flags.c_contiguous
    sizes, (merged,) = coalesce(shape, [strides])
    assert offsets(sizes, merged) == offsets(shape, strides)
    touched = offsets(shape, strides)
    assert storage_range(shape, strides) == (min(touched), max(touched))
    assert is_dense(shape, strides) == (sorted(touched) == list(range(touched[0], touched[0] + array.size)))


@settings(max_examples=80, deadline=None, database=None)
@given(arrays(), st.data())
def test_views_show_the_same_memory(array, data):
    rest, new = array.size, []
    while rest > 1:
        size = data.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
        new.append(size)
        rest //= size
    got = view_strides(array.shape, strides_of(array), tuple(new))
    wanted = offsets(array.shape, strides_of(array))
    if got is not None:
        assert offsets(new, got) == wanted
    else:
        trial = numpy.lib.stride_tricks.as_strided(array, array.shape, array.strides).view()
        with pytest.raises(AttributeError):
            trial.shape = tuple(new)


def test_views_of_symbolic_sizes():
    assert view_strides((s, 6), (6, 1), (s, 2, 3)) == (6, 3, 1)
    assert view_strides((s, t), (t, 1), (s * t,)) == (1,)
    assert view_strides((s * t,), (1,), (s, t)) == (t, 1)
    assert view_strides((s, t), (1, s), (s * t,)) is None
    assert view_strides((s,), (1,), (1, s, 1))[1] == 1
    assert view_strides((0, 3), (3, 1), (3, 0)) == contiguous_strides((3, 0))


def test_coalesce():
    assert coalesce((2, 3, 4), [(12, 4, 1)] * 2) == ((24,), [(1,), (1,)])
    assert coalesce((s, 1, t), [(t, 5, 1), (t, 0, 1)]) == ((s * t,), [(1,), (1,)])
    assert coalesce((2, 3), [(3, 1), (0, 1)]) == ((2, 3), [(3, 1), (0, 1)])
    assert coalesce((), [()]) == ((), [()])
    assert coalesce((1, 1), [(4, 4), (0, 0)]) == ((), [(), ()])
    assert coalesce((2, 3), []) == ((6,), [])
