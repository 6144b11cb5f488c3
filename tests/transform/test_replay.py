"""Derivatives replayed op by op (create_graph): natively from the second time on, with the same values and records."""

import pytest

import flambeau as fl
from flambeau.ops import trace
from flambeau.ops.overrides import TorchFunctionMode
from flambeau.ops.spec import REGISTRY, Op

F = fl.nn.functional

LOSSES = {
    "powers": lambda x, w: (x ** 3 * w.sin()).sum(),
    "softmax": lambda x, w: (F.softmax(x @ w, 1) * x).sum(),
    "norms": lambda x, w: F.layer_norm(x @ w, (4,)).pow(2).sum(),
    "sums": lambda x, w: (x.sum(1, keepdim=True) * w.mean(0)).exp().sum(),
    "views": lambda x, w: (x.reshape(2, 2, 4).permute(2, 0, 1)[1:] * w[:3, :2, None]).pow(3).sum(),
    "gathers": lambda x, w: (x.gather(1, fl.tensor([[0, 2], [1, 1], [3, 0], [2, 2]])) * w[:, :2]).pow(2).sum(),
    "joins": lambda x, w: fl.cat((x, w), 1).tanh().prod(1).sum(),
    "where": lambda x, w: fl.where(x > 0, x * w, w ** 2).clamp(-1, 1).sum(),
    "losses": lambda x, w: F.cross_entropy(x @ w, fl.tensor([0, 3, 1, 2])) * F.mse_loss(x, w),
    "scans": lambda x, w: (x.cumsum(1) * w.cumprod(0)).sum(),
    "images": lambda x, w: F.conv2d(x[None, None], w[None, None, :3, :3], padding=1).pow(2).sum(),
}


def second(loss, x, w, batch=1):
    """The gradients of the squared gradients."""
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    first = fl.autograd.grad(loss(x, w), (x, w), create_graph=True)
    return fl.autograd.grad(sum((g ** 2).sum() for g in first), (x, w))


@pytest.mark.parametrize("name", LOSSES)
def test_the_native_replay_equals_the_one_through_python(name, monkeypatch):
    fl.manual_seed(4)
    x, w = fl.randn(4, 4).double(), fl.randn(4, 4).double()
    natively = [second(LOSSES[name], x, w) for _ in range(3)]
    monkeypatch.setattr(trace._core, "takes_native", lambda tensors: False)
    slow = second(LOSSES[name], x, w)
    for got in natively:
        assert all(fl.equal(a, b) for a, b in zip(got, slow))


def test_other_sizes_and_dtypes_after_the_first(monkeypatch):
    for size, dtype in ((4, fl.float64), (7, fl.float64), (1, fl.float64), (7, fl.float32)):
        x, w = fl.randn(size, size).to(dtype), fl.randn(size, size).to(dtype)
        got = second(LOSSES["softmax"], x, w), second(LOSSES["sums"], x, w)
        with monkeypatch.context() as m:
            m.setattr(trace._core, "takes_native", lambda tensors: False)
            slow = second(LOSSES["softmax"], x, w), second(LOSSES["sums"], x, w)
        assert all(fl.equal(a, b) for g, s in zip(got, slow) for a, b in zip(g, s))


def test_it_takes_the_native_path(monkeypatch):
    x = fl.randn(3, 3).requires_grad_()
    second(LOSSES["powers"], x.detach(), x.detach())
    monkeypatch.setattr(Op, "apply", lambda *given: pytest.fail("through Python"))
    fl.autograd.grad((x ** 3 * x.sin()).sum(), x, create_graph=True)


def test_modes_and_subclasses_do_not_see_the_ops_of_a_derivative():
    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = fl.randn(3, 3).requires_grad_()
    for _ in range(2):
        loss = (x ** 3).tanh().sum()
        with Watch():
            g = fl.autograd.grad(loss, x, create_graph=True)[0]
        assert not {"scale", "_scale"} & {getattr(f, "__name__", "") for f in seen}
    assert g.requires_grad


@pytest.mark.parametrize("name, attrs, natively", [
    ("sum", {"dim": (1,), "keepdim": True, "dtype": None}, (["input", "dim", "keepdim"], [])),
    ("sum", {"dim": None, "keepdim": False, "dtype": fl.float64}, (["input"], ["dtype"])),
    ("exp", {}, (["input"], [])),
    ("cat", {"tensors": 1, "dim": 0}, False),
])
def test_how_a_call_is_spelled(name, attrs, natively):
    assert trace._native_order(REGISTRY[name], [fl.ones(2, 2)], attrs) == natively
