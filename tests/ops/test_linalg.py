"""Dense linear algebra: references, finite differences, compiled graphs, and the functions of
`flambeau.linalg`.
"""

import numpy
import pytest

import flambeau as fl
from flambeau import linalg
from flambeau.ops.linalg import Dense
from flambeau.ops.spec import REGISTRY
from flambeau.testing import oracle, stated
from flambeau.testing.arrays import to_array
from flambeau.types.dtype import float32, float64

DENSE = sorted(name for name, operation in REGISTRY.items() if isinstance(operation, Dense))
DIFFERENTIABLE = [name for name in DENSE if REGISTRY[name].derivative is not None]
SYMMETRIC = ("_linalg_cholesky", "_linalg_eigh")        # one triangle is read, the gradient belongs to both


def calls(name, dtype=float64):
    operation = REGISTRY[name]
    for attributes in stated.cases(operation):
        for shape in operation.shapes:
            yield oracle.draw(operation, 3, shape, dtype, attributes=attributes)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("name", DENSE)
def test_reference(name, dtype):
    for made in calls(name, dtype):
        oracle.check_reference(made)


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n not in SYMMETRIC])
def test_derivatives(name):
    for made in calls(name):
        oracle.check_derivatives(made)


@pytest.mark.parametrize("function",
                         [linalg.cholesky, lambda x: linalg.eigh(x)[0], lambda x: linalg.eigh(x)[1] ** 2])
def test_symmetric_derivatives(function):
    rng = numpy.random.default_rng(0)
    x = rng.uniform(-0.3, 0.3, (2, 4, 4))
    x = x + x.swapaxes(-1, -2) + numpy.diag(numpy.arange(2.0, 6.0))
    step = rng.uniform(-1, 1, x.shape)
    step = step + step.swapaxes(-1, -2)
    leaf = fl.tensor(x, requires_grad=True)
    weights = rng.uniform(0.5, 1, tuple(function(leaf).shape))
    (function(leaf) * fl.tensor(weights)).sum().backward()
    sides = [(function(fl.tensor(x + sign * 1e-6 * step)).numpy() * weights).sum() for sign in (1, -1)]
    assert (leaf.grad.numpy() * step).sum() == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("name", [n for n in DENSE if n != "_linalg_eig"])
def test_in_a_compiled_graph(name):
    """Between two other ops a host function is a step of the plan, with the same results."""
    for made in calls(name):
        def three(*tensors):
            return [r + 1 for r in made.run([t * 1 for t in tensors])]
        tensors = made.tensors()
        _, run = oracle.compile_function(three, tensors)
        for got, want in zip(run(*tensors), three(*tensors), strict=True):
            numpy.testing.assert_array_equal(to_array(got), to_array(want))


# ------------------------------------------------------------------------------ functions
RNG = numpy.random.default_rng(5)
SQUARE = RNG.uniform(-1, 1, (2, 4, 4)) + 2 * numpy.eye(4)
WIDE, TALL = RNG.uniform(-1, 1, (3, 5)), RNG.uniform(-1, 1, (5, 3))


def close(got, want, tolerance=1e-10):
    numpy.testing.assert_allclose(got.detach().numpy(), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, numpy.inf, -numpy.inf])
@pytest.mark.parametrize("keepdim", [False, True])
def test_matrix_norms(order, keepdim):
    want = numpy.linalg.norm(WIDE, order, keepdims=keepdim)
    close(linalg.norm(fl.tensor(WIDE), order, keepdim=keepdim), want)
    want = numpy.linalg.norm(SQUARE, order, axis=(-2, -1), keepdims=keepdim)
    close(linalg.norm(fl.tensor(SQUARE), order, (-2, -1), keepdim), want)


@pytest.mark.parametrize("order", [0, 1, 2, 3.5, -1, numpy.inf, -numpy.inf])
def test_vector_norms(order):
    close(linalg.vector_norm(fl.tensor(WIDE), order, 1), numpy.linalg.norm(WIDE, order, 1))
    close(fl.norm(fl.tensor(TALL), order), numpy.linalg.norm(TALL.ravel(), order))


@pytest.mark.parametrize("order", [1, 2, 3, 0.5])
def test_norm_of_zeros_has_gradient_zero(order):
    x = fl.zeros(3, requires_grad=True)
    linalg.vector_norm(x, order).backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_solving():
    a, b = fl.tensor(SQUARE), RNG.uniform(-1, 1, (4, 3))
    close(linalg.solve(a, fl.tensor(b)), numpy.linalg.solve(SQUARE, numpy.broadcast_to(b, (2, 4, 3))))
    close(linalg.solve(a, fl.tensor(b.T.copy()), left=False) @ a, numpy.broadcast_to(b.T, (2, 3, 4)))
    vector = fl.tensor(RNG.uniform(-1, 1, (2, 4)))
    close((a @ linalg.solve(a, vector)[..., None])[..., 0], vector.numpy())
    packed = linalg.lu_factor(a)
    for adjoint in (False, True):
        matrix = SQUARE.swapaxes(-1, -2) if adjoint else SQUARE
        close(linalg.lu_solve(*packed, fl.tensor(matrix @ b), adjoint=adjoint),
              numpy.broadcast_to(b, (2, 4, 3)))
    got = linalg.lstsq(fl.tensor(TALL), fl.tensor(TALL @ b[:3]), driver="gelsd")
    close(got.solution, b[:3])
    close(got.residuals, numpy.zeros(3))
    assert got.rank.item() == 3


def test_decompositions_multiply_back():
    for x in (SQUARE, WIDE, TALL):
        t = fl.tensor(x)
        u, s, vh = linalg.svd(t, full_matrices=False)
        close(u @ fl.tensor(s.numpy()[..., None] * vh.numpy()), x)
        assert linalg.svd(t)[0].shape[-1] == x.shape[-2] and linalg.svd(t)[2].shape[-1] == x.shape[-1]
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(t, mode)
            close(q @ r, x)
            close(q.mT @ q, numpy.broadcast_to(numpy.eye(q.shape[-1]), (*x.shape[:-2], *[q.shape[-1]] * 2)))
        p, low, up = linalg.lu(t)
        close(p @ low @ up, x)
        close(t @ linalg.pinv(t) @ t, x)


def test_powers_and_chains():
    a = fl.tensor(SQUARE)
    for n in (0, 1, 5, -2):
        close(linalg.matrix_power(a, n), numpy.linalg.matrix_power(SQUARE, n))
    close(linalg.matrix_exp(a) @ linalg.matrix_exp(-a), numpy.broadcast_to(numpy.eye(4), (2, 4, 4)))
    chain = [RNG.uniform(-1, 1, s) for s in ((3,), (3, 7), (7, 2), (2, 5), (5,))]
    close(linalg.multi_dot([fl.tensor(x) for x in chain]), numpy.linalg.multi_dot(chain))


def test_rank_and_condition():
    low = TALL @ WIDE
    assert linalg.matrix_rank(fl.tensor(low)).item() == 3
    assert linalg.matrix_rank(fl.tensor(SQUARE)).tolist() == [4, 4]
    for p in (None, 1, 2, -2, numpy.inf, "fro"):
        close(linalg.cond(fl.tensor(SQUARE), p), numpy.linalg.cond(SQUARE, p))


def test_determinant_of_a_singular_matrix_has_a_gradient():
    x = fl.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=fl.float64, requires_grad=True)
    fl.det(x).backward()
    close(x.grad, [[4, -2], [-2, 1]])


@pytest.mark.parametrize("call, text", [
    (lambda: linalg.inv(fl.zeros(2, 2)), "Singular"),
    (lambda: linalg.inv(fl.ones(2, 3)), "square"),
    (lambda: linalg.cholesky(-fl.eye(2)), "positive definite"),
    (lambda: linalg.solve(fl.eye(2), fl.ones(3, 1)), "do not fit"),
    (lambda: linalg.det(fl.ones(2, 2, dtype=fl.int64)), "float32 or float64"),
    (lambda: linalg.svd(fl.ones(2)), "at least 2 dimensions"),
])
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()
