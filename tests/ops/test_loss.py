"""Losses over classes: values, ignored targets, weights, smoothing, derivatives, messages."""

import itertools

import numpy
import pytest

from flambeau.ops import loss
from flambeau.ops.spec import REGISTRY
from flambeau.testing import oracle
from flambeau.testing.arrays import to_array, to_tensor
from flambeau.types import dtype as dtypes

SHAPES = ((5, 33), (130, 10), (3, 1000), (2, 5, 3), (2, 5, 3, 4), (7,), (1, 1))


def drawn(shape, ignored=-100, seed=0):
    """(logits, targets, weights) with some targets ignored."""
    rng = numpy.random.default_rng(seed)
    logits, target, weight = loss.class_samples(rng, shape)
    target = numpy.asarray(target)
    if target.size > 3:
        target.reshape(-1)[1::3] = ignored
    return logits, target, weight


def made(name, arrays, **attributes):
    kinds = [None if a is None else dtypes.from_numpy(a.dtype) for a in arrays]
    return oracle.Call(REGISTRY[name], list(arrays), kinds, attributes)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy_and_nll(shape):
    logits, target, weight = drawn(shape)
    for reduction, each in itertools.product(("mean", "sum", "none"), (None, weight)):
        oracle.check_reference(made("nll_loss", (logits, target, each), reduction=reduction))
        for smoothing in (0.0, 0.1):
            oracle.check_reference(made("cross_entropy_loss", (logits, target, each), reduction=reduction,
                                        label_smoothing=smoothing))


@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (7,)], ids=str)
def test_derivatives(shape):
    logits, target, weight = drawn(shape)
    share = numpy.random.default_rng(1).uniform(0, 1, shape)
    for reduction, each in itertools.product(("mean", "none"), (None, weight)):
        oracle.check_derivatives(made("nll_loss", (logits, target, each), reduction=reduction))
        for smoothing in (0.0, 0.1):
            attributes = {"reduction": reduction, "label_smoothing": smoothing}
            oracle.check_derivatives(made("cross_entropy_loss", (logits, target, each), **attributes))
            by_share = made("cross_entropy_of_probabilities", (logits, share, each), **attributes)
            oracle.check_derivatives(by_share)


def test_probabilities_that_name_one_class_are_class_numbers():
    logits, target, weight = drawn((5, 33), ignored=2)
    share = numpy.eye(33)[target]
    for reduction in ("sum", "none"):
        by_number, by_share = (to_array(loss.cross_entropy(to_tensor(logits), to_tensor(t), to_tensor(weight),
                                                           reduction=reduction)) for t in (target, share))
        assert numpy.allclose(by_number, by_share)


def test_other_ignored_class_and_dtypes():
    logits, target, _ = drawn((5, 33), ignored=7)
    parts = REGISTRY["cross_entropy_loss"].function(to_tensor(logits), to_tensor(target), ignore_index=7)
    want = to_array(parts[0])
    got = loss.cross_entropy(to_tensor(logits), to_tensor(target.astype("int32")), ignore_index=7)
    assert to_array(got) == want and want > 0
    half = to_tensor(logits.astype("float16"))
    half = to_array(loss.cross_entropy(half, to_tensor(target), ignore_index=7))
    assert half.dtype == numpy.float16 and abs(half - want) < 1e-2


def test_huge_logits_do_not_overflow():
    logits = numpy.array([[1e4, 0.0], [0.0, -1e4]], "float32")
    got = to_array(loss.cross_entropy(to_tensor(logits), to_tensor(numpy.array([1, 0])), reduction="none"))
    assert got.tolist() == [1e4, 0.0]


def test_all_ignored():
    x = to_tensor(numpy.zeros((2, 3)))
    x.requires_grad = True
    assert numpy.isnan(to_array(loss.cross_entropy(x, to_tensor(numpy.array([-100, -100])))))
    total = loss.cross_entropy(x, to_tensor(numpy.array([-100, -100])), reduction="sum")
    assert to_array(total) == 0
    assert not to_array(oracle.gradients([total], [to_tensor(numpy.ones(()))], [x])[0]).any()


def test_ignored_rows_get_no_gradient():
    x = to_tensor(numpy.array([[0.0, 1.0], [2.0, 3.0]]))
    x.requires_grad = True
    mean = loss.cross_entropy(x, to_tensor(numpy.array([0, -100])))
    grad = to_array(oracle.gradients([mean], [to_tensor(numpy.ones(()))], [x])[0])
    assert not grad[1].any() and numpy.allclose(grad[0], [-0.7310585786, 0.7310585786])


@pytest.mark.parametrize("target", [3, -1])
def test_a_target_that_is_no_class(target):
    with pytest.raises(IndexError, match=rf"out of bounds: got {target} at position 1, wanted 0 to 2(.|\n)*test_loss.py"):
        loss.cross_entropy(to_tensor(numpy.zeros((2, 3))), to_tensor(numpy.array([0, target])))


@pytest.mark.parametrize("arguments, message", [
    ((numpy.zeros((2, 3)), numpy.zeros(3, int)), "target does not fit|sizes differ|do not agree"),
    ((numpy.zeros((2, 3)), numpy.zeros(2, bool)), "class numbers"),
    ((numpy.zeros((2, 3)), numpy.zeros(2, int), numpy.zeros(2)), "either for all 3 classes"),
    ((numpy.zeros((2, 3)), numpy.zeros(2)), "target does not fit|sizes differ|do not agree"),
])
def test_messages(arguments, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        loss.cross_entropy(*map(to_tensor, arguments))
    with pytest.raises(RuntimeError, match="between 0.0 and 1.0"):
        loss.cross_entropy(to_tensor(numpy.zeros((2, 3))), to_tensor(numpy.zeros(2, int)), label_smoothing=2.)
