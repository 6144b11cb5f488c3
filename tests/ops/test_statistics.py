"""Counts, histograms, quantiles, covariance, distances and tests of closeness, against NumPy."""

import math

import numpy
import pytest

import flambeau as fl

NAN = math.nan


def table(*shape, seed=4):
    return numpy.random.default_rng(seed).uniform(-2, 2, shape)


def test_counts_and_extremes():
    x = fl.tensor([[1, 0], [2, 3]])
    assert fl.count_nonzero(x).item() == 3 and x.count_nonzero(0).tolist() == [2, 1]
    assert x.count_nonzero((0, 1)).item() == 3
    least, most = fl.aminmax(x, dim=0, keepdim=True)
    assert least.tolist() == [[1, 0]] and most.tolist() == [[2, 3]]
    assert math.isnan(fl.aminmax(fl.tensor([1.0, NAN])).max.item())


def test_truth_over_several_axes_keeps_uint8():
    x = fl.tensor([[1, 0], [2, 0]], dtype=fl.uint8)
    assert x.any(0).tolist() == [1, 0] and x.any(0).dtype is fl.uint8
    assert fl.all(x.float(), dim=(0, 1)).item() is False and fl.ones(2, 2).all(dim=(0, 1)).item() is True


def test_bincount():
    assert fl.bincount(fl.tensor([1, 2, 1]), minlength=5).tolist() == [0, 2, 1, 0, 0]
    weighted = fl.bincount(fl.tensor([1, 2, 1]), fl.tensor([1.0, 2.0, 4.0]))
    assert weighted.tolist() == [0, 5, 2] and weighted.dtype is fl.float32
    with pytest.raises(RuntimeError, match="non-negative"):
        fl.bincount(fl.tensor([-1]))


def test_histograms():
    array = table(200)
    x = fl.tensor(array)
    assert fl.histc(fl.tensor([1.0, 2.0, 1.0, 9.0, NAN]), 4, 0, 3).tolist() == [0, 2, 1, 0]
    assert fl.histc(x, 7).sum().item() == 200
    for given in ({"bins": 5}, {"bins": 4, "range": (-1.0, 1.0)}, {"bins": 3, "density": True}):
        hist, edges = fl.histogram(x, **given)
        want, places = numpy.histogram(array, **given)
        numpy.testing.assert_allclose(hist.numpy(), want)
        numpy.testing.assert_allclose(edges.numpy(), places)
    points = table(50, 2)
    hist, edges = fl.histogramdd(fl.tensor(points), [3, 4], weight=fl.ones(50, dtype=fl.float64) * 2)
    numpy.testing.assert_allclose(hist.numpy(), 2 * numpy.histogramdd(points, [3, 4])[0])
    assert [len(e) for e in edges] == [4, 5]


def test_moments_that_leave_nan_out():
    x = fl.tensor([[1.0, NAN, 4.0], [NAN, NAN, 5.0]], requires_grad=True)
    assert x.nansum(0).tolist() == [1, 0, 9] and fl.nansum(fl.tensor([1, 2])).item() == 3
    assert x.nanmean(1).tolist() == [2.5, 5]
    x.nanmean(1).sum().backward()
    assert x.grad.tolist() == [[0.5, 0, 0.5], [0, 0, 1]]


def test_spread_spellings():
    array = table(3, 5)
    x = fl.tensor(array)
    assert x.var(unbiased=False).item() == pytest.approx(array.var())
    squares = ((array - array.mean(0)) ** 2).sum(0)
    numpy.testing.assert_allclose(fl.var(x, 0, correction=0.5).numpy(), squares / 2.5)
    deviation, center = fl.std_mean(x, 1, correction=0)
    assert deviation.tolist() == pytest.approx(array.std(1).tolist())
    assert center.tolist() == pytest.approx(array.mean(1).tolist())
    assert fl.std_mean(x, False)[0].item() == pytest.approx(array.std())


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(interpolation):
    array, q = table(3, 8), [0.0, 0.3, 0.95]
    got = fl.quantile(fl.tensor(array), fl.tensor(q, dtype=fl.float64), dim=1, interpolation=interpolation)
    want = numpy.quantile(array, q, axis=1, method=interpolation)
    numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    array[0, 2] = NAN
    got = fl.nanquantile(fl.tensor(array), 0.3, 0, True, interpolation=interpolation)
    want = numpy.nanquantile(array, 0.3, axis=0, keepdims=True, method=interpolation)
    numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_quantiles_with_nan_and_their_gradient():
    x = fl.tensor([[1.0, NAN], [3.0, 5.0]])
    assert math.isnan(x.quantile(0.5).item()) and x.nanquantile(0.5).item() == 3
    assert x.quantile(fl.tensor([0.5]), 1, True).shape == (1, 2, 1)
    x = fl.tensor([4.0, 1.0, 2.0], requires_grad=True)
    x.quantile(0.25).backward()
    assert x.grad.tolist() == [0, 0.5, 0.5]
    with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
        x.quantile(1.5)


def test_covariance():
    array = table(3, 10)
    x = fl.tensor(array)
    numpy.testing.assert_allclose(fl.cov(x).numpy(), numpy.cov(array))
    times, importance = numpy.arange(10) % 3, abs(table(10, seed=5))
    got = fl.cov(x, correction=0, fweights=fl.tensor(times), aweights=fl.tensor(importance))
    numpy.testing.assert_allclose(got.numpy(), numpy.cov(array, ddof=0, fweights=times, aweights=importance))
    numpy.testing.assert_allclose(fl.corrcoef(x).numpy(), numpy.corrcoef(array))
    assert x[0].cov().shape == () and x[0].corrcoef().item() == 1


def test_distance_and_slices_of_bounded_norm():
    a, b = table(4), table(4, seed=6)
    for p in (0, 1, 2, 3, math.inf):
        assert fl.dist(fl.tensor(a), fl.tensor(b), p).item() == pytest.approx(numpy.linalg.norm(a - b, p))
    x = fl.tensor([[3.0, 4.0], [0.1, 0.1]])
    numpy.testing.assert_allclose(fl.renorm(x, 2, 0, 1).numpy(), [[0.6, 0.8], [0.1, 0.1]], rtol=1e-5)
    assert x.renorm_(2, 0, 1) is x and x[0, 0].item() == pytest.approx(0.6)


def test_closeness():
    x, y = fl.tensor([1.0, NAN, math.inf, 2.0]), fl.tensor([1.0 + 1e-7, NAN, math.inf, 3.0])
    assert x.isclose(y).tolist() == [True, False, True, False]
    assert x.isclose(y, equal_nan=True, rtol=0.5).tolist() == [True, True, True, True]
    assert fl.isclose(fl.tensor([1, 2]), fl.tensor([1, 3])).tolist() == [True, False]
    assert fl.allclose(x[:1], y[:1]) is True and x.allclose(y) is False
    assert fl.equal(fl.tensor([1, 2]), fl.tensor([1, 2])) is True
    assert fl.equal(fl.tensor([1, 2]), fl.tensor([1, 2, 3])) is False and fl.equal(x, x) is False
    with pytest.raises(RuntimeError, match="did not match"):
        fl.isclose(fl.tensor([1]), fl.tensor([1.0]))


def test_membership():
    x = fl.tensor([[1, 2], [3, 4]])
    assert fl.isin(x, fl.tensor([4, 2, 7])).tolist() == [[False, True], [False, True]]
    assert fl.isin(x, 3, invert=True).tolist() == [[True, True], [False, True]]
    assert fl.isin(2, x).item() is True and fl.isin(x, fl.tensor([], dtype=fl.int64)).any().item() is False


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("arguments", [(100, 0, 0), (7, -1, 2), (1, -1, 1), (5, -2.5, -0.5)])
def test_histc_counts_as_numpy(dtype, arguments):
    """Also of strided input; NaN and what is outside fall into no bin."""
    x = numpy.random.default_rng(3).normal(size=(53, 34)).astype(dtype)
    bins, low, high = arguments
    want = numpy.histogram(x[::2].astype("float64"), bins, (low, high) if low != high else None)[0]
    assert fl.histc(fl.from_numpy(x)[::2], bins, low, high).numpy().tolist() == want.tolist()
    with_nan = fl.tensor([float("nan"), 0.0, 1.0, 2.0, 9.0], dtype=getattr(fl, dtype))
    assert with_nan.histc(2, 0, 2).tolist() == [1, 2]


def test_histc_of_nothing_and_of_one_value():
    assert fl.histc(fl.tensor([]), 3).tolist() == [0, 0, 0]
    assert fl.tensor([1.0, 1.0]).histc(3).tolist() == [0, 2, 0]
    for arguments, message in (((0,), "bins"), ((3, 2, 1), "larger"), ((3, 0, float("inf")), "not finite")):
        with pytest.raises(RuntimeError, match=message):
            fl.histc(fl.ones(2), *arguments)
