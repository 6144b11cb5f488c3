"""Symbolic sizes: identities that the compiler relies on, and random expressions against plain integers."""

import operator
import pickle

import numpy
import pytest
from hypothesis import given, settings, strategies as st

from flambeau.types.dim import (bounds, evaluate, exactly_divides, is_static, maximum, minimum, parse_dim,
                                substitute, symbol, symbols)

s, t, u = symbol("s"), symbol("t"), symbol("u")


def test_constants_become_ints():
    for size in (s - s, 0 * s, (s * 4) // s - 4, (s + 1) % 1, (s * t) % t, s // (s + 1), minimum(s, 0)):
        assert type(size) is int and size == 0
    assert type(s - s + True) is int
    assert type((s + True) - s) is int
    assert (s + 3) - s == 3
    assert -1 * s + s == 0
    assert type(True * s) is type(s)


@pytest.mark.parametrize("left, right", [
    ((s * 4) // 4, s), ((2 * s + 1) // 2, s), (3 * s // 2, s + s // 2), (s // 2 // 3, s // 6),
    ((s * t + s) // s, t + 1), ((s + t) * (s - t), s * s - t * t), ((s * s - t * t) // (s + t), s - t),
    ((s - 1) // 2 + 1, (s + 1) // 2), (s % 2 + 2 * (s // 2), s), ((6 * s) // (4 * t), (3 * s) // (2 * t)),
    (s // -2, -s // 2), ((4 * s + 6) // 4, (2 * s + 3) // 2), ((s * t * 4) // (t * 2), 2 * s),
    (s ** 2, s * s),
    (maximum(s, t, s), maximum(t, s)), (maximum(s, 1), s), (maximum(s + 1, s), s + 1), (10 - s, -(s - 10)),
    (maximum(maximum(s, t), u), maximum(s, maximum(u, t))), (minimum(s, s + 2), s),
])
def test_equal_sizes_have_one_form(left, right):
    assert left == right
    assert hash(left) == hash(right)
    assert str(left) == str(right)


def test_a_size_never_equals_a_number():
    assert s != 3
    assert not (s == 1)
    assert 0 not in (s, s + 1)
    assert s != t


@pytest.mark.parametrize("size, text", [
    (2 * s + 1, "2*s + 1"), (s * t - 3, "s*t - 3"), (2 * (s // 2), "2*(s//2)"), (-(s // 2), "-(s//2)"),
    ((s + 1) // (2 * t), "(s + 1)//(2*t)"), (maximum(s, t + 1), "max(s, t + 1)"), (7 // s, "7//s"),
    (symbol("s10") + symbol("s2"), "s2 + s10"), (-3 // s, "(-3)//s"),
])
def test_text(size, text):
    assert str(size) == text
    assert parse_dim(text) == size
    assert pickle.loads(pickle.dumps(size)) == size


@pytest.mark.parametrize("text", ["", "2 +", "s.t", "s/2", "2.5", "f(s)", "s if s else s", "max()", "True"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="not a size"):
        parse_dim(text)


def test_numpys_integers_are_integers():
    three = numpy.int64(3)
    assert three * s + three - s * three == 3 and type(s + three - s) is int
    assert s // three == s // 3 and three // s == 3 // s and three - s == 3 - s and three != s
    for sign in (operator.add, operator.mul, operator.floordiv):
        with pytest.raises(TypeError):
            sign(s, "x")


def test_order_where_it_is_decided():
    assert s > 0 and s >= 1 and 0 < s and s < s + 1 and not s > s + t
    assert s <= s and s >= s and not s < s
    assert maximum(s, 8) >= 8 and s // 2 >= 0
    assert bool(s) and bool(s * t + 1)
    assert bounds(3 - s) == (None, 2)


@pytest.mark.parametrize("decide", [
    lambda: s > 1, lambda: s < t, lambda: 5 <= s, lambda: bool(s - 1), lambda: int(s), lambda: range(s),
    lambda: float(s), lambda: s / 2, lambda: [1, 2][s]])
def test_the_undecided_teaches(decide):
    with pytest.raises(TypeError, match=r"\[size\](.|\n)*hint: "):
        decide()


def test_division_by_zero():
    with pytest.raises(ZeroDivisionError):
        s // 0
    with pytest.raises(ZeroDivisionError):
        evaluate(s // (t - 1), {"s": 3, "t": 1})


def test_questions():
    size = (s + t) // 2 + maximum(s, u)
    assert symbols(size) == {"s", "t", "u"}
    assert symbols(7) == set()
    assert is_static(7) and not is_static(s)
    assert exactly_divides(4, 8 * s + 4) and not exactly_divides(4, s) and exactly_divides(s, s * t)
    assert substitute(size, {"s": t}) == t + maximum(t, u)
    assert evaluate(size, {"s": 3, "t": 4, "u": 9}) == 12
    with pytest.raises(KeyError, match="no value for t, u"):
        evaluate(size, {"s": 3})


# ---- random expressions: the same steps on sizes and on numbers
LEAVES = st.one_of(st.sampled_from(["s", "t", "u"]), st.integers(-4, 12))
TREES = st.recursive(LEAVES, lambda inner: st.tuples(
    st.sampled_from(["+", "-", "*", "//", "%", "max"]), inner, inner), max_leaves=7)


def run(tree, env):
    if not isinstance(tree, tuple):
        return env[tree] if isinstance(tree, str) else tree
    sign, left, right = tree
    a, b = run(left, env), run(right, env)
    if sign in ("//", "%"):
        return a // b if sign == "//" else a % b
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "max": lambda: maximum(a, b)}[sign]()


@settings(max_examples=300, deadline=None, database=None)
@given(TREES, st.tuples(*[st.integers(1, 9)] * 3))
def test_random_expressions_agree_with_integers(tree, values):
    numbers = dict(zip("stu", values))
    try:
        want = run(tree, numbers)
        size = run(tree, {"s": s, "t": t, "u": u})
        got = evaluate(size, numbers)
    except ZeroDivisionError:       # a denominator that is 0 here, or the constant 0
        return
    assert got == want, str(size)
    low, high = bounds(size)
    assert (low is None or low <= want) and (high is None or want <= high), str(size)
    again = parse_dim(str(size))
    assert again == size and str(again) == str(size)
