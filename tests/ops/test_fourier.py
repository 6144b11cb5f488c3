"""Fourier transforms against NumPy's, and their adjoints by the definition of an adjoint."""

import numpy
import pytest

import flambeau as fl
from flambeau import fft
from flambeau.ops import fourier
from flambeau.ops.host import array_of
from flambeau.ops.spec import REGISTRY

RNG = numpy.random.default_rng(2)
REAL = RNG.uniform(-1, 1, (3, 6, 5))
COMPLEX = REAL + 1j * RNG.uniform(-1, 1, (3, 6, 5))
NORMS = [None, "forward", "backward", "ortho"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [None, 3, 8])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis(name, n, norm):
    x = REAL if name in ("rfft", "ihfft") else COMPLEX
    for dim in (1, -1):
        got = getattr(fft, name)(fl.tensor(x), n, dim, norm)
        numpy.testing.assert_allclose(array_of(got), getattr(numpy.fft, name)(x, n, dim, norm), atol=1e-12)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize("s", [None, (4, 7)])
def test_several_axes(name, s):
    x = REAL if name.startswith("r") else COMPLEX
    axes = None if s is None and name.endswith("n") else (-2, -1)
    got = getattr(fft, name)(fl.tensor(x), s)
    numpy.testing.assert_allclose(array_of(got), getattr(numpy.fft, name)(x, s, axes), atol=1e-12)


CASES = [("c2c", (0, 2), (3, 4)), ("c2c", (1,), (9,)), ("r2c", (0, 1), (5, 6)), ("r2c", (2,), (5,)),
         ("r2c", (1,), (4,)),
         ("c2r", (1, 2), (6, 8)), ("c2r", (2,), (9,)), ("c2r", (1,), (6,))]


@pytest.mark.parametrize("kind, dims, sizes", CASES)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_adjoint(kind, dims, sizes, inverse, norm):
    """Re <A x, y> = Re <x, A* y> for every transform A."""
    host, x = REGISTRY["_fourier"].host, REAL if kind == "r2c" else COMPLEX
    kept = tuple(x.shape[d] for d in dims)
    image = host(x, kind, dims, sizes, norm, inverse, kept, kind == "r2c", False)
    y = RNG.uniform(-1, 1, image.shape)
    y = y + (1j * RNG.uniform(-1, 1, image.shape) if image.dtype.kind == "c" else 0)
    back = host(y, kind, dims, sizes, norm, inverse, kept, kind == "r2c", True)
    assert back.shape == x.shape
    assert (image.conj() * y).sum().real == pytest.approx((x.conj() * back).sum().real)


def test_gradient_through_a_spectrum():
    x = fl.tensor(REAL, requires_grad=True)
    smooth = fft.irfft(fft.rfft(x), 5)
    (smooth * fl.tensor(REAL)).sum().backward()
    numpy.testing.assert_allclose(x.grad.numpy(), REAL, atol=1e-12)


def test_shifts_and_frequencies():
    for size in (4, 5):
        x = numpy.arange(size)
        assert fft.fftshift(fl.tensor(x)).tolist() == numpy.fft.fftshift(x).tolist()
        assert fft.ifftshift(fft.fftshift(fl.tensor(x))).tolist() == x.tolist()
        numpy.testing.assert_allclose(fft.fftfreq(size, 0.5).numpy(), numpy.fft.fftfreq(size, 0.5), rtol=1e-6)
        numpy.testing.assert_allclose(fft.rfftfreq(size).numpy(), numpy.fft.rfftfreq(size), rtol=1e-6)


@pytest.mark.parametrize("call", [lambda: fft.fft(fl.ones(3), 0), lambda: fft.fft(fl.ones(3), norm="half"),
                                  lambda: fft.rfft(fl.tensor(COMPLEX)), lambda: fft.fftn(fl.ones(3), (1, 2),
                                                                                         (0,))])
def test_refused(call):
    with pytest.raises(RuntimeError):
        call()


@pytest.mark.parametrize("normalized, onesided", [(False, True), (True, False)])
@pytest.mark.parametrize("center", [True, False])
def test_short_time_transform_and_back(center, normalized, onesided):
    x = RNG.uniform(-1, 1, (2, 400))
    window = fl.hann_window(60, dtype=fl.float64) + 0.1
    how = {"window": window, "win_length": 60, "center": center, "normalized": normalized,
           "onesided": onesided}
    spectra = fl.stft(fl.tensor(x), 64, 16, return_complex=True, **how)
    assert spectra.shape[1] == (33 if onesided else 64)
    if not center:
        frame = x[:, 16:80] * numpy.pad(window.numpy(), 2)
        want = (numpy.fft.rfft if onesided else numpy.fft.fft)(frame, norm="ortho" if normalized else None)
        numpy.testing.assert_allclose(array_of(spectra)[:, :, 1], want, atol=1e-12)
        return              # the first values lie under no window's middle
    back = fl.istft(spectra, 64, 16, length=400, **how)
    numpy.testing.assert_allclose(back.numpy(), x, atol=1e-12)


# ------------------------------------------------------------------------------ SciPy's transforms
@pytest.fixture
def always_scipy(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(fourier, "LARGE", 0)


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_scipy_transforms_are_accurate_and_the_same_for_any_thread_count(name, dtype, bound, always_scipy):
    x = RNG.uniform(-1, 1, (7, 90)).astype(dtype)
    x = x if name in ("rfft", "ihfft") else x + 1j * x[::-1]
    wanted = getattr(numpy.fft, name)(x.astype(numpy.result_type(x, "float64")))
    results, before = [], fl.get_num_threads()
    try:
        for threads in (1, 2, 3):
            fl.set_num_threads(threads)
            results.append(array_of(getattr(fft, name)(fl.tensor(x))))
    finally:
        fl.set_num_threads(before)
    assert abs(results[0] - wanted).max() <= bound * abs(wanted).max()
    assert len({r.tobytes() for r in results}) == 1


@pytest.mark.parametrize("kind, dims, sizes", CASES)
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_scipy_adjoint(kind, dims, sizes, norm, always_scipy):
    test_adjoint(kind, dims, sizes, False, norm)
    test_adjoint(kind, dims, sizes, True, norm)


def test_large_transforms_without_scipy(monkeypatch):
    x = RNG.uniform(-1, 1, (70, 1000)).astype("float32")
    with_scipy = array_of(fft.rfft(fl.tensor(x)))
    monkeypatch.setattr(fourier, "optional", lambda module: None)
    without = array_of(fft.rfft(fl.tensor(x)))
    assert with_scipy.dtype == without.dtype and abs(with_scipy - without).max() < 1e-4
