"""Operands that are consecutive along different axes run tile by tile: the same numbers as NumPy's."""

import itertools

import numpy
import pytest

import flambeau as fl

SHAPES = ((65, 130), (33, 31), (200, 64), (3, 100, 70), (70, 3, 100), (2, 64, 40, 64))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "bool"])
def test_transposed_operands(shape, dtype):
    rng = numpy.random.default_rng(0)
    array = (rng.normal(size=shape) * 50).astype(dtype)
    for order in itertools.permutations(range(len(shape))):
        turned = fl.from_numpy(array).permute(*order)
        assert numpy.array_equal(turned.contiguous().numpy(), array.transpose(order)), order
        if dtype != "bool":
            other = (rng.normal(size=array.transpose(order).shape) * 50).astype(dtype)
            assert numpy.array_equal((turned + fl.from_numpy(other)).numpy(), array.transpose(order) + other), order


def test_two_turned_operands_and_a_broadcast_one():
    rng = numpy.random.default_rng(1)
    a, b, row = (rng.normal(size=s).astype("float32") for s in ((90, 70), (90, 70), (90,)))
    got = fl.addcmul(fl.from_numpy(a).t(), fl.from_numpy(b).t(), fl.from_numpy(row))
    assert numpy.allclose(got.numpy(), a.T + b.T * row, rtol=1e-6, atol=1e-6)


def test_in_place_on_a_transposed_target():
    a = numpy.arange(64 * 80, dtype="float32").reshape(64, 80)
    x = fl.from_numpy(a.copy())
    x.t().mul_(fl.full((80, 64), 2.0))
    assert numpy.array_equal(x.numpy(), a * 2)
