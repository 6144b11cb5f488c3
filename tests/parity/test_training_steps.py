"""The same models with the same weights: losses of training steps equal PyTorch's. Skipped where PyTorch is not installed."""

import numpy
import pytest

torch = pytest.importorskip("torch")

import flambeau as fl      # noqa: E402
from flambeau import torch as facade     # noqa: E402

STEPS = 5


def mlp(t):
    nn = t.nn
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 5))


def convolutional(t):
    nn = t.nn
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3),
                         nn.ReLU(), nn.Flatten(), nn.Linear(32, 5))


def transformer(t):
    nn, functional = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.norm, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            parts = self.qkv(self.norm(x)).split(width, dim=2)
            q, k, v = [p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts]
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.place = nn.Embedding(11, 16), nn.Embedding(8, 16)
            self.blocks, self.head = nn.ModuleList([Block(16, 2), Block(16, 2)]), nn.Linear(16, 5)

        def forward(self, x):
            h = self.embedding(x) + self.place(t.arange(x.shape[1]))
            for block in self.blocks:
                h = block(h)
            return self.head(h.mean(1))

    return Model()


CASES = {
    "mlp": (mlp, lambda rng: rng.normal(size=(12, 20)).astype("float32")),
    "convolutional": (convolutional, lambda rng: rng.normal(size=(12, 1, 8, 8)).astype("float32")),
    "transformer": (transformer, lambda rng: rng.integers(0, 11, size=(12, 8))),
}
OPTIMIZERS = {
    "sgd": lambda t, p: t.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda t, p: t.optim.Adam(p, 3e-3),
    "adamw": lambda t, p: t.optim.AdamW(p, 3e-3),
    "rmsprop": lambda t, p: t.optim.RMSprop(p, 1e-3),
}


def losses(t, model, optimizer, x, y):
    found = []
    for _ in range(STEPS):
        loss = t.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("case", CASES)
def test_losses_equal(case, optimizer):
    make, data = CASES[case]
    rng = numpy.random.default_rng(0)
    x, y = data(rng), rng.integers(0, 5, size=12)
    torch.manual_seed(0)
    theirs, ours = make(torch), make(facade)
    ours.load_state_dict({k: fl.from_numpy(v.detach().numpy().copy()) for k, v in theirs.state_dict().items()})
    want = losses(torch, theirs, OPTIMIZERS[optimizer](torch, theirs.parameters()), torch.from_numpy(x), torch.from_numpy(y))
    got = losses(facade, ours, OPTIMIZERS[optimizer](facade, ours.parameters()), fl.from_numpy(x), fl.from_numpy(y))
    assert numpy.allclose(got, want, rtol=2e-5, atol=1e-6), (got, want)
    if optimizer != "sgd":
        return      # biases without effect (before a norm, of keys) have gradients of rounding noise, scaled to full steps
    for name, value in theirs.state_dict().items():
        mine = ours.state_dict()[name].numpy()
        assert numpy.allclose(mine, value.numpy(), rtol=1e-3, atol=2e-5), name


def test_numbers_pass_between_the_two_without_a_copy():
    a = torch.arange(6.0).reshape(2, 3)
    mine = fl.from_dlpack(a)
    mine[0, 0] = 7.0
    assert a[0, 0].item() == 7.0
    back = torch.from_dlpack(fl.arange(4))
    assert back.tolist() == [0, 1, 2, 3]
