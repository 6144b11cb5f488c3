"""Scans: running sums, products and extremes against NumPy, their order, NaN, zeros and derivatives."""

import math

import numpy
import pytest

import flambeau as fl


def table(*shape, seed=1):
    return numpy.random.default_rng(seed).uniform(-2, 2, shape)


SHAPES = [((7,), 0), ((3, 5), 1), ((4, 70), 0), ((2, 9, 130), 1), ((0, 3), 0), ((3, 0), 1)]


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_sums_and_products_along_any_axis(shape, dim):
    array = table(*shape)
    x = fl.tensor(array)
    numpy.testing.assert_allclose(x.cumsum(dim).numpy(), numpy.cumsum(array, dim), rtol=1e-13)
    numpy.testing.assert_allclose(x.cumprod(dim).numpy(), numpy.cumprod(array, dim), rtol=1e-13)


def test_integers_and_bools_run_in_int64_unless_told():
    assert fl.tensor([True, True, False]).cumsum(0).tolist() == [1, 2, 2]
    assert fl.cumsum(fl.tensor([100, 100], dtype=fl.int8), 0).tolist() == [100, 200]
    wrapped = fl.cumsum(fl.tensor([100, 100], dtype=fl.int8), 0, dtype=fl.int8)
    assert (wrapped.dtype, wrapped.tolist()) == (fl.int8, [100, -56])
    assert fl.tensor([1, 2]).cumprod(0, dtype=fl.float32).dtype is fl.float32


def test_low_precision_is_carried_wider():
    assert fl.ones(1000, dtype=fl.bfloat16).cumsum(0)[-1].item() == 1000
    x = numpy.full(100_000, 0.1, "float32")
    assert fl.tensor(x).cumsum(0)[-1].item() == pytest.approx(x.astype("float64").sum(), rel=1e-7)


def test_a_transposed_operand_and_a_number():
    array = table(4, 6)
    got = fl.tensor(array).t().cumsum(1)
    numpy.testing.assert_allclose(got.numpy(), numpy.cumsum(array.T, 1))
    assert fl.tensor(3.0).cumsum(0).item() == 3


def test_running_product_has_exact_gradients_through_zeros():
    x = fl.tensor([2.0, 0.0, 3.0, 0.0, 4.0], requires_grad=True)
    (x.cumprod(0) * fl.tensor([1.0, 2.0, 3.0, 4.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [1, 22, 0, 0, 0]          # d/dx1 = 2 * 2 + 3 * 2 * 3
    x = fl.tensor([0.0, 5.0], requires_grad=True)
    first, = fl.grad(x.cumprod(0)[1], x, create_graph=True)
    second, = fl.grad(first.sum(), x)
    assert first.tolist() == [5, 0] and second.tolist() == [1, 1]


def test_log_sum_does_not_overflow_and_starts_at_minus_infinity():
    x = fl.tensor([-math.inf, 1000.0, 1000.0, -5.0], dtype=fl.float64, requires_grad=True)
    y = fl.logcumsumexp(x, 0)
    assert y.tolist() == pytest.approx([-math.inf, 1000, 1000 + math.log(2), 1000 + math.log(2)])
    y[1:].sum().backward()
    assert x.grad.tolist() == pytest.approx([0, 2, 1, 0])
    assert fl.logcumsumexp(fl.tensor([math.inf, math.inf]), 0).tolist() == [math.inf, math.inf]


def test_extremes_take_the_last_of_equal_elements_and_keep_nan():
    values, places = fl.cummax(fl.tensor([1.0, 3.0, 2.0, 3.0, math.nan, 9.0]), 0)
    assert values.tolist()[:4] == [1, 3, 3, 3] and places.tolist() == [0, 1, 1, 3, 4, 4]
    assert all(math.isnan(v) for v in values.tolist()[4:])
    least = fl.cummin(fl.tensor([[3, 1], [2, 1]]), 0)
    assert least.values.tolist() == [[3, 1], [2, 1]] and least.indices.tolist() == [[0, 0], [1, 1]]
    assert fl.cummax(fl.tensor([False, True, False]), 0).values.tolist() == [False, True, True]


def test_gradient_of_an_extreme_goes_to_where_it_stands():
    x = fl.tensor([1.0, 3.0, 2.0], requires_grad=True)
    (x.cummax(0).values * fl.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [1, 110, 0]


def test_in_place_forms_follow_the_tape():
    x = fl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    y.cumprod_(0)
    y.sum().backward()
    assert y.tolist() == [1, 2, 6] and x.grad.tolist() == [1 + 2 + 6, 1 + 3, 2]


def test_out_and_what_is_refused():
    out = fl.empty(3, dtype=fl.int64)
    assert fl.cumsum(fl.tensor([1, 2, 3]), 0, out=out) is out and out.tolist() == [1, 3, 6]
    with pytest.raises(IndexError, match="out of range"):
        fl.ones(2).cumsum(1)
    with pytest.raises(RuntimeError, match="not floating point"):
        fl.logcumsumexp(fl.tensor([1, 2]), 0)
