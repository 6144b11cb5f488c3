"""The loss of unaligned label sequences against sums over all paths."""

import math
from itertools import product

import numpy as np
import pytest

import flambeau as fl
from flambeau.nn import functional as F

RNG = np.random.default_rng(5)


def brute_force(log_probs, labels, blank):
    """Minus the log of the chances of all paths (time, classes) that spell the labels."""
    steps, classes = log_probs.shape
    total = 0.0
    for path in product(range(classes), repeat=steps):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c != blank] == list(labels):
            total += math.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
    return -math.log(total) if total else math.inf


def scores(*shape):
    return fl.tensor(RNG.uniform(-2, 2, shape))


@pytest.mark.parametrize("blank", [0, 2])
def test_all_paths(blank):
    log_probs = scores(5, 4, 3).log_softmax(2)
    labels = (np.array([[1, 2], [2, 2], [1, 1], [1, 1]]) + blank) % 3
    lengths, sizes = [5, 4, 3, 2], [2, 2, 1, 0]
    want = [brute_force(log_probs.numpy()[:n, i], labels[i, :s], blank) for i, (n, s) in enumerate(zip(lengths, sizes))]
    got = F.ctc_loss(log_probs, fl.tensor(labels), lengths, sizes, blank, "none")
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    in_a_row = fl.tensor([label for row, s in zip(labels.tolist(), sizes) for label in row[:s]])
    assert F.ctc_loss(log_probs, in_a_row, fl.tensor(lengths), fl.tensor(sizes), blank, "none").equal(got)
    assert F.ctc_loss(log_probs, in_a_row, lengths, sizes, blank).item() == pytest.approx(
        np.mean(np.array(want) / [2, 2, 1, 1]))


def test_gradient_of_the_scores():
    x = scores(6, 3, 4).requires_grad_()
    args = fl.tensor([[1, 1, 2], [3, 2, 0], [0, 0, 0]]), [6, 4, 3], [3, 2, 0]

    def loss(x):
        return F.ctc_loss(x.log_softmax(2), *args, reduction="none") * fl.tensor([1.0, -2.0, 0.5], dtype=fl.float64)
    assert fl.autograd.gradcheck(loss, (x,))


def test_no_steps():
    log_probs = scores(3, 2, 3).log_softmax(2).requires_grad_()
    loss = F.ctc_loss(log_probs, fl.tensor([[1, 2], [1, 2]]), [0, 0], [0, 2], reduction="none")
    assert loss.tolist() == [0.0, math.inf]
    loss.sum().backward()
    assert not log_probs.grad.any()


@pytest.mark.parametrize("zero_infinity", [True, False])
def test_no_path(zero_infinity):
    """The gradient of an infinite loss is NaN in the steps of its example, and 0 where the loss counts as 0."""
    log_probs = scores(4, 2, 3).log_softmax(2).requires_grad_()
    loss = F.ctc_loss(log_probs, fl.tensor([[1, 1, 2], [1, 2, 1]]), [3, 4], [3, 3], reduction="none",
                      zero_infinity=zero_infinity)
    assert loss[0].item() == (0.0 if zero_infinity else math.inf) and 0 < loss[1].item() < math.inf
    loss.sum().backward()
    first, second = log_probs.grad.numpy().transpose(1, 0, 2)
    assert (first[:3] == 0).all() if zero_infinity else np.isnan(first[:3]).all()
    assert (first[3] == 0).all() and np.isfinite(second).all() and second.any()


def test_classes_of_no_chance():
    log_probs = fl.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]]).log().requires_grad_()
    loss = F.ctc_loss(log_probs, fl.tensor([1]), [2], [1], reduction="sum")
    assert loss.item() == pytest.approx(-math.log(0.875))
    loss.backward()
    assert np.isfinite(log_probs.grad.numpy()).all()


def test_examples_in_a_batch_and_under_vmap_are_those_alone():
    x = scores(5, 3, 4).log_softmax(2)
    labels = fl.tensor([[1, 2], [3, 3], [2, 1]])
    together = F.ctc_loss(x, labels, [5, 4, 5], [2, 2, 1], reduction="none")
    for i, (n, s) in enumerate(((5, 2), (4, 2), (5, 1))):
        alone = F.ctc_loss(x[:, i], labels[i], [n], [s], reduction="none")
        assert alone.item() == together[i].item() and alone.shape == ()
    mapped = fl.func.vmap(lambda x: F.ctc_loss(x, labels, [5, 4, 5], [2, 2, 1], reduction="none"))(fl.stack([x, x]))
    assert mapped[0].equal(together) and mapped[1].equal(together)


def test_what_is_refused():
    x, labels = scores(4, 2, 3).log_softmax(2), fl.tensor([[1, 2], [2, 1]])
    for args, kind, said in (((labels, [4, 5], [2, 2]), RuntimeError, "input_lengths"),
                             ((labels, [4, -1], [2, 2]), RuntimeError, "at least 0"),
                             ((labels, [4, 4], [2, 3]), RuntimeError, "do not fit"),
                             ((labels.reshape(-1), [4, 4], [2, 1]), RuntimeError, "do not fit"),
                             ((labels + 1, [4, 4], [2, 2]), IndexError, "out of bounds")):
        with pytest.raises(kind, match=said):
            F.ctc_loss(x, *args)
    x.requires_grad_()
    slope, = fl.autograd.grad(F.ctc_loss(x, labels, [4, 4], [2, 2]), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no derivative of its own"):
        slope.sum().backward()
