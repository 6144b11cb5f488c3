"""scalar_tensor, range, logspace, frombuffer, asarray, empty_permuted, complex numbers from their parts."""

import numpy as np
import pytest

import flambeau as fl


def test_numbers_and_ranges():
    assert fl.scalar_tensor(3).dtype is fl.float32 and fl.scalar_tensor(3, dtype=fl.int8).item() == 3
    assert fl.range(1, 2, 0.5).tolist() == [1, 1.5, 2] and fl.range(3).tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        fl.range(2, 1)


def test_logspace():
    np.testing.assert_allclose(fl.logspace(-2, 2, 5).numpy(), [0.01, 0.1, 1, 10, 100], rtol=1e-6)
    assert fl.logspace(0, 3, 4, base=2, dtype=fl.int64).tolist() == [1, 2, 4, 8]


def test_frombuffer_shares_memory():
    buffer = bytearray(np.arange(4, dtype="float32").tobytes())
    x = fl.frombuffer(buffer, dtype=fl.float32, offset=4, count=2)
    assert x.tolist() == [1, 2]
    x.zero_()
    assert np.frombuffer(buffer, "float32").tolist() == [0, 0, 0, 3]


@pytest.mark.parametrize("options, message", [
    ({"offset": 1}, "multiple of element size"), ({"count": 5}, "greater than actual buffer length"),
    ({"offset": 16}, "minus 1"),
])
def test_frombuffer_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        fl.frombuffer(bytearray(16), dtype=fl.float32, **options)


def test_asarray_shares_where_it_can():
    array = np.ones(3)
    assert fl.asarray(array).data_ptr() == array.ctypes.data != fl.asarray(array, copy=True).data_ptr()
    assert fl.asarray([1, 2], dtype=fl.float64).tolist() == [1.0, 2.0]
    assert fl.asarray(bytearray(8)).shape == (2,)
    with pytest.raises(ValueError, match="cannot be shared"):
        fl.asarray([1, 2], copy=False)


def test_physical_order():
    assert fl.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)


def test_complex_numbers_from_their_parts():
    z = fl.complex(fl.tensor([1.0, 2.0]), fl.tensor(3.0))
    assert z.dtype is fl.complex64 and z.tolist() == [1 + 3j, 2 + 3j]
    np.testing.assert_allclose(fl.polar(fl.tensor([2.0]), fl.tensor([np.pi / 2])).numpy(), [2j], atol=1e-6)
    with pytest.raises(RuntimeError, match="one dtype"):
        fl.complex(fl.ones(1), fl.ones(1, dtype=fl.float64))


def test_in_place_functions():
    x = fl.tensor([1.0, 4.0])
    assert fl.sqrt_(x) is x and x.tolist() == [1, 2]
    assert fl.zero_(x).tolist() == [0, 0]


def test_from_file(tmp_path):
    path = tmp_path / "numbers"
    np.arange(6, dtype="float64").tofile(path)
    private = fl.from_file(str(path), size=4, dtype=fl.float64)
    assert private.tolist() == [0, 1, 2, 3] and private.dtype is fl.float64
    private[0] = 9
    assert np.fromfile(path)[0] == 0                                 # changes stay in memory
    shared = fl.from_file(str(path), shared=True, size=6, dtype=fl.float64)
    shared.mul_(2)
    assert np.fromfile(path).tolist() == [0, 2, 4, 6, 8, 10]
    made = fl.from_file(str(tmp_path / "new"), shared=True, size=3)
    assert made.tolist() == [0, 0, 0] and (tmp_path / "new").stat().st_size == 12
    assert fl.from_file(str(path)).shape == (0,)
    with pytest.raises(RuntimeError, match="too small"):
        fl.from_file(str(path), size=7, dtype=fl.float64)
