"""Python numbers on the left of + and *: the tape shows the tensor as the first operand, as PyTorch's does."""

import pytest

import flambeau as fl


@pytest.mark.parametrize(
    "call, name", [(lambda x: 2 * x, "Mul"), (lambda x: 2.5 * x, "Mul"), (lambda x: 1 + x, "Add")]
)
def test_the_tensor_comes_first(call, name):
    x = fl.tensor([1.0, -2.0], requires_grad=True)
    node = call(x.exp()).grad_fn
    assert node.name().startswith(name) and node.next_functions[1] == (None, 0)
    assert node.next_functions[0][0].name().startswith("Exp")


def test_values_are_the_same_either_way():
    for x in (fl.tensor([1, -3]), fl.tensor([0.1, float("inf"), float("nan")]), fl.tensor([True, False])):
        for number in (2, 0.3, -0.0, float("inf")):
            assert fl.equal((number * x).nan_to_num(7), (x * number).nan_to_num(7))
            assert (number + x).dtype == (x + number).dtype
