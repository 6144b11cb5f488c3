"""torch._check and its kin, torch.cond, and the private helpers that programs copy from PyTorch's own modules."""

import pytest

from flambeau import torch
from flambeau.torch.nn import functional as F
from flambeau.torch.nn import init


@pytest.mark.parametrize("check, kind", [
    (torch._check, RuntimeError), (torch._check_index, IndexError), (torch._check_value, ValueError),
    (torch._check_type, TypeError), (torch._check_not_implemented, NotImplementedError)])
def test_checks(check, kind):
    assert check(True) is None
    with pytest.raises(kind, match="Expected cond to be True"):
        check(False)
    with pytest.raises(kind, match="got 3 rows"):
        check(False, lambda: f"got {3} rows")
    with pytest.raises(TypeError, match="must be a bool"):
        check(1)
    with pytest.raises(TypeError, match="must be a callable"):
        check(False, "text")


def test_checks_of_sizes_and_tensors():
    torch._check_is_size(3, max=3), torch._check_tensor_all(torch.tensor([True])), torch._assert(True, "")
    torch._assert_async(torch.tensor(2))
    for wrong in (lambda: torch._check_is_size(-1), lambda: torch._check_is_size(4, max=3),
                  lambda: torch._check_tensor_all(torch.tensor([True, False])),
                  lambda: torch._assert_async(torch.tensor(0))):
        with pytest.raises(RuntimeError):
            wrong()
    with pytest.raises(AssertionError, match="no rows"):
        torch._assert(torch.tensor(False), "no rows")


def test_cond_calls_one_of_two():
    x = torch.ones(2)
    up, down = (lambda x: x + 1), (lambda x: x - 1)
    assert torch.cond(torch.tensor(True), up, down, (x,)).tolist() == [2, 2]
    assert torch.cond(x.sum() > 5, up, down, [x]).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="single-element tensor"):
        torch.cond(x > 0, up, down, (x,))


def test_symbolic_forms_take_numbers():
    assert (torch.sym_int(3.7), torch.sym_not(True), torch.sym_sum([1, 2]), torch.sym_ite(False, 1, 2)) == (3, False, 3, 2)
    for value in (torch.sym_float(3), torch.sym_max(3, 1.0), torch.sym_min(3, 9.0)):
        assert value == 3 and type(value) is float


def test_helpers_of_attention():
    mask = torch.tensor([True, False])
    assert F._canonical_mask(mask, "mask", None, "", torch.float64).tolist() == [-float("inf"), 0.0]
    assert F._canonical_mask(None, "mask", None, "", torch.float32) is None and F._none_or_dtype(None) is None
    assert F._none_or_dtype(mask) is torch.bool
    with pytest.raises(AssertionError, match="only bool and floating types of mask are supported"):
        F._canonical_mask(mask.long(), "mask", None, "", torch.float32)
    query, key, weight, bias = torch.randn(3, 2, 4), torch.randn(5, 2, 4), torch.randn(12, 4), torch.randn(12)
    packed = F._in_projection_packed(query, key, key, weight, bias)
    apart = F._in_projection(query, key, key, *weight.chunk(3), *bias.chunk(3))
    assert [p.shape[0] for p in packed] == [3, 5, 5]
    assert all(torch.allclose(a, b) for a, b in zip(packed, apart))
    assert torch.allclose(F._in_projection_packed(query, key, key, weight)[0], F.linear(query, weight[:4]))


def test_helpers_of_init_write_into_parameters():
    x = torch.nn.Parameter(torch.empty(50))
    assert init._no_grad_fill_(x, 2.0) is x and x.tolist() == [2.0] * 50
    assert init._no_grad_uniform_(x, 3, 4).min() >= 3 and init._no_grad_normal_(x, 20, 0.1).min() > 15
    assert init._no_grad_zero_(x).sum() == 0 and x.grad_fn is None
    assert torch._C._LinAlgError is torch.linalg.LinAlgError
