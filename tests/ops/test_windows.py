"""Window functions against NumPy's and against their definitions."""

import numpy
import pytest

import flambeau as fl
from flambeau.signal import windows


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann"])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 10])
def test_symmetric_and_periodic(name, count):
    want = getattr(numpy, "hanning" if name == "hann" else name)
    got = getattr(windows, name)(count, dtype=fl.float64).numpy()
    numpy.testing.assert_allclose(got, want(count), atol=1e-15)
    periodic = getattr(fl, f"{name}_window")(count, dtype=fl.float64).numpy()
    numpy.testing.assert_allclose(periodic, want(count + 1)[:-1] if count > 1 else numpy.ones(count),
                                  atol=1e-15)


@pytest.mark.parametrize("beta", [0.0, 5.0, 14.0])
def test_kaiser(beta):
    numpy.testing.assert_allclose(windows.kaiser(9, beta=beta, dtype=fl.float64).numpy(),
                                  numpy.kaiser(9, beta), rtol=1e-12)


def test_bells():
    numpy.testing.assert_allclose(windows.gaussian(3, std=2.0).numpy(), numpy.exp([-1 / 8, 0, -1 / 8]),
                                  rtol=1e-6)
    numpy.testing.assert_allclose(windows.exponential(3, tau=2.0).numpy(), numpy.exp([-0.5, 0, -0.5]),
                                  rtol=1e-6)
    numpy.testing.assert_allclose(windows.cosine(2).numpy(), numpy.sqrt([0.5, 0.5]), rtol=1e-6)
    assert windows.nuttall(5).numpy()[2] == pytest.approx(1)
    assert windows.hann(4, requires_grad=True).requires_grad


@pytest.mark.parametrize("call", [lambda: windows.hann(-1), lambda: windows.gaussian(3, std=0),
                                  lambda: windows.hann(3, dtype=fl.int64)])
def test_refused(call):
    with pytest.raises(ValueError):
        call()
