"""The public functions against numbers worked out by hand."""

import pytest

import flambeau as fl
from flambeau import func
from flambeau.autograd import forward_ad, functional

X, Y = fl.tensor([1.0, 2.0, 3.0]), fl.tensor([4.0, 5.0, 6.0])


def numbers(result):
    if isinstance(result, (tuple, list)):
        return [numbers(r) for r in result]
    if isinstance(result, dict):
        return {k: numbers(v) for k, v in result.items()}
    return result.tolist()


def test_gradients():
    f = lambda a, b: (a * a * b).sum()
    assert numbers(func.grad(f)(X, Y)) == [8.0, 20.0, 36.0]
    assert numbers(func.grad(f, argnums=(1, 0))(X, Y)) == [[1.0, 4.0, 9.0], [8.0, 20.0, 36.0]]
    assert numbers(func.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": X, "b": [Y]})) == {
        "a": [4.0, 5.0, 6.0], "b": [[1.0, 2.0, 3.0]]}
    slope, (value, aux) = func.grad_and_value(lambda a: (a.sum(), a * 2), has_aux=True)(X)
    assert (numbers(slope), value.item(), numbers(aux)) == ([1.0] * 3, 6.0, [2.0, 4.0, 6.0])
    assert numbers(func.grad(lambda a, b: a.sum(), argnums=(0, 1))(X, Y)) == [[1.0] * 3, [0.0] * 3]
    assert func.grad(func.grad(func.grad(lambda a: a ** 5)))(fl.tensor(2.0)).item() == 240.0


def test_products_and_jacobians():
    assert numbers(func.jvp(lambda a: a * a, (X,), (Y,))) == [[1.0, 4.0, 9.0], [8.0, 20.0, 36.0]]
    value, pull = func.vjp(lambda a: {"s": a.sum(), "d": a * 2}, X)
    assert numbers(pull({"s": fl.tensor(10.0), "d": Y})) == [[18.0, 20.0, 22.0]]
    assert numbers(func.vmap(pull)({"s": fl.tensor([1.0, 2.0]), "d": fl.zeros(2, 3)})) == [[[1.0] * 3, [2.0] * 3]]
    value, push = func.linearize(lambda a: a * a, X)
    assert numbers(push(Y)) == [8.0, 20.0, 36.0]
    for jacobian in (func.jacrev, func.jacfwd):
        assert numbers(jacobian(lambda a: a[:2] * a[2])(X)) == [[3.0, 0.0, 1.0], [0.0, 3.0, 2.0]]
    assert numbers(func.hessian(lambda a: a[0] * a[1] * a[2])(X)) == [[0.0, 3.0, 2.0], [3.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    wide = func.jacrev(lambda a: fl.nn.functional.linear(a, fl.ones(4, 3)).tanh())
    assert func.jacrev(wide)(X).shape == (4, 3, 3)


def test_batches():
    m = fl.stack([X, Y])
    assert numbers(func.vmap(fl.dot)(m, m)) == [14.0, 77.0]
    assert numbers(func.vmap(lambda a, b: a * b, in_dims=(0, None))(m, fl.tensor(2.0))) == numbers(m * 2)
    assert numbers(func.vmap(lambda a: a, in_dims=1, out_dims=1)(m)) == numbers(m)
    assert numbers(func.vmap(lambda a, b=None: a + b)(m, b=X)) == numbers(m + X)        # keywords are shared
    assert numbers(func.vmap(lambda a: a.sum(), chunk_size=1)(m)) == [6.0, 15.0]
    shared = func.vmap(lambda a: (a, X), out_dims=(0, None))(m)
    assert numbers(shared) == [numbers(m), numbers(X)]


def test_functional():
    assert numbers(functional.jacobian(lambda a: a * a, X[:2])) == [[2.0, 0.0], [0.0, 4.0]]
    assert numbers(functional.hessian(lambda a: (a ** 3).sum(), X[:2])) == [[6.0, 0.0], [0.0, 12.0]]
    assert numbers(functional.hvp(lambda a: (a ** 3).sum(), X, Y)) == [36.0, [24.0, 60.0, 108.0]]
    assert numbers(functional.vhp(lambda a: (a ** 3).sum(), X, Y)[1]) == [24.0, 60.0, 108.0]
    leaf = X.clone().requires_grad_()
    functional.jacobian(lambda a: a ** 3, leaf, create_graph=True).sum().backward()
    assert numbers(leaf.grad) == [6.0, 12.0, 18.0]
    with pytest.raises(RuntimeError, match="independent of input 1"):
        functional.jacobian(lambda a, b: a * 2, (X, Y), strict=True)
    grads, = fl.autograd.grad(leaf ** 2, leaf, fl.eye(3), is_grads_batched=True)
    assert numbers(grads) == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


def test_dual_tensors():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, Y)
        value, tangent = forward_ad.unpack_dual(dual * dual)
        assert numbers(value) == [1.0, 4.0, 9.0] and numbers(tangent) == [8.0, 20.0, 36.0]
        assert forward_ad.unpack_dual(X).tangent is None
        with pytest.raises(RuntimeError, match="nested"):
            forward_ad.enter_dual_level()
    assert forward_ad.unpack_dual(dual).tangent is None


def test_precision_of_whole_numbers():
    """An integer beside float64 computes its derivative in float64, not in the default dtype."""
    x = fl.tensor([1.0, 2.0], dtype=fl.float64, requires_grad=True)
    (x / fl.tensor([3, 7])).sum().backward()
    assert x.grad.tolist() == [1 / 3, 1 / 7]
    assert func.jvp(fl.mean, (x.detach(),), (fl.tensor([1.0, 0.0], dtype=fl.float64),))[1].item() == 0.5
    assert func.jvp(lambda a: a / 3, (x.detach(),), (fl.ones(2, dtype=fl.float64),))[1].tolist() == [1 / 3, 1 / 3]


def test_batches_of_gradients_go_through_a_tape_from_outside():
    x = fl.randn(4, requires_grad=True)
    y = x.sin() * x
    rows = fl.vmap(lambda v: fl.autograd.grad(y, x, v, retain_graph=True)[0])(fl.eye(4))
    want = fl.diag((x.cos() * x + x.sin()).detach())
    assert fl.allclose(rows, want, atol=1e-6) and not rows.requires_grad
    net = fl.nn.Sequential(fl.nn.Conv1d(1, 2, 3), fl.nn.BatchNorm1d(2), fl.nn.ReLU(), fl.nn.Flatten(), fl.nn.Linear(8, 3))
    out, directions = net(fl.randn(5, 1, 6)), fl.randn(2, 5, 3)
    parameters = list(net.parameters())
    found = fl.vmap(lambda v: fl.autograd.grad(out, parameters, v, retain_graph=True))(directions)
    for i in range(2):
        for one, batch in zip(fl.autograd.grad(out, parameters, directions[i], retain_graph=True), found):
            assert fl.allclose(one, batch[i], atol=1e-4)
