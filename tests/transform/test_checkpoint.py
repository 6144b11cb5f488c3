"""Checkpoints: the gradients of the plain program, less memory, and errors where the two passes differ."""

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.runtime import _core
from flambeau.transform.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)
from flambeau.transform.selective import (
    CheckpointPolicy,
    create_selective_checkpoint_contexts,
)


def layers(count=3):
    fl.manual_seed(0)
    return [nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.3), nn.LayerNorm(16)) for _ in range(count)]


def gradients(net, step):
    fl.manual_seed(7)
    start = fl.linspace(-1, 1, 5 * 16).reshape(5, 16).requires_grad_()
    x = start
    for layer in net:
        for parameter in layer.parameters():
            parameter.grad = None
        x = step(layer, x)
    x.pow(2).sum().backward()
    return [start.grad, *[p.grad for layer in net for p in layer.parameters()]]


def twice(layer, x, **options):
    return checkpoint(lambda t: checkpoint(layer, t, use_reentrant=False).relu(), x, use_reentrant=False, **options)


def selective(layer, x):
    return checkpoint(layer, x, use_reentrant=False,
                      context_fn=lambda: create_selective_checkpoint_contexts(["linear", "linear_rows", "gelu"]))


STEPS = {
    "plain": lambda layer, x: checkpoint(layer, x, use_reentrant=False),
    "default": checkpoint,
    "reentrant": lambda layer, x: checkpoint(layer, x, use_reentrant=True),
    "to the end": lambda layer, x: checkpoint(layer, x, use_reentrant=False, early_stop=False),
    "selective": selective,
}


@pytest.mark.parametrize("name", STEPS)
def test_the_gradients_are_those_of_the_plain_program(name):
    net = layers()
    wanted = gradients(net, lambda layer, x: layer(x))
    got = gradients(net, STEPS[name])
    assert all((a == b).all() for a, b in zip(got, wanted))


def test_nested():
    net = layers()
    wanted = gradients(net, lambda layer, x: layer(x).relu())
    assert all((a == b).all() for a, b in zip(gradients(net, twice), wanted))


def test_a_graph_that_is_kept_is_walked_again():
    x = fl.tensor([0.5, 1.0], requires_grad=True)
    y = checkpoint(lambda t: (t.sin() * t.exp()).sum(), x, use_reentrant=False)
    first = fl.autograd.grad(y, x, retain_graph=True)[0]
    assert (fl.autograd.grad(y, x)[0] == first).all()
    with pytest.raises(RuntimeError, match="second time"):
        fl.autograd.grad(y, x)


def test_second_derivatives():
    x = fl.tensor([0.5, 1.0], requires_grad=True)
    slope, = fl.autograd.grad(checkpoint(lambda t: (t ** 3).sum(), x, use_reentrant=False), x, create_graph=True)
    slope.sum().backward()
    assert fl.allclose(x.grad, 6 * x.detach())


def test_memory_holds_one_part_at_a_time():
    def peak(step):
        x = fl.ones(1000, 64, requires_grad=True)
        _core.memory_reset_peak()
        y = x
        for _ in range(20):
            y = step(y)
        y.sum().backward()
        return fl.memory.stats()["peak_bytes"]

    def part(t):
        return (t.sin().exp() * t.cos()).tanh()

    assert peak(lambda t: checkpoint(part, t, use_reentrant=False)) < 0.55 * peak(part)


def test_random_numbers_are_drawn_again():
    dropout = nn.Dropout(0.5)
    x = fl.ones(1000, requires_grad=True)
    y = checkpoint(dropout, x, use_reentrant=False)
    y.sum().backward()
    assert (x.grad == y.detach()).all()                 # each gradient is the mask's 0 or 2, as in the first pass


def test_a_second_pass_that_differs_is_refused():
    calls = []

    def changing(t):
        calls.append(1)
        return (t.exp() if len(calls) == 1 else t.exp().exp()).sin()

    y = checkpoint(changing, fl.ones(3, requires_grad=True), use_reentrant=False, early_stop=False)
    with pytest.raises(CheckpointError, match="A different number of tensors was saved"):
        y.sum().backward()


def test_other_shapes_in_the_second_pass_are_refused():
    sizes = iter([3, 2])
    y = checkpoint(lambda t: t[:next(sizes)].exp(), fl.ones(3, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        y.sum().backward()


def test_keyword_arguments_and_trees():
    x = fl.ones(2, requires_grad=True)
    y = checkpoint(lambda pair, scale: {"a": pair[0] * scale, "b": pair[1].exp()}, (x, x), scale=3.0, use_reentrant=False)
    (y["a"].sum() + y["b"].sum()).backward()
    assert fl.allclose(x.grad, 3 + fl.ones(2).exp())
    with pytest.raises(ValueError, match="use_reentrant=False"):
        checkpoint(lambda t, scale: t * scale, x, scale=2.0, use_reentrant=True)


def test_without_gradients_it_is_a_call():
    with fl.no_grad():
        assert checkpoint(lambda t: t * 2, fl.ones(2), use_reentrant=False).tolist() == [2.0, 2.0]
    with pytest.warns(UserWarning, match="requires_grad=True"):
        checkpoint(lambda t: t * 2, fl.ones(2), use_reentrant=True)


def test_sequential():
    net = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(5)])
    x = fl.ones(2, 4, requires_grad=True)
    net(x).sum().backward()
    wanted = x.grad
    for reentrant in (False, True):
        x.grad = None
        checkpoint_sequential(net, 2, x, use_reentrant=reentrant).sum().backward()
        assert (x.grad == wanted).all()


def test_a_selective_policy_saves_computing():
    asked, runs = [], []

    def policy(context, function, *args, **kwargs):
        asked.append((context.is_recompute, function.__name__))
        return CheckpointPolicy.MUST_SAVE if function.__name__ == "exp" else CheckpointPolicy.PREFER_RECOMPUTE

    def part(t):
        runs.append(1)
        return (t.exp() * t.sin()).sum()

    x = fl.ones(3, requires_grad=True)
    with set_checkpoint_early_stop(False):
        y = checkpoint(part, x, use_reentrant=False, context_fn=lambda: create_selective_checkpoint_contexts(policy))
        y.backward()
    assert len(runs) == 2 and {name for again, name in asked if again} >= {"exp", "sin", "mul"}
    one = fl.ones(3)
    assert fl.allclose(x.grad, one.exp() * (one.sin() + one.cos()))
