"""max, min, argmax, argmin: the first of equal elements, NaN, lengths around the lanes, gradients, spellings."""

import math

import numpy
import pytest

import flambeau as fl

NAN = math.nan


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 23, 130])
@pytest.mark.parametrize("dim", [0, 1])
def test_first_of_equal_elements_at_any_length(size, dim):
    array = numpy.random.default_rng(size).integers(0, 4, (size, 3) if dim == 0 else (3, size))
    for dtype in ("int64", "float32", "uint8"):
        x = fl.tensor(array.astype(dtype))
        assert x.argmax(dim).tolist() == array.argmax(dim).tolist()
        values, indices = x.min(dim)
        assert values.tolist() == array.min(dim).tolist() and indices.tolist() == array.argmin(dim).tolist()


def test_nan_and_infinities():
    x = fl.tensor([[1.0, NAN, 9.0, NAN], [-math.inf] * 4])
    for found in (x.max(1), x.min(1)):
        assert math.isnan(found.values[0].item()) and found.indices.tolist() == [1, 0]
    assert x.argmax(0).tolist() == [0, 0, 0, 0] and fl.full((20,), math.inf).argmin().item() == 0
    assert fl.tensor([False, True]).max(0).indices.item() == 1


def test_of_all_elements_and_kept_axes():
    x = fl.tensor([[1, 5], [7, 3]])
    assert (fl.argmax(x).item(), x.argmin().item(), x.max().item(), fl.min(x).item()) == (2, 0, 7, 1)
    assert x.argmax(keepdim=True).tolist() == [[2]] and x.max(-1, True).values.tolist() == [[5], [7]]
    assert fl.tensor(4).max(0).indices.item() == 0


def test_of_two_tensors_and_out():
    x, y = fl.tensor([1, 5]), fl.tensor([3, 2])
    assert fl.max(x, y).tolist() == [3, 5] and x.min(other=y).tolist() == [1, 2]
    out = fl.empty(0, dtype=fl.int64), fl.empty(0, dtype=fl.int64)
    fl.max(x, 0, out=out)
    assert out[0].item() == 5 and out[1].item() == 1


def test_gradient_goes_to_the_one_element():
    x = fl.tensor([[1.0, 4.0, 4.0], [9.0, 2.0, 3.0]], requires_grad=True)
    (x.max(1).values * fl.tensor([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [[0, 1, 0], [10, 0, 0]]


def test_no_elements():
    with pytest.raises(IndexError, match="no elements"):
        fl.zeros(2, 0).max(1)
    with pytest.raises(IndexError, match="no elements"):
        fl.zeros(0).argmax()
    assert fl.zeros(0, 2).max(1).values.shape == (0,)
