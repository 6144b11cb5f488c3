"""Losses against their formulas in NumPy, and the reductions they share."""

import math
from itertools import product

import numpy as np
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


def sample(*shape, low=-1.0, high=1.0):
    return np.random.default_rng(sum(shape)).uniform(low, high, shape).astype("float32")


X, Y = sample(5, 4) * 2, sample(4, 5).T.copy()
CHANCE, TARGET = sample(5, 4, low=0.05, high=0.95), sample(4, 5, low=0, high=1).T.copy()
SIGNS = np.where(Y > 0, 1.0, -1.0).astype("float32")
CLASSES = np.array([1, 3, 0, 2, 2])


def multi_margin(x, t):
    rows = [[max(0.0, 1 - x[i, c] + x[i, j]) for j in range(4) if j != c] for i, c in enumerate(t)]
    return np.array([sum(row) / 4 for row in rows])


LOSSES = [
    (F.mse_loss, (X, Y), lambda x, y: (x - y) ** 2),
    (F.l1_loss, (X, Y), lambda x, y: abs(x - y)),
    (F.smooth_l1_loss, (X, Y), lambda x, y: np.where(abs(x - y) < 1, (x - y) ** 2 / 2, abs(x - y) - 0.5)),
    (F.huber_loss, (X, Y), lambda x, y: np.where(abs(x - y) < 1, (x - y) ** 2 / 2, abs(x - y) - 0.5)),
    (F.binary_cross_entropy, (CHANCE, TARGET), lambda p, t: -t * np.log(p) - (1 - t) * np.log(1 - p)),
    (F.binary_cross_entropy_with_logits, (X, TARGET),
     lambda x, t: t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x))),
    (F.kl_div, (X, TARGET), lambda x, t: t * (np.log(t) - x)),
    (F.poisson_nll_loss, (X, TARGET), lambda x, t: np.exp(x) - t * x),
    (F.soft_margin_loss, (X, SIGNS), lambda x, s: np.log1p(np.exp(-s * x))),
    (F.hinge_embedding_loss, (X, SIGNS), lambda x, s: np.where(s > 0, x, np.maximum(0, 1 - x))),
    (F.multilabel_soft_margin_loss, (X, TARGET),
     lambda x, t: (t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x))).mean(1)),
    (F.multi_margin_loss, (X, CLASSES), multi_margin),
    (F.margin_ranking_loss, (X, Y, SIGNS), lambda x, y, s: np.maximum(0, -s * (x - y))),
    (F.gaussian_nll_loss, (X, Y, CHANCE), lambda x, y, v: (np.log(v) + (x - y) ** 2 / v) / 2),
    (F.triplet_margin_loss, (X, Y, CHANCE),
     lambda a, p, n: np.maximum(0, 1 + np.linalg.norm(a - p + 1e-6, axis=1)
                                - np.linalg.norm(a - n + 1e-6, axis=1))),
]


@pytest.mark.parametrize("loss, args, formula", LOSSES, ids=[entry[0].__name__ for entry in LOSSES])
def test_formula_and_reductions(loss, args, formula):
    each = formula(*(np.asarray(a, "float64") if a.dtype.kind == "f" else a for a in args))
    tensors = [fl.tensor(a) for a in args]
    for reduction, want in (("none", each), ("mean", each.mean()), ("sum", each.sum())):
        got = loss(*tensors, reduction=reduction)
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-4, atol=1e-5)
    tensors[0].requires_grad_()
    loss(*tensors).backward()
    step = sample(*args[0].shape)
    moved = [formula(*(np.asarray(args[0], "float64") + s * 1e-5 * step, *args[1:])).mean() for s in (1, -1)]
    np.testing.assert_allclose((tensors[0].grad.numpy() * step).sum(), (moved[0] - moved[1]) / 2e-5,
                               rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
def test_second_derivative_of_no_difference(loss):
    x = fl.zeros(1, requires_grad=True)
    slope, = fl.autograd.grad(loss(x, fl.zeros(1)), x, create_graph=True)
    slope.backward()
    assert x.grad.item() == 1.0


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss,
                                  F.binary_cross_entropy_with_logits, F.poisson_nll_loss])
def test_dtypes_of_losses(loss):
    """The promoted dtype; halves are rounded once."""
    x, y = fl.tensor(X), fl.tensor(TARGET)
    assert loss(x, y.double()).dtype is fl.float64
    low = loss(x.bfloat16(), y.bfloat16(), reduction="sum")
    assert low.dtype is fl.bfloat16
    assert low.item() == loss(x.bfloat16().float(), y.bfloat16().float(), reduction="sum").bfloat16().item()
    with pytest.raises(ValueError):
        loss(x, y, reduction="most")


def test_difference_of_complex_numbers():
    x = fl.tensor([3 + 4j, 1j], requires_grad=True)
    loss = F.l1_loss(x, fl.tensor([0j, 0j]))
    loss.backward()
    assert loss.item() == 3.0 and loss.dtype is fl.float32
    np.testing.assert_allclose(x.grad.numpy(), [0.3 + 0.4j, 0.5j], rtol=1e-6)


def test_cosine_of_vectors_of_other_shapes_and_dtypes():
    x, y = fl.tensor(X), fl.tensor([3, 0, -4, 0])
    want = (X @ [0.6, 0, -0.8, 0]) / np.linalg.norm(X, axis=1)
    for other in (y, y.double(), y[None].short()):
        got = F.cosine_similarity(x, other, -1)
        assert got.dtype is (fl.float64 if other.dtype is fl.float64 else fl.float32)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
    assert F.cosine_similarity(x * 0, y).tolist() == [0.0] * 5


def test_gradient_of_a_variance_below_eps():
    var = fl.tensor([0.0, 2.0], requires_grad=True)
    loss = F.gaussian_nll_loss(fl.zeros(2), fl.ones(2), var, eps=0.5, reduction="none", full=True)
    np.testing.assert_allclose(loss.tolist(), [(np.log(v) + 1 / v + np.log(2 * np.pi)) / 2 for v in (0.5, 2.0)], rtol=1e-6)
    loss.sum().backward()
    np.testing.assert_allclose(var.grad.tolist(), [(1 / v - 1 / v ** 2) / 2 for v in (0.5, 2.0)], rtol=1e-6)


def test_multilabel_margin_of_rows_with_and_without_targets():
    x = fl.tensor([[0.1, 0.2, 0.4], [0.3, 0.9, 0.5]], requires_grad=True)
    loss = F.multilabel_margin_loss(x, fl.tensor([[-1, 0, 2], [1, 2, -1]]), reduction="none")
    np.testing.assert_allclose(loss.tolist(), [0.0, (0.4 + 0.8) / 3], rtol=1e-6)
    loss.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [[0, 0, 0], [2 / 3, -1 / 3, -1 / 3]], rtol=1e-6)


def test_multilabel_margin_ignores_what_follows_minus_one():
    x, target = fl.tensor([[0.1, 0.2, 0.4, 0.8]]), fl.tensor([[3, 0, -1, 1]])
    want = sum(max(0.0, 1 - (float(x[0, t]) - float(x[0, j]))) for t, j in product((3, 0), (1, 2))) / 4
    assert F.multilabel_margin_loss(x, target).item() == pytest.approx(want, rel=1e-5)


def test_ctc_sums_over_all_alignments():
    log_probs = fl.log_softmax(fl.tensor(sample(4, 1, 3) * 2), 2)
    chances = np.exp(log_probs.numpy()[:, 0].astype("float64"))
    total = 0.0
    for path in product(range(3), repeat=4):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c] == [1, 2]:
            total += np.prod(chances[range(4), path])
    got = F.ctc_loss(log_probs, fl.tensor([[1, 2]]), [4], [2], reduction="sum")
    assert got.item() == pytest.approx(-math.log(total), rel=1e-5)


def test_ctc_of_a_target_that_is_too_long():
    log_probs = fl.log_softmax(fl.zeros(2, 1, 3), 2)
    args = (log_probs, fl.tensor([[1, 1, 2]]), [2], [3])
    assert F.ctc_loss(*args, reduction="sum").item() == math.inf
    assert F.ctc_loss(*args, reduction="sum", zero_infinity=True).item() == 0.0


def test_certain_probabilities_cost_a_hundred_at_most():
    p = fl.tensor([0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(p, fl.tensor([1.0, 1.0]), reduction="none")
    assert loss.tolist() == [100.0, 0.0]
    loss.sum().backward()
    assert np.isfinite(p.grad.numpy()).all()


def test_layers_take_the_older_flags():
    x, y = fl.tensor(X), fl.tensor(Y)
    assert nn.L1Loss(size_average=False)(x, y).item() == pytest.approx(float(abs(X - Y).sum()), rel=1e-5)
    assert nn.L1Loss(reduce=False)(x, y).shape == x.shape
    with pytest.raises(ValueError):
        F.mse_loss(x, y, reduction="odd")
    assert list(nn.BCELoss(weight=fl.ones(4)).state_dict()) == ["weight"]


def test_adaptive_log_softmax():
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0)
    x, target = fl.tensor(sample(4, 8)), fl.tensor([0, 4, 9, 2])
    log_probs = layer.log_prob(x)
    np.testing.assert_allclose(log_probs.exp().sum(1).detach().numpy(), 1.0, rtol=1e-5)
    output, loss = layer(x, target)
    np.testing.assert_allclose(output.detach().numpy(), log_probs.detach().numpy()[range(4), target.numpy()],
                               rtol=1e-5)
    assert loss.item() == pytest.approx(-output.mean().item())
