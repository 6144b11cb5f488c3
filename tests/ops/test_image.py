"""Resampling, grids and channels as pixels."""

import math
from itertools import product

import numpy as np
import pytest

import flambeau as fl
from flambeau.ops import image


def sample(*shape):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype("float32")


def test_pixels_and_channels():
    x = fl.arange(8.0).reshape(1, 4, 1, 2)
    assert image.pixel_shuffle(x, 2)[0, 0].tolist() == [[0, 2, 1, 3], [4, 6, 5, 7]]
    assert image.pixel_unshuffle(image.pixel_shuffle(x, 2), 2).tolist() == x.tolist()
    assert image.channel_shuffle(x, 2)[0, :, 0, 0].tolist() == [0, 4, 2, 6]
    with pytest.raises(RuntimeError):
        image.pixel_shuffle(x, 3)


def test_linear_between_aligned_corners_is_numpys():
    x = sample(1, 1, 6)
    got = image.resample(fl.tensor(x), (11,), (None,), "linear", True)
    want = np.interp(np.linspace(0, 5, 11), np.arange(6), x[0, 0])
    np.testing.assert_allclose(got[0, 0].numpy(), want, rtol=1e-5, atol=1e-6)


def test_nearest_takes_the_element_below():
    x = fl.arange(4.0).reshape(1, 1, 4)
    assert image.resample(x, (8,), (None,), "nearest", False).flatten().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert image.resample(x, (3,), (None,), "nearest-exact", False).flatten().tolist() == [0, 2, 3]


def test_cubic():
    x = fl.arange(8.0).reshape(1, 1, 1, 8)
    got = image.resample(x, (1, 16), (None, None), "bicubic", False).flatten().tolist()
    # the weights at 1/4 and 3/4, a = -0.75
    assert got[4:8] == [1.703125, 2.296875, 2.703125, 3.296875]
    np.testing.assert_allclose(image.resample(x * 0 + 3, (1, 5), (None, None),
                               "bicubic", False).numpy(), 3.0, rtol=1e-6)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_the_identity_grid_reads_the_image(mode, align):
    x = fl.tensor(sample(2, 3, 4, 5))
    theta = fl.tensor([[[1.0, 0, 0], [0, 1, 0]]] * 2)
    grid = image.grid_of(theta, (2, 3, 4, 5), align)
    got = image.sample_on_grid(x, grid, mode, "zeros", align)
    np.testing.assert_allclose(got.numpy(), x.numpy(), atol=2e-5)


def test_outside_of_the_image():
    x = fl.tensor([[[[1.0, 2.0, 3.0]]]])
    grid = fl.tensor([[[[-3.0, 0.0], [2.0, 0.0]]]])
    for padding, want in (("zeros", [0.0, 0.0]), ("border", [1.0, 3.0]), ("reflection", [3.0, 2.0])):
        assert image.sample_on_grid(x, grid, "bilinear", padding, True).flatten().tolist() == want


def test_gradient_of_places():
    grid = fl.tensor([[[[0.25, 0.0]]]], requires_grad=True)
    image.sample_on_grid(fl.tensor([[[[1.0, 2.0, 4.0]]]]), grid, "bilinear", "zeros", True).sum().backward()
    # the slope 2 between the last two, one unit is a place
    assert grid.grad.flatten().tolist() == [2.0, 0.0]


GRIDS = [(rank, mode, padding) for rank in (2, 3) for mode in ("bilinear", "nearest", "bicubic")
         for padding in ("zeros", "border", "reflection") if (rank, mode) != (3, "bicubic")]


def taps_of(place, size, mode, padding, align):
    """[(number, weight)] of one axis, in plain Python."""
    def bordered(p):
        if padding == "reflection":
            low, span = (0, size - 1) if align else (-0.5, size)
            away = abs(p - low) % (2 * span)
            p = low + (away if away <= span else 2 * span - away)
        return p if padding == "zeros" else min(max(p, 0), size - 1)

    place = (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2
    if mode == "bicubic":
        first, share = math.floor(place), place - math.floor(place)
        distances = [share + 1, share, 1 - share, 2 - share]
        weights = [((1.25 * d - 2.25) * d * d + 1) if d <= 1 else (((-0.75 * d + 3.75) * d - 6) * d + 3) for d in distances]
        return [(bordered(first + k), w) for k, w in zip((-1, 0, 1, 2), weights)]
    place = bordered(place)
    if mode == "nearest":
        return [(round(place), 1.0)]
    first = math.floor(place)
    return [(first, first + 1 - place), (first + 1, place - first)]


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("rank, mode, padding", GRIDS)
def test_sampling_anywhere(rank, mode, padding, align):
    """Also outside; more points than a vector; gradients of first and second order."""
    sizes, points = (4, 5, 3)[:rank], 19
    x, grid = sample(2, 3, *sizes), sample(2, points, *[1] * (rank - 1), rank) * 1.7
    got = image.sample_on_grid(fl.tensor(x), fl.tensor(grid), mode, padding, align).numpy()
    for n, p in product(range(2), range(points)):
        taps = [taps_of(float(grid.reshape(2, points, rank)[n, p, -1 - a]), s, mode, padding, align)
                for a, s in enumerate(sizes)]
        want = np.zeros(3)
        for corner in product(*taps):
            if all(0 <= i < s for (i, _), s in zip(corner, sizes)):
                want += math.prod(w for _, w in corner) * x[(n, slice(None), *(int(i) for i, _ in corner))]
        np.testing.assert_allclose(got[n, :, p].reshape(-1), want, rtol=2e-4, atol=2e-5)

    def f(x, grid):
        return image.sample_on_grid(x, grid, mode, padding, align)
    x, grid = (fl.tensor(v[:1, :2].astype("float64"), requires_grad=True) for v in (x, grid))
    assert fl.autograd.gradcheck(f, (x, grid)) and fl.autograd.gradgradcheck(f, (x, grid))


def test_sampling_of_each_example_under_vmap():
    x, grid = fl.tensor(sample(3, 2, 4, 5)), fl.tensor(sample(3, 6, 2, 2))
    want = image.sample_on_grid(x, grid, "bilinear", "zeros", False)
    got = fl.func.vmap(lambda x, g: image.sample_on_grid(x[None], g[None], "bilinear", "zeros", False)[0])(x, grid)
    assert got.equal(want)


def test_places_that_are_not_numbers_read_nothing_wrong():
    grid = fl.tensor([[[[math.nan, 0.0], [math.inf, 0.0], [-1e30, 1e30]]]])
    for mode, padding in product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")):
        got = image.sample_on_grid(fl.ones(1, 1, 3, 3), grid, mode, padding, False)
        assert got.shape == (1, 1, 1, 3)


@pytest.mark.parametrize("shape", [(1, 1, 100, 170), (2, 3, 64, 65), (3, 4, 5000), (1, 2, 20, 30, 20)])
@pytest.mark.parametrize("times", [1, 2, 3, 8])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_neighbours_copied_and_computed(shape, times, mode):
    values = sample(*shape)
    want = values
    for axis in range(2, len(shape)):
        want = np.repeat(want, times, axis)
    recorded = fl.tensor(values, requires_grad=True)
    for x in (fl.tensor(values), recorded):
        for given in ({"scale_factor": times}, {"size": want.shape[2:]}):
            assert (fl.nn.functional.interpolate(x, mode=mode, **given).detach().numpy() == want).all()
    fl.nn.functional.interpolate(recorded, scale_factor=times, mode=mode).sum().backward()
    assert (recorded.grad == times ** (len(shape) - 2)).all()


def test_images_and_grids_that_do_not_fit():
    grid = fl.zeros(1, 2, 2, 2)
    for x, g in ((fl.ones(1, 1, 3, 3), grid.double()), (fl.ones(1, 1, 3, 3).long(), grid.long()),
                 (fl.ones(1, 1, 3, 0), grid), (fl.ones(2, 1, 3, 3), grid)):
        with pytest.raises((RuntimeError, ValueError)):
            image.sample_on_grid(x, g, "bilinear", "zeros", False)
    assert image.sample_on_grid(fl.ones(1, 2, 3, 3), grid[:, :0], "bilinear", "zeros", False).shape == (1, 2, 0, 2)
    low = image.sample_on_grid(fl.ones(1, 2, 3, 3).half(), grid.half(), "bilinear", "zeros", False)
    assert low.dtype is fl.float16 and (low == 1).all()
