"""Numbers become tensors without a kernel for each value."""

import math

import pytest

import flambeau as fl
from flambeau.compiler import objects


@pytest.mark.parametrize("make", [
    lambda i: fl.tensor(i + 0.37), lambda i: fl.tensor(1000 + i), lambda i: fl.full((2, 3), i + 0.5),
    lambda i: fl.zeros(3).fill_(i + 0.25), lambda i: fl.zeros(3, dtype=fl.bfloat16).fill_(i + 0.25),
    lambda i: fl.searchsorted(fl.arange(5), 100 + i), lambda i: fl.quantile(fl.arange(5.0), i / 10)],
    ids=["float", "int", "full", "fill_", "bfloat16", "searchsorted", "quantile"])
def test_a_new_value_compiles_nothing(make):
    make(0)
    make(1)
    before = objects.statistics()
    for i in range(2, 6):
        make(i)
    assert objects.statistics() == before


@pytest.mark.parametrize("value, dtype, want", [
    (-1, fl.uint8, 255), (2.7, fl.int64, 2), (-2.7, fl.int32, -2), (2, fl.bool, True),
    (0.0, fl.bool, False), (True, fl.float32, 1.0), (math.inf, fl.float16, math.inf),
    (2 ** 64 - 1, fl.uint64, 2 ** 64 - 1), (0.1, fl.bfloat16, 0.10009765625),
    (1 / 3, fl.float32, 0.3333333432674408)])
def test_rounded_or_wrapped_to_the_dtype(value, dtype, want):
    made = fl.tensor(value, dtype=dtype)
    assert made.reshape(1).tolist() == [want] and made.dtype is dtype and made.ndim == 0
    assert fl.full((2,), value, dtype=dtype).tolist() == [want, want]


@pytest.mark.parametrize("value, dtype", [(1e300, fl.float32), (1e6, fl.float16)])
def test_a_tensor_of_data_rounds_to_infinity_and_a_filled_one_refuses(value, dtype):
    assert fl.tensor(value, dtype=dtype).item() == math.inf
    with pytest.raises(RuntimeError, match="without overflow"):
        fl.full((2,), value, dtype=dtype)


@pytest.mark.parametrize("value", [2 ** 64 - 1, 2 ** 63, 2 ** 63 - 1, 0])
def test_large_uint64_come_back(value):
    x = fl.tensor(value, dtype=fl.uint64)
    assert x.item() == int(x) == x.tolist() == value and fl.full((2,), value, dtype=fl.uint64).tolist() == [value] * 2
