"""Matrix products: every pair of ranks, transposed and strided operands, halves, gradients, error texts."""

import itertools

import numpy
import pytest

import flambeau as fl

LEFT = {"k": (4,), "mk": (3, 4), "bmk": (2, 3, 4), "1mk": (1, 3, 4), "abmk": (5, 1, 3, 4), "0k": (0, 4)}
RIGHT = {"k": (4,), "kn": (4, 6), "bkn": (2, 4, 6), "1kn": (1, 4, 6), "abkn": (1, 2, 4, 6), "k0": (4, 0)}


def operands(a, b, seed=0):
    rng = numpy.random.default_rng(seed)
    return rng.uniform(-1, 1, a), rng.uniform(-1, 1, b)


@pytest.mark.parametrize("left, right", list(itertools.product(LEFT, RIGHT)))
def test_every_pair_of_ranks_with_gradients(left, right):
    a, b = operands(LEFT[left], RIGHT[right])
    want = a @ b
    x, y = fl.tensor(a, requires_grad=True), fl.tensor(b, requires_grad=True)
    got = x @ y
    assert got.shape == want.shape
    numpy.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12, atol=1e-14)
    weights = numpy.random.default_rng(1).uniform(size=want.shape)
    (got * fl.tensor(weights)).sum().backward()
    for tensor, array, other in ((x, a, 0), (y, b, 1)):
        assert tensor.grad.shape == array.shape
        direction = numpy.random.default_rng(2).uniform(-1, 1, array.shape)
        # the product is linear in each operand
        moved = (direction @ b) if other == 0 else (a @ direction)
        numpy.testing.assert_allclose((tensor.grad.numpy() * direction).sum(), (moved * weights).sum(),
                                      rtol=1e-9, atol=1e-12)


LAYOUTS = {
    "plain": lambda a: a, "transposed": lambda a: numpy.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1,
        -2),
    "sliced": lambda a: numpy.repeat(numpy.repeat(a, 2, -1), 3, -2)[..., ::3, ::2],
    "offset": lambda a: numpy.pad(a, [(0, 0)] * (a.ndim - 2) + [(1, 2), (3, 0)])[..., 1:-2, 3:],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 7, 3), (17, 33, 31), (64, 48, 80), (3, 200, 1),
                                   (1, 65, 129)])
def test_layouts_and_sizes(sizes, dtype):
    m, k, n = sizes
    a, b = (v.astype(dtype) for v in operands((m, k), (k, n)))
    tolerance = {"float32": 1e-5, "float64": 1e-13}[dtype] * max(1, k ** 0.5)
    for first, second in itertools.product(LAYOUTS.values(), repeat=2):
        got = fl.from_numpy(first(a)) @ fl.from_numpy(second(b))
        numpy.testing.assert_allclose(got.numpy(), a.astype("float64") @ b, atol=tolerance)


def test_batches_of_transposed_matrices():
    a, b = operands((3, 2, 5, 4), (2, 6, 4))
    got = fl.tensor(a) @ fl.tensor(b).mT
    numpy.testing.assert_allclose(got.numpy(), a @ b.swapaxes(-1, -2), rtol=1e-12)
    got = fl.tensor(a).permute(1, 0, 2, 3) @ fl.tensor(a).permute(1, 0, 3, 2)
    numpy.testing.assert_allclose(got.numpy(), a.transpose(1, 0, 2, 3) @ a.transpose(1, 0, 3, 2), rtol=1e-12)


@pytest.mark.parametrize("dtype, epsilon", [(fl.float16, 2 ** -11), (fl.bfloat16, 2 ** -8)])
def test_halves_sum_in_float32(dtype, epsilon):
    a, b = (fl.tensor(v).to(dtype) for v in operands((9, 600), (600, 5)))
    want = a.double().numpy() @ b.double().numpy()
    got = a @ b
    assert got.dtype is dtype
    numpy.testing.assert_allclose(got.double().numpy(), want, atol=abs(want).max() * 2 * epsilon)
    x = a.clone().requires_grad_(True)
    (x @ b).sum().backward()
    assert x.grad.dtype is dtype
    numpy.testing.assert_allclose(x.grad.double().numpy(),
                                  numpy.broadcast_to(b.double().numpy().sum(1), (9, 600)),
                                  atol=0.05 if dtype is fl.float16 else 0.2)


def test_empty_sums_are_zero():
    assert (fl.ones(3, 0) @ fl.ones(0, 2)).tolist() == [[0.0, 0.0]] * 3
    assert (fl.ones(0) @ fl.ones(0)).item() == 0.0 and (fl.ones(0, 3) @ fl.ones(3, 2)).shape == (0, 2)
    assert (fl.ones(0, 2, 3) @ fl.ones(3, 2)).shape == (0, 2, 2)


def test_infinities_and_nan_go_through():
    a = fl.tensor([[float("inf"), 1.0], [float("nan"), 1.0], [1.0, 1.0]])
    assert (a @ fl.ones(2, 1)).reshape(3).tolist()[::2] == [float("inf"), 2.0]
    assert (a @ fl.ones(2, 1))[1].isnan().all()


@pytest.mark.parametrize("function, words", [
    (lambda: fl.ones(32, 784) @ fl.ones(512, 10), r"inner sizes differ: got \(32, 784\) @ \(512, 10\)"),
    (lambda: fl.ones(2, 3) @ fl.ones(2, 3), "hint: transpose the second operand"),
    (lambda: fl.ones(3, 2) @ fl.ones(3, 4), "hint: transpose the first operand"),
    (lambda: fl.ones(3) @ fl.ones(4), "inner sizes differ"),
    (lambda: fl.ones(()) @ fl.ones(3), r"use \* for a number"),
    (lambda: fl.ones(2, 3, 4) @ fl.ones(5, 4, 2), "broadcast"),
    (lambda: fl.ones(2, 2) @ fl.ones(2, 2).double(), "dtypes"),
    (lambda: fl.ones(2, 2).bmm(fl.ones(2, 2)), "three axes"),
    (lambda: fl.nn.functional.linear(fl.ones(2, 3), fl.ones(4, 5)), "in_features"),
])
def test_errors_teach(function, words):
    for _ in range(2):              # the second call may take a faster way
        with pytest.raises(RuntimeError, match=words):
            function()


def test_operands_must_be_tensors():
    with pytest.raises(TypeError):
        fl.ones(2) @ 2
    with pytest.raises(TypeError):
        fl.matmul(fl.ones(2), [1.0, 2.0])


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 5, 3), (0, 3)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_linear(shape, with_bias):
    rng = numpy.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, s) for s in (shape, (6, 3), (6,))]
    x, w, b = (fl.tensor(a, requires_grad=True) for a in arrays)
    got = fl.nn.functional.linear(x, w, b if with_bias else None)
    want = arrays[0] @ arrays[1].T + (arrays[2] if with_bias else 0)
    numpy.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12, atol=1e-14)
    got.sum().backward()
    rows = arrays[0].reshape(-1, 3)
    numpy.testing.assert_allclose(w.grad.numpy(), numpy.tile(rows.sum(0), (6, 1)), atol=1e-12)
    assert x.grad.shape == shape
    if with_bias:
        assert b.grad.tolist() == [float(len(rows))] * 6


def test_results_do_not_depend_on_threads():
    before, drawn = fl.get_num_threads(), []
    a, b = (fl.tensor(v.astype("float32")) for v in operands((130, 257), (257, 190)))
    try:
        for count in (1, 2, 5):
            fl.set_num_threads(count)
            drawn.append((a @ b).numpy().tobytes())
    finally:
        fl.set_num_threads(before)
    assert len(set(drawn)) == 1


@pytest.mark.parametrize("other", [fl.bool, fl.uint8, fl.float64, fl.float16])
def test_products_take_one_dtype(other):
    a, b = fl.ones(2, 3), fl.ones(3, 2).to(other)
    for call in (fl.mm, fl.matmul, lambda p, q: fl.bmm(p[None], q[None])):
        for x, y in ((a, b), (b, a)):
            with pytest.raises(RuntimeError, match="dtypes of the operands differ"):
                call(x, y)
