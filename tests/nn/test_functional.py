"""Functions behind the layers: norms, attention, embeddings, dropout, distances."""

import math

import numpy as np
import pytest

import flambeau as fl
from flambeau.nn import functional as F


def sample(*shape):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype("float32")


def close(got, want):
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-4, atol=1e-5)


def standardized(x, axes):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def test_norms():
    x = sample(2, 6, 4, 3)
    close(F.instance_norm(fl.tensor(x)), standardized(x, (2, 3)))
    close(F.group_norm(fl.tensor(x), 3), standardized(x.reshape(2, 3, 24), 2).reshape(x.shape))
    scale = np.sqrt((x * x).mean((2, 3), keepdims=True) + 2.0 ** -23)
    close(F.rms_norm(fl.tensor(x), (4, 3)), x / scale)
    close(F.normalize(fl.tensor(x), p=1, dim=2), x / abs(x).sum(2, keepdims=True))
    squares = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    means = (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]) / 3
    close(F.local_response_norm(fl.tensor(x), 3, alpha=0.5), x / (1 + 0.5 * means) ** 0.75)


def test_running_statistics_of_instance_norm():
    x, mean, var = sample(4, 3, 5), fl.zeros(3), fl.ones(3)
    F.instance_norm(fl.tensor(x), mean, var, momentum=0.5)
    close(mean, x.mean(2).mean(0) / 2)
    close(var, 0.5 + x.var(2, ddof=1).mean(0) / 2)


def test_attention():
    q, k, v = sample(2, 3, 4), sample(2, 5, 4), sample(2, 5, 6)
    scores = q @ k.swapaxes(1, 2) / 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    close(F.scaled_dot_product_attention(*map(fl.tensor, (q, k, v))), weights @ v)
    one = F.scaled_dot_product_attention(*map(fl.tensor, (q, k[:, :3], v[:, :3])), is_causal=True)
    close(one[:, 0], v[:, 0])                               # the first query sees the first key alone
    hidden = fl.zeros(3, 5, dtype=fl.bool)
    assert F.scaled_dot_product_attention(*map(fl.tensor, (q, k, v)),
                                          attn_mask=hidden).abs().max().item() == 0


def test_embeddings():
    table = fl.tensor(sample(5, 3), requires_grad=True)
    F.embedding(fl.tensor([[1, 4], [1, 2]]), table, padding_idx=2).sum().backward()
    assert table.grad[:, 0].tolist() == [0.0, 2.0, 0.0, 0.0, 1.0]
    bags = fl.tensor([0, 2, 2])
    index = fl.tensor([3, 1, 0, 0])
    rows = table.detach().numpy()[[3, 1, 0, 0]]
    want = np.stack([rows[:2].sum(0), np.zeros(3), rows[2:].sum(0)])
    close(F.embedding_bag(index, table, bags, mode="sum"), want)
    close(F.embedding_bag(index, table, bags), want / 2)
    close(F.embedding_bag(index, table, bags, mode="max"),
          np.stack([rows[:2].max(0), np.zeros(3), rows[2:].max(0)]))
    long = fl.tensor([[3.0, 4.0], [0.3, 0.4]])
    F.embedding(fl.tensor([0, 1]), long, max_norm=1.0)
    close(long, [[0.6, 0.8], [0.3, 0.4]])
    assert F.one_hot(fl.tensor([2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        F.one_hot(fl.tensor([2, 0]), 2)


@pytest.mark.parametrize("drop, shape",
                         [(F.dropout1d, (40, 50, 3)), (F.dropout2d, (40, 50, 2, 2)),
                          (F.dropout3d, (40, 50, 1, 2, 2))])
def test_channel_dropout(drop, shape):
    kept = drop(fl.ones(*shape), 0.25).reshape(40 * 50, -1).numpy()
    assert (kept == kept[:, :1]).all()
    assert set(np.unique(kept).round(4)) <= {0.0, np.float32(1 / 0.75).round(4)}
    assert abs((kept[:, 0] > 0).mean() - 0.75) < 0.04


def test_alpha_dropout_keeps_mean_and_variance():
    x = fl.randn(200, 200)
    out = F.alpha_dropout(x, 0.3, training=True)
    assert abs(out.mean().item()) < 0.03 and abs(out.std().item() - 1) < 0.03
    assert F.alpha_dropout(x, 0.3) is x


def test_distances():
    x, y = sample(4, 3), sample(4, 3) + 1
    cosine = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    close(F.cosine_similarity(fl.tensor(x), fl.tensor(y)), cosine)
    close(F.pairwise_distance(fl.tensor(x), fl.tensor(y), p=1), abs(x - y + 1e-6).sum(1))
    close(F.pdist(fl.tensor(x)), [np.linalg.norm(x[i] - x[j]) for i in range(4) for j in range(i + 1, 4)])
    w = sample(2, 3, 3)
    close(F.bilinear(fl.tensor(x), fl.tensor(y), fl.tensor(w)), np.einsum("bi,kij,bj->bk", x, w, y))


def test_activations():
    x = fl.tensor([-2.0, -0.25, 0.0, 0.25, 2.0])
    assert F.hardshrink(x).tolist() == [-2.0, 0.0, 0.0, 0.0, 2.0]
    assert F.softshrink(x).tolist() == [-1.5, 0.0, 0.0, 0.0, 1.5]
    assert F.threshold(x, 0.1, 7.0).tolist() == [7.0, 7.0, 7.0, 0.25, 2.0]
    assert F.prelu(x, fl.tensor([0.5])).tolist() == [-1.0, -0.125, 0.0, 0.25, 2.0]
    close(F.celu(x, 2.0), np.where(x.numpy() > 0, x.numpy(), 2 * np.expm1(x.numpy() / 2)))
    close(F.glu(fl.tensor([1.0, 2.0, 0.0, 3.0])), [0.5, 2 / (1 + math.exp(-3))])
    y = x.clone()
    assert F.elu(y, inplace=True) is y and y[0].item() == pytest.approx(math.expm1(-2.0))
    slopes = (F.rrelu(-fl.ones(1000), training=True)).numpy()
    assert -1 / 3 <= slopes.min() < -0.3 and -0.15 < slopes.max() <= -1 / 8
    hot = F.gumbel_softmax(fl.zeros(50, 4), hard=True)
    assert hot.sum(1).tolist() == [1.0] * 50 and set(hot.flatten().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", [bool, float])
def test_attention_with_every_key_masked_is_zero(need_weights, kind):
    fl.manual_seed(0)
    attention = fl.nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
    x = fl.randn(2, 3, 4, requires_grad=True)
    mask = fl.zeros(3, 3, dtype=fl.bool)
    mask[1] = True
    mask = mask if kind is bool else fl.where(mask, float("-inf"), 0.0)
    out, weights = attention(x, x, x, attn_mask=mask, need_weights=need_weights)
    assert (out[:, 1] == 0).all() and not out.isnan().any() and (out[:, 0] != 0).any()
    if need_weights:
        assert (weights[:, 1] == 0).all() and fl.allclose(weights[:, [0, 2]].sum(-1), fl.ones(2, 2))
    out.sum().backward()
    assert not x.grad.isnan().any()
