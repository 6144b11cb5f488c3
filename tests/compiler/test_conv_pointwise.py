"""Convolutions of one pixel's window as products, in programs, against NumPy in float64."""

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import known_plans, pipeline
from flambeau.nn import functional as F

SHAPES = [((2, 20, 12, 12), 33), ((1, 300, 16, 9), 7), ((3, 5, 4, 5), 6), ((0, 4, 20, 20), 3), ((2, 64, 14, 14), 64),
          ((1, 1, 300, 1), 1), ((2, 9, 1000), 4), ((2, 3, 4, 6, 7), 5), ((5, 17, 31, 33), 257)]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float64", 1e-14), ("float16", 2e-3)])
@pytest.mark.parametrize("shape, outputs", SHAPES, ids=str)
def test_against_numpy(shape, outputs, dtype, tolerance):
    random = numpy.random.default_rng(0)
    ones = (1,) * (len(shape) - 2)
    convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(ones)]
    x, w, bias, g = (random.normal(size=s).astype(dtype) for s in
                     (shape, (outputs, shape[1], *ones), (outputs,), (shape[0], outputs, *shape[2:])))
    tensors = [fl.tensor(a, requires_grad=True) for a in (x, w, bias)]
    y = convolve(*tensors).relu()
    y.backward(fl.tensor(g))
    x, w, bias, g = (a.astype("f8") for a in (x, w, bias, g))
    expected = numpy.maximum(numpy.einsum("nc...,kc->nk...", x, w.reshape(outputs, -1)) + bias.reshape(-1, *ones), 0)
    g = g * (y.detach().numpy() > 0)
    pixels = int(numpy.prod(shape[2:]))
    gradients = (numpy.einsum("nk...,kc->nc...", g, w.reshape(outputs, -1)),
                 numpy.einsum("nkp,ncp->kc", *(a.reshape(*a.shape[:2], pixels) for a in (g, x))).reshape(w.shape),
                 g.sum((0, *range(2, g.ndim))))
    for got, wanted in zip((y.detach(), *(t.grad for t in tensors)), (expected, *gradients)):
        scale = max(abs(wanted).max(initial=0), 1)
        numpy.testing.assert_allclose(got.numpy(), wanted, tolerance, 4 * tolerance * scale)


def test_parts_of_memory():
    """Operands that are slices of others."""
    random = numpy.random.default_rng(0)
    x = fl.tensor(random.normal(size=(3, 10, 12, 12)).astype("f4"))[1:]
    w = fl.tensor(random.normal(size=(9, 10, 1, 1)).astype("f4"))[2:]
    expected = numpy.einsum("nchw,kc->nkhw", x.numpy(), w.numpy()[..., 0, 0])
    numpy.testing.assert_allclose(F.conv2d(x, w).numpy(), expected, 1e-5, 1e-5)
    numpy.testing.assert_allclose(F.conv2d(x.transpose(2, 3), w).numpy(), expected.swapaxes(2, 3), 1e-5, 1e-5)


def test_small_images_are_not_products(monkeypatch):
    made, real = [], pipeline.build_kernel
    monkeypatch.setattr(pipeline, "build_kernel", lambda kernel: (made.append(kernel.name), real(kernel))[1])
    monkeypatch.setattr(known_plans, "find", lambda *given: (None, False))
    w = fl.zeros(3, 2, 1, 1, 1, dtype=fl.float64)
    for size, wanted in ((11, {"conv_weights", "conv2d"}), (12, {"matmul"})):
        x = fl.zeros(1, 2, 1, size, size, dtype=fl.float64)
        made.clear()
        F.conv3d(x, w)
        assert set(made) == wanted


def test_nothing_spreads_between_pixels():
    x, w = fl.ones(2, 3, 12, 12), fl.ones(4, 3, 1, 1)
    x[0, 1, 5, 6] = float("nan")
    x[1, 2, 0, 0] = float("inf")
    y = F.conv2d(x, w)
    assert y[0, :, 5, 6].isnan().all() and (y[1, :, 0, 0] == float("inf")).all()
    assert (y == 3).sum() == y.numel() - 8
