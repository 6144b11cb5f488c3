"""Creation: dtypes, shapes, ranges, conversion from Python and NumPy."""

import numpy
import pytest

import flambeau as fl


@pytest.mark.parametrize("data, dtype, shape", [
    (1, "int64", ()), (1.5, "float32", ()), (True, "bool", ()), ([1, 2], "int64", (2,)),
    ([1, 2.5], "float32", (2,)),
    ([True, False], "bool", (2,)), ([True, 2], "int64", (2,)), ([], "float32", (0,)),
    ([[]], "float32", (1, 0)),
    ([[1], [2]], "int64", (2, 1)), ((1, 2), "int64", (2,)), (range(3), "int64", (3,)),
    (numpy.float32(1), "float32", ()), (numpy.float64(1), "float64", ()),
    (numpy.ones(2), "float64", (2,)), (numpy.int16(1), "int16", ()), ([numpy.float32(1), 2], "float32", (2,)),
    ([numpy.ones(2), numpy.ones(2)], "float64", (2, 2)), (numpy.zeros((2, 0), "int32"), "int32", (2, 0)),
    (numpy.arange(6).reshape(2, 3).T, "int64", (3, 2)), (1 << 40, "int64", ()), (1j, "complex64", ()),
])
def test_tensor_of_python_and_numpy_data(data, dtype, shape):
    made = fl.tensor(data)
    assert made.dtype.name == dtype and made.shape == shape and made.is_leaf and made.is_contiguous()
    numpy.testing.assert_array_equal(made.numpy(), numpy.array(data, dtype))


def test_tensor_of_tensors():
    a = fl.tensor([1.0, 2.0])
    assert fl.tensor([a[0], a[1]]).tolist() == [1.0, 2.0]
    copy = fl.tensor(a)
    copy[0] = 9
    assert a.tolist() == [1.0, 2.0]
    assert fl.tensor(a, dtype=fl.int64).dtype is fl.int64


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                                   "float32",
                                   "float64", "complex64", "complex128"])
def test_every_dtype_is_stored(dtype):
    dtype = fl.types.dtype.by_name(dtype)
    for made in (fl.zeros(2, 3, dtype=dtype), fl.ones(2, 3, dtype=dtype),
                 fl.tensor([[1, 0, 1]] * 2, dtype=dtype),
                 fl.full((2, 3), 1, dtype=dtype)):
        assert made.dtype is dtype and made.shape == (2, 3) and made.element_size() == dtype.itemsize
        assert made.clone().tolist() == made.tolist()
        assert made[1, 2].item() in (0, 1)


def test_bad_data():
    for data, kind in (([[1], [2, 3]], ValueError), ("a", (TypeError, ValueError)),
                       ([None], (TypeError, RuntimeError, ValueError))):
        with pytest.raises(kind):
            fl.tensor(data)


@pytest.mark.parametrize("size", [(2, 3), ((2, 3),), ([2, 3],), (fl.Size([2, 3]),), (numpy.int64(2), 3)])
def test_sizes_in_every_spelling(size):
    for make in (fl.zeros, fl.ones, fl.empty, fl.rand, fl.randn):
        assert make(*size).shape == (2, 3)


def test_bad_sizes():
    with pytest.raises(RuntimeError, match="negative"):
        fl.zeros(-1)
    with pytest.raises((TypeError, AttributeError)):
        fl.zeros(2.5)
    assert fl.zeros(()).shape == () and fl.zeros(0, 3).numel() == 0


def test_full_takes_the_dtype_of_its_value():
    assert fl.full((2,), 3).dtype is fl.int64 and fl.full((2,), 3.0).dtype is fl.float32
    assert fl.full((2,), True).dtype is fl.bool and fl.full((2,), 3, dtype=fl.float16).tolist() == [3.0, 3.0]


def test_likes_keep_dtype_and_device():
    x = fl.tensor([[1, 2]], dtype=fl.int32)
    assert fl.zeros_like(x).dtype is fl.int32 and fl.ones_like(x).tolist() == [[1, 1]]
    assert fl.full_like(x, 2.7).tolist() == [[2, 2]]
    assert fl.empty_like(x, dtype=fl.float32).dtype is fl.float32
    meta = fl.zeros(2, 3, device="meta")
    assert meta.is_meta and fl.ones_like(meta).is_meta and meta.shape == (2, 3)
    assert x.new_zeros(2).dtype is fl.int32 and x.new_tensor([1.5]).tolist() == [1]
    assert x.new_full((1,), 7).tolist() == [7]


@pytest.mark.parametrize("bounds", [(5,), (1, 5), (1, 5, 2), (5, 0, -2), (0,), (0, 1, 0.1), (1, 2.5, 0.5),
                                    (5.0,), (-1, 1, 0.3)])
def test_arange(bounds):
    want = numpy.arange(*bounds)
    made = fl.arange(*bounds)
    assert made.dtype is (fl.int64 if all(isinstance(b, int) for b in bounds) else fl.float32)
    numpy.testing.assert_allclose(made.numpy(), want, rtol=1e-6)


def test_arange_spellings_and_errors():
    assert fl.arange(end=3).tolist() == [0, 1, 2] and fl.arange(1, end=4, step=2).tolist() == [1, 3]
    assert fl.arange(2.5, dtype=fl.int64).tolist() == [0, 1]
    assert fl.arange(3, dtype=fl.float64).dtype is fl.float64
    with pytest.raises(RuntimeError, match="nonzero"):
        fl.arange(1, 5, 0)
    with pytest.raises(RuntimeError, match="step sign"):
        fl.arange(5, 1)


def test_linspace_and_eye():
    numpy.testing.assert_allclose(fl.linspace(3, -3, 7).numpy(), numpy.linspace(3, -3, 7))
    assert fl.linspace(0, 1, 1).tolist() == [0.0]
    assert fl.linspace(0, 10, 5, dtype=fl.int64).tolist() == [0, 2, 5, 7, 10]
    assert fl.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert fl.eye(2, dtype=fl.bool).tolist() == [[True, False], [False, True]]


def test_from_numpy_shares_and_refuses():
    array = numpy.arange(6.0).reshape(2, 3)
    shared = fl.from_numpy(array)
    shared[0, 0] = 42
    array[0, 1] = 43
    assert array[0, 0] == 42 and shared[0, 1].item() == 43
    assert fl.from_numpy(array.T).stride() == (1, 3)
    assert fl.from_numpy(array[:, ::2]).tolist() == array[:, ::2].tolist()
    with pytest.raises(ValueError, match="negative strides"):
        fl.from_numpy(array[::-1])
    with pytest.raises(TypeError):
        fl.from_numpy([1, 2])
    with pytest.raises(TypeError):
        fl.from_numpy(numpy.array(["a"]))
    with pytest.raises(ValueError, match="bytes"):
        fl.from_numpy(array.astype(">f8"))


def test_as_tensor_copies_only_where_it_must():
    array = numpy.arange(3)
    assert fl.as_tensor(array).data_ptr() == array.ctypes.data
    assert fl.as_tensor(array, dtype=fl.float32).dtype is fl.float32
    x = fl.ones(2)
    assert fl.as_tensor(x) is x and fl.as_tensor([1, 2]).tolist() == [1, 2]


def test_requires_grad_and_devices():
    assert fl.zeros(2, requires_grad=True).requires_grad and fl.tensor([1.0], requires_grad=True).is_leaf
    assert fl.rand(2, requires_grad=True).is_leaf and fl.zeros(1, device="cpu").device.type == "cpu"
    with pytest.raises(RuntimeError, match="cuda"):
        fl.zeros(2, device="cuda")
    with pytest.raises(RuntimeError, match="floating point"):
        fl.zeros(2, dtype=fl.int64, requires_grad=True)


def test_cat_and_stack():
    a, b = fl.tensor([[1, 2]]), fl.tensor([[3, 4]])
    assert fl.cat([a, b]).tolist() == [[1, 2], [3, 4]] and fl.cat((a, b), 1).tolist() == [[1, 2, 3, 4]]
    assert fl.cat([a, b.float()]).dtype is fl.float32 and fl.cat([fl.tensor([]), fl.ones(2)]).shape == (2,)
    assert fl.stack([a, b]).shape == (2, 1, 2) and fl.stack([a, b], -1).tolist() == [[[1, 3], [2, 4]]]
    for bad in (lambda: fl.cat([]), lambda: fl.cat([a, fl.ones(2, 3)]), lambda: fl.stack([a, fl.ones(2)]),
                lambda: fl.cat([fl.tensor(1), fl.tensor(2)])):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            bad()
    x, y = fl.ones(2, requires_grad=True), fl.ones(3, requires_grad=True)
    (fl.cat([x, y]) * fl.arange(5)).sum().backward()
    assert x.grad.tolist() == [0, 1] and y.grad.tolist() == [2, 3, 4]
