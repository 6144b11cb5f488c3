"""Elements by number, by mask and by a tuple of index tensors, against NumPy's indexing."""

import numpy
import pytest

import flambeau as fl


def test_elements_by_number():
    x = fl.arange(6.0).reshape(2, 3).requires_grad_()
    fl.take(x, fl.tensor([[0, -1], [0, 2]])).sum().backward()
    assert x.grad.tolist() == [[2, 0, 1], [0, 0, 1]]
    source = fl.tensor([7.0, 8.0])
    assert fl.put(x.detach(), fl.tensor([1, -1]), source).tolist() == [[0, 7, 2], [3, 4, 8]]
    assert fl.put(x.detach(), fl.tensor([1, 1]), source, accumulate=True).tolist() == [[0, 16, 2], [3, 4, 5]]
    order = fl.tensor([[2, 1, 0]])
    assert fl.take_along_dim(x.detach(), order, 1).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert [t.tolist() for t in fl.unravel_index(fl.tensor([5, 1]), (2, 3))] == [[1, 0], [2, 1]]


PLACES = {
    "rows": (numpy.array([1, 0]),), "elements": (numpy.array([1, 0]), numpy.array([2, 2])),
    "broadcast": (numpy.array([[1], [0]]), numpy.array([0, 2])), "negative": (numpy.array([-1]),),
    "mask": (numpy.array([[True, False, True], [False, True, False]]),),
    "mask of rows": (numpy.array([False, True]),),
    "middle": (slice(None), numpy.array([2, 0])),
    "apart": (numpy.array([0, 1]), slice(None), numpy.array([3, 1])),
}


@pytest.mark.parametrize("name", PLACES)
def test_index_put(name):
    places = PLACES[name]
    x = numpy.arange(24.0).reshape(2, 3, 4)
    values = -numpy.arange(1.0, 1 + x[places].size).reshape(x[places].shape)
    given = tuple(None if isinstance(p, slice) else fl.tensor(p) for p in places)
    leaf, source = fl.tensor(x).requires_grad_(), fl.tensor(values).requires_grad_()
    made = fl.index_put(leaf, given, source)
    want = x.copy()
    want[places] = values
    numpy.testing.assert_array_equal(made.detach().numpy(), want)
    (made * fl.tensor(x)).sum().backward()
    numpy.testing.assert_array_equal(source.grad.numpy(), x[places])
    numpy.testing.assert_array_equal(leaf.grad.numpy(), numpy.where(want < 0, 0, x))


def test_index_put_accumulates():
    x = fl.zeros(2, 2)
    x.index_put_((fl.tensor([1, 1]), fl.tensor([0, 0])), fl.tensor([2.0, 3.0]), accumulate=True)
    assert x.tolist() == [[0, 0], [5, 0]]


def test_masks():
    x, mask = fl.arange(6.0).reshape(2, 3).requires_grad_(), fl.tensor([True, False, True])
    picked = fl.masked_select(x, mask)
    assert picked.tolist() == [0, 2, 3, 5]
    picked.sum().backward()
    assert x.grad.tolist() == [[1, 0, 1], [1, 0, 1]]
    source = fl.tensor([9.0, 8.0, 7.0, 6.0, 5.0], requires_grad=True)
    made = fl.masked_scatter(x.detach(), mask, source)
    assert made.tolist() == [[9, 1, 8], [7, 4, 6]]
    made.sum().backward()
    assert source.grad.tolist() == [1, 1, 1, 1, 0]
    assert fl.argwhere(fl.tensor([[0, 3], [4, 0]])).tolist() == [[0, 1], [1, 0]]
    assert fl.nonzero_static(fl.tensor([0.0, 1.0, 0.0]), size=2).tolist() == [[1], [-1]]
    assert fl.nonzero(fl.tensor([0.0, -0.0, 2.0], dtype=fl.bfloat16)).tolist() == [[2]]


X, I = fl.ones(3, 4), fl.tensor([0])


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: fl.put(X, fl.tensor([99]), fl.ones(1)), IndexError, "out of bounds"),
    (lambda: fl.masked_select(X, I), RuntimeError, "BoolTensor"),
    (lambda: fl.masked_scatter(X, X > 0, fl.ones(2)), RuntimeError, "too few"),
    (lambda: fl.index_put(X, (I, I, I), fl.ones(1)), IndexError, "too many indices"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
