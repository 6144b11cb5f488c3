"""Pruning: masks by size, at random, by channels, together, again, and their removal."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import prune


def layer():
    made = nn.Linear(4, 3)
    with fl.no_grad():
        made.weight.copy_(fl.arange(12.0).reshape(3, 4) - 5.5)
    return made


def test_smallest_entries():
    made = prune.l1_unstructured(layer(), "weight", 4)
    assert made.weight_mask.tolist() == [[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]]
    assert set(dict(made.named_parameters())) == {"weight_orig", "bias"} and prune.is_pruned(made)
    assert set(made.state_dict()) == {"weight_orig", "weight_mask", "bias"}
    made(fl.ones(2, 4)).sum().backward()
    assert made.weight_orig.grad.tolist() == [[2] * 4, [0] * 4, [2] * 4]


def test_the_hook_makes_the_weight_anew():
    made = prune.l1_unstructured(layer(), "weight", 0.5)
    with fl.no_grad():
        made.weight_orig.fill_(2.0)
    made(fl.ones(1, 4))
    assert made.weight.tolist() == (made.weight_mask * 2).tolist() and made.weight_mask.sum().item() == 6


def test_again_takes_from_what_is_left():
    made = layer()
    prune.l1_unstructured(made, "weight", 4)
    prune.l1_unstructured(made, "weight", 0.5)              # of the 8 that are left
    assert made.weight_mask.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]
    prune.ln_structured(made, "weight", 1, n=1, dim=0)      # of the two rows that are left
    assert made.weight_mask.sum().item() == 2
    hooks = list(made._forward_pre_hooks.values())
    assert len(hooks) == 1 and len(hooks[0]) == 3


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_channels(dim):
    made = prune.ln_structured(layer(), "weight", 1, n=2, dim=dim)
    kept = made.weight_mask.sum(1 - dim % 2)
    assert sorted(kept.tolist()) == [0] + [made.weight.shape[1 - dim % 2]] * (made.weight.shape[dim] - 1)
    random = prune.random_structured(layer(), "weight", 0.5, dim)
    assert (random.weight_mask.sum(1 - dim % 2) == 0).sum().item() == round(0.5 * made.weight.shape[dim])


def test_at_random_and_by_mask():
    fl.manual_seed(0)
    assert prune.random_unstructured(layer(), "weight", 0.25).weight_mask.sum().item() == 9
    assert prune.identity(layer(), "weight").weight_mask.sum().item() == 12
    mask = fl.tensor([[1, 0, 1, 0]] * 3)
    assert prune.custom_from_mask(layer(), "weight", mask).weight_mask.tolist() == mask.tolist()
    scores = fl.arange(12.0).reshape(3, 4)
    assert prune.l1_unstructured(layer(), "weight", 4, scores).weight_mask[0].tolist() == [0] * 4


def test_several_together():
    first, second = layer(), layer()
    with fl.no_grad():
        second.weight.mul_(100)
    prune.global_unstructured([(first, "weight"), (second, "weight")], prune.L1Unstructured, amount=10)
    assert first.weight_mask.sum().item() == 2 and second.weight_mask.sum().item() == 12


def test_remove():
    made = prune.l1_unstructured(layer(), "weight", 4)
    want = made.weight.tolist()
    prune.remove(made, "weight")
    assert isinstance(made.weight, nn.Parameter) and made.weight.tolist() == want
    assert not prune.is_pruned(made)
    assert set(made.state_dict()) == {"weight", "bias"} and made(fl.ones(1, 4)).shape == (1, 3)


@pytest.mark.parametrize("kind, call", [
    (ValueError, lambda: prune.l1_unstructured(layer(), "weight", 1.5)),
    (ValueError, lambda: prune.l1_unstructured(layer(), "weight", -1)),
    (ValueError, lambda: prune.l1_unstructured(layer(), "weight", 13)),
    (TypeError, lambda: prune.l1_unstructured(layer(), "weight", "all")),
    (ValueError, lambda: prune.remove(layer(), "weight")),
    (ValueError, lambda: prune.ln_structured(layer(), "bias", 1, 2, 0)),
    (AssertionError, lambda: prune.l1_unstructured(layer(), "weight", 1, fl.ones(2))),
    (TypeError, lambda: prune.global_unstructured([(layer(), "weight")], prune.LnStructured, amount=1, n=1))])
def test_what_is_refused(kind, call):
    with pytest.raises(kind):
        call()
