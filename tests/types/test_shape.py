"""Axes, broadcasting, reshape inference, axis strings: results against NumPy, and the messages."""

import numpy
import pytest
from hypothesis import given, settings, strategies as st

from flambeau.types.dim import symbol
from flambeau.types.shape import (broadcast_shapes, infer_reshape, normalize_axes, normalize_axis, numel,
                                  parse_axes, shape_symbols)

s, t = symbol("s"), symbol("t")
MATMUL = "... m k, ... k n -> ... m n"


def test_axes():
    assert normalize_axis(-1, 3) == 2
    assert normalize_axis(numpy.int64(1), 3) == 1
    assert normalize_axis(-1, 0) == 0
    assert normalize_axes(None, 3) == (0, 1, 2)
    assert normalize_axes((-1, 0), 3) == (2, 0)
    assert normalize_axes(1, 3) == (1,)
    assert normalize_axes((), 3) == ()
    assert normalize_axes(-1, 0) == ()


@pytest.mark.parametrize("axes, kind, text", [
    (2, IndexError, r"\[sum\] dimension out of range: got 2, wanted -2 to 1\n  hint: .*2 dimensions"),
    (-3, IndexError, "got -3"), ((0, -2), RuntimeError, "dimension 0 appears more than once"),
    (1.0, TypeError, "an axis is an integer: got 1.0"), ("x", TypeError, "got 'x'")])
def test_bad_axes(axes, kind, text):
    with pytest.raises(kind, match=text):
        normalize_axes(axes, 2, "sum")


SHAPES = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3).map(tuple)


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_broadcast_is_numpys(shapes):
    try:
        want = numpy.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(RuntimeError, match="neither is 1"):
            broadcast_shapes(*shapes)
    else:
        assert broadcast_shapes(*shapes) == want


def test_broadcast_of_symbolic_sizes():
    assert broadcast_shapes((s, 1), (t,)) == (s, t)
    assert broadcast_shapes((2, s), (2, s), (1,)) == (2, s)
    assert broadcast_shapes((s,), (s // 2,), unify=lambda a, b: b) == (s // 2,)
    asked = []

    def unify(a, b):
        asked.append((a, b))
        return b if isinstance(b, int) else a
    assert broadcast_shapes((s, 4), (3, 1), unify=unify) == (3, 4)
    assert asked == [(s, 3)]
    with pytest.raises(RuntimeError, match=r"\(s and 3\): got \(s, 4\) and \(3, 1\)"):
        broadcast_shapes((s, 4), (3, 1))
    with pytest.raises(RuntimeError, match=r"2 and 3"):
        broadcast_shapes((2,), (3,), unify=unify)


@pytest.mark.parametrize("a, b, hint", [
    ((32, 10), (32,), r"unsqueeze\(-1\) makes the second operand \(32, 1\)"),
    ((2, 3), (3, 2), r"\.T makes the second operand \(2, 3\)"), ((2, 3), (4, 5), None)])
def test_broadcast_hints_work(a, b, hint):
    with pytest.raises(RuntimeError, match=hint or "neither") as caught:
        broadcast_shapes(a, b, op="add")
    assert str(caught.value).startswith("[add] ")
    assert ("hint" in str(caught.value)) == (hint is not None)


def test_reshape():
    assert numel(()) == 1 and numel((2, 0, s)) == 0 and numel((s, 2, s)) == 2 * s * s
    assert infer_reshape((4, 6), (-1, 8)) == (3, 8)
    assert infer_reshape((), (-1,)) == (1,)
    assert infer_reshape((0, 3), (-1, 3)) == (0, 3)
    assert infer_reshape((s, 28, 28), (-1, 784)) == (s, 784)
    assert infer_reshape((s, 28, 28), (s, -1)) == (s, 784)
    assert infer_reshape((s, t), (s * t,)) == (s * t,)
    assert infer_reshape((s,), (-1, 4), unify=lambda a, b: a) == (s // 4, 4)


@pytest.mark.parametrize("shape, new, text", [
    ((2, 3), (4, 2), r"\[view\] shape \(2, 3\) does not fit into \(4, 2\): got 6 elements, wanted 8"),
    ((2, 3), (-1, 4), r"into \(-1, 4\): got 6 elements, wanted a multiple of 4"),
    ((2, 3), (-1, -1), "only one size"), ((0, 3), (-1, 0), "can be any number"), ((2,), (-2,), "negative"),
    ((s,), (-1, 4), "a multiple of 4"), ((s,), (t,), "does not fit")])
def test_bad_reshape(shape, new, text):
    with pytest.raises(RuntimeError, match=text):
        infer_reshape(shape, new, "view")


def test_axis_strings():
    axes = parse_axes(MATMUL)
    assert axes.inputs == (("...", "m", "k"), ("...", "k", "n")) and axes.contracted == ("k",)
    assert str(axes) == MATMUL and parse_axes(str(axes)) == axes
    assert axes.output_shape((2, 3), (3, 4)) == (2, 4)
    assert axes.output_shape((7, 1, 2, 3), (5, 3, 4)) == (7, 5, 2, 4)
    assert axes.bind((s, 3), (3, t)) == ({"m": s, "k": 3, "n": t}, ())
    assert axes.output_shape((2, s), (3, 4), unify=lambda a, b: 3) == (2, 4)
    assert parse_axes("i, i ->").output_shape((3,), (3,)) == ()
    assert parse_axes("b ... k, k -> b ...").output_shape((2, 5, 6, 3), (3,)) == (2, 5, 6)


def test_axis_strings_teach():
    with pytest.raises(RuntimeError) as caught:
        parse_axes(MATMUL).bind((32, 784), (10, 784), op="matmul")
    first, hint, *_ = str(caught.value).splitlines()
    assert first == "[matmul] inner sizes differ (k: 784 and 10): got (32, 784) @ (10, 784)"
    assert hint == "  hint: operand 2's .mT has shape (784, 10), which fits"
    with pytest.raises(RuntimeError, match="wrong number of dimensions for '... m k': got"):
        parse_axes(MATMUL).bind((3,), (3, 4))
    with pytest.raises(RuntimeError, match="neither is 1"):
        parse_axes(MATMUL).bind((2, 3, 3), (4, 3, 3))


@pytest.mark.parametrize("text", ["a b", "a a -> a", "a -> b", "... a -> a", "a-b -> a"])
def test_bad_axis_strings(text):
    with pytest.raises(ValueError, match=r"\[axes\]"):
        parse_axes(text)


def test_symbols_of_a_shape():
    assert shape_symbols((2, s, s * t)) == {"s", "t"} and shape_symbols((2,)) == set()
