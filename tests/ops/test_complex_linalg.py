"""Linear algebra of complex matrices against NumPy, and the factors of symmetric matrices."""

import numpy
import pytest

import flambeau as fl

RNG = numpy.random.default_rng(0)
L = fl.linalg


def draw(*shape, dtype=complex):
    x = RNG.normal(size=shape)
    return x + 1j * RNG.normal(size=shape) if dtype is complex else x


A, B, TALL = draw(2, 4, 4), draw(2, 4, 3), draw(5, 3)
HERMITIAN = A @ A.conj().swapaxes(-1, -2) + numpy.eye(4)


@pytest.mark.parametrize("name", ["det", "inv", "pinv", "eigvalsh", "matrix_rank", "cond", "svdvals"])
def test_functions_of_one_matrix(name):
    x = HERMITIAN if name == "eigvalsh" else A
    reference = {"svdvals": lambda m: numpy.linalg.svd(m,
                                                       compute_uv=False)}.get(name) or getattr(numpy.linalg,
                                                                                               name)
    numpy.testing.assert_allclose(getattr(L, name)(fl.tensor(x)).numpy(), reference(x), rtol=1e-10)


def test_systems():
    a, b = fl.tensor(A), fl.tensor(B)
    want = numpy.linalg.solve(A, B)
    factors = L.lu_factor(a)
    for x in (L.solve(a, b), L.lu_solve(*factors, b), L.solve(a.mT, b.mT, left=False).mT):
        numpy.testing.assert_allclose(x.numpy(), want, rtol=1e-10)
    adjoint = numpy.linalg.solve(A.conj().swapaxes(-1, -2), B)
    numpy.testing.assert_allclose(L.lu_solve(*factors, b, adjoint=True).numpy(), adjoint, rtol=1e-10)
    low = L.cholesky(fl.tensor(HERMITIAN))
    numpy.testing.assert_allclose(fl.cholesky_solve(b, low).numpy(), numpy.linalg.solve(HERMITIAN, B),
                                  rtol=1e-9)
    numpy.testing.assert_allclose(fl.cholesky_inverse(low).numpy(), numpy.linalg.inv(HERMITIAN), rtol=1e-9)
    found = L.lstsq(fl.tensor(TALL), fl.tensor(draw(5, 2)), driver="gelsd")
    assert found.solution.dtype is fl.complex128 and found.residuals.dtype is fl.float64


def test_decompositions_multiply_back():
    a, tall = fl.tensor(A), fl.tensor(TALL)
    p, low, up = L.lu(a)
    q, r = L.qr(tall, mode="complete")
    u, s, vh = L.svd(tall)
    values, vectors = L.eigh(fl.tensor(HERMITIAN))
    roots, columns = L.eig(a)
    upper = L.cholesky(fl.tensor(HERMITIAN), upper=True)
    for got, want in [(p @ low @ up, A), (q @ r, TALL), (q.mH @ q, numpy.eye(5)), (upper.mH @ upper,
                                                                                   HERMITIAN),
                      (u[:, :3] * s @ vh, TALL), (u.mH @ u, numpy.eye(5)),
                      (vectors * values.unsqueeze(-2) @ vectors.mH, HERMITIAN),
                      (columns * roots.unsqueeze(-2), A @ columns.numpy())]:
        numpy.testing.assert_allclose(got.numpy(), want, atol=1e-10)
    old = fl.svd(tall)
    numpy.testing.assert_allclose((old.U * old.S @ old.V.mH).numpy(), TALL, atol=1e-10)


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("n", [1, 2, 3, 6, 11])
def test_ldl(n, dtype, hermitian):
    x = draw(3, n, n, dtype=dtype)
    x = x + (x.conj() if hermitian else x).swapaxes(-1, -2)
    x = x * numpy.where(numpy.eye(n), 0.1, 1)           # small pivots: blocks of two are needed
    packed, pivots = L.ldl_factor(fl.tensor(x), hermitian=hermitian)
    assert pivots.dtype is fl.int32 and (n < 6 or bool((pivots < 0).any()))
    numpy.testing.assert_array_equal(packed.numpy(), numpy.tril(packed.numpy()))
    b = draw(3, n, 2, dtype=dtype)
    solution = L.ldl_solve(packed, pivots, fl.tensor(b), hermitian=hermitian)
    numpy.testing.assert_allclose(solution.numpy(), numpy.linalg.solve(x, b), rtol=1e-7, atol=1e-9)


def test_ldl_of_singular_matrices():
    zeros = fl.zeros(2, 2)
    assert L.ldl_factor_ex(zeros).info.item() == 1
    with pytest.raises(L.LinAlgError):
        L.ldl_factor(zeros)


def test_ldl_solve_gradient():
    x = A[0] + A[0].T
    packed, pivots = L.ldl_factor(fl.tensor(x))
    b = fl.tensor(B[0], requires_grad=True)
    weight = draw(4, 3)
    L.ldl_solve(packed, pivots, b).backward(fl.tensor(weight))
    numpy.testing.assert_allclose(b.grad.numpy(), numpy.linalg.solve(x.conj().T, weight), rtol=1e-9)
