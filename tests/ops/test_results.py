"""Results of several tensors: named tuples that show themselves in the style that is chosen."""

import pickle

import pytest

import flambeau as fl
from flambeau.types.dtype import repr_prefix, set_repr_prefix

X = fl.tensor([[1.0, 3.0], [4.0, 2.0]])


@pytest.fixture
def facade_names():
    before = repr_prefix()
    set_repr_prefix("torch")
    yield
    set_repr_prefix(before)


def test_shown_in_one_line():
    assert repr(X.max(1)) == "max(values=tensor([3., 4.]), indices=tensor([1, 0]))"


def test_shown_as_pytorch_does(facade_names):
    assert repr(X.max(1)) == "torch.return_types.max(\nvalues=tensor([3., 4.]),\nindices=tensor([1, 0]))"
    assert repr(fl.linalg.slogdet(fl.eye(2))).startswith("torch.return_types.linalg_slogdet(\nsign=tensor(1.),\n")


@pytest.mark.parametrize("result", [X.max(1), X.sort(), fl.aminmax(X), fl.linalg.qr(X)])
def test_pickled_as_a_named_tuple(result):
    again = pickle.loads(pickle.dumps(result))
    assert again._fields == result._fields and type(again).__name__ == type(result).__name__
    assert all(fl.equal(a, b) for a, b in zip(again, result))
