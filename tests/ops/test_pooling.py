"""Pooling of 1 to 3 axes against windows that NumPy walks one by one."""

import itertools

import numpy as np
import pytest

import flambeau as fl
from flambeau.ops import pooling


def image(*shape):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype("float32")


def windows(x, kernel, stride, padding, dilation, counts):
    """For each place of the result the (place in the input, value) of the window's elements inside the
    input."""
    for out in itertools.product(*map(range, counts)):
        inside = []
        for tap in itertools.product(*map(range, kernel)):
            place = tuple(o * s - p + t * d for o, s, p, t, d in zip(out, stride, padding, tap, dilation))
            if all(0 <= i < size for i, size in zip(place, x.shape)):
                inside.append((np.ravel_multi_index(place, x.shape), x[place]))
        yield out, inside


@pytest.mark.parametrize("kernel, stride, padding, dilation", [
    ((3,), (2,), (1,), (1,)), ((2, 3), (1, 2), (1, 0), (2, 1)), ((2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 2))])
def test_max_pool(kernel, stride, padding, dilation):
    rank = len(kernel)
    x = image(2, *(7, 6, 5)[:rank])
    values, places = pooling.max_pool("max_pool", rank, fl.tensor(x),
                                      kernel, stride, padding, dilation, False)
    for channel in range(2):
        for out, inside in windows(x[channel], kernel, stride, padding, dilation, values.shape[1:]):
            place, best = max(inside, key=lambda pair: pair[1])
            assert values[(channel, *out)].item() == best
            assert places[(channel, *out)].item() == place


def test_max_pool_gradient_goes_to_the_first_maximum():
    x = fl.tensor([[[1.0, 3.0, 3.0, 2.0]]], requires_grad=True)
    pooling.max_pool1d(x, 3, 1).sum().backward()
    assert x.grad.tolist() == [[[0.0, 2.0, 0.0, 0.0]]]


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("ceil_mode", [True, False])
def test_avg_pool3d(include, ceil_mode):
    x, kernel, stride, padding = image(1, 5, 6, 4), (2, 3, 2), (2, 2, 1), (1, 1, 0)
    got = pooling.avg_pool3d(fl.tensor(x), kernel, stride, padding, ceil_mode, include)
    for out, inside in windows(x[0], kernel, stride, padding, (1, 1, 1), got.shape[1:]):
        count = len(inside)
        if include:
            count = np.prod([min(o * s + k, size + 2 * p) - o * s for o, s, k, p, size in
                             zip(out, stride, kernel, padding, x.shape[1:])])
        np.testing.assert_allclose(got[(0, *out)].item(), sum(v for _,
                                   v in inside) / count, rtol=1e-5, atol=1e-6)


def test_avg_pool_gradient_sums_to_that_of_the_result():
    x = fl.tensor(image(2, 3, 6, 8), requires_grad=True)
    pooling.avg_pool2d(x, 2).sum().backward()
    assert np.allclose(x.grad.numpy(), 0.25)


@pytest.mark.parametrize("sizes", [(3, 2), (7, 6), (1, 4)])
def test_adaptive(sizes):
    x = image(2, 7, 6)
    mean = pooling.adaptive_avg_pool("adaptive", 2, fl.tensor(x), sizes).numpy()
    best, place = pooling.adaptive_max_pool("adaptive", 2, fl.tensor(x), sizes)
    for i, j in itertools.product(range(sizes[0]), range(sizes[1])):
        top, left = i * 7 // sizes[0], j * 6 // sizes[1]
        part = x[:, top:-(-(i + 1) * 7 // sizes[0]), left:-(-(j + 1) * 6 // sizes[1])]
        np.testing.assert_allclose(mean[:, i, j], part.mean((1, 2)), rtol=1e-5, atol=1e-6)
        assert np.array_equal(best.numpy()[:, i, j], part.max((1, 2)))
    assert np.array_equal(x.reshape(2, -1)[np.arange(2)[:, None], place.numpy().reshape(2, -1)],
                          best.numpy().reshape(2, -1))


def test_max_unpool_puts_values_back():
    x = fl.tensor(image(2, 6, 4))
    values, places = pooling.max_pool("pool", 2, x, 2, None, 0, 1, False)
    back = pooling.max_unpool("unpool", 2, values, places, (6, 4))
    assert np.array_equal(back.numpy(), np.where(np.isin(x.numpy(), values.numpy()), x.numpy(), 0))


def test_refusals():
    x = fl.ones(1, 3, 4, 4)
    for call in (lambda: pooling.max_pool2d(x, 3, padding=2), lambda: pooling.max_pool2d(x, 5),
                 lambda: pooling.avg_pool2d(x, (2, 2, 2)),
                 lambda: pooling.avg_pool2d(x, 2, divisor_override=0),
                 lambda: pooling.max_pool1d(fl.ones(3), 2)):
        with pytest.raises(RuntimeError):
            call()
