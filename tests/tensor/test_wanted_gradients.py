"""Backward passes for some inputs only: what they give, and that they compute no more than that."""

import pytest

import flambeau as fl
from flambeau.autograd import Function, grad
from flambeau.ops import derive


def leaves(*shapes):
    fl.manual_seed(0)
    return [fl.rand(*shape, requires_grad=True) for shape in shapes]


def addmm(a, b, c):
    return fl.addmm(a, b, c).sin()


CALLS = {"mul": (lambda a, b: a * b, (3, 4), (4,)),
         "division": (lambda a, b: (a / (b + 1)).exp(), (3, 4), (3, 1)),
         "matmul": (lambda a, b: a @ b, (3, 4), (4, 5)),
         "addmm": (addmm, (5,), (3, 4), (4, 5)),
         "linear": (fl.nn.functional.linear, (3, 4), (5, 4), (5,)),
         "convolution": (fl.nn.functional.conv2d, (2, 3, 6, 6), (4, 3, 3, 3), (4,)),
         "winograd": (lambda x, w, b: fl.nn.functional.conv2d(x, w, b, padding=1), (8, 64, 16, 16), (64, 64, 3, 3), (64,)),
         "layer_norm": (lambda x, w, b: fl.nn.functional.layer_norm(x, (4,), w, b), (3, 4), (4,), (4,)),
         "attention": (fl.nn.functional.scaled_dot_product_attention, (2, 2, 5, 4), (2, 2, 6, 4), (2, 2, 6, 4)),
         "where": (lambda a, b: fl.where(a > 0.5, a * 2, b), (3, 4), (3, 4)),
         "cat": (lambda a, b, c: fl.cat([a, b * 2, c]), (2, 3), (1, 3), (4, 3)),
         "einsum": (lambda a, b, c: fl.einsum("ij,jk,kl->il", a, b, c), (2, 3), (3, 4), (4, 2)),
         "bilinear": (fl.nn.functional.bilinear, (3, 2), (3, 4), (5, 2, 4)),
         "addcmul": (lambda a, b, c: fl.addcmul(a, b, c, value=0.5), (3, 4), (4,), (3, 1)),
         "lerp": (fl.lerp, (3, 4), (3, 4), (3, 4)),
         "cdist": (fl.cdist, (3, 4), (5, 4)),
         "index_add": (lambda a, b: a.index_add(0, fl.tensor([0, 2]), b), (3, 4), (2, 4)),
         "complex": (fl.complex, (3, 4), (3, 4)),
         "solve": (fl.linalg.solve, (4, 4), (4, 2))}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_each_input_alone_has_the_gradient_that_all_have(name, create_graph):
    call, *shapes = CALLS[name]
    inputs = leaves(*shapes)
    out = call(*inputs)
    g = fl.rand_like(out) if not out.is_complex() else fl.complex(fl.rand(out.shape), fl.rand(out.shape))
    everything = grad(out, inputs, g, retain_graph=True)
    for count in range(1, len(inputs) + 1):
        for first in range(len(inputs) - count + 1):
            part = slice(first, first + count)
            got = grad(out, inputs[part], g, retain_graph=True, create_graph=create_graph)
            for one, wanted in zip(got, everything[part]):
                assert fl.equal(one.detach(), wanted), (name, part)


@pytest.fixture
def targets(monkeypatch):
    """Which inputs gradients were computed for, call by call."""
    seen, real = [], derive._rule

    def spy(operation, plan, graph, roles, targets, constraints):
        seen.append(list(targets))
        return real(operation, plan, graph, roles, targets, constraints)

    monkeypatch.setattr(derive, "_rule", spy)
    return seen


def test_only_what_is_wanted_is_computed(targets):
    x, w = leaves((3, 7), (7, 5))
    y = fl.matmul(x.double(), w.double()).tanh()
    targets.clear()
    grad(y.sum(), x, retain_graph=True)
    assert [0] in targets
    assert all(len(t) == 1 for t in targets)


class Refusing(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise AssertionError("nobody wants this")


def test_what_leads_nowhere_is_not_run():
    x, y = leaves((3,), (3,))
    called = []
    unwanted = Refusing.apply(y)
    unwanted.register_hook(lambda g: called.append("unwanted"))
    middle = x * 3
    middle.register_hook(lambda g: called.append("middle"))
    out = (middle * unwanted).sum()
    assert fl.equal(grad(out, x, retain_graph=True)[0], 6 * y.detach())
    assert called == ["middle"]
    with pytest.raises(AssertionError, match="nobody wants this"):
        grad(out, y)


def test_a_tensor_inside_of_the_graph_is_where_the_walk_ends():
    x, = leaves((3,))
    middle = Refusing.apply(x)
    out = middle.square().sum()
    assert fl.equal(grad(out, middle, retain_graph=True)[0], 2 * middle.detach())
    wanted_twice = grad(out, (middle, middle), retain_graph=True)
    assert fl.equal(wanted_twice[0], wanted_twice[1])
    with pytest.raises(AssertionError):
        grad(out, (middle, x))


def test_both_a_tensor_and_what_it_was_made_of():
    x, = leaves((3,))
    middle = x.square()
    got = grad(middle.exp().sum(), (x, middle))
    assert fl.allclose(got[1], middle.detach().exp()) and fl.allclose(got[0], 2 * x.detach() * got[1])


def test_backward_with_inputs_leaves_the_others_alone():
    x, w = leaves((3, 4), (4, 2))
    (x @ w).sum().backward(inputs=[w])
    assert x.grad is None and fl.allclose(w.grad, x.detach().sum(0)[:, None].expand(4, 2))


def test_a_walk_inside_of_a_walk():
    """A hook that asks for other gradients of the same graph."""
    x, y = leaves((3,), (3,))
    middle = x * y
    out = (middle * y).sum()
    inner = []

    def hook(g):
        if not inner:
            inner.append(None)
            inner.append(grad(out, y, retain_graph=True)[0])

    middle.register_hook(hook)
    got, = grad(out, x, retain_graph=True)
    assert fl.allclose(got, y.detach().square()) and fl.allclose(inner[1], 2 * (x * y).detach())


def test_unused_inputs():
    x, y, z = leaves((3,), (3,), (3,))
    out = (x * y).sum()
    assert grad(out, (x, z), retain_graph=True, allow_unused=True)[1] is None
    with pytest.raises(RuntimeError):
        grad(out, z)


def test_a_node_that_was_not_walked_keeps_what_it_saved():
    x, y = leaves((3,), (3,))
    left, right = x.exp(), y.exp()
    out = (left + right).sum()
    grad(out, x)
    grad(right.sum(), y)                    # its node has not been released
    with pytest.raises(RuntimeError, match="second time"):
        grad(left.sum(), x)


def test_chains_of_any_length():
    x, y = leaves((2,), (2,))
    for step in range(100_000):
        x = x + y if step % 2 else x * 1
    assert fl.equal(grad(x.sum(), y)[0], fl.full((2,), 50_000.0))


def test_derivatives_of_a_part_are_those_of_the_whole():
    x, w = leaves((4, 3), (3, 2))
    gx, = grad((x @ w).tanh().sum(), x, create_graph=True)
    second, = grad(gx.square().sum(), w)
    both = grad((x @ w).tanh().sum(), (x, w), create_graph=True)
    assert fl.allclose(second, grad(both[0].square().sum(), w)[0])
