"""lobpcg against SciPy's dense solver."""

import numpy
import pytest
import scipy.linalg

import flambeau as fl

RNG = numpy.random.default_rng(0)


def pencil(m, batch=()):
    a, b = RNG.normal(size=(2, *batch, m, m))
    return a + a.swapaxes(-1, -2), b @ b.swapaxes(-1, -2) + numpy.eye(m)


@pytest.mark.parametrize("largest", [True, False, None])
@pytest.mark.parametrize("general", [False, True])
def test_eigenpairs(largest, general):
    a, b = pencil(12)
    values, vectors = fl.lobpcg(fl.from_numpy(a), 3, fl.from_numpy(b) if general else None, largest=largest)
    want = scipy.linalg.eigh(a, b if general else None, eigvals_only=True)
    numpy.testing.assert_allclose(
        values.numpy(), want[:3] if largest is False else want[::-1][:3], rtol=1e-10
    )
    x = vectors.numpy()
    numpy.testing.assert_allclose(a @ x, (b if general else numpy.eye(12)) @ x * values.numpy(), atol=1e-9)
    numpy.testing.assert_allclose(x.T @ (b if general else numpy.eye(12)) @ x, numpy.eye(3), atol=1e-10)


def test_batches_and_widths():
    a, _ = pencil(9, (2, 3))
    got = fl.lobpcg(fl.from_numpy(a), X=fl.zeros(2, 3, 9, 2))
    assert got.eigenvalues.shape == (2, 3, 2) and got.eigenvectors.shape == (2, 3, 9, 2)
    numpy.testing.assert_allclose(got.eigenvalues.numpy()[1, 2], numpy.linalg.eigvalsh(a[1, 2])[::-1][:2])
    assert fl.lobpcg(fl.from_numpy(a[0, 0])).eigenvalues.shape == (1,)


def test_gradient_is_symmetric():
    a, _ = pencil(8)
    x = fl.from_numpy(a).requires_grad_()
    fl.lobpcg(x, 2).eigenvalues.sum().backward()
    _, vectors = numpy.linalg.eigh(a)
    numpy.testing.assert_allclose(x.grad.numpy(), vectors[:, -2:] @ vectors[:, -2:].T, atol=1e-10)


def test_what_is_refused():
    for arguments, kind in (((fl.eye(5), 2), ValueError), ((fl.ones(5, 4), 1), RuntimeError)):
        with pytest.raises(kind):
            fl.lobpcg(*arguments)
    with pytest.raises(ValueError):
        fl.lobpcg(fl.eye(9), 1, method="magic")
