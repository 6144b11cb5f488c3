"""Gradients of complex tensors against finite differences along the real and the imaginary direction.

The gradient of a real loss is dL/d re + i dL/d im, so the loss grows by Re(conj(gradient) * step).
"""

import numpy
import pytest

import flambeau as fl

RNG = numpy.random.default_rng(0)
F = fl.nn.functional
L = fl.linalg


def complex_values(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def real_values(*shape):
    return RNG.normal(size=shape)


def derivative_along(function, values, weight, index, step, eps=1e-6):
    """The growth of Re(conj(weight) function) as operand `index` moves along `step`."""
    def loss(t):
        moved = [fl.tensor(v + t * step if i == index else v) for i, v in enumerate(values)]
        return (numpy.conj(weight) * function(*moved).numpy()).real.sum()
    return (loss(eps) - loss(-eps)) / (2 * eps)


def check(function, *values, tolerance=1e-6):
    leaves = [fl.tensor(v, requires_grad=True) for v in values]
    out = function(*leaves)
    weight = complex_values(*out.shape) if out.is_complex() else real_values(*out.shape)
    out.backward(fl.tensor(weight).reshape(tuple(out.shape)))
    for i, (value, leaf) in enumerate(zip(values, leaves)):
        assert leaf.grad.dtype is leaf.dtype and leaf.grad.shape == leaf.shape
        for unit in (1, 1j) if numpy.iscomplexobj(value) else (1,):
            step = real_values(*value.shape) * unit
            got = (leaf.grad.numpy().conj() * step).real.sum()
            assert got == pytest.approx(derivative_along(function, values, weight, i, step), tolerance,
                                        tolerance)


UNARY = ["exp", "expm1", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "square", "reciprocal",
         "neg", "abs",
         "angle", "sgn", "conj", "sigmoid", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
         "tanh", "asinh",
         "acosh", "atanh", "sinc", "real", "imag", "view_as_real", "clone"]


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand(name):
    check(getattr(fl, name), complex_values(3, 4))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "logaddexp"])
@pytest.mark.parametrize("kinds", ["cc", "rc", "cr"])
def test_functions_of_two_operands(name, kinds):
    if name == "logaddexp" and "r" in kinds:
        pytest.skip("its operands have one kind of dtype")
    shapes = ((3, 4), (4,))
    values = [(complex_values if k == "c" else real_values)(*s) for k, s in zip(kinds, shapes)]
    if name == "pow" and kinds == "rc":
        values[0] = abs(values[0]) + 0.1
    check(getattr(fl, name), *values)


def positive(x):
    return fl.real(x) > 0


MORE = {
    "numbers": lambda x: x * (2 + 1j) - 3j / x + x ** 2 + x ** 0.5 + 2 ** x + (1 + 2j) ** x + x ** 1j - (1 - x),
    "where": lambda x: fl.where(positive(x.detach()), x, 1j),
    "masked_fill": lambda x: x.masked_fill(positive(x.detach()), 1j),
    "sum": lambda x: x.sum(1), "mean": lambda x: x.mean(), "prod": lambda x: x.prod(0),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1), "logsumexp": lambda x: x.logsumexp(1),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "var": lambda x: x.var(1), "std": lambda x: x.std(1), "norm": lambda x: x.norm(),
    "norm3": lambda x: L.vector_norm(x, 3, 1),
    "index": lambda x: x[fl.tensor([0, 2, 2])], "slice": lambda x: x[1:, ::2],
    "mask": lambda x: x[positive(x.detach())],
    "gather": lambda x: x.gather(1, fl.tensor([[0, 0], [1, 3], [2, 1]])), "cat": lambda x: fl.cat([x,
                                                                                                   x * 1j]),
    "stack": lambda x: fl.stack([x, x.conj()]), "expand": lambda x: x.expand(2, 3, 4),
    "tril": lambda x: x.tril(),
    "pad": lambda x: F.pad(x, (1, 2), value=1j), "flip": lambda x: x.flip(0),
    "transpose": lambda x: x.mT.reshape(2, 6),
    "adjoint": lambda x: x.mH @ x, "to real": lambda x: x.to(fl.float64), "silu": F.silu,
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink, "nan_to_num": fl.nan_to_num, "twice": lambda x: x * x + x,
    "polar": lambda x: fl.polar(x.abs(), x.angle() * 2), "parts": lambda x: fl.complex(x.imag,
                                                                                       x.real * x.imag)}


@pytest.mark.parametrize("name", MORE)
def test_more_functions(name):
    check(MORE[name], complex_values(3, 4))


PRODUCTS = {
    "mm": (lambda x, y: x @ y, (3, 4), (4, 2)), "matmul": (lambda x, y: x @ y, (2, 3, 4), (4, 5)),
    "bmm": (fl.bmm, (2, 3, 4), (2, 4, 2)), "vdot": (fl.vdot, (4,), (4,)), "outer": (fl.outer, (3,), (2,)),
    "einsum": (lambda x, y: fl.einsum("bij,bjk->ki", x, y), (2, 3, 4), (2, 4, 2)),
    "linear": (F.linear, (2, 4), (3, 4), (3,)), "conv1d": (F.conv1d, (2, 3, 6), (4, 3, 3), (4,)),
    "conv2d": (F.conv2d, (1, 2, 5, 4), (3, 2, 3, 2), (3,)), "transposed": (F.conv_transpose1d, (1, 3, 6), (3,
                                                                                                           2,
                                                                                                           3), (2,)),
    "addcmul": (lambda x, y, z: fl.addcmul(x, y, z, value=1 + 2j), (3, 2), (3, 1), (2,)),
    "addcdiv": (lambda x, y, z: fl.addcdiv(x, y, z, value=2j), (3, 2), (3, 1), (2,)), "lerp": (fl.lerp, (3,),
                                                                                               (3,), (3,)),
    "scatter": (lambda x, y: x.scatter(1, fl.tensor([[0, 1], [2, 3]]), y), (3, 4), (2, 2)),
    "index_add": (lambda x, y: x.index_add(0, fl.tensor([0, 0]), y, alpha=2j), (3, 4), (2, 4))}


@pytest.mark.parametrize("name", PRODUCTS)
def test_functions_of_several_operands(name):
    function, *shapes = PRODUCTS[name]
    check(function, *(complex_values(*s) for s in shapes))


def hermitian(x):
    return (x + x.mH) / 2


A = complex_values(2, 4, 4) + 3 * numpy.eye(4)
POSITIVE = A @ A.conj().swapaxes(-1, -2)
MATRICES = {
    "det": (L.det, A), "slogdet": (lambda x: L.slogdet(x)[0] + L.slogdet(x)[1], A), "inv": (L.inv, A),
    "solve": (L.solve, A, complex_values(2, 4, 3)), "triangular": (lambda a, b: L.solve_triangular(a, b,
                                                                                                   upper=True), A, A),
    "pinv": (L.pinv, complex_values(4, 3)), "wide pinv": (L.pinv, complex_values(3, 4)),
    "cholesky": (lambda x: L.cholesky(hermitian(x)), POSITIVE),
    "upper cholesky": (lambda x: L.cholesky(hermitian(x), upper=True), POSITIVE),
    "qr": (lambda x: L.qr(x)[0] @ fl.ones(3, 2, dtype=x.dtype) + L.qr(x)[1].sum(), complex_values(4, 3)),
    "wide qr": (lambda x: L.qr(x)[1], complex_values(3, 5)), "eigvalsh": (lambda x: L.eigvalsh(hermitian(x)),
                                                                          POSITIVE),
    "eigh": (lambda x: L.eigh(hermitian(x))[1].abs(), POSITIVE), "eigvals": (L.eigvals, A),
    "eig": (lambda x: L.eig(x)[1].abs(), A),
    "svdvals": (L.svdvals, complex_values(4, 3)),
    "svd": (lambda x: L.svd(x)[0][:, :1] @ L.svd(x)[2][:1], complex_values(4, 4)),
    "wide svd": (lambda x: L.svd(x, full_matrices=False)[2].abs(), complex_values(3, 4)),
    "tall svd": (lambda x: L.svd(x, full_matrices=False)[0].abs(), complex_values(4, 3)),
    "lu": (lambda x: L.lu(x)[1] + L.lu(x)[2], A), "lu_solve": (lambda x, b: L.lu_solve(*L.lu_factor(x), b,
                                                                                       adjoint=True), A, A),
    "matrix_exp": (L.matrix_exp, complex_values(3, 3)), "matrix_power": (lambda x: L.matrix_power(x, -2), A),
    "lstsq": (lambda a, b: L.lstsq(a, b)[0], complex_values(5, 3), complex_values(5, 2)), "cond": (L.cond, A),
    "nuclear norm": (lambda x: L.matrix_norm(x, "nuc"), complex_values(4, 3)),
    "1-norm": (lambda x: L.matrix_norm(x, 1), A),
    "cholesky_solve": (lambda b, low: fl.cholesky_solve(b, low.tril()), complex_values(2, 4, 3), A),
    "cholesky_inverse": (lambda low: fl.cholesky_inverse(low.tril()), A), "cov": (fl.cov, complex_values(3,
                                                                                                         5)),
    "householder": (L.householder_product, complex_values(4, 3), complex_values(3)),
    "hermitian pinv": (lambda x: L.pinv(hermitian(x), hermitian=True), POSITIVE)}


@pytest.mark.parametrize("name", MATRICES)
def test_linear_algebra(name):
    function, *values = MATRICES[name]
    check(function, *values, tolerance=1e-5)


@pytest.mark.parametrize("function", [L.eigvals, lambda x: L.eig(x)[1].abs(), lambda x: L.eig(x)[0].sum()])
def test_eigenvalues_of_real_matrices(function):
    check(function, real_values(4, 4))


@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft", "fft2", "ifft2", "irfft2", "hfft2", "fftn",
                                  "ifftn", "irfftn",
                                  "hfftn"])
def test_fourier_transforms(name):
    check(getattr(fl.fft, name), complex_values(3, 4))
    check(lambda x: getattr(fl.fft, name)(x, norm="ortho"), complex_values(3, 5))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "ihfft", "fft2", "rfft2", "ihfft2", "fftn", "rfftn",
                                  "ihfftn"])
def test_fourier_transforms_of_real_values(name):
    check(getattr(fl.fft, name), real_values(3, 5))


def test_spectrograms():
    window = fl.hann_window(8, dtype=fl.float64) + 0.1
    check(lambda x: fl.stft(x, 8, 2, window=window, return_complex=True), real_values(32))
    check(lambda x: fl.stft(x, 8, 2, window=window), complex_values(2, 32))
    check(lambda x, w: fl.istft(x, 8, 2, window=w), complex_values(5, 9), abs(real_values(8)) + 0.5)


@pytest.mark.parametrize("function", [
    lambda x: (x * x.conj()).real.sum(), lambda x: (x ** 3).abs().sum(), lambda x: (fl.exp(x) / x).real.sum(),
    lambda x: x.angle().sin().sum(), lambda x: L.det(x).abs(), lambda x: fl.fft.fft(x).abs().log().sum(),
    lambda x: (x @ x).abs().sum(),
    lambda x: fl.tanh(x).prod().real, lambda x: x.sgn().imag.pow(2).sum(),
    lambda x: fl.log(x).abs().square().sum()])
def test_second_derivatives(function):
    """The gradient of Re(conj(g) v), g being a gradient itself, against differences of g."""
    value, direction, step = complex_values(3, 3), complex_values(3, 3), complex_values(3, 3)

    def gradient(z, create_graph=False):
        leaf = z if isinstance(z, fl.Tensor) else fl.tensor(z, requires_grad=True)
        return fl.autograd.grad(function(leaf), leaf, create_graph=create_graph)[0]
    leaf = fl.tensor(value, requires_grad=True)
    along = (gradient(leaf, True) * fl.tensor(direction).conj()).real.sum()
    second = fl.autograd.grad(along, leaf)[0].numpy()
    change = (gradient(value + 1e-6 * step) - gradient(value - 1e-6 * step)).numpy() / 2e-6
    want = (change * direction.conj()).real.sum()
    assert (second.conj() * step).real.sum() == pytest.approx(want, 1e-5, 1e-5)


def test_gradients_at_zero():
    for function in (fl.abs, fl.angle, lambda x: x.sgn().real, lambda x: x.norm(), lambda x: x.std()):
        x = fl.zeros(3, dtype=fl.complex128, requires_grad=True)
        function(x).sum().backward()
        assert x.grad.tolist() == [0, 0, 0]


def test_where_a_gradient_starts():
    x = fl.tensor([1 + 1j, 2j], requires_grad=True)
    with pytest.raises(RuntimeError, match="real"):
        (x * x).sum().backward()
    (x * x).sum().backward(fl.tensor(1j))
    numpy.testing.assert_allclose(x.grad.numpy(), [1j * numpy.conj(2 + 2j), 1j * numpy.conj(4j)], rtol=1e-6)
    x.grad = None
    (x.real + x.imag).sum().backward()
    (x.real * 2).sum().backward()
    assert x.grad.tolist() == [3 + 1j, 3 + 1j]


def test_writes_on_the_tape():
    x = fl.tensor([1 + 1j, 2j], requires_grad=True)
    y = x * 1
    y *= 2j
    y[0] = x[1] * x[1]
    y.abs().sum().backward()
    numpy.testing.assert_allclose(x.grad.numpy(), [0, 2j + 4j], atol=1e-6)
    z = x * 2
    exponential = z.exp()
    exponential.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        exponential.sum().real.backward()


def test_function_transforms():
    z = complex_values(3)
    x = fl.tensor(z)
    numpy.testing.assert_allclose(fl.func.grad(lambda v: (v * v.conj()).real.sum())(x).numpy(), 2 * z)
    numpy.testing.assert_allclose(fl.func.vjp(lambda v: v * v, x)[1](x)[0].numpy(), 2 * z.conj() * z)
    numpy.testing.assert_allclose(fl.func.jvp(lambda v: fl.exp(v * 1j), (x,), (x,))[1].numpy(),
                                  1j * z * numpy.exp(1j * z), rtol=1e-6)
    batch = complex_values(4, 3)
    mapped = fl.func.vmap(lambda v: (v * x).sum() + v.abs().sum() * 1j)(fl.tensor(batch))
    numpy.testing.assert_allclose(mapped.numpy(), batch @ z + 1j * abs(batch).sum(1), rtol=1e-6)
    slopes = fl.func.vmap(fl.func.grad(lambda v: fl.fft.fft(v).abs().square().sum()))(fl.tensor(batch))
    numpy.testing.assert_allclose(slopes.numpy(), 2 * 3 * batch, rtol=1e-6)


def test_writes_to_parts_on_the_tape():
    x = fl.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    y = x * 1
    y.real.mul_(2)
    y.imag[0] = 5.0
    y.abs().square().sum().backward()
    numpy.testing.assert_allclose(x.grad.numpy(), [8, 24 - 2j], rtol=1e-6)
    pairs = fl.ones(3, 2, requires_grad=True)
    moved = pairs * 1
    fl.view_as_complex(moved).mul_(2j)
    moved.square().sum().backward()
    assert pairs.grad.tolist() == [[8, 8]] * 3
    with pytest.raises(RuntimeError, match="leaf"):
        x.real.mul_(2)
