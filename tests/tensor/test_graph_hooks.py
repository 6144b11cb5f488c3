"""Hooks on saved tensors, edges of the graph, anomaly detection."""

import re

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.autograd import graph


def program(x, w):
    hidden = (x @ w).relu()
    normal = nn.functional.layer_norm(hidden.softmax(-1), (4,))
    image = nn.functional.conv2d(x.reshape(1, 1, 3, 3), w[:3, :3].reshape(1, 1, 3, 3), padding=1)
    largest, _ = hidden.max(1)
    return (normal.exp() * hidden.tanh()).sum() + image.sigmoid().sum() + (x[0] / w[:, 0]).sum() + largest.sum()


@pytest.fixture
def operands():
    fl.manual_seed(0)
    return fl.rand(3, 3).add_(0.1).requires_grad_(), fl.rand(3, 4).add_(0.1).requires_grad_()


def test_saved_tensors_go_through_the_hooks_and_back(operands):
    wanted = fl.autograd.grad(program(*operands), operands)
    count = {"packed": 0, "unpacked": 0}

    def pack(tensor):
        count["packed"] += 1
        return tensor.detach().numpy().copy()

    def unpack(array):
        count["unpacked"] += 1
        return fl.from_numpy(array.copy())

    with graph.saved_tensors_hooks(pack, unpack):
        y = program(*operands)
    for keep in (True, False):
        got = fl.autograd.grad(y, operands, retain_graph=keep)
        assert all((a == b).all() for a, b in zip(got, wanted))
    assert count["packed"] > 8 and count["unpacked"] == 2 * count["packed"]
    with pytest.raises(RuntimeError, match="second time"):
        fl.autograd.grad(y, operands)


def test_second_derivatives_through_the_hooks(operands):
    def curvature():
        slopes = fl.autograd.grad(program(*operands), operands, create_graph=True)
        return fl.autograd.grad(sum((s * s).sum() for s in slopes), operands)

    wanted = curvature()
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        got = curvature()
    assert all((g == w).all() and w.any() for g, w in zip(got, wanted))


def test_the_innermost_pair_counts(operands):
    seen = []
    with graph.saved_tensors_hooks(lambda t: (seen.append("outer"), t)[1], lambda t: t):
        with graph.saved_tensors_hooks(lambda t: (seen.append("inner"), t)[1], lambda t: t):
            operands[0].exp()
        operands[0].exp()
    operands[0].exp()
    assert seen == ["inner", "outer"]


def test_wrong_hooks_are_refused(operands):
    x, _ = operands
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp().sum()
    with pytest.raises(TypeError, match="returned a int, not a Tensor"):
        y.backward()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: fl.ones(2)):
        z = (x * x).sum()
    with pytest.raises(RuntimeError, match=r"returned flambeau.float32 of shape \(2,\); mul saved"):
        z.backward()
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()


def test_save_on_cpu_and_mutation(operands):
    wanted = fl.autograd.grad(program(*operands), operands)
    with graph.save_on_cpu():
        y = program(*operands)
    assert all((a == b).all() for a, b in zip(fl.autograd.grad(y, operands), wanted))
    with graph.allow_mutation_on_saved_tensors():
        x = fl.ones(3, requires_grad=True)
        doubled = x * 2
        squared = doubled * doubled
        doubled.add_(1)
        squared.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0, 8.0]


def test_edges(operands):
    x, _ = operands
    y = (x * 2).sum()
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0 and isinstance(edge.node, graph.Node)
    assert graph.get_gradient_edge(x).node.variable is x
    y.grad_fn.metadata["seen"] = 1
    assert y.grad_fn.metadata == {"seen": 1}
    with pytest.raises(RuntimeError, match="does not require grad"):
        graph.get_gradient_edge(fl.ones(1))


def test_a_hook_on_several_gradients():
    x, y = fl.ones(2, requires_grad=True), fl.ones(2, requires_grad=True)
    seen, first = [], []
    handle = graph.register_multi_grad_hook([x, y], seen.append)
    other = graph.register_multi_grad_hook((x, y), first.append, mode="any")
    (x * 2 + y * 3).sum().backward()
    assert [g.tolist() for g in seen[0]] == [[2.0, 2.0], [3.0, 3.0]] and len(seen) == len(first) == 1
    handle.remove()
    other.remove()
    (x * 2 + y * 3).sum().backward()
    assert len(seen) == len(first) == 1


# ---------------------------------------------------------------------------------- anomalies
@pytest.mark.parametrize("function", [lambda x: x.sqrt(), lambda x: x.log(), lambda x: x ** 0.5, lambda x: 1 / x])
def test_an_anomaly_names_the_line_of_the_forward_pass(function):
    x = fl.tensor([1.0, 0.0], requires_grad=True)
    with fl.autograd.detect_anomaly():
        y = function(x * 1)
        with pytest.raises(RuntimeError, match=r"the gradient of input \d is not finite(.|\n)*at position 1(.|\n)*"
                                               r"forward call is at test_graph_hooks.py:\d+") as error:
            y.sum().backward()
    line = int(re.search(r"forward call is at test_graph_hooks.py:(\d+)", str(error.value))[1])
    assert "lambda x:" in open(__file__).read().splitlines()[line - 1]
    assert x.grad is None


def test_anomaly_detection_is_left_behind():
    assert not fl.autograd.is_anomaly_enabled()
    with fl.autograd.set_detect_anomaly(True, check_nan=False):
        assert fl.autograd.is_anomaly_enabled() and not fl.autograd.is_anomaly_check_nan_enabled()
        fl.zeros(1, requires_grad=True).sqrt().backward()
    assert not fl.autograd.is_anomaly_enabled()
    fl.zeros(1, requires_grad=True).sqrt().backward()


def test_saved_tensors_by_name():
    x = fl.tensor([0.5, 2.0], requires_grad=True)
    square, power, product = x.pow(2), x.exp(), x * 3
    assert square.grad_fn._saved_self is x and power.grad_fn._saved_result.equal(power)
    with pytest.raises(AttributeError, match="saved no 'self'"):
        product.grad_fn._saved_self
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        product.grad_fn.colour
