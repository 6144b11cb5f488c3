"""deepcopy and pickle of tensors."""

import copy
import pickle

import pytest

import flambeau as fl
from flambeau.tensor.copying import deep_copy, reduce_tensor


@pytest.mark.parametrize("make", [
    lambda: fl.arange(6).reshape(2, 3), lambda: fl.arange(24).reshape(4, 6)[1:3, ::2], lambda: fl.tensor(2.5),
    lambda: fl.zeros(0, 3), lambda: fl.tensor([True, False]), lambda: fl.arange(6).reshape(2, 3).t(),
    lambda: fl.ones(3, dtype=fl.bfloat16),
])
def test_elements(make):
    tensor = make()
    rebuild, arguments = reduce_tensor(tensor, 5)
    for other in (rebuild(*arguments), deep_copy(tensor, {}), copy.deepcopy(tensor),
                  pickle.loads(pickle.dumps(tensor))):
        assert other.dtype == tensor.dtype and tuple(other.shape) == tuple(tensor.shape)
        assert other.tolist() == tensor.tolist()
        assert tensor.numel() == 0 or other.data_ptr() != tensor.data_ptr()


def test_a_part_brings_only_its_elements():
    _, (data, *_) = reduce_tensor(fl.zeros(10000)[:4], 5)
    assert len(data) == 16


def test_leaves_only():
    leaf = fl.ones(2, requires_grad=True)
    leaf.grad = fl.zeros(2)
    other = deep_copy(leaf, {})
    assert other.requires_grad and other.grad.tolist() == [0, 0] and other.grad is not leaf.grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        deep_copy(leaf * 2, {})


def test_the_same_tensor_stays_the_same():
    tensor = fl.ones(2)
    one, two = copy.deepcopy([tensor, tensor])
    assert one is two
