"""index_select, gather, embedding, cat and narrow: values against NumPy, two derivatives, what is refused."""

import numpy
import pytest

import flambeau as fl
from flambeau.ops.index import gather_sum, index_sum


def finite_difference(function, x, direction, h=1e-6):
    up, down = (function(fl.tensor(x + s * h * direction)).item() for s in (1, -1))
    return (up - down) / (2 * h)


def check_derivatives(function, array, seed=0):
    """First and second derivative of sum(sin(function(x)) * weights) in a random direction."""
    rng = numpy.random.default_rng(seed)
    direction = rng.uniform(-1, 1, array.shape)
    shape = tuple(function(fl.tensor(array)).shape)
    weights = fl.tensor(rng.uniform(-1, 1, shape))

    def value(x):
        return (function(x).sin() * weights).sum()

    def slope(x):
        x = x.detach().requires_grad_(True)
        g, = fl.grad(value(x), x, create_graph=True)
        return (g * fl.tensor(direction)).sum(), x

    first, x = slope(fl.tensor(array))
    assert first.item() == pytest.approx(finite_difference(value, array, direction), rel=1e-6, abs=1e-8)
    second, = fl.grad(first, x)
    want = finite_difference(lambda t: slope(t)[0], array, direction)
    assert (second * fl.tensor(direction)).sum().item() == pytest.approx(want, rel=1e-6, abs=1e-8)


def table(*shape):
    return numpy.random.default_rng(1).uniform(-2, 2, shape)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("index", [[0], [1, 0, 1, 1], [-1, 0], []])
@pytest.mark.parametrize("dtype", [fl.int64, fl.int32])
def test_index_select(dim, index, dtype):
    array = table(2, 3, 5)
    places = fl.tensor(index, dtype=dtype)
    got = fl.index_select(fl.tensor(array), dim, places)
    numpy.testing.assert_array_equal(got.numpy(), numpy.take(array, numpy.array(index, "int64"), axis=dim))
    if index:
        check_derivatives(lambda x: fl.index_select(x, dim, places), array)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather(dim):
    array = table(3, 4, 5)
    index = numpy.random.default_rng(2).integers(0, array.shape[dim], (2, 4, 3))
    shape = [2, 4, 3]
    if dim == 0:
        index = numpy.random.default_rng(2).integers(0, 3, (6, 4, 5))
        shape = [6, 4, 5]
    cut = tuple(slice(None) if a == dim % 3 else slice(0, s) for a, s in enumerate(shape))
    got = fl.gather(fl.tensor(array), dim, fl.tensor(index))
    numpy.testing.assert_array_equal(got.numpy(), numpy.take_along_axis(array[cut], index, dim))
    check_derivatives(lambda x: fl.gather(x, dim, fl.tensor(index)), array)


def test_repeated_indices_add_up():
    x = fl.zeros(3, 2, requires_grad=True)
    x[[0, 0, 2, 0]].sum().backward()
    assert x.grad.tolist() == [[3, 3], [0, 0], [1, 1]]
    big = fl.zeros(4, 70, requires_grad=True)
    fl.index_select(big, 0, fl.tensor([1] * 1000)).sum().backward()
    assert big.grad[1].tolist() == [1000.0] * 70 and big.grad.sum().item() == 70_000


def test_sums_are_the_same_for_any_number_of_threads():
    rng = numpy.random.default_rng(0)
    values = fl.tensor(rng.uniform(size=(5000, 130)).astype("float32"))
    index = fl.tensor(rng.integers(0, 7, 5000))
    before, seen = fl.get_num_threads(), set()
    try:
        for count in (1, 2, 5):
            fl.set_num_threads(count)
            seen.add(index_sum(values, 0, index, 7).numpy().tobytes())
    finally:
        fl.set_num_threads(before)
    assert len(seen) == 1


def test_embedding():
    weight, index = table(6, 4), numpy.array([[0, 5], [2, 2]])
    got = fl.embedding(fl.tensor(index), fl.tensor(weight))
    numpy.testing.assert_array_equal(got.numpy(), weight[index])
    check_derivatives(lambda w: fl.embedding(fl.tensor(index), w), weight)
    w = fl.tensor(weight, requires_grad=True)
    fl.embedding(fl.tensor(index), w, padding_idx=2).sum().backward()
    assert w.grad[2].tolist() == [0.0] * 4 and w.grad[0].tolist() == [1.0] * 4
    with pytest.raises(RuntimeError, match="integers"):
        fl.embedding(fl.ones(2), w)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat_and_narrow_derivatives(dim):
    check_derivatives(lambda x: fl.cat([x, x * x, x.narrow(dim, 1, 2)], dim), table(3, 4))
    check_derivatives(lambda x: fl.stack([x, x.exp()], dim), table(3, 4))


@pytest.mark.parametrize("function", [
    lambda x: x[1:, [0, 2]], lambda x: x[x.detach() > 0], lambda x: x[..., None, 0],
    lambda x: x[[0, 1, 0], [1, 1, 1]],
    lambda x: x.unbind(1)[1], lambda x: x.max(1).values, lambda x: x.min(0)[0], lambda x: x.amax((0, 1)),
    lambda x: x.as_strided((2, 3), (1, 2), 1), lambda x: x.t().reshape(2, 6), lambda x: x.expand(2, 3, 4),
])
def test_derivatives_of_reads(function):
    check_derivatives(function, table(3, 4))


def filled(x):
    y = x * 1
    y[0] = x[1] * x[2]
    y[:, 1].mul_(x[:, 2])
    y[[2, 2], [0, 3]] = x[0, :2].sin()
    return y


def test_derivatives_of_writes():
    check_derivatives(filled, table(3, 4))


@pytest.mark.parametrize("bad", [lambda x: fl.index_select(x, 2, fl.tensor([0])),
                                 lambda x: fl.gather(x, 5, fl.tensor([[0]]))])
def test_axes_out_of_range(bad):
    with pytest.raises(IndexError, match="out of range"):
        bad(fl.zeros(2, 3))


@pytest.mark.parametrize("bad, words", [
    (lambda x: fl.index_select(x, 0, fl.tensor([0.0])), "integers"),
    (lambda x: fl.gather(x, 0, fl.tensor([0])), "rank"),
    (lambda x: fl.gather(x, 1, fl.zeros(5, 1, dtype=fl.int64)), "larger"),
    (lambda x: x.narrow(0, 1, 5), "inside"),
])
def test_operands_that_do_not_fit(bad, words):
    with pytest.raises(RuntimeError, match=words):
        bad(fl.zeros(2, 3))


@pytest.mark.parametrize("values", [[5], [-6], [1 << 40]])
def test_sums_never_write_outside(values):
    """The functions behind the derivatives check their index as well."""
    index = fl.tensor(values)
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds"):
            index_sum(fl.ones(1, 2), 0, index, 5)
        with pytest.raises(IndexError, match="out of bounds"):
            gather_sum(fl.ones(1), 0, index, 5)


def test_an_integer_table():
    x = fl.tensor([[1, 2], [3, 4], [5, 6]], dtype=fl.int16)
    assert fl.index_select(x, 0, fl.tensor([2, 0])).tolist() == [[5, 6], [1, 2]]
    assert fl.gather(x > 2, 1, fl.tensor([[1], [0], [1]])).tolist() == [[False], [True], [True]]
    assert fl.index_select(x.t(), 1, fl.tensor([2])).tolist() == [[5], [6]]
