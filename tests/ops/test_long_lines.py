"""Long lines, which all threads share: against NumPy, and the same bits for one thread and for two."""

import numpy
import pytest

import flambeau as fl
from flambeau.runtime._core import get_num_threads, set_num_threads

SIZE = 70001


@pytest.fixture
def each_number_of_threads():
    """Runs a function with 1 and with 2 threads: equal bits, which are returned."""
    before = get_num_threads()

    def run(function):
        results = []
        for count in (1, 2):
            set_num_threads(count)
            results.append([t.numpy() for t in function()])
        for one, two in zip(*results):
            assert one.tobytes() == two.tobytes()
        return results[0]

    yield run
    set_num_threads(before)


def line(dtype, seed=0):
    rng = numpy.random.default_rng(seed)
    array = rng.normal(size=SIZE) * 50
    if dtype.startswith("float"):
        array[rng.integers(0, SIZE, 300)] = numpy.nan
        array[rng.integers(0, SIZE, 300)] = numpy.inf
        array[rng.integers(0, SIZE, 2000)] = rng.choice([0.0, -0.0], 2000)
    with numpy.errstate(invalid="ignore"):
        return array.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int16", "uint8", "bool"])
def test_sorts(dtype, each_number_of_threads):
    array = line(dtype)
    x = fl.tensor(array)
    places = numpy.argsort(array, kind="stable")
    back = SIZE - 1 - numpy.argsort(array[::-1], kind="stable")[::-1]
    for descending, want in ((False, places), (True, back)):
        values, indices = each_number_of_threads(lambda: x.sort(0, descending))
        numpy.testing.assert_array_equal(indices, want)
        numpy.testing.assert_array_equal(values, array[want])
        for k in (3, 100, 30000):
            indices = each_number_of_threads(lambda: x.topk(k, 0, descending))[1]
            numpy.testing.assert_array_equal(indices, want[:k])
    for k in (1, 777, SIZE // 2, SIZE):
        values, index = each_number_of_threads(lambda: x.kthvalue(k))
        assert index == places[k - 1]
        numpy.testing.assert_array_equal(values, array[index])


def test_strided_lines():
    array = numpy.random.default_rng(2).normal(size=(40000, 3))
    x = fl.tensor(array)
    numpy.testing.assert_array_equal(x.sort(0).values.numpy(), numpy.sort(array, 0))
    numpy.testing.assert_array_equal(x.t()[:, 7::2].sort(1).values.numpy(), numpy.sort(array.T[:, 7::2], 1))
    numpy.testing.assert_array_equal(x.median(0).values.numpy(), numpy.sort(array, 0)[19999])
    numpy.testing.assert_allclose(x.cumsum(0).numpy(), numpy.cumsum(array, 0), rtol=1e-9, atol=1e-9)
    numpy.testing.assert_allclose(x.t().cumsum(1).numpy(), numpy.cumsum(array.T, 1), rtol=1e-9, atol=1e-9)


def test_ties_keep_their_order():
    x = fl.zeros(SIZE)
    x[5] = 1
    want = [*(i for i in range(SIZE) if i != 5), 5]
    assert x.argsort().tolist() == want
    assert x.topk(100, largest=False).indices.tolist() == want[:100]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scans(dtype, each_number_of_threads):
    rng = numpy.random.default_rng(1)
    array = (rng.normal(size=(2, SIZE)) * 10.0 ** rng.integers(-3, 4, (2, SIZE))).astype(dtype)
    x, exact = fl.tensor(array), numpy.cumsum(array.astype(numpy.longdouble), 1)
    total, = each_number_of_threads(lambda: [x.cumsum(1)])
    error = abs(total - exact).max() / abs(array).cumsum(1).max()
    assert error < numpy.finfo(dtype).eps
    alone = each_number_of_threads(lambda: [x[1].cumsum(0)])[0]
    assert alone.tobytes() == total[1].tobytes()                # the order depends on the size only
    factor = 1 + array / 1e7
    product, = each_number_of_threads(lambda: [fl.tensor(factor).cumprod(1)])
    numpy.testing.assert_allclose(product, numpy.cumprod(factor.astype("float64"), 1), rtol=1e-5)
    best, place = each_number_of_threads(lambda: x.cummax(1))
    numpy.testing.assert_array_equal(best, numpy.maximum.accumulate(array, 1))
    numpy.testing.assert_array_equal(numpy.take_along_axis(array, place, 1), best)
    logs, = each_number_of_threads(lambda: [x[0].logcumsumexp(0)])
    numpy.testing.assert_allclose(logs, numpy.logaddexp.accumulate(array[0].astype("float64")), rtol=1e-5)


def test_gradient_of_a_long_sum():
    x = fl.ones(SIZE, dtype=fl.float64, requires_grad=True)
    (x.cumsum(0) * fl.arange(SIZE)).sum().backward()
    want = numpy.cumsum(numpy.arange(SIZE)[::-1].astype("float64"))[::-1]
    numpy.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("inner", [1, 2, 5, 16])
def test_sums_by_index_keep_the_order(inner, each_number_of_threads):
    rng = numpy.random.default_rng(3)
    target = rng.normal(size=(50, inner)).astype("float32")
    source = (rng.normal(size=(4000, inner)) * 10.0 ** rng.integers(-3, 4, (4000, 1))).astype("float32")
    index = rng.integers(0, 50, 4000)
    want = target.copy()
    numpy.add.at(want, index, source)                           # one after the other, in float32
    x, i, s = fl.tensor(target), fl.tensor(index), fl.tensor(source)
    got, = each_number_of_threads(lambda: [x.index_add(0, i, s)])
    assert got.tobytes() == want.tobytes()
    wide = fl.tensor(numpy.repeat(index[:, None], inner, 1))
    got, = each_number_of_threads(lambda: [x.scatter_add(0, wide, s)])
    assert got.tobytes() == want.tobytes()
    got, = each_number_of_threads(lambda: [x.t().scatter_add(1, wide.t(), s.t()).t().contiguous()])
    assert got.tobytes() == want.tobytes()
    w = x.clone().requires_grad_(True)
    fl.nn.functional.embedding(i, w).backward(s)
    want = numpy.zeros_like(target)
    numpy.add.at(want, index, source)
    assert w.grad.numpy().tobytes() == want.tobytes()
