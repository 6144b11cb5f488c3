"""Normalisation: values over sizes, axes and layouts, derivatives to second order, edges and messages."""

import math

import numpy
import pytest

from flambeau.ops import normalize
from flambeau.ops.spec import REGISTRY
from flambeau.testing import oracle
from flambeau.testing.arrays import LAYOUTS, to_array, to_tensor
from flambeau.types.dtype import float16, float32, float64

SIZES = (1, 3, 31, 33, 130, 1000)       # around the vectors of 16 and 32 lanes
RNG = numpy.random.default_rng(0)


def call(name, *arrays, **attributes):
    """A Call of float64 arrays; None for an operand that is not given."""
    kinds = [None if a is None else float64 for a in arrays]
    return oracle.Call(REGISTRY[name], list(arrays), kinds, attributes)


def normal(*shape):
    return RNG.normal(size=shape)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "var", "var_mean"])
def test_every_axis_and_layout(name, size):
    for axis, shape in enumerate([(size, 2, 3), (2, size, 3), (2, 3, size)]):
        if size == 1 and name.startswith("var"):
            continue
        for layout in ("contiguous", "transposed", "sliced", "reversed", "expanded"):
            if layout == "expanded" and name.startswith("var"):
                continue            # a variance of 0: there is nothing that errors could be measured by
            oracle.check_reference(call(name, numpy.asarray(LAYOUTS[layout](normal(*shape))), dim=axis))


@pytest.mark.parametrize("size", [s for s in SIZES if s > 1])
def test_layer_norm_and_batch_norm_sizes(size):
    scale, shift = normal(size), normal(size)
    oracle.check_reference(call("layer_norm", normal(3, size), scale, shift, normalized_shape=(size,)))
    oracle.check_reference(call("layer_norm", normal(2, 3, size), None, None, normalized_shape=(3, size)))
    oracle.check_reference(call("batch_norm_train", normal(3, size, 2), normal(size), normal(size)))
    oracle.check_reference(call("batch_norm_train", normal(2, 3, size), None, None))
    channels_last = numpy.moveaxis(normal(2, 5, size, 3), -1, 1)
    oracle.check_reference(call("batch_norm_train", channels_last, normal(3), normal(3)))


@pytest.mark.parametrize("made", [
    call("softmax", normal(3, 33), dim=1), call("softmax", normal(31, 3), dim=0),
    call("log_softmax", normal(2, 5, 3), dim=1),
    call("logsumexp", normal(3, 33), dim=(0, 1)), call("std", normal(3, 5), dim=1, correction=0),
    call("norm", normal(3, 5), p=3.0, dim=1), call("norm", normal(3, 5), p=math.inf, dim=0),
    call("layer_norm", normal(3, 33), normal(33), normal(33), normalized_shape=(33,)),
    call("layer_norm", normal(3, 33), None, normal(33), normalized_shape=(33,)),
    call("batch_norm_train", normal(4, 3, 5), normal(3), normal(3)),
    call("batch_norm_train", normal(4, 3), None, normal(3)),
    call("batch_norm_eval", normal(4, 3, 5), normal(3), abs(normal(3)) + 0.5, normal(3), normal(3)),
], ids=str)
def test_derivatives(made):
    oracle.check_derivatives(made)


def test_softmax_of_huge_and_infinite_logits():
    got = to_array(normalize.softmax(to_tensor(numpy.array([[1e30, 1e30, -1e30], [-math.inf, 0.0, 0.0]])), 1))
    assert got.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    nothing = to_array(normalize.softmax(to_tensor(numpy.full((1, 3), -math.inf)), 1))
    assert numpy.isnan(nothing).all()
    assert to_array(normalize.logsumexp(to_tensor(numpy.full((3,), -math.inf)))) == -math.inf
    assert to_array(normalize.logsumexp(to_tensor(numpy.array([0.0, math.inf])))) == math.inf


def test_half_precision_is_computed_in_float32():
    x = normal(4, 1000).astype("float16")
    got = to_array(normalize.softmax(to_tensor(x), -1)).astype(float)
    assert abs(got.sum(axis=1) - 1).max() < 1e-3
    wide = normalize.softmax(to_tensor(x), -1, float32)
    assert wide.dtype is float32 and abs(to_array(wide).sum(axis=1) - 1).max() < 1e-6
    assert normalize.layer_norm(to_tensor(x), (1000,)).dtype is float16


def test_variance_of_far_away_values():
    x = (1e4 + normal(3, 1000)).astype("float32")
    got = to_array(normalize.var(to_tensor(x), -1))
    assert numpy.allclose(got, x.astype(float).var(axis=-1, ddof=1), rtol=1e-5)


def test_variance_of_one_element_has_no_unbiased_estimate():
    assert numpy.isnan(to_array(normalize.var(to_tensor(normal(3, 1)), 1))).all()
    assert to_array(normalize.var(to_tensor(normal(3, 1)), 1, correction=0)).tolist() == [0, 0, 0]
    assert to_array(normalize.var(to_tensor(numpy.array([1.0, 3.0])), unbiased=False)) == 1.0


def test_norm_at_zero_has_gradient_zero():
    x = to_tensor(numpy.zeros(3))
    x.requires_grad = True
    (grad,) = oracle.gradients([normalize.norm(x)], [to_tensor(numpy.ones(()))], [x])
    assert to_array(grad).tolist() == [0, 0, 0]


def test_the_normalised_sizes_are_checked_at_every_call():
    for _ in range(2):
        normalize.layer_norm(to_tensor(normal(3, 4)), (4,))
        with pytest.raises(RuntimeError, match=r"\[layer_norm\]"):
            normalize.layer_norm(to_tensor(normal(3, 5)), (4,))
        with pytest.raises(RuntimeError):
            normalize.layer_norm(to_tensor(normal(3, 4)), (4,), to_tensor(normal(5)))


@pytest.mark.parametrize("wrong, message", [
    (lambda x: normalize.softmax(x, 2), "Dimension out of range|softmax"),
    (lambda x: normalize.softmax(to_tensor(numpy.arange(3)), 0), "not floating point"),
    (lambda x: normalize.layer_norm(x, (2, 3, 4)), "normalized_shape does not fit"),
    (lambda x: normalize.batch_norm_train(to_tensor(normal(3))), "no channel axis"),
    (lambda x: normalize.batch_norm_train(x, to_tensor(normal(4))), "one element a channel"),
])
def test_messages(wrong, message):
    with pytest.raises((RuntimeError, IndexError, TypeError), match=message):
        wrong(to_tensor(normal(2, 3)))
