"""Resampling, grids and channels as pixels."""

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
