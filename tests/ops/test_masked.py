"""Masked reductions and normalisations: equal to the plain op on the kept elements alone."""

import math

import numpy
import pytest

import flambeau as fl
from flambeau import masked

ARRAY = numpy.random.default_rng(7).uniform(-2, 2, (3, 6))
KEEP = numpy.array([[1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 0], [1, 1, 1, 1, 1, 1]], bool)
X, MASK = fl.tensor(ARRAY), fl.tensor(KEEP)


@pytest.mark.parametrize("name, plain", [
    ("sum", numpy.sum), ("prod", numpy.prod), ("amax", numpy.max), ("amin", numpy.min), ("mean", numpy.mean),
    ("norm", numpy.linalg.norm), ("logsumexp", lambda x: math.log(numpy.exp(x).sum())),
    ("var", lambda x: x.var(ddof=1)), ("std", lambda x: x.std(ddof=1)),
    ("median", lambda x: numpy.sort(x)[(len(x) - 1) // 2])])
def test_reductions_of_the_kept_elements(name, plain):
    given = {"dim": 1, "mask": MASK}
    want = [plain(line[kept]) for line, kept in zip(ARRAY, KEEP)]
    numpy.testing.assert_allclose(getattr(masked, name)(X, **given).numpy(), want)
    numpy.testing.assert_allclose(getattr(masked, name)(X, keepdim=True, **given)[:, 0].numpy(), want)


def test_places_of_extremes_have_the_dtype_of_the_input():
    places = masked.argmax(X, 1, mask=MASK)
    want = [numpy.where(kept, line, -9).argmax() for line, kept in zip(ARRAY, KEEP)]
    assert places.dtype is fl.float64 and places.tolist() == want
    assert masked.argmin(fl.tensor([1, 5]), 0, mask=fl.tensor([False, True])).item() == 1


def test_normalisations_ignore_what_is_dropped():
    got = masked.softmax(X, 1, mask=MASK).numpy()
    powers = numpy.where(KEEP, numpy.exp(ARRAY), 0)
    numpy.testing.assert_allclose(got, powers / powers.sum(1, keepdims=True))
    numpy.testing.assert_allclose(masked.softmin(-X, 1, mask=MASK).numpy(), got)
    kept = numpy.where(KEEP, ARRAY, 0)
    lengths = numpy.linalg.norm(kept, axis=1, keepdims=True)
    numpy.testing.assert_allclose(masked.normalize(X, 2.0, 1, mask=MASK).numpy(), kept / lengths)
    numpy.testing.assert_allclose(masked.cumsum(X, 1, mask=MASK).numpy(), numpy.cumsum(kept, 1))


def test_what_is_dropped_gets_no_gradient_even_where_nothing_is_kept():
    x = fl.tensor([[1.0, math.nan], [2.0, 3.0]], requires_grad=True)
    mask = fl.tensor([[True, False], [False, False]])
    masked.mean(x, 1, mask=mask)[0].backward()
    assert x.grad.tolist() == [[1, 0], [0, 0]]
    x.grad = None
    masked.softmax(x, 1, mask=mask).sum().backward()
    assert x.grad[1].tolist() == [0, 0]


def test_empty_and_refused():
    nothing = fl.tensor([False, False])
    assert math.isnan(masked.mean(fl.tensor([1.0, 2.0]), 0, mask=nothing).item())
    assert masked.amax(fl.tensor([1.0, 2.0]), 0, mask=nothing).item() == -math.inf
    with pytest.raises(ValueError, match="floating point"):
        masked.mean(fl.tensor([1, 2]))
