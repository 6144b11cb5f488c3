"""Many short rows at once: the same bits as each row on its own, and NumPy's numbers."""

import numpy
import pytest

import flambeau as fl
from flambeau.compiler.short_rows import LONGEST, ROWS
from flambeau.nn import functional as F

RNG = numpy.random.default_rng(71)
COUNT = 2 * ROWS + 5
SIZES = (1, 2, 3, 5, 8, 13, LONGEST)


def bits(tensor):
    """The bytes of the elements; all NaNs are one."""
    array = tensor.numpy()
    if array.dtype.kind == "f":
        array = numpy.where(numpy.isnan(array), array.dtype.type(numpy.nan), array)
    return array.tobytes()


def check(function, x):
    """function(x) is function of each row alone, which runs along the row."""
    together = function(x)
    apart = fl.cat([function(x[i:i + 1]) for i in range(x.shape[0])])
    assert bits(together) == bits(apart)
    return together


def odd(array):
    """`array` with -0, infinite and not-a-number elements strewn in."""
    flat = array.reshape(-1)
    for value in (-0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan):
        flat[RNG.integers(0, flat.size, 1 + flat.size // 40)] = value
    return array


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_reductions(size, dtype):
    x = fl.tensor(odd(RNG.normal(size=(COUNT, size)).astype(dtype)))
    for name in ("sum", "mean", "amax", "amin", "prod", "argmax", "logsumexp"):
        got = check(lambda rows: getattr(fl, name)(rows, -1), x)
        if name in ("amax", "amin"):
            assert numpy.array_equal(got.numpy(), getattr(numpy, name)(x.numpy(), -1), equal_nan=True)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "bool"])
def test_whole_numbers(dtype):
    x = fl.tensor(RNG.integers(-9, 9, (COUNT, 7)).astype(dtype))
    for name in ("sum", "amax", "any"):
        got = check(lambda rows: getattr(fl, name)(rows, -1), x)
        assert numpy.array_equal(got.numpy(), getattr(numpy, name)(x.numpy(), -1))


@pytest.mark.parametrize("size", SIZES)
def test_what_is_stored_from_the_rows(size):
    data, weight = RNG.normal(size=(COUNT, size)).astype("float32"), fl.tensor(RNG.normal(size=size).astype("float32"))
    for function in (lambda x: F.softmax(x, -1), lambda x: F.log_softmax(x, -1),
                     lambda x: F.layer_norm(x, (size,), weight, weight), lambda x: (x == x.amax(-1, True)) & (x > 0)):
        check(function, fl.tensor(data))
    exact = data.astype("float64")
    powers = numpy.exp(exact - exact.max(1, keepdims=True))
    assert numpy.allclose(F.softmax(fl.tensor(data), -1).numpy(), powers / powers.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("size", (2, 5, LONGEST))
def test_gradients(size):
    data, weight = RNG.normal(size=(COUNT, size)).astype("float32"), fl.tensor(RNG.normal(size=size).astype("float32"))
    target = fl.tensor(RNG.integers(0, size, COUNT))

    def gradient(loss):
        def of(rows):
            x = rows.detach().requires_grad_()
            loss(x).sum().backward()
            return x.grad
        return of

    for loss in (lambda x: F.softmax(x, -1) * weight, lambda x: F.layer_norm(x, (size,), weight) * weight):
        check(gradient(loss), fl.tensor(data))
    got = gradient(lambda x: F.cross_entropy(x, target, reduction="sum"))(fl.tensor(data)).numpy()
    powers = numpy.exp(data.astype("float64"))
    want = powers / powers.sum(1, keepdims=True) - numpy.eye(size)[target.numpy()]
    assert numpy.allclose(got, want, atol=1e-6)


def test_rows_in_any_place():
    """Windows, columns, steps, reversed and repeated elements, several outer axes."""
    z = fl.tensor(RNG.normal(size=(80, 90)).astype("float32"))
    cases = [z.unfold(1, 3, 1), z.unfold(0, 5, 2), z[:9].t(), z[:, 4:15], z[:, 1:22:3], z[:, :6].flip(1),
             z[:, :1].expand(80, 8), z[:72, :7].reshape(2, 36, 7) * z[:36, 50].reshape(1, 36, 1),
             z.reshape(2, 40, 90)[:, :, :11].transpose(0, 1), z[:, :12].reshape(80, 3, 4)]
    for x in cases:
        for function in (lambda x: x.sum(-1), lambda x: F.softmax(x, -1)):
            assert bits(function(x)) == bits(function(x.contiguous()))
        want = x.numpy().astype("float64").sum(-1)
        assert numpy.allclose(x.sum(-1).numpy(), want, atol=1e-5)


def test_first_extreme_of_short_lines():
    data = RNG.integers(0, 3, (COUNT, 6)).astype("float32")
    x = fl.tensor(data)
    assert numpy.array_equal(x.argmax(1).numpy(), data.argmax(1))
    values, places = x.min(1)
    assert numpy.array_equal(places.numpy(), data.argmin(1)) and numpy.array_equal(values.numpy(), data.min(1))
    data[::4, 3] = numpy.nan
    assert numpy.array_equal(fl.tensor(data).argmax(1).numpy(), data.argmax(1))
    assert (fl.full((COUNT, 4), -float("inf")).argmax(1) == 0).all()


def test_rows_that_are_only_written():
    ones = fl.ones(COUNT, 5)
    assert numpy.array_equal(ones.tril(-3).numpy(), numpy.tril(numpy.ones((COUNT, 5)), -3))
    got = F.one_hot(fl.arange(COUNT) % 6, 6)
    assert numpy.array_equal(got.numpy(), numpy.eye(6, dtype="int64")[numpy.arange(COUNT) % 6])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_neighbouring_results(dtype):
    """Results along few elements have vectors of their own: the bits of the same among many."""
    data = odd(RNG.normal(size=(4, 9, 3)).astype(dtype))
    few, many = fl.tensor(data), fl.tensor(numpy.tile(data, 8))
    for function in (lambda x: x.sum(1), lambda x: x.amax(1), lambda x: x.var(1), lambda x: F.softmax(x, 1),
                     lambda x: x.mean((0, 1))):
        assert bits(function(few)) == bits(function(many)[..., :3].contiguous())
    with numpy.errstate(invalid="ignore"):
        assert numpy.allclose(few.sum(1).numpy(), data.sum(1), equal_nan=True)
