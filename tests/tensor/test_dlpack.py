"""DLPack with NumPy, both ways: the same memory, kept alive as long as somebody uses it."""

import gc

import numpy as np
import pytest

import flambeau as fl
from flambeau.tensor import dlpack

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("name", DTYPES)
def test_to_numpy_and_back(name):
    tensor = fl.from_numpy(np.arange(6).reshape(2, 3).astype(name)).t()
    array = np.from_dlpack(tensor)
    assert array.dtype.name == name and array.shape == (3, 2)
    np.testing.assert_array_equal(array, tensor.numpy())
    other = fl.from_dlpack(array)
    assert other.dtype is tensor.dtype and other.data_ptr() == tensor.data_ptr() and other.stride() == tensor.stride()


def test_memory_is_shared():
    array = np.zeros((2, 4), "float32")
    tensor = fl.from_dlpack(array[:, ::2])
    tensor += 1
    assert array.tolist() == [[1, 0, 1, 0]] * 2
    back = np.from_dlpack(tensor)
    array[0, 0] = 7
    assert back[0, 0] == 7


def test_memory_lives_as_long_as_it_is_used():
    before = len(dlpack._lent)
    array = np.from_dlpack(fl.arange(1000.0))
    gc.collect()
    assert array.sum() == 499500 and len(dlpack._lent) == before + 1
    del array
    gc.collect()
    assert len(dlpack._lent) == before


def test_a_capsule_that_nobody_takes_frees_itself():
    before = len(dlpack._lent)
    capsule = fl.to_dlpack(fl.ones(3))
    assert len(dlpack._lent) == before + 1
    del capsule
    assert len(dlpack._lent) == before


def test_a_capsule_is_taken_once():
    capsule = fl.ones(3).__dlpack__()
    assert fl.from_dlpack(capsule).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="the capsule was used before"):
        fl.from_dlpack(capsule)


def test_what_cannot_be_lent_or_taken():
    with pytest.raises(BufferError, match="use tensor.detach"):
        np.from_dlpack(fl.ones(3, requires_grad=True))
    with pytest.raises(BufferError, match="no memory"):
        fl.ones(3, device="meta").__dlpack__()
    with pytest.raises(ValueError, match="negative strides"):
        fl.from_dlpack(np.arange(3)[::-1])
    with pytest.raises(TypeError, match="expected an object with __dlpack__"):
        fl.from_dlpack([1, 2])


def test_empty_zero_dimensional_and_bfloat16():
    assert tuple(fl.from_dlpack(fl.zeros(0, 3)).shape) == (0, 3)
    assert fl.from_dlpack(np.array(2.5)).item() == 2.5
    assert fl.from_dlpack(fl.full((2,), 1.5, dtype=fl.bfloat16)).dtype is fl.bfloat16
    assert fl.ones(1).__dlpack_device__() == (1, 0)


def test_a_copy_is_another_memory():
    array = np.ones(3)
    assert fl.from_dlpack(array, copy=True).data_ptr() != array.ctypes.data
