"""Resampling with antialias=True against a loop over elements; gradients are the transpose."""

import math

import numpy
import pytest

import flambeau as fl
from flambeau.nn.functional import interpolate


def filtered(d, kind):
    d = abs(d)
    if kind == "bilinear":
        return max(1 - d, 0.0)
    if d < 1:
        return 1.5 * d**3 - 2.5 * d**2 + 1
    return -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2 if d < 2 else 0.0


def matrix(size, count, kind, step=None):
    """Row i: the weights of the elements in result i."""
    step = size / count if step is None else step
    wide, made = max(step, 1.0), numpy.zeros((count, size))
    reach = (1 if kind == "bilinear" else 2) * wide
    for i in range(count):
        middle = step * (i + 0.5)
        for j in range(max(math.floor(middle - reach + 0.5), 0), min(math.floor(middle + reach + 0.5), size)):
            made[i, j] = filtered((j - middle + 0.5) / wide, kind)
    return made / made.sum(1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(5, 7), (30, 11), (17, 9), (1, 1), (16, 24)])
def test_sizes(kind, size, dtype):
    x = numpy.random.default_rng(0).normal(size=(2, 3, 17, 23)).astype(dtype)
    got = interpolate(fl.from_numpy(x), size, mode=kind, antialias=True)
    want = matrix(17, size[0], kind) @ x.astype("float64") @ matrix(23, size[1], kind).T
    assert got.dtype is getattr(fl, dtype) and got.is_contiguous()
    numpy.testing.assert_allclose(got.numpy(), want, atol=1e-5 if dtype == "float32" else 1e-12)


def test_factors_and_corners():
    x = numpy.random.default_rng(1).normal(size=(1, 2, 10, 8))
    got = interpolate(fl.from_numpy(x), scale_factor=(0.37, 2.0), mode="bilinear", antialias=True)
    want = matrix(10, 3, "bilinear", 1 / 0.37) @ x @ matrix(8, 16, "bilinear", 0.5).T
    numpy.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    got = interpolate(fl.from_numpy(x), (4, 1), mode="bicubic", align_corners=True, antialias=True)
    want = matrix(10, 4, "bicubic", 9 / 3) @ x @ matrix(8, 1, "bicubic", 0.0).T
    numpy.testing.assert_allclose(got.numpy(), want, atol=1e-12)


@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_gradient_is_the_transpose(kind):
    x = fl.rand(1, 1, 9, 6, dtype=fl.float64, requires_grad=True)
    factor = fl.rand(1, 1, 4, 3, dtype=fl.float64)
    (interpolate(x, (4, 3), mode=kind, antialias=True) * factor).sum().backward()
    want = matrix(9, 4, kind).T @ factor.numpy()[0, 0] @ matrix(6, 3, kind)
    numpy.testing.assert_allclose(x.grad.numpy()[0, 0], want, atol=1e-12)


def test_bytes_are_rounded():
    x = numpy.random.default_rng(2).integers(0, 256, (1, 1, 12, 12)).astype("uint8")
    got = interpolate(fl.from_numpy(x), (5, 5), mode="bicubic", antialias=True)
    want = matrix(12, 5, "bicubic") @ x[0, 0] @ matrix(12, 5, "bicubic").T
    assert got.dtype is fl.uint8 and abs(got.numpy()[0, 0] - want.clip(0, 255)).max() <= 0.51
    with pytest.raises(RuntimeError):
        interpolate(fl.ones(1, 1, 4, 4, dtype=fl.int64), (2, 2), mode="bilinear", antialias=True)
