"""Sparse tensors against dense NumPy and SciPy results."""

import copy
import io
import pickle

import numpy
import pytest

import flambeau as fl

LAYOUTS = {"coo": fl.sparse_coo, "csr": fl.sparse_csr, "csc": fl.sparse_csc}


def dense(*shape, seed=0, share=0.4, dtype="float64"):
    """A NumPy array with about `share` of its elements not zero."""
    rng = numpy.random.default_rng(seed)
    return (rng.standard_normal(shape) * (rng.uniform(size=shape) < share)).astype(dtype)


def sparse(array, layout="coo"):
    return fl.from_numpy(array.copy()).to_sparse(layout=LAYOUTS[layout])


def uncoalesced(seed=0, count=40, shape=(6, 5)):
    """(sparse tensor with repeated places, its NumPy value)."""
    rng = numpy.random.default_rng(seed)
    places, values = [rng.integers(0, n, count) for n in shape], rng.standard_normal(count)
    want = numpy.zeros(shape)
    numpy.add.at(want, tuple(places), values)
    return fl.sparse_coo_tensor(numpy.array(places).tolist(), values.tolist(), shape, dtype=fl.float64), want


def same(got, want, tolerance=1e-12):
    got = (got.to_dense() if got.layout is not fl.strided else got).detach().numpy()
    assert got.shape == numpy.shape(want)
    numpy.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------------------- making
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4, 5), (1, 7), (7, 1), (3, 0), (0, 3), (33, 17)])
def test_there_and_back(layout, shape):
    array = dense(*shape)
    made = sparse(array, layout)
    assert made.layout is LAYOUTS[layout] and made._nnz() == numpy.count_nonzero(array)
    same(made, array)
    for other in LAYOUTS.values():
        same(made.to_sparse(layout=other), array)


@pytest.mark.parametrize("block", [(1, 1), (2, 3), (4, 2)])
@pytest.mark.parametrize("name", ["bsr", "bsc"])
def test_blocks(block, name):
    array = dense(8, 6)
    made = getattr(fl.from_numpy(array), f"to_sparse_{name}")(block)
    assert tuple(made.values().shape[1:]) == block
    same(made, array)
    same(made.to_sparse(), array)
    same(made.transpose(0, 1), array.T)


def test_batches_of_compressed_matrices():
    array = numpy.stack([numpy.eye(3), numpy.roll(numpy.eye(3), 1, 0) * 2])
    made = fl.from_numpy(array).to_sparse_csr()
    assert tuple(made.crow_indices().shape) == (2, 4) and tuple(made.values().shape) == (2, 3)
    same(made, array)


def test_scipy_agrees_on_the_compressed_form():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    array = dense(9, 7)
    for name, ours in (("csr", ("crow_indices", "col_indices")), ("csc", ("ccol_indices", "row_indices"))):
        want, got = getattr(scipy_sparse, f"{name}_matrix")(array), sparse(array, name)
        assert getattr(got, ours[0])().tolist() == want.indptr.tolist()
        assert getattr(got, ours[1])().tolist() == want.indices.tolist()
        assert got.values().tolist() == want.data.tolist()


def test_hybrid_tensors_have_dense_axes():
    array = dense(5, 4, 3)
    array[array.any((1, 2)) & (numpy.arange(5) % 2 == 0)] = 0
    made = fl.from_numpy(array).to_sparse(1)
    assert (made.sparse_dim(), made.dense_dim()) == (1, 2) and tuple(made.values().shape[1:]) == (4, 3)
    same(made, array)


def test_repeated_places_are_added():
    made, want = uncoalesced()
    assert not made.is_coalesced()
    same(made, want)
    ordered = made.coalesce()
    flat = ordered.indices()[0] * 5 + ordered.indices()[1]
    assert ordered.is_coalesced() and flat.tolist() == sorted(set(flat.tolist()))
    same(ordered, want)
    with pytest.raises(RuntimeError, match="uncoalesced"):
        made.indices()


@pytest.mark.parametrize("indices, values, size, problem", [
    ([[0, 2]], [1.0, 2.0], (2,), "size is inconsistent"), ([[0, -1]], [1.0, 2.0], (2,), "negative index"),
    ([[0, 1]], [1.0], (2,), "same nnz"), ([[0, 1]], [1.0, 2.0], (2, 2), "sparse_dim"),
    ([[0.5]], [1.0], (2,), "integer"), ([[0]], [[1.0, 2.0]], (2, 3), "dense sizes")])
def test_coordinates_that_do_not_fit(indices, values, size, problem):
    with pytest.raises(RuntimeError, match=problem):
        fl.sparse_coo_tensor(indices, values, size)


@pytest.mark.parametrize("crow, col, problem", [
    ([0, 1], [0, 1], "start at 0 and end at nnz"), ([0, 2, 1, 2], [0, 1], "decrease"), ([0, 1, 2, 2], [0, 9], "outside"),
    ([0, 2, 2, 2], [1, 0], "in order")])
def test_compressed_indices_that_do_not_fit(crow, col, problem):
    with pytest.raises(RuntimeError, match=problem):
        fl.sparse_csr_tensor(crow, col, [1.0, 2.0], (len(crow) - 1, 3))


# ---------------------------------------------------------------------------------- elementwise
UNARY = {"neg": numpy.negative, "abs": numpy.abs, "sin": numpy.sin, "tanh": numpy.tanh, "sign": numpy.sign,
         "expm1": numpy.expm1, "square": numpy.square, "trunc": numpy.trunc, "relu": lambda x: numpy.maximum(x, 0)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_ops_that_keep_zero(name, layout):
    array = dense(6, 5)
    got = getattr(fl, name)(sparse(array, layout))
    assert got.layout is LAYOUTS[layout]
    same(got, UNARY[name](array))


@pytest.mark.parametrize("name", UNARY)
def test_repeated_places_count_once(name):
    made, want = uncoalesced()
    same(getattr(fl, name)(made), UNARY[name](want))


@pytest.mark.parametrize("call", [fl.cos, fl.exp, lambda x: x + 1, lambda x: x == x, lambda x: x > -1, lambda x: 1 / x,
                                  lambda x: fl.cumsum(x, 0), lambda x: fl.linalg.det(x)])
def test_what_has_no_sparse_form_names_the_way_out(call):
    with pytest.raises(NotImplementedError, match="to_dense"):
        call(sparse(dense(4, 4)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic(layout):
    a, b, d = dense(6, 5), dense(6, 5, seed=1), dense(6, 5, seed=2, share=1)
    x, y, z = sparse(a, layout), sparse(b, layout), fl.from_numpy(d)
    for got, want in ((x + y, a + b), (x - y, a - b), (x * y, a * b), (x * 3, a * 3), (2 * x, 2 * a), (x / 4, a / 4),
                      (-x, -a), (x.add(y, alpha=3), a + 3 * b), (x.sub(y, alpha=2), a - 2 * b), (x * z, a * d), (z * x, a * d)):
        assert got.layout is LAYOUTS[layout]
        same(got, want)
    for got, want in ((z + x, d + a), (x + z, d + a), (z - x, d - a), (x - z, a - d), (z.add(x, alpha=2), d + 2 * a)):
        assert got.layout is fl.strided
        same(got, want)


def test_arithmetic_of_repeated_places():
    (x, a), (y, b) = uncoalesced(), uncoalesced(1)
    for got, want in ((x + y, a + b), (x * y, a * b), (x - x, a * 0), (x * 0.5, a / 2)):
        same(got, want)


def test_in_place_writes():
    array = dense(4, 5)
    made = sparse(array)
    values = made.values()
    made.mul_(2)
    assert made.values().tolist() == values.tolist()            # the same memory
    made += made
    same(made, array * 4)
    target = fl.ones(4, 5, dtype=fl.float64)
    target += sparse(array)
    same(target, array + 1)
    same(made.zero_(), array * 0)
    with pytest.raises(RuntimeError, match="out-of-place"):
        sparse(array).add_(target)


# ---------------------------------------------------------------------------------- products, sums
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(6, 5, 3), (1, 5, 1), (4, 1, 2), (5, 0, 2), (0, 3, 2), (37, 29, 17)])
def test_products_with_dense_matrices(layout, shape):
    n, m, k = shape
    a, w, v = dense(n, m), dense(m, k, seed=1, share=1), dense(m, seed=2, share=1)
    x = sparse(a, layout)
    same(x @ fl.from_numpy(w), a @ w)
    same(fl.sparse.mm(x, fl.from_numpy(w)), a @ w)
    same(fl.from_numpy(w.T.copy()) @ x.t(), w.T @ a.T)
    same(x @ fl.from_numpy(v), a @ v)
    same(fl.mv(x, fl.from_numpy(v)), a @ v)
    c = dense(n, k, seed=3, share=1)
    same(fl.sparse.addmm(fl.from_numpy(c), x, fl.from_numpy(w), beta=0.5, alpha=2), 0.5 * c + 2 * (a @ w))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_sparse_matrices(layout):
    a, b = dense(9, 7), dense(7, 8, seed=1)
    same(sparse(a, layout) @ sparse(b, layout), a @ b)
    same(sparse(a, layout) @ sparse(b[:, :0], layout), a @ b[:, :0])


def test_batches():
    a, w = dense(3, 4, 5), dense(3, 5, 2, seed=1, share=1)
    same(fl.bmm(sparse(a), fl.from_numpy(w)), a @ w)


@pytest.mark.parametrize("reduce, of", [("sum", numpy.sum), ("mean", numpy.mean), ("amax", numpy.max), ("amin", numpy.min)])
def test_reductions_of_products(reduce, of):
    a, w = dense(6, 5, share=0.6), dense(5, 3, seed=1, share=1)
    want = [[of([a[i, j] * w[j, k] for j in range(5) if a[i, j]] or [0]) for k in range(3)] for i in range(6)]
    same(fl.sparse.mm(sparse(a, "csr"), fl.from_numpy(w), reduce), want)


def test_sampled_products():
    a, left, right = dense(6, 5), dense(6, 3, seed=1, share=1), dense(3, 5, seed=2, share=1)
    got = fl.sparse.sampled_addmm(sparse(a, "csr"), fl.from_numpy(left), fl.from_numpy(right), beta=0.5, alpha=2)
    same(got, numpy.where(a != 0, 0.5 * a + 2 * (left @ right), 0))


@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1), -1, 2, (0, 2)])
def test_sums(dim):
    array = dense(5, 4, 3)
    for made in (sparse(array), fl.from_numpy(array).to_sparse(2)):
        same(fl.sparse.sum(made, dim), array.sum(dim))
        same(made.sum(dim), array.sum(dim))


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_of_what_is_specified(dim):
    array = dense(6, 5)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        weight = numpy.where(array != 0, numpy.exp(array), 0)
        share = weight / weight.sum(dim, keepdims=True)
    same(fl.sparse.softmax(sparse(array), dim), numpy.nan_to_num(share))
    logs = fl.sparse.log_softmax(sparse(array), dim).to_dense().numpy()
    numpy.testing.assert_allclose(logs[array != 0], numpy.log(share[array != 0]))


def test_diagonals():
    rows = numpy.arange(1.0, 13).reshape(3, 4)
    scipy_sparse = pytest.importorskip("scipy.sparse")
    for shape in ((4, 4), (3, 6), (6, 3)):
        want = scipy_sparse.spdiags(rows, [0, -2, 1], *shape).toarray()
        same(fl.sparse.spdiags(fl.from_numpy(rows), fl.tensor([0, -2, 1]), shape), want)


def test_solve():
    pytest.importorskip("scipy.sparse.linalg")
    a, b = dense(6, 6) + 4 * numpy.eye(6), dense(6, seed=1, share=1)
    same(fl.sparse.spsolve(sparse(a, "csr"), fl.from_numpy(b)), numpy.linalg.solve(a, b))


# ---------------------------------------------------------------------------------- views, joins
def test_views():
    array = dense(5, 4, 3)
    for made in (sparse(array), fl.from_numpy(array).to_sparse(2)):
        for got, want in ((made[2], array[2]), (made[1:4], array[1:4]), (made[:, 1], array[:, 1]), (made[..., 2], array[..., 2]),
                          (made[0, 1], array[0, 1]), (made[::2], array[::2]), (made.transpose(0, 1), array.transpose(1, 0, 2)),
                          (made.unsqueeze(1), array[:, None]), (made.unsqueeze(-1), array[..., None]),
                          (made[:, 1:2].squeeze(1), array[:, 1]), (made.narrow(1, 1, 2), array[:, 1:3]),
                          (made[fl.tensor([3, 0, 3])], array[[3, 0, 3]]),
                          (made.index_select(1, fl.tensor([2, 2, 0])), array[:, [2, 2, 0]]),
                          (made.index_select(2, fl.tensor([2, 0])), array[:, :, [2, 0]])):
            same(got, want)
    same(sparse(array[0])[2, 1], array[0][2, 1])


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_joins(dim):
    a, b = dense(3, 4, 2), dense(3, 4, 2, seed=1)
    for count in (1, 2, 3):
        x, y = (fl.from_numpy(v).to_sparse(count) for v in (a, b))
        same(fl.cat([x, y], dim), numpy.concatenate([a, b], dim))
        same(fl.stack([x, y], dim), numpy.stack([a, b], dim))


def test_mask():
    array, mask = dense(5, 4, share=1), dense(5, 4, seed=1)
    for layout in LAYOUTS:
        got = fl.from_numpy(array).sparse_mask(sparse(mask, layout))
        same(got, numpy.where(mask != 0, array, 0))


def test_sizes_change():
    made = sparse(dense(4, 5))
    assert made.clone().sparse_resize_and_clear_((2, 3), 1, 1)._nnz() == 0
    grown = made.clone().sparse_resize_((6, 7), 2, 0)
    assert tuple(grown.shape) == (6, 7) and grown._nnz() == made._nnz()
    with pytest.raises(RuntimeError, match="shrinking"):
        made.clone().sparse_resize_((1, 1), 2, 0)


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.int64, fl.int32, fl.bool, fl.complex64, fl.bfloat16])
def test_dtypes(dtype):
    plain = fl.tensor([[1, 0, 2], [0, 0, 3]]).to(dtype)
    for layout in LAYOUTS.values():
        made = plain.to_sparse(layout=layout)
        assert made.dtype is dtype and bool((made.to_dense() == plain).all())
        assert made.to(fl.float64).to_dense().tolist() == [[(v != 0 if dtype is fl.bool else v) for v in row]
                                                           for row in ([1.0, 0, 2], [0, 0, 3])]


def test_text():
    made = fl.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    assert repr(made) == ("tensor(indices=tensor([[0, 1],\n                       [2, 0]]),\n"
                          "       values=tensor([3., 4.]),\n       size=(2, 3), nnz=2, layout=flambeau.sparse_coo)")
    assert repr(made.to_sparse_csr()) == ("tensor(crow_indices=tensor([0, 1, 2]),\n       col_indices=tensor([2, 0]),\n"
                                          "       values=tensor([3., 4.]), size=(2, 3), nnz=2, layout=flambeau.sparse_csr)")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_pickles_and_files(layout):
    made = sparse(dense(5, 4), layout).requires_grad_()
    buffer = io.BytesIO()
    fl.save({"a": made}, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), fl.load(buffer)["a"]):
        assert other.layout is made.layout and other.requires_grad and repr(other) == repr(made)
        with fl.no_grad():
            other.values().mul_(0)
    assert bool((made.detach().values() != 0).all())


# ---------------------------------------------------------------------------------- gradients
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_products(layout):
    a, w, g = dense(6, 5), dense(5, 3, seed=1, share=1), dense(6, 3, seed=2, share=1)
    x, y = sparse(a, layout).requires_grad_(), fl.from_numpy(w.copy()).requires_grad_()
    (fl.sparse.mm(x, y) * fl.from_numpy(g)).sum().backward()
    assert x.grad.layout is LAYOUTS[layout]
    same(x.grad, numpy.where(a != 0, g @ w.T, 0))
    same(y.grad, a.T @ g)
    first, second = fl.autograd.grad((fl.sparse.mm(x, y) * fl.from_numpy(g)).sum(), [x, y])
    same(first, numpy.where(a != 0, g @ w.T, 0))
    same(second, a.T @ g)


def test_gradient_of_a_product_of_sparse_matrices():
    a, b = dense(6, 5), dense(5, 4, seed=1)
    x, y = sparse(a).requires_grad_(), sparse(b).requires_grad_()
    (x @ y).to_dense().sum().backward()
    same(x.grad, numpy.where(a != 0, numpy.ones((6, 4)) @ b.T, 0))
    same(y.grad, numpy.where(b != 0, a.T @ numpy.ones((6, 4)), 0))


def test_gradients_through_values_and_places():
    values = fl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    made = fl.sparse_coo_tensor([[0, 1, 1], [0, 2, 2]], values, (2, 3))
    (made.to_dense() ** 2).sum().backward()
    assert values.grad.tolist() == [2, 10, 10]
    values.grad = None
    (made.coalesce().values() ** 2).sum().backward()
    assert values.grad.tolist() == [2, 10, 10]
    plain = fl.tensor([[1.0, 0.0, 2.0]], requires_grad=True)
    (plain.to_sparse() * 3).sum().backward()
    assert plain.grad.tolist() == [[3, 0, 3]]


def test_second_derivative():
    x = fl.tensor([[1.0, 0.0, 2.0]], requires_grad=True)
    first, = fl.autograd.grad((x.to_sparse() ** 3).sum(), x, create_graph=True)
    second, = fl.autograd.grad(first.sum(), x)
    assert second.tolist() == [[6, 0, 12]]


def test_no_result_depends_on_the_number_of_threads():
    made, w = uncoalesced(count=3000, shape=(50, 40))[0], fl.randn(40, 33, dtype=fl.float64)
    before = fl.get_num_threads()
    found = []
    for threads in (1, 2):
        fl.set_num_threads(threads)
        found.append([(made @ w).numpy().tobytes(), (made.to_sparse_csr() @ w).numpy().tobytes(),
                      made.coalesce().values().numpy().tobytes()])
    fl.set_num_threads(before)
    assert found[0] == found[1]


def test_function_transforms_go_through_sparse_tensors():
    places, w = [[0, 1, 1], [0, 2, 2]], fl.from_numpy(dense(3, 2, share=1))

    def loss(values):
        return (fl.sparse_coo_tensor(fl.tensor(places), values, (2, 3)).to_sparse_csr() @ w).pow(2).sum()
    values = fl.tensor([1.0, 2.0, 3.0], dtype=fl.float64, requires_grad=True)
    loss(values).backward()
    same(fl.func.grad(loss)(values.detach()), values.grad.numpy())
    same(fl.func.jvp(loss, (values.detach(),), (fl.ones(3).double(),))[1], values.grad.sum().numpy())
    same(fl.func.vmap(loss)(fl.stack([values.detach()] * 2)), numpy.repeat(loss(values).item(), 2))
    assert tuple(fl.func.hessian(loss)(values.detach()).shape) == (3, 3)


@pytest.mark.parametrize("call", [
    lambda x: fl.sparse.mm(x, fl.ones(4, 2).double()), lambda x: x * x, lambda x: fl.sparse.softmax(x, 1), lambda x: x.sum(0),
    lambda x: x.t() @ x, lambda x: fl.cat([x, x]), lambda x: x.to_sparse_csr(), lambda x: x[1]])
def test_finite_differences(call):
    check = fl.sparse.as_sparse_gradcheck(fl.autograd.gradcheck)
    assert check(call, sparse(dense(3, 4)).requires_grad_())


def test_a_leaf_that_requires_grad_is_not_written_to():
    with pytest.raises(RuntimeError, match="leaf Variable"):
        sparse(dense(3, 4)).requires_grad_().mul_(2)


def test_layouts_that_creation_functions_take():
    for make in (fl.zeros, fl.empty):
        made = make(3, 4, layout=fl.sparse_coo)
        assert made.is_sparse and made._nnz() == 0 and tuple(made.shape) == (3, 4)
        assert make((3, 4), layout=fl.sparse_csr, dtype=fl.int64).dtype is fl.int64
    made = sparse(dense(3, 4))
    assert fl.zeros_like(made).is_sparse and made.nbytes == made._nnz() * (2 * 8 + 8)
    with pytest.raises(NotImplementedError, match="values"):
        fl.nn.Parameter(made)


def test_assert_close():
    from flambeau.torch.testing import assert_close
    x, y = sparse(dense(3, 4)), sparse(dense(3, 4, seed=1))
    assert_close(x, x.clone())
    assert_close(x.to_sparse_csr(), x.to_sparse_csr())
    nested = fl.nested.nested_tensor([[1.0], [2.0, 3.0]])
    assert_close(nested, nested.clone())
    for one, other in ((x, y), (x, x * 2), (x, x.to_dense()), (nested, nested * 2)):
        with pytest.raises(AssertionError):
            assert_close(one, other)


def test_a_size_alone_gives_an_empty_tensor():
    for made in (fl.sparse_coo_tensor((2, 3)), fl.sparse_coo_tensor(size=(2, 3))):
        assert tuple(made.shape) == (2, 3) and made._nnz() == 0
    with pytest.raises(TypeError, match="indices and values, or a size"):
        fl.sparse_coo_tensor(values=fl.ones(2), size=(2,))
