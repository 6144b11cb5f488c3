"""Results whose size depends on the data, against NumPy: places, masks, counts, distinct elements."""

import numpy
import pytest

import flambeau as fl

SHAPES = [(7,), (5000,), (100, 70), (3, 1, 50, 33), (0, 3), (2, 0)]


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nonzero(shape, dtype):
    rng = numpy.random.default_rng(0)
    array = (rng.normal(size=shape) * (rng.random(shape) > 0.5)).astype(dtype)
    x = fl.tensor(array)
    numpy.testing.assert_array_equal(fl.nonzero(x).numpy(), numpy.argwhere(array))
    numpy.testing.assert_array_equal(fl.argwhere(x).numpy(), numpy.argwhere(array))
    for got, want in zip(fl.nonzero(x, as_tuple=True), numpy.nonzero(array), strict=True):
        numpy.testing.assert_array_equal(got.numpy(), want)
    numpy.testing.assert_array_equal(x[x != 0].numpy(), array[array != 0])


def test_nonzero_of_numbers_and_strided_masks():
    assert fl.nonzero(fl.tensor(3.0)).shape == (1, 0) and fl.nonzero(fl.tensor(0)).shape == (0, 0)
    mask = numpy.random.default_rng(1).random((90, 80)) > 0.4
    x = fl.tensor(mask)
    numpy.testing.assert_array_equal(x.t().nonzero().numpy(), numpy.argwhere(mask.T))
    numpy.testing.assert_array_equal(x[3::2, 5:].nonzero().numpy(), numpy.argwhere(mask[3::2, 5:]))
    values = fl.arange(90 * 80).reshape(90, 80)
    numpy.testing.assert_array_equal(values.t().masked_select(x.t()).numpy(), values.numpy().T[mask.T])
    assert fl.nonzero_static(fl.tensor([0, 1, 1]), size=3).tolist() == [[1], [2], [-1]]
    assert fl.nonzero_static(fl.tensor([0, 1, 1]), size=1).tolist() == [[1]]


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int16"])
def test_bincount(dtype):
    array = numpy.random.default_rng(0).integers(0, 50, 70000).astype(dtype)
    numpy.testing.assert_array_equal(fl.bincount(fl.tensor(array)).numpy(), numpy.bincount(array))
    few = fl.bincount(fl.tensor(array[:100]), minlength=60)
    numpy.testing.assert_array_equal(few.numpy(), numpy.bincount(array[:100], minlength=60))
    weights = numpy.random.default_rng(1).random(70000)
    got = fl.bincount(fl.tensor(array), fl.tensor(weights)).numpy()
    numpy.testing.assert_allclose(got, numpy.bincount(array, weights), rtol=1e-12)


def test_bincount_of_nothing_and_of_too_much():
    assert fl.bincount(fl.zeros(0, dtype=fl.int64)).shape == (0,)
    assert fl.bincount(fl.zeros(0, dtype=fl.int64), minlength=2).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="non-negative"):
        fl.bincount(fl.tensor([1, -1]))


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "uint8", "float64"])
@pytest.mark.parametrize("shape", [(1,), (10,), (3000,), (20, 30), (0,), (40000,)], ids=str)
def test_unique(shape, dtype):
    array = (numpy.random.default_rng(0).normal(size=shape) * 5).astype(dtype)
    got = fl.unique(fl.tensor(array), return_inverse=True, return_counts=True)
    values, inverse, counts = numpy.unique(array, return_inverse=True, return_counts=True)
    for g, w in zip(got, (values, inverse.reshape(shape), counts)):
        numpy.testing.assert_array_equal(g.numpy(), w)
    runs, where, lengths = fl.unique_consecutive(fl.tensor(array), return_inverse=True, return_counts=True)
    numpy.testing.assert_array_equal(runs.numpy()[where.numpy()], array)
    numpy.testing.assert_array_equal(numpy.repeat(runs.numpy(), lengths.numpy()), array.reshape(-1))


def test_one_hot():
    assert fl.nn.functional.one_hot(fl.tensor([1, 0, 2])).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    rows = fl.nn.functional.one_hot(fl.tensor([[1], [3]]), 5)
    assert rows.shape == (2, 1, 5) and rows.dtype is fl.int64 and rows.argmax(-1).tolist() == [[1], [3]]
