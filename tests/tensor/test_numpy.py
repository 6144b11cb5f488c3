"""Tensors and NumPy: arrays in operators and functions, conversions, the buffer protocol."""

import operator

import numpy as np
import pytest

import flambeau as fl

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.eq, operator.lt,
             operator.pow]


@pytest.mark.parametrize("function", OPERATORS, ids=lambda function: function.__name__)
def test_an_array_beside_a_tensor_is_a_tensor(function):
    numbers, array = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([3.0, 2.0, 1.0])
    tensor = fl.from_numpy(numbers)
    for got, wanted in ((function(tensor, array), function(numbers, array)),
                        (function(array, tensor), function(array, numbers))):
        assert isinstance(got, fl.Tensor)
        np.testing.assert_allclose(got.numpy(), wanted)


def test_arrays_promote_as_tensors_do_and_numbers_as_numbers():
    x = fl.ones(2)
    assert (x + np.ones(2)).dtype is fl.float64 and (np.arange(2) * x).dtype is fl.float32
    assert (np.float64(2) * x).dtype is fl.float32 and (x * np.int64(3)).tolist() == [3, 3]
    assert (fl.arange(3) + np.arange(3)[::-1]).tolist() == [2, 2, 2]


def test_gradients_go_through_operators_with_arrays():
    x = fl.ones(2, requires_grad=True)
    (np.array([2.0, 3.0], "float32") * x).sum().backward()
    assert x.grad.tolist() == [2, 3]


def test_in_place_operators_take_arrays():
    x = fl.arange(3.0)
    x += np.ones(3)
    x *= np.array([1.0, 2.0, 3.0], "float32")
    assert x.tolist() == [1, 4, 9] and x.dtype is fl.float32


def test_numpys_functions_of_a_tensor_give_a_tensor():
    x = fl.tensor([[1.0, 4.0], [9.0, 16.0]])
    assert isinstance(np.sqrt(x), fl.Tensor) and np.sqrt(x).tolist() == [[1, 2], [3, 4]]
    assert np.multiply(np.ones(2, "float32"), x).tolist() == x.tolist()
    assert np.stack([x, x]).shape == (2, 2, 2) and float(np.mean(x)) == 7.5


def test_conversion():
    x = fl.arange(6.0).reshape(2, 3).t()
    array = np.asarray(x)
    assert array.strides == (4, 12) and array.ctypes.data == x.data_ptr()
    assert np.asarray(x, dtype="int32").dtype == np.int32
    copy = np.array(x, copy=True)
    copy[0, 0] = 5
    assert x[0, 0] == 0
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(fl.ones(2, requires_grad=True))


@pytest.mark.parametrize("name", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32",
                                  "float64"])
def test_the_buffer_is_the_tensors_memory(name):
    x = fl.from_numpy(np.arange(6).reshape(2, 3).astype(name))
    view = memoryview(x)
    assert view.shape == (2, 3) and np.asarray(view).dtype == np.dtype(name)
    assert np.asarray(view).tolist() == x.tolist()
    assert memoryview(x.t()).strides == (view.itemsize, 3 * view.itemsize)


def test_what_shows_no_buffer():
    with pytest.raises(BufferError, match="use tensor.detach"):
        memoryview(fl.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match="no such elements"):
        memoryview(fl.ones(2, dtype=fl.bfloat16))
    with pytest.raises(BufferError, match="no data"):
        memoryview(fl.ones(2, device="meta"))


def test_old_ways_to_name_a_type():
    x = fl.tensor([1.5, 2.5])
    assert x.type() == "torch.FloatTensor" and x.type("torch.LongTensor").tolist() == [1, 2]
    assert x.type(fl.DoubleTensor).dtype is x.type(fl.float64).dtype is fl.float64
    assert x.new(2, 3).shape == (2, 3) and x.long().new([1.5]).tolist() == [1]
