"""Modules under transforms: per-sample gradients, ensembles, buffers, dropout."""

import pytest

import flambeau as fl
from flambeau import func, nn
from flambeau.nn import functional as F


def close(a, b, tolerance=1e-5):
    assert tuple(a.shape) == tuple(b.shape) and fl.allclose(a, b, rtol=tolerance, atol=tolerance), (a - b).abs().max()


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)), (5,)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)), (5,)),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, bias=False),
                                  nn.Flatten(), nn.Linear(4, 3)), (2, 6, 6)),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                         nn.Linear(4, 3)), (2, 5, 5)),
    "attention": (lambda: Pooled(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)), (4, 8)),
    "recurrent": (lambda: Last(nn.GRU(5, 6, batch_first=True)), (4, 5)),
}


class Pooled(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


class Last(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def loop_of_gradients(model, loss, xs, ys):
    found = []
    for x, y in zip(xs, ys):
        model.zero_grad()
        loss(model(x[None]), y[None]).backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters()})
    return {name: fl.stack([f[name] for f in found]) for name in found[0]}


@pytest.mark.parametrize("name", MODELS)
def test_per_sample_gradients_equal_a_loop(name):
    fl.manual_seed(0)
    make, shape = MODELS[name]
    model = make()
    xs, ys = fl.randn(6, *shape), fl.randint(0, 3, (6,))
    parameters = {n: p.detach() for n, p in model.named_parameters()}

    def loss(p, x, y):
        return F.cross_entropy(func.functional_call(model, p, (x[None],)), y[None])

    got = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, xs, ys)
    for n, want in loop_of_gradients(model, F.cross_entropy, xs, ys).items():
        close(got[n], want)


def test_per_sample_gradients_of_an_embedding():
    fl.manual_seed(0)
    table, tokens = nn.Embedding(7, 4, padding_idx=0), fl.randint(0, 7, (5, 3))
    target = fl.randn(5, 3, 4)

    def loss(weight, index, wanted):
        return ((func.functional_call(table, {"weight": weight}, (index,)) - wanted) ** 2).sum()

    got = func.vmap(func.grad(loss), (None, 0, 0))(table.weight.detach(), tokens, target)
    for number in range(5):
        table.zero_grad()
        ((table(tokens[number]) - target[number]) ** 2).sum().backward()
        close(got[number], table.weight.grad)


def test_batch_norm_keeps_its_running_statistics():
    fl.manual_seed(0)
    model, plain = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    x = fl.randn(8, 3)
    state = dict(model.named_parameters())
    buffers = {n: b.clone() for n, b in model.named_buffers()}
    grads = func.grad(lambda p: (func.functional_call(model, {**p, **buffers}, (x,)) ** 3).sum())(
        {n: p.detach() for n, p in state.items()})
    (plain(x) ** 3).sum().backward()
    close(grads["weight"], plain.weight.grad)
    close(buffers["running_mean"], plain.running_mean)
    close(buffers["running_var"], plain.running_var)
    assert model.running_mean.abs().max().item() == 0           # the module's own stay as they were


@pytest.mark.parametrize("train", [False, True])
def test_an_ensemble_is_one_call(train):
    fl.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)).train(train) for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    x, base = fl.randn(5, 4), models[0]

    def call(p, b, data):
        return func.functional_call(base, (p, b), (data,))

    got = func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    got_own = func.vmap(call)(parameters, {n: b.clone() for n, b in buffers.items()}, fl.stack([x, x * 2, x + 1]))
    want = fl.stack([m(x) for m in models])
    close(got, want)
    close(got_own[0], want[0])
    if train:
        close(buffers["1.running_mean"], fl.stack([m[1].running_mean for m in models]))
        assert buffers["1.num_batches_tracked"].tolist() == [1, 1, 1]
    got.sum().backward()
    assert all(p.grad is not None for p in parameters.values())


def test_dropout_draws_as_randomness_says():
    x = fl.ones(6, 100)
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(lambda a: F.dropout(a, 0.5))(x)
    different = func.vmap(lambda a: F.dropout(a, 0.5), randomness="different")(x)
    same = func.vmap(lambda a: F.dropout(a, 0.5), randomness="same")(x)
    assert len({tuple(r) for r in different.tolist()}) == 6 and len({tuple(r) for r in same.tolist()}) == 1
    assert set(same.unique().tolist()) == {0.0, 2.0} and 0.3 < (different == 0).float().mean().item() < 0.7
    grads = func.vmap(func.grad(lambda a: (F.dropout(a, 0.5) * 3).sum()), randomness="different")(x)
    assert set(grads.unique().tolist()) == {0.0, 6.0} and len({tuple(r) for r in grads.tolist()}) == 6
    layer = nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Linear(50, 1))
    parameters = {n: p.detach() for n, p in layer.named_parameters()}
    out = func.vmap(lambda a: func.functional_call(layer, parameters, (a,)), randomness="different")(fl.ones(5, 4))
    assert len(set(out.flatten().tolist())) == 5


def test_random_functions_inside():
    x = fl.zeros(4, 3)
    for draw in (lambda a: a + fl.rand(3), lambda a: fl.randn_like(a), lambda a: fl.randint(0, 1000, (3,)) + a,
                 lambda a: fl.rand_like(a), lambda a: fl.empty(3).uniform_() + a, lambda a: fl.bernoulli(a + 0.5) + fl.rand(1)):
        with pytest.raises(RuntimeError, match="randomness"):
            func.vmap(draw)(x)
        rows = func.vmap(draw, randomness="different")(x).tolist()
        assert len({tuple(r) for r in rows}) == 4
    rows = func.vmap(lambda a: a + fl.rand(3), randomness="same")(x).tolist()
    assert len({tuple(r) for r in rows}) == 1
    twice = func.vmap(func.vmap(lambda a: a + fl.rand(3), randomness="different"), randomness="same")(fl.zeros(2, 4, 3))
    assert twice.shape == (2, 4, 3) and twice[0].tolist() == twice[1].tolist() and len({tuple(r) for r in twice[0].tolist()}) == 4


def test_parameters_made_inside_are_plain():
    layer = func.grad(lambda x: (nn.Linear(2, 2)(x).sum(), None), has_aux=True)(fl.ones(2))
    assert layer[0].shape == (2,)
    made = []
    func.grad(lambda x: made.append(nn.Linear(2, 1)) or made[0](x).sum())(fl.ones(2))
    assert type(made[0].weight) is nn.Parameter and made[0](fl.ones(2)).requires_grad
