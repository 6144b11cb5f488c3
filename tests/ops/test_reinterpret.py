"""Bytes seen as another dtype, and tensors that take another shape in place."""

import numpy
import pytest

import flambeau as fl


def test_shape_in_place():
    x = fl.arange(6.0).reshape(2, 3)
    same = x.unsqueeze_(0)
    assert same is x and tuple(x.shape) == (1, 2, 3)
    x.transpose_(1, 2).squeeze_(0)
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]] and x.stride() == (1, 3)
    assert tuple(x.t_().shape) == (2, 3)


def test_shape_in_place_on_the_tape():
    leaf = fl.ones(2, 3, requires_grad=True)
    x = leaf * 2
    x.t_()
    (x * fl.arange(6.0).reshape(3, 2)).sum().backward()
    assert leaf.grad.tolist() == [[0, 4, 8], [2, 6, 10]]
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.t_()


def test_resize():
    x = fl.arange(6.0)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    x.resize_(9)
    assert x[:4].tolist() == [0, 1, 2, 3] and tuple(x.shape) == (9,)
    assert tuple(x.resize_as_(fl.ones(2, 1)).shape) == (2, 1)
    with pytest.raises(RuntimeError, match="require grad"):
        fl.ones(2, requires_grad=True).resize_(1)


def test_view_as_another_dtype():
    x = fl.tensor([[1.0, -2.0], [0.5, 3.0]])
    numpy.testing.assert_array_equal(x.view(fl.int32).numpy(), x.numpy().view("int32"))
    numpy.testing.assert_array_equal(x.view(fl.uint8).numpy(), x.numpy().view("uint8"))
    assert tuple(x.view(fl.float64).shape) == (2, 1)
    x.view(fl.int32)[0, 0] = 0
    assert x[0, 0] == 0
    with pytest.raises(RuntimeError, match="divisible"):
        fl.ones(3).view(fl.float64)


def test_complex_parts_are_views():
    pairs = fl.arange(6.0).reshape(3, 2)
    z = fl.view_as_complex(pairs)
    numpy.testing.assert_array_equal(z.numpy(), [1j, 2 + 3j, 4 + 5j])
    fl.imag(z).zero_()
    assert pairs.tolist() == [[0, 0], [2, 0], [4, 0]]
    assert fl.view_as_real(z).tolist() == pairs.tolist()
    assert fl.real(pairs) is pairs
    with pytest.raises(RuntimeError, match="non-complex"):
        fl.imag(pairs)
