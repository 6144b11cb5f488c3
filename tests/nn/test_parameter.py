"""Parameter: a leaf that shares its tensor's memory."""

import pytest

import flambeau as fl
from flambeau import nn


def test_parameter():
    data = fl.zeros(2)
    weight = nn.Parameter(data)
    assert isinstance(weight, fl.Tensor) and weight.requires_grad and weight.is_leaf
    data[0] = 3
    assert weight.tolist() == [3, 0]
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert tuple(nn.Parameter().shape) == (0,)


def test_results_are_plain_tensors():
    weight = nn.Parameter(fl.ones(2))
    assert type(weight * 2) is fl.Tensor and type(weight.detach()) is fl.Tensor
    (weight * 3).sum().backward()
    assert weight.grad.tolist() == [3, 3]


def test_of_a_computed_tensor():
    source = fl.ones(2, requires_grad=True)
    weight = nn.Parameter(source * 2)
    assert weight.is_leaf and weight.grad_fn is None


def test_errors():
    with pytest.raises(TypeError, match="Parameter needs a tensor, got list"):
        nn.Parameter([1.0])
    with pytest.raises(RuntimeError, match="floating point and complex"):
        nn.Parameter(fl.tensor([1, 2]))
    assert not nn.Parameter(fl.tensor([1, 2]), requires_grad=False).requires_grad
