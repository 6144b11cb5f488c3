"""Convolution and pooling: values against NumPy, two derivatives in float64, error texts."""

import itertools

import numpy
import pytest

import flambeau as fl
from flambeau.ops.window import unfold

conv2d, max_pool2d = fl.conv2d, fl.max_pool2d


def rng():
    return numpy.random.default_rng(0)


def reference(x, w, b, stride, padding, dilation, groups):
    columns = unfold(x, w.shape[2:], stride, padding, dilation)
    n, c, r, s, oh, ow = columns.shape
    columns = columns.reshape(n, groups, c // groups, r, s, oh, ow)
    filters = w.reshape(groups, len(w) // groups, c // groups, r, s)
    return numpy.einsum("ngcrsxy,gkcrs->ngkxy", columns, filters).reshape(n, len(w), oh, ow) + b[:, None,
        None]


CASES = [
    # batch, in, out, size, kernel, stride, padding, dilation, groups
    (1, 1, 1, (5, 5), (3, 3), (1, 1), (0, 0), (1, 1), 1),
    (2, 4, 6, (7, 6), (3, 2), (2, 1), (1, 0), (1, 1), 1),
    (2, 4, 6, (9, 8), (3, 3), (1, 2), (2, 2), (2, 1), 2),
    (3, 3, 3, (6, 6), (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (1, 4, 4, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1), 4),
    (2, 17, 33, (5, 9), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 2, 3, (3, 3), (3, 3), (1, 1), (0, 0), (1, 1), 1),
    (1, 2, 2, (8, 8), (2, 5), (3, 3), (0, 2), (1, 1), 1),
]


def made(case, dtype="float64"):
    batch, inner, outer, size, kernel, *window, groups = case
    shapes = (batch, inner, *size), (outer, inner // groups, *kernel), (outer,)
    generator = rng()
    return [generator.uniform(-1, 1, s).astype(dtype) for s in shapes], (*window, groups)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-12)])
def test_convolution(case, dtype, tolerance):
    (x, w, b), window = made(case, dtype)
    want = reference(x.astype("float64"), w, b, *window)
    numpy.testing.assert_allclose(conv2d(fl.tensor(x), fl.tensor(w), fl.tensor(b), *window).numpy(), want,
                                  atol=tolerance)
    transposed = fl.tensor(numpy.ascontiguousarray(x.transpose(3, 2, 1, 0))).permute(3, 2, 1, 0)
    numpy.testing.assert_allclose(conv2d(transposed, fl.tensor(w), None, *window).numpy(),
                                  want - b[:, None, None], atol=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_convolution_gradients(case):
    """Linear in each operand: a gradient's product with a direction is that of the moved result."""
    (x, w, b), window = made(case)
    leaves = [fl.tensor(a, requires_grad=True) for a in (x, w, b)]
    y = conv2d(*leaves, *window)
    weights = rng().uniform(size=tuple(y.shape))
    (y * fl.tensor(weights)).sum().backward()
    zero = numpy.zeros_like(b)
    for i, array in enumerate((x, w, b)):
        direction = numpy.random.default_rng(i).uniform(-1, 1, array.shape)
        arrays = [x, w, zero]
        arrays[i] = direction
        moved = reference(*arrays, *window) if i < 2 else numpy.broadcast_to(direction[:, None, None],
            weights.shape[1:])
        assert (leaves[i].grad.numpy() * direction).sum() == pytest.approx((moved * weights).sum(),
            rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("case", CASES[1:4])
def test_second_derivatives_of_a_convolution(case):
    (x, w, b), window = made(case)
    directions = [numpy.random.default_rng(i).uniform(-1, 1, a.shape) for i, a in enumerate((x, w))]

    def slope(x, w):
        x, w = (fl.tensor(t, requires_grad=True) for t in (x, w))
        grads = fl.grad(conv2d(x, w, None, *window).sin().sum(), (x, w), create_graph=True)
        return sum((g * fl.tensor(d)).sum() for g, d in zip(grads, directions)), (x, w)

    value, leaves = slope(x, w)
    second = fl.grad(value, leaves)
    h = 1e-6
    up, down = (slope(x + s * h * directions[0], w + s * h * directions[1])[0].item() for s in (1, -1))
    got = sum((g * fl.tensor(d)).sum().item() for g, d in zip(second, directions))
    assert got == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16])
def test_convolution_of_halves(dtype):
    (x, w, b), window = made(CASES[1])
    x, w, b = (fl.tensor(a).to(dtype) for a in (x, w, b))
    got = conv2d(x, w, b, *window)
    assert got.dtype is dtype
    want = reference(*(t.double().numpy() for t in (x, w, b)), *window)
    numpy.testing.assert_allclose(got.double().numpy(), want, atol=0.01 if dtype is fl.float16 else 0.06)


def test_numbers_stand_for_both_axes():
    (x, w, b), _ = made(CASES[1])
    x, w = fl.tensor(x), fl.tensor(w)
    assert (conv2d(x, w, None, 2, 1) == conv2d(x, w, None, (2, 2), (1, 1))).all()
    assert (max_pool2d(x, 2) == max_pool2d(x, (2, 2), (2, 2))).all()


def pooled(x, kernel, stride, padding, dilation):
    outside = ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)
    columns = unfold(numpy.pad(x, outside, constant_values=-numpy.inf), kernel, stride, (0, 0), dilation)
    return columns.max((2, 3))


POOLS = [((2, 2), (2, 2), (0, 0), (1, 1)), ((3, 2), (1, 2), (1, 1), (1, 1)),
         ((2, 3), (1, 1), (0, 1), (2, 1)), ((1, 1), (1, 1), (0, 0), (1, 1))]


@pytest.mark.parametrize("window", POOLS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_max_pooling(window, dtype):
    x = rng().uniform(-1, 1, (2, 3, 9, 8)).astype(dtype)
    numpy.testing.assert_array_equal(max_pool2d(fl.tensor(x), *window).numpy(), pooled(x, *window))


@pytest.mark.parametrize("window", POOLS)
def test_max_pooling_gradients(window):
    x = rng().permutation(2 * 3 * 9 * 8).reshape(2, 3, 9, 8) / 100.0        # no ties
    direction = numpy.random.default_rng(1).uniform(-1, 1, x.shape)

    def value(t):
        return max_pool2d(t, *window).sin().sum()

    def slope(a):
        t = fl.tensor(a, requires_grad=True)
        g, = fl.grad(value(t), t, create_graph=True)
        return (g * fl.tensor(direction)).sum(), t

    h = 1e-6
    first, t = slope(x)
    up, down = (value(fl.tensor(x + s * h * direction)).item() for s in (1, -1))
    assert first.item() == pytest.approx((up - down) / (2 * h), rel=1e-6)
    second, = fl.grad(first, t)
    up, down = (slope(x + s * h * direction)[0].item() for s in (1, -1))
    assert (second * fl.tensor(direction)).sum().item() == pytest.approx((up - down) / (2 * h), rel=1e-5)


def test_pooling_of_nan_and_ties():
    x = fl.tensor([[[[1.0, float("nan")], [1.0, 1.0]]]])
    assert max_pool2d(x, 2).isnan().all()
    t = fl.ones(1, 1, 2, 2, requires_grad=True)
    max_pool2d(t, 2).sum().backward()
    assert t.grad.sum().item() == 1.0 and t.grad[0, 0, 0, 0].item() == 1.0      # the first of equals


def test_ceil_mode_counts_windows_as_pytorch():
    for size, kernel, stride, padding in itertools.product((5, 6, 7), (2, 3), (2, 3), (0, 1)):
        got = max_pool2d(fl.ones(1, 1, size, size), kernel, stride, padding, 1, True).shape[2]
        count = -(-(size + 2 * padding - kernel) // stride) + 1
        want = count - 1 if (count - 1) * stride >= size + padding else count
        assert got == want, (size, kernel, stride, padding)


@pytest.mark.parametrize("function, words", [
    (lambda: conv2d(fl.ones(1, 3, 5, 5), fl.ones(2, 4, 3, 3)), "number of channels differs"),
    (lambda: conv2d(fl.ones(1, 2, 2, 2), fl.ones(2, 2, 3, 3)), "kernel is larger"),
    (lambda: conv2d(fl.ones(5, 5), fl.ones(2, 4, 3, 3)), "four axes"),
    (lambda: conv2d(fl.ones(1, 4, 5, 5), fl.ones(3, 2, 3, 3), None, 1, 0, 1, 2), "groups"),
    (lambda: conv2d(fl.ones(1, 2, 5, 5), fl.ones(2, 2, 3, 3).double()), "dtypes"),
    (lambda: max_pool2d(fl.ones(1, 1, 4, 4), 2, 2, 2), "half"),
    (lambda: max_pool2d(fl.ones(1, 1, 2, 2), 5), "empty"),
])
def test_errors_teach(function, words):
    for _ in range(2):
        with pytest.raises(RuntimeError, match=words):
            function()


def test_results_do_not_depend_on_threads():
    generator, before = rng(), fl.get_num_threads()
    x, w = (fl.tensor(generator.uniform(-1, 1, s).astype("float32"), requires_grad=True)
            for s in ((8, 16, 20, 20), (24, 16, 3, 3)))
    seen = set()
    try:
        for count in (1, 2, 5):
            fl.set_num_threads(count)
            y = max_pool2d(conv2d(x, w, None, 1, 1), 2)
            grads = fl.grad(y.sum(), (x, w))
            seen.add(b"".join(t.detach().numpy().tobytes() for t in (y, *grads)))
    finally:
        fl.set_num_threads(before)
    assert len(seen) == 1
