"""Mathematical functions, activations and comparisons: promotion, edges and messages."""

import math

import numpy
import pytest

from flambeau.ops import activation, compare, mathematics
from flambeau.testing.arrays import to_array, to_tensor
from flambeau.types.dtype import bool_, float16, float32, float64, int64, uint8


def tensor(values, dtype="float32"):
    return to_tensor(numpy.array(values, dtype))


def test_integers_and_bools_become_the_default_dtype():
    for dtype in ("bool", "uint8", "int64"):
        assert mathematics.sin(tensor([0, 1], dtype)).dtype is float32
    assert mathematics.exp(tensor([0, 1], "float16")).dtype is float16
    assert mathematics.atan2(tensor([1, 2], "int64"), 2.0).dtype is float32
    assert to_array(mathematics.sqrt(tensor([4, 9], "int64"))).tolist() == [2, 3]


def test_promotion_of_two_operands():
    assert mathematics.hypot(tensor([3.0]), tensor([4.0], "float64")).dtype is float64
    assert compare.eq(tensor([1], "int64"), tensor([1.0])).dtype is bool_
    assert compare.bitwise_and(tensor([255], "uint8"), tensor([3], "int64")).dtype is int64
    assert compare.bitwise_left_shift(tensor([1], "uint8"), 7).dtype is uint8


def test_comparison_is_made_in_the_common_dtype():
    assert to_array(compare.lt(tensor([1], "int64"), 1.5)).tolist() == [True]
    bools = tensor([True, False], "bool")
    assert to_array(compare.eq(bools, tensor([1, 2], "int64"))).tolist() == [True, False]
    assert to_array(compare.gt(bools, tensor([False, True], "bool"))).tolist() == [True, False]


@pytest.mark.parametrize("function", [compare.bitwise_and, compare.bitwise_or, compare.bitwise_xor])
def test_bits_of_floats_are_refused(function):
    with pytest.raises(RuntimeError, match=r"not defined for this dtype: got \S*float32(.|\n)*logical_and"):
        function(tensor([1.0]), tensor([2.0]))


def test_shifts_are_for_integers():
    with pytest.raises(RuntimeError, match=r"got \S*bool, wanted an integer dtype(.|\n)*x.long\(\)"):
        compare.bitwise_left_shift(tensor([True], "bool"), tensor([True], "bool"))
    values, counts = tensor([-3, -3, 3], "int32"), tensor([40, -1, 40], "int32")
    assert to_array(compare.bitwise_right_shift(values, counts)).tolist() == [-1, -1, 0]
    assert to_array(compare.bitwise_left_shift(values, counts)).tolist() == [0, 0, 0]


VANISHING = [activation.gelu, activation.silu, activation.mish, activation.hardswish]


@pytest.mark.parametrize("function", VANISHING)
def test_activations_vanish_at_minus_infinity(function):
    assert to_array(function(tensor([-math.inf]))).tolist() == [0.0]
    assert math.isnan(to_array(function(tensor([math.nan])))[0])


def test_activations_want_floating_point():
    with pytest.raises(RuntimeError, match=r"\[gelu\] the operands are not floating point(.*)got \S*int64"):
        activation.gelu(tensor([1], "int64"))


def test_attributes():
    x = tensor([-2.0, 2.0])
    assert to_array(activation.leaky_relu(x, 0.5)).tolist() == [-1.0, 2.0]
    assert to_array(activation.leaky_relu(x, negative_slope=0.25)).tolist() == [-0.5, 2.0]
    assert to_array(activation.hardtanh(x, -1.0, 1.5)).tolist() == [-1.0, 1.5]
    assert to_array(mathematics.addcmul(x, x, x, value=-0.5)).tolist() == [-4.0, 0.0]
    assert to_array(mathematics.addcdiv(x, x, x, value=3)).tolist() == [1.0, 5.0]
    assert to_array(mathematics.lerp(x, 10.0, 1.0)).tolist() == [10.0, 10.0]


def test_no_overflow_on_the_way():
    length = to_array(mathematics.hypot(tensor([3e38]), tensor([1e38])))[0]
    assert length == pytest.approx(3.1623e38, rel=1e-3)
    assert to_array(mathematics.logaddexp(tensor([1000.0]), tensor([1000.0])))[0] == pytest.approx(1000.6931)
    assert to_array(activation.softplus(tensor([1000.0])))[0] == 1000.0
    assert to_array(activation.log_sigmoid(tensor([-1000.0])))[0] == -1000.0


def test_results_keep_the_dtype_of_the_elements():
    import flambeau as fl
    whole = fl.tensor([1, 2])
    assert fl.addcmul(whole, whole, whole, value=-1.5).tolist() == [0, -2]
    assert whole.clone().addcmul_(whole, whole, value=2.9).tolist() == [3, 10]
    assert fl.ldexp(fl.ones(2, dtype=fl.float16), whole).dtype is fl.float16
    assert [fl.pow(fl.tensor([True, False]), e).tolist() for e in (True, False)] == [[True, False], [True, True]]


def test_any_and_all_over_no_axes_ask_each_element():
    import flambeau as fl
    x = fl.tensor([[0.0, 2.0]])
    for _ in range(2):
        assert x.any(dim=()).tolist() == x.all(dim=()).tolist() == [[False, True]]
        assert x.any().item() is True and x.sum(dim=()).item() == 2.0
