"""Lists of tensors, counts of operations, schedules and gradient functions against PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from flambeau import torch as facade  # noqa: E402

UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 max neg reciprocal "
    "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
BINARY = "add clamp_max clamp_min div maximum minimum mul pow sub".split()


def lists(library):
    return [library.tensor([1.0, -2.5, 0.5]), library.tensor([[3.0], [0.25]])]


def same(name, *operands):
    """The function of both libraries on the same lists gives the same, out of place and in place."""
    mine, theirs = (
        [operand(library) if callable(operand) else operand for operand in operands]
        for library in (facade, torch)
    )
    for suffix in ("", "_"):
        if not hasattr(torch, f"_foreach_{name}{suffix}"):
            continue
        target, expected = lists(facade), lists(torch)
        found = getattr(facade, f"_foreach_{name}{suffix}")(target, *mine)
        wanted = getattr(torch, f"_foreach_{name}{suffix}")(expected, *theirs)
        assert type(found) is type(wanted)
        for one, other in zip(found, wanted):
            torch.testing.assert_close(torch.tensor(one.tolist()), other, equal_nan=True)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    same(name)


@pytest.mark.parametrize("other", [2.0, [1.0, 2.0], lists], ids=["number", "numbers", "tensors"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, other):
    same(name, other)


@pytest.mark.parametrize("operands", [(), (2.0,), ([2.0, 3.0],)])
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_ternary(name, operands):
    same(name, lists, lists, *operands)


@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norm(order):
    same("norm", order)


FLOPS = {
    "product": lambda t: t.rand(4, 5) @ t.rand(5, 6),
    "batch": lambda t: t.bmm(t.rand(3, 4, 5), t.rand(3, 5, 6)),
    "convolution": lambda t: t.nn.functional.conv2d(t.rand(1, 4, 5, 5), t.rand(8, 2, 3, 3), groups=2),
    "transposed": lambda t: t.nn.functional.conv_transpose2d(t.rand(1, 3, 5, 5), t.rand(3, 4, 3, 3)),
    "training": lambda t: (
        t.nn.Sequential(t.nn.Conv2d(3, 8, 3), t.nn.ReLU(), t.nn.Flatten(), t.nn.Linear(8 * 36, 10))(
            t.rand(2, 3, 8, 8)
        )
        .sum()
        .backward()
    ),
}


@pytest.mark.parametrize("case", FLOPS)
def test_flops(case):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as expected:
        FLOPS[case](torch)
    with facade.utils.flop_counter.FlopCounterMode(display=False) as counter:
        FLOPS[case](facade)
    assert counter.get_total_flops() == expected.get_total_flops()
    assert set(counter.get_flop_counts()) == set(expected.get_flop_counts())


@pytest.mark.parametrize(
    "options",
    [
        {"wait": 1, "warmup": 1, "active": 2},
        {"wait": 0, "warmup": 1, "active": 1, "repeat": 2},
        {"wait": 2, "warmup": 1, "active": 3, "repeat": 2, "skip_first": 3},
        {"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1},
    ],
)
def test_schedules(options):
    mine, theirs = (library.profiler.schedule(**options) for library in (facade, torch))
    assert [mine(step).name for step in range(25)] == [theirs(step).name for step in range(25)]


@pytest.mark.parametrize(
    "build", [lambda x: 2 * x, lambda x: 1 + x, lambda x: x * 2, lambda x: x + 1, lambda x: x * x]
)
def test_gradient_functions(build):
    def shape(node):
        return (
            None
            if node is None
            else (node.name().split("::")[-1], [shape(each) for each, _ in node.next_functions])
        )

    mine, theirs = (
        shape(build(library.ones(2, requires_grad=True).exp()).grad_fn) for library in (facade, torch)
    )
    assert mine == theirs
