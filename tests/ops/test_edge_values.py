"""Values at the edge of a dtype: sums that overflow, integers over zero, differences that cancel."""

import numpy
import pytest

import flambeau as fl

DTYPES = {fl.float32: 3e38, fl.float16: 40000.0, fl.float64: 1.5e308}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape, dim", [((3,), None), ((3, 5), 0), ((3, 5), 1), ((2, 3, 70), (0, 2)), ((5000,), None)])
def test_equal_numbers_vary_by_nothing_however_large(dtype, shape, dim):
    x = fl.full(shape, DTYPES[dtype], dtype=dtype)
    got = fl.mean(x, dim)
    assert numpy.allclose(got.double().numpy(), DTYPES[dtype], rtol=1e-3)
    assert not fl.var(x, dim).any() and not fl.std(x, dim).any()
    variance, mean = fl.var_mean(x, dim)
    assert not variance.any() and bool((mean == x.flatten()[0]).all())


def test_a_mean_has_the_digits_of_the_sum():
    x = numpy.random.default_rng(0).normal(size=(7, 33)).astype(numpy.float32)
    total, count = fl.tensor(x).sum(1), 33
    assert (fl.tensor(x).mean(1) == total / count).all()
    assert fl.ones(0).mean().isnan() and fl.zeros(2, 0).mean(1).isnan().all()
    tiny = fl.full((1000,), 1e-40)
    assert abs(tiny.double().mean().item() / 1e-40 - 1) < 1e-4 and abs(tiny.mean().item() - 1e-40) < 2e-42


QUOTIENTS = {
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "fmod": fl.fmod, "remainder": fl.remainder,
    "floor_divide": fl.floor_divide, "trunc": lambda a, b: fl.div(a, b, rounding_mode="trunc"),
    "floor": lambda a, b: fl.div(a, b, rounding_mode="floor"),
}


@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize("dtype", [fl.int8, fl.uint8, fl.int16, fl.int32, fl.int64], ids=str)
def test_an_integer_over_zero_is_refused(name, dtype):
    quotient = QUOTIENTS[name]
    ones = fl.ones(3, dtype=dtype)
    for divisor in (fl.tensor([1, 0, 2], dtype=dtype), 0, fl.tensor([[1, 1, 0], [1, 1, 1]], dtype=dtype).t()[:, :1]):
        with pytest.raises(ZeroDivisionError, match="integer division by zero: got (1 zero|the number 0)"):
            quotient(ones, divisor)
        with pytest.raises(RuntimeError):                   # the type that PyTorch raises
            quotient(ones, divisor)
    assert quotient(ones, fl.tensor([1, 2, 1], dtype=dtype)).shape == (3,)
    assert not fl.isnan(ones / fl.tensor([1, 0, 2], dtype=dtype)).any()       # true division gives inf


def test_in_place_division_by_zero_changes_nothing():
    x = fl.tensor([4, 6])
    with pytest.raises(ZeroDivisionError):
        x //= fl.tensor([2, 0])
    assert x.tolist() == [4, 6]


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64], ids=str)
def test_the_slope_of_sinc_keeps_its_digits(dtype):
    points = [0.0, 1e-12, -1e-6, 1e-3, 0.05, -0.2, 0.31, 0.32, 0.5, 2.3]
    x = fl.tensor(points, dtype=dtype, requires_grad=True)
    fl.sinc(x).sum().backward()
    wanted = []
    for point in x.detach().double().tolist():
        s = numpy.longdouble(point) * numpy.longdouble("3.14159265358979323846264338327950288")
        terms = [(-1) ** k * 2 * k * s ** (2 * k - 1) / numpy.prod(numpy.arange(1, 2 * k + 2, dtype=numpy.longdouble))
                 for k in range(1, 25)]
        wanted.append(float(sum(terms) * numpy.longdouble("3.14159265358979323846264338327950288")))
    rtol = 2e-5 if dtype is fl.float32 else 1e-13
    assert numpy.allclose(x.grad.numpy(), wanted, rtol=rtol, atol=0)


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("shape", [(13,), (2, 7)])
@pytest.mark.parametrize("wrong", [-4, 5])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_wrong_target_is_named_with_its_place(loss, shape, wrong, reduction):
    scores = fl.zeros(shape[0], 5, *shape[1:])
    target = fl.zeros(shape, dtype=fl.int64)
    target.view(-1)[11] = wrong
    target.view(-1)[2] = -1
    place = "11" if len(shape) == 1 else r"\(1, 4\)"
    with pytest.raises(IndexError, match=rf"got {wrong} at position {place}, wanted 0 to 4, or -1 to ignore"):
        getattr(fl.nn.functional, loss)(scores, target, ignore_index=-1, reduction=reduction)
