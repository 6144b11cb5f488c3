"""The rules of the stage `simplify`: a graph as text in, a graph as text out."""

import pytest

from flambeau import ops        # noqa: F401 - declares the ops
from flambeau.compiler.simplify import RULES, simplify
from flambeau.ir import graph_text
from flambeau.ir.rewrite import eliminate_dead_code


def simplified(text):
    return graph_text.show(eliminate_dead_code(simplify(graph_text.parse(text)))).strip()


@pytest.mark.parametrize("steps", [
    "a: f32[s0] = mul(x, 1.0:f32)", "a: f32[s0] = cast(x; dtype=f32)",
    "b: f32[s0] = neg(x)\n  a: f32[s0] = neg(b)"])
def test_what_changes_nothing_is_left_out(steps):
    want = "graph g(x: f32[s0]) {\n  y: f32[s0] = sin(x)\n  return y\n}"
    assert simplified(f"graph g(x: f32[s0]) {{\n  {steps}\n  y: f32[s0] = sin(a)\n  return y\n}}") == want


@pytest.mark.parametrize("step", ["a: f64[s0] = cast(x; dtype=f64)", "a: f32[s0] = mul(x, 2.0:f32)"])
def test_what_changes_something_stays(step):
    dtype = step[3:6]
    text = f"graph g(x: f32[s0]) {{\n  {step}\n  y: {dtype}[s0] = sin(a)\n  return y\n}}"
    assert simplified(text) == text


def test_an_output_does_not_become_an_input():
    text = "graph g(x: f32[s0]) {\n  a: f32[s0] = mul(x, 1.0:f32)\n  return a\n}"
    assert simplified(text) == text


def test_every_rule_says_why():
    assert len(RULES) == 3 and all(rule.why for rule in RULES)
