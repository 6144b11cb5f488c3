"""Writes by index against NumPy's `ufunc.at`, their gradients, and what they refuse."""

import numpy
import pytest

import flambeau as fl

UFUNCS = {"sum": numpy.add, "prod": numpy.multiply, "amax": numpy.maximum, "amin": numpy.minimum}
START = {"sum": 0.0, "prod": 1.0, "amax": -numpy.inf, "amin": numpy.inf, "mean": 0.0}


def reduced(target, places, source, reduce, include_self):
    """scatter_reduce along dim 0 of a vector, or of the rows of a matrix."""
    out = target.copy()
    if not include_self:
        out[places] = START[reduce]
    UFUNCS.get(reduce, numpy.add).at(out, places, source)
    if reduce == "mean":
        count = numpy.full(len(out), float(include_self))
        numpy.add.at(count, places, 1)
        out = (out.T / numpy.maximum(count, 1)).T
    return out


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", START)
def test_scatter_reduce(reduce, include_self):
    rng = numpy.random.default_rng(0)
    target, source = rng.uniform(0.5, 2, 6), rng.uniform(0.5, 2, 9)
    places = rng.integers(0, 4, 9)
    got = fl.scatter_reduce(fl.tensor(target), 0, fl.tensor(places), fl.tensor(source), reduce,
                            include_self=include_self)
    numpy.testing.assert_allclose(got.numpy(), reduced(target, places, source, reduce, include_self),
                                  rtol=1e-12)
    if reduce != "sum":
        rows, parts = rng.uniform(0.5, 2, (6, 3)), rng.uniform(0.5, 2, (9, 3))
        got = fl.tensor(rows).index_reduce(0, fl.tensor(places), fl.tensor(parts), reduce,
                                           include_self=include_self)
        numpy.testing.assert_allclose(got.numpy(), reduced(rows, places, parts, reduce, include_self),
                                      rtol=1e-12)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", START)
def test_gradients_of_scatter_reduce(reduce, include_self):
    """Against differences; one source element is 0, where a product's gradient needs the others."""
    rng = numpy.random.default_rng(1)
    places = fl.tensor([0, 2, 2, 0, 3])
    values = [rng.uniform(0.5, 2, 5), rng.uniform(0.5, 2, 5)]
    values[1][1] = 0.0
    weight = fl.tensor(rng.uniform(1, 2, 5))

    def loss(target, source):
        return (fl.scatter_reduce(target, 0, places, source, reduce,
                                  include_self=include_self) * weight).sum()

    operands = [fl.tensor(v).requires_grad_() for v in values]
    loss(*operands).backward()
    for which, element in numpy.ndindex(2, 5):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [v.copy() for v in values]
            moved[which][element] += step
            ends.append(loss(*map(fl.tensor, moved)).item())
        slope = (ends[0] - ends[1]) / 2e-6
        assert operands[which].grad[element].item() == pytest.approx(slope, abs=1e-6)


def test_equal_extremes_share_the_gradient():
    x, source = fl.tensor([3.0, 1.0], requires_grad=True), fl.tensor([3.0, 3.0, 2.0], requires_grad=True)
    x.scatter_reduce(0, fl.tensor([0, 0, 0]), source, "amax")[0].backward()
    numpy.testing.assert_allclose(x.grad.numpy(), [1 / 3, 0], rtol=1e-6)
    numpy.testing.assert_allclose(source.grad.numpy(), [1 / 3, 1 / 3, 0], rtol=1e-6)


@pytest.mark.parametrize("dtype", [fl.float32, fl.float16, fl.bfloat16, fl.int64, fl.int8, fl.uint8, fl.bool])
def test_dtypes(dtype):
    x, source = fl.tensor([1, 0, 1]).to(dtype), fl.tensor([1, 1, 1, 0]).to(dtype)
    index = fl.tensor([0, 0, 1, 2])
    assert fl.scatter_add(x, 0, index, source).tolist() == ([True] * 3 if dtype is fl.bool else [3, 1, 1])
    assert fl.scatter(x, 0, index, source).tolist() == [1, 1, 0]
    assert x.index_copy(0, index[2:], source[2:]).tolist() == [1, 1, 0]
    assert x.index_fill(0, fl.tensor([-1]), 0).tolist() == [1, 0, 0]
    assert fl.scatter_reduce(x, 0, index, source, "amin", include_self=False).tolist() == [1, 1, 0]


def test_means_of_integers_round_down():
    x = fl.tensor([0, 0]).scatter_reduce(0, fl.tensor([0, 0, 1]), fl.tensor([-1, -2, 3]), "mean",
                                         include_self=False)
    assert x.tolist() == [-2, 3] and x.dtype is fl.int64


def test_an_index_smaller_than_its_operands():
    """Only the part that the index can reach changes; the rest of the source is not read."""
    x, source = numpy.zeros((4, 5)), numpy.arange(12.0).reshape(3, 4) + 1
    index = numpy.array([[3, 0, 1], [3, 1, 1]])
    want = x.copy()
    for i, j in numpy.ndindex(2, 3):
        want[index[i, j], j] += source[i, j]
    leaf = fl.tensor(source).requires_grad_()
    got = fl.tensor(x).scatter_add(0, fl.tensor(index), leaf)
    numpy.testing.assert_array_equal(got.detach().numpy(), want)
    got.sum().backward()
    assert leaf.grad.tolist() == [[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]]


def test_scatter_with_numbers_and_old_reductions():
    x = fl.tensor([1.0, 2.0, 3.0])
    assert x.scatter(0, fl.tensor([2]), 9).tolist() == [1, 2, 9]
    assert x.scatter(0, fl.tensor([2, 2]), value=2.0, reduce="multiply").tolist() == [1, 2, 12]
    assert x.scatter(0, fl.tensor([0, 0]), fl.tensor([5.0, 6.0]), reduce="add").tolist() == [12, 2, 3]
    assert x.scatter(0, fl.tensor([0, 0]), fl.tensor([5.0, 6.0])).tolist() == [6, 2,
                                                                               3]      # the last one stays


def test_index_add_scales_and_adds_in_order():
    x, part = fl.zeros(3, 2), fl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    made = x.index_add(0, fl.tensor([2, 2]), part, alpha=0.5)
    assert made.tolist() == [[0, 0], [0, 0], [2, 3]]
    (made * fl.tensor([[1.0], [1.0], [4.0]])).sum().backward()
    assert part.grad.tolist() == [[2, 2], [2, 2]]


def test_in_place_forms_follow_the_tape():
    leaf = fl.ones(3, requires_grad=True)
    x = leaf * 2
    x.index_add_(0, fl.tensor([0, 0]), fl.tensor([1.0, 2.0]))
    x.scatter_reduce_(0, fl.tensor([1]), fl.tensor([3.0]), "prod")
    x.scatter_(0, fl.tensor([2]), 4.0)
    assert x.tolist() == [5, 6, 4]
    (x * x).sum().backward()
    assert leaf.grad.tolist() == [20, 72, 0]


def test_in_a_graph():
    from flambeau.testing.oracle import compile_function
    x, source = fl.arange(12.0).reshape(3, 4), fl.ones(2, 4) * 3
    index = fl.tensor([[0, 1, 2, 0], [2, 1, 2, 2]])
    for function in (lambda x, i, s: fl.scatter_add(x, 0, i, s),
                     lambda x, i, s: fl.scatter_reduce(x, 0, i, s, "mean", include_self=False),
                     lambda x, i, s: x.index_fill(1, i[0], 5.0),
                     lambda x, i, s: (x * 2).gather(0, i)):
        operands = [x, index, source]
        numpy.testing.assert_array_equal(compile_function(function, operands)[1](*operands)[0].numpy(),
                                         function(*operands).numpy())


X, I = fl.ones(3, 4), fl.tensor([0])


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: X.scatter(0, fl.tensor([[3]]), 1.0), RuntimeError, "index 3 is out of bounds"),
    (lambda: X.scatter(0, fl.tensor([[-1]]), 1.0), RuntimeError, "index -1 is out of bounds"),
    (lambda: X.scatter(0, I, fl.ones(1, 1)), RuntimeError, "same number of dimensions"),
    (lambda: X.scatter_add(0, fl.tensor([[0]]), fl.ones(1, 1, dtype=fl.int64)), RuntimeError, "dtype"),
    (lambda: X.scatter_add(0, fl.tensor([[0, 0]]), fl.ones(1, 1)), RuntimeError, "no larger"),
    (lambda: X.scatter_reduce(0, fl.tensor([[0]]), fl.ones(1, 1), "max"), RuntimeError, "reduce argument"),
    (lambda: X.index_add(0, fl.tensor([5]), fl.ones(1, 4)), IndexError, "index 5"),
    (lambda: X.index_add(0, I, fl.ones(2, 4)), IndexError, "slices that the index names"),
    (lambda: X.index_copy(0, fl.tensor([[0]]), fl.ones(1, 4)), IndexError, "dimension 1 or 0"),
    (lambda: X.index_fill(0, I, fl.ones(2)), RuntimeError, "0-dimensional"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(("dtype", "alpha", "wanted"), [
    (fl.uint8, 2.5, [1, 3, 1]), (fl.int64, -1.5, [1, 0, 1]), (fl.float16, 0.5, [1, 1.5, 1]), (fl.bool, 3, [1, 1, 1])])
def test_alpha_counts_in_the_dtype_of_the_elements(dtype, alpha, wanted):
    x, one = fl.ones(3, dtype=dtype), fl.ones(1, dtype=dtype)
    for found in (x.index_add(0, fl.tensor([1]), one, alpha=alpha), x.clone().index_add_(0, fl.tensor([1]), one, alpha=alpha)):
        assert found.dtype is dtype and found.tolist() == wanted


def test_the_ops_take_one_dtype():
    """Their kernels know one: another would be written over the end of the memory."""
    from flambeau.ops.scatter import scatter_elements, scatter_rows
    for op, index in ((scatter_rows, I), (scatter_elements, fl.tensor([[0]]))):
        with pytest.raises(RuntimeError, match="same dtype"):
            op(fl.zeros(3, 1, dtype=fl.uint8), 0, index, fl.ones(1, 1), "set")


def test_numbers_without_axes():
    z, at = fl.tensor(1 + 2j), fl.tensor(0)
    assert fl.gather(z, 0, at).tolist() == 1 + 2j and fl.gather(z, 0, fl.tensor([0, 0])).tolist() == [1 + 2j] * 2
    assert fl.gather(z.reshape(1), 0, at).shape == () and fl.gather(fl.ones(1), 0, at).tolist() == 1.0
