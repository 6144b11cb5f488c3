"""Complex tensors: values against NumPy with branch cuts, signed zeros, infinities; promotion, writes."""

import math

import numpy
import pytest

import flambeau as fl

PARTS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1e-5, -1e-5, 30.0, -30.0]
GRID = numpy.array([complex(a, b) for a in PARTS for b in PARTS])
FUNCTIONS = {
    "exp": numpy.exp, "expm1": numpy.expm1, "exp2": numpy.exp2, "log": numpy.log, "log2": numpy.log2,
    "log10": numpy.log10, "log1p": numpy.log1p, "sqrt": numpy.sqrt, "sin": numpy.sin, "cos": numpy.cos,
    "tan": numpy.tan, "asin": numpy.arcsin, "acos": numpy.arccos, "atan": numpy.arctan, "sinh": numpy.sinh,
    "cosh": numpy.cosh, "tanh": numpy.tanh, "asinh": numpy.arcsinh, "acosh": numpy.arccosh,
    "atanh": numpy.arctanh, "square": numpy.square, "neg": numpy.negative, "abs": numpy.abs,
    "angle": numpy.angle, "conj": numpy.conj, "isnan": numpy.isnan, "isinf": numpy.isinf,
    "isfinite": numpy.isfinite, "isreal": numpy.isreal, "reciprocal": numpy.reciprocal,
    "sinc": numpy.sinc, "sigmoid": lambda z: 1 / (1 + numpy.exp(-z)),
    "sgn": lambda z: numpy.where(z == 0, 0, z / abs(z)), "rsqrt": lambda z: 1 / numpy.sqrt(z)}
SIGNS_DIFFER = {"square", "sigmoid", "sgn", "rsqrt", "sinc"}     # of a part that is rounded or is zero
UNDEFINED_AT_0 = {"rsqrt"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_their_branch_cuts(name):
    z = GRID[abs(GRID) > 0] if name in UNDEFINED_AT_0 else GRID
    got, want = getattr(fl, name)(fl.tensor(z)).numpy(), FUNCTIONS[name](z)
    assert got.dtype == want.dtype
    numpy.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    if got.dtype == complex and name not in SIGNS_DIFFER:
        there = ~numpy.isnan(want)
        assert (numpy.signbit(got.real) == numpy.signbit(want.real))[there].all()
        assert (numpy.signbit(got.imag) == numpy.signbit(want.imag))[there].all()


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "acos", "tanh", "asinh", "atanh"])
def test_single_precision(name):
    rng = numpy.random.default_rng(0)
    z = (rng.normal(size=301) + 1j * rng.normal(size=301)).astype("complex64")
    got = getattr(fl, name)(fl.tensor(z)).numpy()
    assert got.dtype == numpy.complex64
    numpy.testing.assert_allclose(got, FUNCTIONS[name](z.astype(complex)), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("function, z, want", [
    (fl.sqrt, complex(-math.inf, 1), complex(0, math.inf)), (fl.sqrt, complex(1, -math.inf),
                                                             complex(math.inf, -math.inf)),
    (fl.log, complex(-math.inf, 0), complex(math.inf, math.pi)), (fl.log, 0j, complex(-math.inf, 0)),
    (fl.exp, complex(-math.inf, 3), 0j), (fl.exp, complex(math.inf, 0), complex(math.inf, 0)),
    (fl.tanh, complex(math.inf, 1), 1 + 0j), (fl.tanh, complex(-800, 1), -1 + 0j),
    (fl.atan, complex(math.inf, 0), complex(math.pi / 2, 0)), (fl.asin, complex(math.inf, 1),
                                                               complex(math.pi / 2, math.inf)),
    (fl.reciprocal, complex(math.inf, 2), 0j), (fl.sigmoid, complex(-1000, 1), 0j), (fl.sigmoid,
                                                                                     complex(1000, 1),
                                                                                     1 + 0j),
    (fl.abs, complex(math.nan, math.inf), math.inf), (fl.abs, 3e300 + 4e300j, 5e300), (fl.sinh,
                                                                                       complex(math.inf, 0),
                                                                                       complex(math.inf, 0))])
def test_infinities(function, z, want):
    numpy.testing.assert_allclose(function(fl.tensor([z], dtype=fl.complex128)).numpy(), [want], rtol=1e-12)


def test_large_and_small_quotients():
    z = numpy.array([1e200 + 1e200j, 1e-200 - 1e-200j, 3 - 4j, 1 + 0j])
    w = numpy.array([1e200 - 1e200j, 1e-200 + 1e-200j, 5e-1 + 0j, complex(math.inf, 0)])
    numpy.testing.assert_allclose((fl.tensor(z) / fl.tensor(w)).numpy(), [1j, -1j, 6 - 8j, 0], rtol=1e-15)
    by_zero = (fl.tensor([1 + 2j]) / 0).numpy()
    assert numpy.isinf(by_zero.real) and numpy.isinf(by_zero.imag)


@pytest.mark.parametrize("operator", ["add", "sub", "mul", "div", "pow", "eq", "ne", "logical_and"])
@pytest.mark.parametrize("kinds", ["cc", "cr", "rc", "ci", "cn", "nc", "zr"])
def test_arithmetic_of_mixed_operands(operator, kinds):
    rng = numpy.random.default_rng(1)
    values = {"c": rng.normal(size=(3, 1)) + 1j * rng.normal(size=(3, 1)), "r": rng.uniform(1, 2, (4,)),
              "i": rng.integers(1, 4, (3, 4)), "n": 2 - 1.5j, "z": numpy.array(1 - 2j)}
    a, b = (values[k] for k in kinds)
    names = {"sub": "subtract", "mul": "multiply", "div": "true_divide", "pow": "power", "eq": "equal",
             "ne": "not_equal"}
    got = getattr(fl, operator)(*(v if isinstance(v, complex) else fl.tensor(v) for v in (a, b)))
    want = getattr(numpy, names.get(operator, operator))(a, b)
    assert got.shape == want.shape and got.numpy().dtype == want.dtype
    numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_promotion():
    single, double = fl.ones(2, dtype=fl.complex64), fl.ones(2, dtype=fl.complex128)
    assert (single + fl.ones(2, dtype=fl.float64)).dtype is fl.complex128
    assert (single + fl.ones((), dtype=fl.float64)).dtype is fl.complex64
    assert (single * double).dtype is fl.complex128 and (single + 1).dtype is fl.complex64
    assert (fl.ones(2) + 1j).dtype is fl.complex64 and (fl.ones(2,
                                                                dtype=fl.float64) * 1j).dtype is fl.complex128
    assert (fl.ones(2, dtype=fl.int64) + 1j).dtype is fl.complex64
    assert (fl.ones(2, dtype=fl.float16) * single).dtype is fl.complex64


def test_operators():
    z = fl.tensor([1 + 2j, -3j])
    w = z.numpy()
    for got, want in [(1j + z, 1j + w), (2 - z, 2 - w), (z / 2j, w / 2j), (1 / z, 1 / w), (-z, -w), (z ** 2,
                                                                                                     w ** 2),
                      (2 ** z, 2 ** w), (z ** 0.5, w ** 0.5), (abs(z), abs(w)), (z == 1 + 2j, w == 1 + 2j)]:
        numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert (z @ z).item() == pytest.approx((w @ w).item()) and bool(z[0]) and complex(z[0].item()) == 1 + 2j


@pytest.mark.parametrize("shape, strides", [((4, 6), (6, 1)), ((6, 4), (1, 6)), ((2, 3), (12, 2)), ((0, 3),
                                                                                                    (3, 1)),
                                                                                                    ((), ())])
def test_layouts(shape, strides):
    memory = numpy.arange(24) * (1 - 2j) + 1j
    x = fl.as_strided(fl.tensor(memory), shape, strides)
    want = numpy.lib.stride_tricks.as_strided(memory, shape, [16 * s for s in strides])
    for function in ("exp", "neg", "abs", "conj"):
        numpy.testing.assert_allclose(getattr(fl, function)(x * 0.01).numpy(),
                                      FUNCTIONS[function](want * 0.01), rtol=1e-12)
    numpy.testing.assert_allclose((x + x).numpy(), want + want)
    numpy.testing.assert_allclose((x * x).sum().item(), (want * want).sum())
    numpy.testing.assert_array_equal(x.contiguous().numpy(), want)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "any", "all"])
def test_reductions(name, axis):
    rng = numpy.random.default_rng(2)
    x = rng.normal(size=(2, 5, 3)) + 1j * rng.normal(size=(2, 5, 3))
    if axis == ():
        x = x[0, 0, 0] + 0 * x[:0, 0, 0].sum()
    got = getattr(fl, name)(fl.tensor(x), axis) if axis not in (None, ()) else getattr(fl, name)(fl.tensor(x))
    numpy.testing.assert_allclose(got.numpy(), getattr(numpy, name)(x, None if axis == () else axis),
                                  rtol=1e-12)


def test_scans_variances_and_norms():
    rng = numpy.random.default_rng(3)
    x = rng.normal(size=(7, 3)) + 1j * rng.normal(size=(7, 3))
    t = fl.tensor(x)
    for got, want in [
            (t.cumsum(0), x.cumsum(0)), (t.cumprod(0), x.cumprod(0)), (t.var(0), x.var(0, ddof=1)),
            (t.std(1), x.std(1, ddof=1)), (fl.var_mean(t, 0)[1], x.mean(0)), (t.norm(), numpy.linalg.norm(x)),
            (fl.linalg.vector_norm(t, 3, 0), (abs(x) ** 3).sum(0) ** (1 / 3)),
            (fl.linalg.vector_norm(t, math.inf, 1), abs(x).max(1)),
            (t.logsumexp(0), numpy.log(numpy.exp(x).sum(0))), (fl.cov(t.T), numpy.cov(x.T)),
            (fl.corrcoef(t.T), numpy.corrcoef(x.T)), (t.count_nonzero(), 21), (t.diff(dim=0), numpy.diff(x,
                                                                                                         axis=0))]:
        numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
    running = t.logcumsumexp(0).exp().numpy()
    numpy.testing.assert_allclose(running, numpy.exp(x).cumsum(0), rtol=1e-10)
    assert fl.ones(0, dtype=fl.complex64).prod().item() == 1


def test_products():
    rng = numpy.random.default_rng(4)

    def draw(*shape):
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)
    a, b, batch = draw(3, 4), draw(4, 5), draw(2, 5, 3)
    A, B, C = map(fl.tensor, (a, b, batch))
    for got, want in [(A @ B, a @ b), (C @ A, batch @ a), (fl.bmm(C, C.mT), batch @ batch.swapaxes(1, 2)),
                      (fl.einsum("ij,jk->ki", A, B), (a @ b).T), (fl.outer(A[0], B[0]), numpy.outer(a[0],
                                                                                                    b[0])),
                      (fl.vdot(A[0], B[:, 0]), numpy.vdot(a[0], b[:, 0])), (fl.kron(A, B), numpy.kron(a, b)),
                      (fl.addmm(A @ B, A, B, beta=1j, alpha=2), (1j + 2) * (a @ b)),
                      (fl.linalg.vecdot(A, A), (a.conj() * a).sum(-1)), (A.H, a.conj().T), (A.mT, a.T),
                      (fl.nn.functional.linear(A, A), a @ a.T)]:
        numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_convolution_is_the_sum_of_products():
    rng = numpy.random.default_rng(5)
    x, w = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((1, 1, 20), (1, 1, 5)))
    got = fl.nn.functional.conv1d(fl.tensor(x), fl.tensor(w))
    numpy.testing.assert_allclose(got.numpy()[0, 0], numpy.correlate(x[0, 0], w[0, 0].conj(), "valid"),
                                  rtol=1e-12)


def test_parts_are_views_and_conj_is_a_copy():
    z = fl.tensor([1 + 2j, 3 - 1j])
    z.real.mul_(2)
    z.imag[0] = 7
    assert z.tolist() == [2 + 7j, 6 - 1j]
    conjugate = z.conj()
    assert not conjugate.is_conj() and conjugate.data_ptr() != z.data_ptr()
    assert conjugate.tolist() == [2 - 7j, 6 + 1j] and fl.ones(2).conj().tolist() == [1, 1]
    assert z.conj_physical_().tolist() == [2 - 7j, 6 + 1j]
    numpy.testing.assert_allclose(fl.polar(fl.tensor([2.0]), fl.tensor([math.pi / 2])).numpy(), [2j],
                                  atol=1e-6)


def test_writes():
    z = fl.zeros(4, dtype=fl.complex128)
    z += 1j
    z[1:3] *= fl.tensor([2.0, 3.0])
    z[0] = 5
    z[fl.tensor([False, False, False, True])] = 1 - 1j
    assert z.tolist() == [5, 2j, 3j, 1 - 1j]
    assert z.masked_fill(z.real > 2, 1j).tolist() == [1j, 2j, 3j, 1 - 1j]
    assert z.index_add(0, fl.tensor([0, 0]), fl.tensor([1j, 1]).to(z.dtype))[0].item() == 6 + 1j
    out = fl.empty(4, dtype=fl.complex128)
    assert fl.mul(z, 2, out=out) is out and out[3].item() == 2 - 2j
    real = fl.zeros(4, dtype=fl.float64)
    assert real.copy_(z).tolist() == [5, 0, 0, 1]
    with pytest.raises(RuntimeError, match="can't be cast"):
        real += z
    assert fl.where(z.real > 0, z, 0).tolist() == [5, 0, 0, 1 - 1j]


def test_conversions():
    z = fl.tensor([1.5 + 2j, 0j])
    assert z.to(fl.float64).tolist() == [1.5, 0] and z.to(fl.int64).tolist() == [1, 0]
    assert z.bool().tolist() == [True, False] and z.to(fl.complex128).tolist() == [1.5 + 2j, 0]
    assert fl.tensor([True, False]).to(fl.complex64).tolist() == [1,
                                                                  0] and fl.arange(2).cfloat().dtype is fl.complex64
    assert fl.eye(2, dtype=fl.complex64).tolist() == [[1, 0], [0, 1]]
    drawn = fl.randn(4000, dtype=fl.complex64)
    assert abs(drawn.abs().square().mean().item() - 1) < 0.1 and abs(drawn.imag.mean().item()) < 0.1
    assert fl.allclose(drawn, drawn + 1e-9) and not fl.allclose(drawn, drawn.conj())


@pytest.mark.parametrize("call", [
    lambda z: z < z, lambda z: z.max(), lambda z: fl.maximum(z, z), lambda z: z.sort(), lambda z: fl.relu(z),
    lambda z: z.clamp(0, 1), lambda z: fl.floor(z), lambda z: fl.softmax(z, 0), lambda z: fl.erf(z),
    lambda z: z // 2,
    lambda z: z % 2, lambda z: fl.atan2(z, z), lambda z: z.argmax(), lambda z: fl.sign(z)])
def test_what_needs_an_order_or_has_no_complex_form_is_refused(call):
    with pytest.raises(RuntimeError):
        call(fl.tensor([1 + 2j, 3j]))


def test_layers_with_complex_parameters():
    layer = fl.nn.Linear(3, 2, dtype=fl.complex64)
    x = fl.randn(5, 3, dtype=fl.complex64)
    out = layer(x)
    want = x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    numpy.testing.assert_allclose(out.detach().numpy(), want, rtol=1e-4, atol=1e-5)
    out.abs().square().sum().backward()
    assert layer.weight.grad.dtype is fl.complex64 and layer.weight.grad.shape == (2, 3)
