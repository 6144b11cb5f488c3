"""What optimizers of other authors take from torch.optim.optimizer."""

import pytest

from flambeau import torch
from flambeau.torch.optim import optimizer as helpers


class Descent(torch.optim.Optimizer):
    def __init__(self, params, lr, differentiable):
        super().__init__(params, {"lr": lr, "differentiable": differentiable})

    @helpers._use_grad_for_differentiable
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-helpers._get_value(torch.tensor(group["lr"])))


def test_a_step_is_recorded_where_it_is_to_be():
    weight = torch.ones(2, requires_grad=True)
    weight.grad = torch.ones(2)
    Descent([weight], 0.5, False).step()
    assert weight.tolist() == [0.5, 0.5] and weight.is_leaf
    rate = torch.tensor(1.0, requires_grad=True)
    made = weight.detach() * rate
    made.grad = torch.ones(2)
    Descent([made], 0.5, True).step()
    made.sum().backward()
    assert made.tolist() == [0, 0] and rate.grad == 1
    with pytest.raises(RuntimeError, match="leaf"):
        Descent([weight], 0.5, True).step()


def test_small_helpers():
    assert helpers._default_to_fused_or_foreach([torch.ones(1)], False) == (False, False)
    assert helpers._get_value(3) == helpers._stack_if_compiling(3) == 3
    assert helpers._get_scalar_dtype() is torch.float32
    params, grads = [torch.ones(2, dtype=torch.complex64), torch.ones(2)], [torch.ones(2, dtype=torch.complex64), torch.ones(2)]
    helpers._view_as_real(params, grads)
    assert [p.shape for p in params] == [g.shape for g in grads] == [(2, 2), (2,)]
