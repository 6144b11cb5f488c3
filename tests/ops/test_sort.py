"""Sorting, what is chosen by rank, places in sorted sequences and distinct elements, against NumPy."""

import math

import numpy
import pytest

import flambeau as fl

NAN = math.nan


def table(*shape):
    return numpy.random.default_rng(2).uniform(-2, 2, shape)


def test_sorted_values_and_indices():
    array = table(3, 40, 2)
    values, indices = fl.tensor(array).sort(1)
    numpy.testing.assert_array_equal(values.numpy(), numpy.sort(array, 1))
    numpy.testing.assert_array_equal(numpy.take_along_axis(array, indices.numpy(), 1), values.numpy())
    numpy.testing.assert_array_equal(fl.msort(fl.tensor(array)).numpy(), numpy.sort(array, 0))
    down = fl.sort(fl.tensor(array), dim=1, descending=True)
    numpy.testing.assert_array_equal(down.values.numpy(), numpy.sort(array, 1)[:, ::-1])


def test_equal_elements_keep_their_order_both_ways():
    x = fl.tensor([1, 0, 1, 0, 1])
    assert fl.argsort(x).tolist() == [1, 3, 0, 2, 4]
    assert fl.argsort(x, descending=True).tolist() == [0, 2, 4, 1, 3]
    assert fl.tensor([True, False, True]).argsort(stable=True).tolist() == [1, 0, 2]


def test_nan_is_the_largest():
    x = fl.tensor([2.0, NAN, 1.0])
    assert x.sort().indices.tolist() == [2, 0, 1]
    assert x.sort(descending=True).indices.tolist() == [1, 0, 2]
    assert x.topk(1).indices.tolist() == [1]


@pytest.mark.parametrize("dtype", [fl.bfloat16, fl.float16, fl.uint8])
def test_narrow_dtypes(dtype):
    assert fl.tensor([3, 1, 2]).to(dtype).sort().values.tolist() == [1, 2, 3]


def test_gradient_goes_back_to_where_values_stood():
    x = fl.tensor([3.0, 1.0, 2.0], dtype=fl.float64, requires_grad=True)
    y = (x.sort().values * fl.tensor([1.0, 2.0, 3.0])).pow(2).sum()
    first, = fl.grad(y, x, create_graph=True)
    second, = fl.grad(first.sum(), x)
    assert first.tolist() == [54, 2, 16] and second.tolist() == [18, 2, 8]
    x = fl.tensor([[1.0, 5.0, 3.0]], requires_grad=True)
    (x.topk(2).values.sum() + 10 * x.kthvalue(1).values.sum() + 100 * x.median(1).values.sum()).backward()
    assert x.grad.tolist() == [[10, 1, 101]]


def test_largest_of_many():
    array = table(2, 5000)
    values, indices = fl.tensor(array).topk(3)
    numpy.testing.assert_array_equal(values.numpy(), numpy.sort(array, 1)[:, :-4:-1])
    numpy.testing.assert_array_equal(numpy.take_along_axis(array, indices.numpy(), 1), values.numpy())
    least = fl.topk(fl.tensor(array), 2, largest=False)
    numpy.testing.assert_array_equal(least.values.numpy(), numpy.sort(array, 1)[:, :2])


def test_medians():
    x = fl.tensor([[4.0, 1.0, 3.0, 2.0], [NAN, 7.0, NAN, 5.0]])
    assert x[0].median().item() == 2 and math.isnan(x.median().item()) and x.nanmedian().item() == 3
    values, indices = x.median(1)
    assert values[0].item() == 2 and math.isnan(values[1].item()) and indices.tolist() == [3, 0]
    kept = x.nanmedian(dim=1, keepdim=True)
    assert kept.values.tolist() == [[2], [5]] and kept.indices.tolist() == [[3], [3]]
    assert math.isnan(fl.zeros(0).median().item())


def test_kth_and_most_frequent():
    x = fl.tensor([[3, 1, 2], [9, 9, 4]])
    assert fl.kthvalue(x, 2).values.tolist() == [2, 9]
    assert fl.kthvalue(x, 1, 0, True).indices.tolist() == [[0, 0, 0]]
    assert fl.mode(fl.tensor([1, 2, 2, 1, 3])).indices.item() == 3      # 1 and 2 twice: 1, its last place
    assert fl.mode(x).values.tolist() == [1, 9]


def test_what_is_refused():
    x = fl.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="out of range"):
        x.topk(3)
    with pytest.raises(RuntimeError, match="out of range"):
        x.kthvalue(0)
    with pytest.raises(IndexError, match="no elements"):
        fl.zeros(2, 0).median(1)
    with pytest.raises(IndexError, match="out of range"):
        x.sort(1)


def test_out():
    values, indices = fl.empty(0), fl.empty(0, dtype=fl.int64)
    fl.sort(fl.tensor([2.0, 1.0]), out=(values, indices))
    assert values.tolist() == [1, 2] and indices.tolist() == [1, 0]
    assert fl.argsort(fl.tensor([2.0, 1.0]), out=indices) is indices


def test_places_in_sorted_sequences():
    sequence = fl.tensor([1, 3, 5])
    assert fl.searchsorted(sequence, 3).item() == 1
    assert fl.searchsorted(sequence, fl.tensor([[3, 6]]), right=True).tolist() == [[2, 3]]
    assert fl.searchsorted(sequence, fl.tensor([3]), side="right", out_int32=True).dtype is fl.int32
    lines = fl.tensor([[1.0, 3.0], [4.0, 2.0]])
    sorter = lines.argsort(1)
    assert fl.searchsorted(lines, fl.tensor([[3.0], [3.0]]), sorter=sorter).tolist() == [[1], [1]]
    assert fl.bucketize(fl.tensor([3, 6, 9]), fl.tensor([1, 3, 5, 7])).tolist() == [1, 3, 4]
    with pytest.raises(RuntimeError, match="same dtype"):
        fl.searchsorted(sequence, fl.tensor([1.0]))
    with pytest.raises(RuntimeError, match="opposites"):
        fl.searchsorted(sequence, 1, side="left", right=True)


def test_distinct_elements():
    x = fl.tensor([[3, 1], [1, 2]])
    values, inverse, counts = fl.unique(x, return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 3], [[2, 0], [0, 1]], [2, 1, 1])
    rows, which = fl.tensor([[1, 2], [0, 1], [1, 2]]).unique(dim=0, return_inverse=True)
    assert rows.tolist() == [[0, 1], [1, 2]] and which.tolist() == [1, 0, 1]
    assert len(fl.unique(fl.tensor([NAN, 1.0, NAN]))) == 3                  # NaN equals nothing
    x = fl.tensor([1, 1, 2, 2, 1])
    runs, which, lengths = fl.unique_consecutive(x, return_inverse=True, return_counts=True)
    assert (runs.tolist(), which.tolist(), lengths.tolist()) == ([1, 2, 1], [0, 0, 1, 1, 2], [2, 2, 1])
    assert fl.unique_consecutive(fl.zeros(2, 0, 3), dim=1).shape == (2, 0, 3)


DTYPES = ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, dim", [((1,), 0), ((8,), 0), ((9,), 0), ((3, 100), 1), ((70, 2, 3), 0)])
def test_order_in_every_dtype_and_layout(dtype, shape, dim):
    array = (numpy.random.default_rng(5).normal(size=shape) * 20).astype(dtype)     # with equal elements
    up = numpy.argsort(array, axis=dim, kind="stable")
    back = numpy.argsort(numpy.flip(array, dim), axis=dim, kind="stable")
    down = array.shape[dim] - 1 - numpy.flip(back, dim)
    x = fl.tensor(array)
    for descending, places in ((False, up), (True, down)):
        values, indices = x.sort(dim, descending)
        numpy.testing.assert_array_equal(indices.numpy(), places)
        numpy.testing.assert_array_equal(values.numpy(), numpy.take_along_axis(array, places, dim))
        for k in {0, 1, min(5, shape[dim]), shape[dim]}:
            best = x.topk(k, dim, descending)
            numpy.testing.assert_array_equal(best.indices.numpy(), numpy.take(places, range(k), dim))


def test_zeros_of_either_sign_are_equal():
    x = fl.tensor([0.0, -0.0, -1.0, 0.0])
    assert x.sort().indices.tolist() == [2, 0, 1, 3]
    assert [math.copysign(1, v) for v in x.sort().values.tolist()] == [-1, 1, -1, 1]


def test_extreme_integers():
    lowest, highest = -(1 << 63), (1 << 63) - 1
    x = fl.tensor([highest, 0, lowest, highest])
    assert x.sort().indices.tolist() == [2, 1, 0, 3]
    assert x.sort(descending=True).indices.tolist() == [0, 3, 1, 2]
