"""Convolutions of 1 and 3 axes and the transposed ones against sums written out."""

import itertools

import numpy as np
import pytest

import flambeau as fl
from flambeau.ops import convolution


def sample(*shape):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype("float32")


def pairs_of_places(sizes, kernel, counts, stride, padding, dilation):
    """(place of the wide image, tap, place of the narrow image) wherever the first lies inside."""
    for out in itertools.product(*map(range, counts)):
        for tap in itertools.product(*map(range, kernel)):
            place = tuple(o * s - p + t * d for o, s, p, t, d in zip(out, stride, padding, tap, dilation))
            if all(0 <= i < size for i, size in zip(place, sizes)):
                yield place, tap, out


CASES = [((9,), (3,), (2,), (1,), (2,)), ((4, 5), (2, 3), (1, 2), (1, 0), (1, 1)),
         ((4, 5, 3), (2, 3, 2), (2, 1, 1), (1, 1, 0), (1, 2, 1))]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("sizes, kernel, stride, padding, dilation", CASES)
def test_convolution(sizes, kernel, stride, padding, dilation, groups):
    x, w, b = sample(2, 4, *sizes), sample(6, 4 // groups, *kernel), sample(6)
    got = getattr(convolution, f"conv{len(sizes)}d")(
        fl.tensor(x), fl.tensor(w), fl.tensor(b), stride, padding, dilation, groups).numpy()
    want = np.zeros_like(got) + b.reshape(-1, *(1,) * len(sizes))
    for place, tap, out in pairs_of_places(sizes, kernel, got.shape[2:], stride, padding, dilation):
        for g in range(groups):
            own, outs = slice(g * 4 // groups, (g + 1) * 4 // groups), slice(g * 6 // groups,
                                                                             (g + 1) * 6 // groups)
            want[(slice(None), outs, *out)] += x[(slice(None), own, *place)] @ w[(outs, slice(None), *tap)].T
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups, extra", [(1, 0), (2, 0), (1, 1)])
@pytest.mark.parametrize("sizes, kernel, stride, padding, dilation", CASES)
def test_transposed(sizes, kernel, stride, padding, dilation, groups, extra):
    if extra and any(extra >= max(s, d) for s, d in zip(stride, dilation)):
        pytest.skip("that much extra output is refused")
    x, w = sample(2, 4, *sizes), sample(4, 6 // groups, *kernel)
    got = getattr(convolution, f"conv_transpose{len(sizes)}d")(
        fl.tensor(x), fl.tensor(w), None, stride, padding, extra, groups, dilation).numpy()
    want = np.zeros_like(got)
    for place, tap, out in pairs_of_places(got.shape[2:], kernel, sizes, stride, padding, dilation):
        for g in range(groups):
            own, outs = slice(g * 4 // groups, (g + 1) * 4 // groups), slice(g * 6 // groups,
                                                                             (g + 1) * 6 // groups)
            want[(slice(None), outs, *place)] += x[(slice(None), own, *out)] @ w[(own, slice(None), *tap)]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_gradients_are_each_others_transposes():
    x, w = fl.tensor(sample(1, 2, 4, 4, 4), requires_grad=True), fl.tensor(sample(3, 2, 2, 2, 2),
                                                                           requires_grad=True)
    out = convolution.conv3d(x, w, padding=1)
    seed = fl.tensor(sample(*out.shape))
    out.backward(seed)
    back = convolution.conv_transpose3d(seed, w.detach(), padding=1)
    np.testing.assert_allclose(x.grad.numpy(), back.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((w.grad * w.detach()).sum().item(), (out.detach() * seed).sum().item(),
                               rtol=1e-4)


def test_unfold_columns_times_weights_are_a_convolution():
    x, w = fl.tensor(sample(2, 3, 6, 5)), fl.tensor(sample(4, 3, 2, 3))
    columns = convolution.unfold_windows(x, (2, 3), padding=1, stride=(1, 2))
    want = convolution.conv2d(x, w, stride=(1, 2), padding=1)
    np.testing.assert_allclose((w.reshape(4, -1) @ columns).numpy().reshape(want.shape), want.numpy(),
                               rtol=1e-4,
                               atol=1e-5)


def test_fold_counts_windows():
    ones = convolution.unfold_windows(fl.ones(1, 1, 4, 4), 3)
    counts = convolution.fold_windows(ones, (4, 4), 3)
    assert counts[0, 0].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]


def test_refusals():
    x = fl.ones(1, 2, 5)
    for call in (lambda: convolution.conv1d(x, fl.ones(1, 3, 2)),
                 lambda: convolution.conv1d(x, fl.ones(1, 2, 6)),
                 lambda: convolution.conv1d(x, fl.ones(1, 2, 2), padding="odd"),
                 lambda: convolution.conv1d(x, fl.ones(1, 2, 2), stride=2, padding="same"),
                 lambda: convolution.conv_transpose1d(x, fl.ones(2, 1, 2), output_padding=1)):
        with pytest.raises(RuntimeError):
            call()


@pytest.mark.parametrize("kernel", [1, 3, 5, (2, 3, 4)])
@pytest.mark.parametrize("stride, groups", [(1, 1), (2, 2)])
@pytest.mark.parametrize("kind", ["conv3d", "conv_transpose3d"])
def test_gradients_over_three_axes_are_adjoint(kind, kernel, stride, groups):
    """A convolution is linear in each operand: <out, seed> is <x, gradient of x> and <w, gradient of w>."""
    fl.manual_seed(0)
    size = (kernel,) * 3 if isinstance(kernel, int) else kernel
    x = fl.randn(2, 4, 6, 7, 8, dtype=fl.float64, requires_grad=True)
    w = fl.randn(4, 4 // groups, *size, dtype=fl.float64, requires_grad=True)
    out = getattr(fl.nn.functional, kind)(x, w, stride=stride, padding=1 if min(size) > 2 else 0, groups=groups)
    seed = fl.randn(*out.shape, dtype=fl.float64)
    of_x, of_w = fl.autograd.grad(out, (x, w), seed, create_graph=True)
    value = (out * seed).sum()
    assert fl.allclose((of_x * x).sum(), value) and fl.allclose((of_w * w).sum(), value)
    again, = fl.autograd.grad(of_x, w, x.detach(), retain_graph=True)       # and so are the derivatives of derivatives
    assert fl.allclose((again * w).sum(), value)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), ()])
def test_a_bias_of_another_size_is_refused(shape):
    x, weight = fl.ones(1, 2, 5, 5), fl.ones(2, 2, 3, 3)
    assert fl.conv2d(x, weight, fl.ones(2)).shape == (1, 2, 3, 3)
    for call in (fl.conv2d, fl.conv_transpose2d):
        with pytest.raises(RuntimeError, match="bias to be 1-dimensional with 2 elements"):
            call(x, weight, fl.ones(shape))


def test_the_op_takes_one_dtype():
    x, weight = fl.ones(1, 2, 5, 5), fl.ones(2, 2, 3, 3)
    for operands in ((x.double(), weight, None), (x, weight.half(), None), (x, weight, fl.ones(2, dtype=fl.float64))):
        with pytest.raises(RuntimeError, match="dtypes of the operands differ"):
            convolution.convolution(*operands, (3, 3))
