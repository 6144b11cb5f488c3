"""Products beside matmul, einsum, distances: against NumPy, with gradients where a formula of our own
stands.
"""

import numpy
import pytest

import flambeau as fl

RNG = numpy.random.default_rng(3)
A, B, C, SQUARE = (RNG.uniform(-1, 1, s) for s in ((3, 4), (4, 5), (2, 3, 4), (4, 4)))


def close(got, want, tolerance=1e-10):
    numpy.testing.assert_allclose(got.detach().numpy(), want, rtol=tolerance, atol=tolerance)


def tensors(*arrays):
    return [fl.tensor(a) for a in arrays]


EQUATIONS = [
    ("ij,jk->ik", (A, B)), ("ij,jk", (A, B)), ("ij->", (A,)), ("ij->ji", (A,)), ("ba", (A,)),
    ("ij,kl->ijkl", (A, B)), ("ij,ij->ij", (A, A)), ("ij,j->i", (A, B[:, 0])),
    ("bij,jk->bik", (C, B)), ("bij,ij->b", (C, A)), ("...ij,jk->...ik", (C, B)), ("i...->...", (C,)),
    ("bij,bik,bil->jkl", (C, C, C)), ("bij,kij->bk", (C, C)), ("ii->i", (SQUARE,)), ("ii", (SQUARE,)),
]


@pytest.mark.parametrize("equation, arrays", EQUATIONS, ids=[e for e, _ in EQUATIONS])
def test_einsum(equation, arrays):
    close(fl.einsum(equation, *tensors(*arrays)), numpy.einsum(equation, *arrays))


def test_einsum_of_lists_and_sizes_of_one():
    a, b = tensors(A, B)
    close(fl.einsum(a, [0, 1], b, [1, 2], [0, 2]), A @ B)
    close(fl.einsum("ij,ij->i", a, fl.ones(3, 1, dtype=fl.float64)), A.sum(1))
    ints = fl.tensor([[1, 2], [3, 4]])
    assert fl.einsum("ij,jk->ik", ints, ints).tolist() == [[7, 10], [15, 22]]


@pytest.mark.parametrize("equation, text", [("ij,jk->iz", "output subscript"), ("ij", "number of operands"),
                                            ("ijk,jk->i", "number of dims"), ("ij,ik->jk", "two sizes")])
def test_einsum_errors(equation, text):
    with pytest.raises(RuntimeError, match=text):
        fl.einsum(equation, *tensors(A, B))


def test_vectors_and_matrices():
    a, b, x, y = tensors(A, B, A[0], B[:, 0])
    close(fl.dot(x, y), A[0] @ B[:, 0])
    close(fl.outer(x, y), numpy.outer(A[0], B[:, 0]))
    close(a.mv(x), A @ A[0])
    close(fl.inner(fl.tensor(C), a), numpy.inner(C, A))
    close(fl.kron(a, b), numpy.kron(A, B))
    close(fl.trace(fl.tensor(SQUARE)), numpy.trace(SQUARE))
    close(fl.tensordot(fl.tensor(C), b, ([2], [0])), numpy.tensordot(C, B, ([2], [0])))
    close(fl.tensordot(fl.tensor(C), a, 2), numpy.tensordot(C, A, 2))
    u, v = RNG.uniform(-1, 1, (2, 5, 3)), RNG.uniform(-1, 1, (2, 5, 3))
    close(fl.cross(*tensors(u, v), dim=-1), numpy.cross(u, v))


def test_added_products():
    a, b = tensors(A, B)
    start = fl.tensor(RNG.uniform(-1, 1, (3, 5)))
    close(fl.addmm(start, a, b, beta=0.5, alpha=2), 0.5 * start.numpy() + 2 * A @ B)
    close(fl.addmm(fl.full((3, 5), float("nan"), dtype=fl.float64), a, b, beta=0), A @ B)
    batch = fl.tensor(C)
    close(fl.baddbmm(fl.zeros(2, 3, 3, dtype=fl.float64), batch, batch.mT), C @ C.swapaxes(1, 2))
    close(fl.addbmm(fl.zeros(3, 3, dtype=fl.float64), batch, batch.mT), (C @ C.swapaxes(1, 2)).sum(0))
    close(fl.addr(fl.zeros(3, 4, dtype=fl.float64), fl.tensor(A[:, 0]), fl.tensor(A[0])),
          numpy.outer(A[:, 0], A[0]))
    weight = RNG.uniform(-1, 1, (6, 4, 5))
    left, right = RNG.uniform(-1, 1, (2, 3, 4)), RNG.uniform(-1, 1, (2, 3, 5))
    close(fl.bilinear(*tensors(left, right, weight)), numpy.einsum("abi,oij,abj->abo", left, weight, right))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, numpy.inf])
def test_distances(p):
    x, y = RNG.uniform(-1, 1, (2, 6, 3)), RNG.uniform(-1, 1, (2, 4, 3))
    want = numpy.linalg.norm((x[:, :, None] - y[:, None]).reshape(-1, 3), p, -1).reshape(2, 6, 4)
    close(fl.cdist(*tensors(x, y), p=p), want)
    close(fl.pdist(fl.tensor(x[0]), p),
          [numpy.linalg.norm(x[0, i] - x[0, j], p) for i in range(6) for j in range(i + 1, 6)])


def test_distance_zero_has_gradient_zero():
    x = fl.tensor(A, requires_grad=True)
    fl.cdist(x, x.detach()).diagonal().sum().backward()
    assert (x.grad == 0).all()


@pytest.mark.parametrize("shapes", [((30, 5), (7, 5)), ((2, 30, 5), (7, 5)), ((3, 40), (2, 1, 26, 40))])
def test_distances_by_a_matrix_product_agree_with_the_exact_ones_to_second_order(shapes):
    found = []
    values = [RNG.uniform(-1, 1, shape) for shape in shapes]
    for mode in ("use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"):
        x, y = (fl.tensor(v, requires_grad=True) for v in values)
        distances = fl.cdist(x, y, compute_mode=mode)
        first = fl.autograd.grad((distances ** 3).sum(), (x, y), create_graph=True)
        second = fl.autograd.grad(sum((g * g).sum() for g in first), (x, y))
        found.append([t.detach().numpy() for t in (distances, *first, *second)])
    for got, want in zip(*found):
        numpy.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_compute_mode_of_distances():
    near = fl.tensor([[1000.0, 0.0], [1000.0, 0.001]])
    exact = fl.cdist(near, near)
    assert (exact == fl.cdist(near, near, compute_mode="donot_use_mm_for_euclid_dist")).all()
    assert exact[0, 1].item() == pytest.approx(0.001)
    assert (fl.cdist(near, near, compute_mode="use_mm_for_euclid_dist") != exact).any()
    with pytest.raises(ValueError, match="fast is not a valid value for compute_mode"):
        fl.cdist(near, near, compute_mode="fast")
