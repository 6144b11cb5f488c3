"""Sparse gradients of tables, and the optimizers that take them."""

import copy

import numpy
import pytest

import flambeau as fl

F = fl.nn.functional
INDEX = [[0, 3, 5], [3, 3, 9]]


def table(seed=0):
    rng = numpy.random.default_rng(seed)
    return fl.from_numpy(rng.standard_normal((10, 3))).requires_grad_()


def bag(weight, sparse, mode):
    return F.embedding_bag(fl.tensor(INDEX), weight, mode=mode, sparse=sparse)


CALLS = {
    "rows": lambda w, sparse: F.embedding(fl.tensor(INDEX), w, sparse=sparse),
    "padding": lambda w, sparse: F.embedding(fl.tensor(INDEX), w, padding_idx=3, sparse=sparse),
    "only padding": lambda w, sparse: F.embedding(fl.tensor([3, 3]), w, padding_idx=3, sparse=sparse),
    "one": lambda w, sparse: F.embedding(fl.tensor(4), w, sparse=sparse),
    "none": lambda w, sparse: F.embedding(fl.zeros(0, dtype=fl.int64), w, sparse=sparse),
    "sums": lambda w, sparse: bag(w, sparse, "sum"), "means": lambda w, sparse: bag(w, sparse, "mean"),
    "weighted": lambda w, sparse: F.embedding_bag(fl.tensor(INDEX), w, mode="sum", sparse=sparse,
                                                  per_sample_weights=fl.arange(6.0).double().reshape(2, 3)),
    "shrunk": lambda w, sparse: F.embedding(fl.tensor(INDEX), w, max_norm=1.0, sparse=sparse),
    "read twice": lambda w, sparse: F.embedding(fl.tensor([1, 2]), w, sparse=sparse)
    * F.embedding(fl.tensor([2, 2]), w, sparse=sparse),
}


@pytest.mark.parametrize("name", CALLS)
def test_sparse_and_dense_gradients_agree(name):
    one, other = table(), table()
    for _ in range(2):                                      # the second adds to the first
        (CALLS[name](one, True) ** 3).sum().backward()
        (CALLS[name](other, False) ** 3).sum().backward()
    assert one.grad.is_sparse and tuple(one.grad.shape) == (10, 3)
    numpy.testing.assert_allclose(one.grad.to_dense().numpy(), other.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_layers():
    for layer in (fl.nn.Embedding(10, 3, padding_idx=0, sparse=True), fl.nn.EmbeddingBag(10, 3, sparse=True)):
        layer(fl.tensor(INDEX)).sum().backward()
        assert layer.weight.grad.is_sparse
        layer.zero_grad(set_to_none=False)
        assert layer.weight.grad._nnz() == 0
        layer.zero_grad()
        assert layer.weight.grad is None
    with pytest.raises(RuntimeError, match="max"):
        bag(table(), True, "max")
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        F.embedding(fl.tensor([1]), table(), scale_grad_by_freq=True, sparse=True)


def test_sparse_meets_dense():
    weight, want = table(), table()
    for w, sparse in ((weight, True), (want, False)):
        CALLS["rows"](w, sparse).sum().backward()
        (w * w).sum().backward()                            # sparse + dense
        CALLS["rows"](w, sparse).sum().backward()           # dense + sparse
        (CALLS["rows"](w * 2, sparse) ** 2).sum().backward()        # into an op that takes dense gradients
        (CALLS["rows"](w, sparse).sum() + (w ** 3).sum()).backward()        # both in one pass
    assert not weight.grad.is_sparse
    numpy.testing.assert_allclose(weight.grad.numpy(), want.grad.numpy(), rtol=1e-12)


def test_gradients_asked_for():
    weight = table()
    found, = fl.autograd.grad(CALLS["rows"](weight, True).sum(), weight)
    assert found.is_sparse and weight.grad is None
    seen = []
    weight.register_hook(lambda g: seen.append(g.is_sparse))
    CALLS["rows"](weight, True).sum().backward()
    assert seen == [True]
    weight.grad = found
    with pytest.raises(RuntimeError, match="size"):
        weight.grad = fl.ones(3, 3, dtype=fl.float64).to_sparse()
    with pytest.raises(RuntimeError, match="type"):
        weight.grad = fl.ones(10, 3).to_sparse()


def test_a_gradient_has_memory_of_its_own():
    weight, cotangent = table(), fl.ones(2, 3, 3, dtype=fl.float64)
    CALLS["rows"](weight, True).backward(cotangent)
    weight.grad.mul_(5)
    assert float(cotangent.max()) == 1 and float(weight.grad.coalesce().values().max()) == 15


def test_clipping():
    one, other = table(), table()
    for w, sparse in ((one, True), (other, False)):
        CALLS["rows"](w, sparse).sum().backward()
    norms = [fl.nn.utils.clip_grad_norm_([w], 1.0).item() for w in (one, other)]
    assert norms[0] == pytest.approx(norms[1])
    numpy.testing.assert_allclose(one.grad.to_dense().numpy(), other.grad.numpy())


# ---------------------------------------------------------------------------------- optimizers
def train(make, sparse, steps=4, batches=(INDEX, [[1, 3]])):
    weight = table()
    optimizer = make([weight])
    for step in range(steps):
        optimizer.zero_grad()
        index = fl.tensor(batches[step % len(batches)])
        (F.embedding(index, weight, sparse=sparse) ** 2).sum().backward()
        optimizer.step()
    return weight.detach().numpy(), optimizer


@pytest.mark.parametrize("make", [
    lambda p: fl.optim.SGD(p, 0.1), lambda p: fl.optim.SGD(p, 0.1, maximize=True), lambda p: fl.optim.SGD(p, 0.1, momentum=0.9),
    lambda p: fl.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5),
    lambda p: fl.optim.SGD(p, 0.1, momentum=0.9, nesterov=True), lambda p: fl.optim.Adagrad(p, 0.1),
    lambda p: fl.optim.Adagrad(p, 0.1, lr_decay=0.1, initial_accumulator_value=0.5, maximize=True)])
def test_steps_from_sparse_and_dense_gradients_agree(make):
    numpy.testing.assert_allclose(train(make, True)[0], train(make, False)[0], rtol=1e-10, atol=1e-12)


def lazy_adam(gradients, weight, lr, beta1, beta2, eps):
    """Adam that moves only rows with a gradient, in NumPy: gradients is a list of (rows, values)."""
    weight, mean, square = weight.copy(), numpy.zeros_like(weight), numpy.zeros_like(weight)
    for t, (rows, values) in enumerate(gradients, 1):
        mean[rows] = beta1 * mean[rows] + (1 - beta1) * values
        square[rows] = beta2 * square[rows] + (1 - beta2) * values ** 2
        size = lr * (1 - beta2 ** t) ** 0.5 / (1 - beta1 ** t)
        weight[rows] -= size * mean[rows] / (square[rows] ** 0.5 + eps)
    return weight


@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam(maximize):
    rng, weight = numpy.random.default_rng(1), table()
    optimizer = fl.optim.SparseAdam([weight], lr=0.1, betas=(0.8, 0.9), eps=1e-6, maximize=maximize)
    gradients, before = [], weight.detach().numpy().copy()
    for rows in ([0, 4], [4, 7, 8], [1], [4]):
        values = rng.standard_normal((len(rows), 3))
        gradients.append((rows, -values if maximize else values))
        weight.grad = fl.sparse_coo_tensor([rows], values.tolist(), (10, 3), dtype=fl.float64)
        optimizer.step()
    want = lazy_adam(gradients, before, 0.1, 0.8, 0.9, 1e-6)
    numpy.testing.assert_allclose(weight.detach().numpy(), want, rtol=1e-10)
    assert set(optimizer.state_dict()["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
    assert optimizer.state_dict()["state"][0]["step"] == 4


def test_sparse_adam_goes_on_from_its_state():
    make = lambda p: fl.optim.SparseAdam(p, lr=0.1)         # noqa: E731
    whole, _ = train(make, True, 4)
    half, optimizer = train(make, True, 2)
    weight = fl.from_numpy(half.copy()).requires_grad_()
    fresh = make([weight])
    fresh.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for index in (INDEX, [[1, 3]]):
        fresh.zero_grad()
        (F.embedding(fl.tensor(index), weight, sparse=True) ** 2).sum().backward()
        fresh.step()
    numpy.testing.assert_array_equal(weight.detach().numpy(), whole)


def test_what_optimizers_refuse():
    weight = table()
    CALLS["rows"](weight, True).sum().backward()
    for make in (fl.optim.Adam, fl.optim.RMSprop, fl.optim.Adadelta, fl.optim.NAdam, fl.optim.ASGD, fl.optim.Rprop):
        with pytest.raises(RuntimeError, match="sparse gradients"):
            make([weight]).step()
    for make in (fl.optim.SGD, fl.optim.Adagrad):
        with pytest.raises(RuntimeError, match="weight_decay"):
            make([weight], weight_decay=0.1).step()
    weight.grad = weight.grad.to_dense()
    with pytest.raises(RuntimeError, match="dense gradients"):
        fl.optim.SparseAdam([weight]).step()
    with pytest.raises(ValueError, match="learning rate"):
        fl.optim.SparseAdam([weight], lr=-1)
    with pytest.raises(ValueError, match="Complex"):
        fl.optim.SparseAdam([fl.ones(2, dtype=fl.complex64)])
    with pytest.raises(ValueError, match="dense parameter"):
        fl.optim.SparseAdam([fl.ones(2).to_sparse()])


def test_a_step_touches_only_the_rows_of_the_gradient():
    weight = fl.zeros(200_000, 8, requires_grad=True)
    with fl.no_grad():
        weight[7] = float("nan")                            # would spread through arithmetic on the whole
    optimizer = fl.optim.SparseAdam([weight], lr=0.1)
    F.embedding(fl.tensor([5]), weight, sparse=True).sum().backward()
    optimizer.step()
    assert float(weight[5].max()) < 0 and bool((weight[8:] == 0).all())
