"""Rewrite rules: what matches, what replaces it, what is reported, and that results do not change."""

import random

import numpy
import pytest

from flambeau.ir.graph import Effect, Graph, Literal, Node, Program, Value
from flambeau.ir.graph_interpret import run
from flambeau.ir.graph_text import parse, show
from flambeau.ir.graph_verify import verify
from flambeau.ir.rewrite import (
    Rule, apply_rules, eliminate_common_subexpressions, eliminate_dead_code)
from flambeau.ir.rewrite_pattern import parse_pattern
from flambeau.types import dtype as dtypes
from flambeau.types.shape import broadcast_shapes


class Pointwise:
    def __init__(self, reference):
        self.reference = reference

    @staticmethod
    def infer(inputs, attrs):
        shapes = [getattr(x, "shape", ()) for x in inputs]
        return [(dtypes.promote(inputs[0].dtype, inputs[-1].dtype), broadcast_shapes(*shapes))]


class Permute:
    @staticmethod
    def infer(inputs, attrs):
        return [(inputs[0].dtype, tuple(inputs[0].shape[i] for i in attrs["dims"]))]

    @staticmethod
    def reference(x, dims):
        return numpy.transpose(x, dims)


OPS = {"add": Pointwise(lambda x, y: x + y), "mul": Pointwise(lambda x, y: x * y),
       "sub": Pointwise(lambda x, y: x - y), "neg": Pointwise(lambda x: -x), "permute": Permute}
CANCEL = Rule("neg(neg(x))", "x", why="two negations cancel")
ADD_ZERO = Rule("add(x, 0)", "x", why="zero changes nothing")


def rewrite(text, *rules, **options):
    form, report = apply_rules(verify(parse(text)), rules, **options)
    return show(eliminate_dead_code(verify(form))), report


def body(lines, returned, inputs="x: f32[2, 3], y: f32[2, 3]"):
    return "\n".join([f"graph f({inputs}) {{", *("  " + line for line in lines), f"  return {returned}", "}"])


def test_a_rule_is_applied_and_reported_with_its_why_and_source():
    lines = ["a: f32[2, 3] = neg(x)", "b: f32[2, 3] = neg(a)  # me.py:4", "c: f32[2, 3] = mul(b, y)"]
    text, report = rewrite(body(lines, "c"), CANCEL)
    assert text == body(["c: f32[2, 3] = mul(x, y)"], "c")
    step, = report
    assert (step.why, step.source, step.before, step.after) == (
        "two negations cancel", ("me.py", 4), "b: f32[2, 3] = neg(a)", "x")
    assert str(step) == "b: f32[2, 3] = neg(a)  ->  x   because: two negations cancel  # me.py:4"


def test_rules_run_to_a_fixed_point():
    lines = ["v0: f32[2, 3] = neg(x)"] + [f"v{i}: f32[2, 3] = neg(v{i - 1})" for i in range(1, 40)]
    text, report = rewrite(body(lines, "v39"), CANCEL)
    assert text == body([], "x") and len(report) >= 20


def test_inner_values_with_other_users_stay():
    text, _ = rewrite(body(["a: f32[2, 3] = neg(x)", "b: f32[2, 3] = neg(a)"], "b, a"), CANCEL)
    assert text == body(["a: f32[2, 3] = neg(x)"], "x, a")


def test_a_new_value_takes_the_old_name():
    rule = Rule("mul(neg(x), neg(y))", "mul(x, y)", why="signs cancel")
    lines = ["a: f32[2, 3] = neg(x)", "b: f32[2, 3] = neg(y)", "c: f32[2, 3] = mul(a, b)  # me.py:1"]
    text, _ = rewrite(body(lines, "c"), rule)
    assert text == body(["c: f32[2, 3] = mul(x, y)  # me.py:1"], "c")


def test_nested_replacements_infer_their_types():
    rule = Rule("mul(x, add(y, z))", "add(mul(x, y), mul(x, z))", why="distribute")
    lines = ["a: f32[2, 3] = add(y, y)", "b: f32[2, 3] = mul(x, a)"]
    products = ["t4: f32[2, 3] = mul(x, y)", "t5: f32[2, 3] = mul(x, y)"]
    text, _ = rewrite(body(lines, "b"), rule, registry=OPS)
    assert text == body([*products, "b: f32[2, 3] = add(t4, t5)"], "b")
    with pytest.raises(ValueError, match="type of the new mul is not known"):
        rewrite(body(lines, "b"), rule)


@pytest.mark.parametrize("line, applies", [
    ("a: f32[2, 3] = add(x, 0:f32)", True),
    ("a: f32[2, 3] = add(x, 0:i64)", True),
    ("a: f32[2, 3] = add(x, 0.0:f32)", True),
    ("a: f32[2, 3] = add(x, -0.0:f32)", False),         # not the pattern's zero
    ("a: f32[2, 3] = add(x, False:bool)", False),
    ("a: f64[2, 3] = add(x, 0:f64)", False),            # the result has another dtype
    ("a: f32[4, 2, 3] = add(x, 0:f32)", False),         # or another shape
    ("a: f32[2, 3] = add(x, 0:f32; alpha=2)", False),   # an attribute that the pattern does not name
    ("a: f32[2, 3] = add(x, y)", False),
    ("a: f32[2, 3] = sub(x, 0:f32)", False),
    ("a: f32[2, 3] = add(x)", False),
])
def test_what_a_literal_pattern_matches(line, applies):
    text, report = rewrite(body([line], "a"), ADD_ZERO)
    assert bool(report) == applies
    assert text == (body([], "x") if applies else body([line], "a"))


def test_the_same_name_asks_for_the_same_operand():
    rule = Rule("sub(x, x)", "0.0", why="nothing is left")
    scalar = "x: f32[], y: f32[]"
    assert rewrite(body(["a: f32[] = sub(x, x)"], "a", scalar), rule)[0] == body([], "0.0:f32", scalar)
    assert not rewrite(body(["a: f32[] = sub(x, y)"], "a", scalar), rule)[1]
    assert rewrite(body(["a: f32[] = sub(1.0:f32, 1.0:f32)"], "a", scalar), rule)[1]
    assert not rewrite(body(["a: f32[] = sub(0.0:f32, -0.0:f32)"], "a", scalar), rule)[1]


def test_literal_captures_and_functions():
    def fold(match, build):
        return build("mul", match["x"], build.literal(match["a"].value * match["b"].value, match["a"].dtype))
    rule = Rule("mul(mul(x, $a), $b)", fold, why="one factor does both",
                when=lambda match: match["a"].dtype is match["b"].dtype)
    lines = ["a: f32[2, 3] = mul(x, 2.0:f32)", "b: f32[2, 3] = mul(a, 3.0:f32)",
             "c: f32[2, 3] = mul(b, 4:i64)"]
    text, report = rewrite(body(lines, "c"), rule, registry=OPS)
    assert text == body(["b: f32[2, 3] = mul(x, 6.0:f32)", "c: f32[2, 3] = mul(b, 4:i64)"], "c")
    assert report[0].after == "b: f32[2, 3] = mul(x, 6.0:f32)"
    assert not rewrite(body(["a: f32[2, 3] = mul(x, y)", "b: f32[2, 3] = mul(a, y)"], "b"), rule)[1]


def test_attribute_captures():
    def compose(match, build):
        inner, outer = match["a"], match["b"]
        return build("permute", match["x"], dims=tuple(inner[i] for i in outer))
    rule = Rule("permute(permute(x; dims=$a); dims=$b)", compose, why="one permutation does both")
    lines = ["a: f32[4, 2, 3] = permute(x; dims=(2, 0, 1))", "b: f32[3, 4, 2] = permute(a; dims=(2, 0, 1))"]
    text, _ = rewrite(body(lines, "b", "x: f32[2, 3, 4]"), rule, registry=OPS)
    assert text == body(["b: f32[3, 4, 2] = permute(x; dims=(1, 2, 0))"], "b", "x: f32[2, 3, 4]")


def test_attributes_are_copied_and_the_rest_is_asked_for_by_dots():
    rule = Rule("old(x; a=$v, ...)", "new(x; a=$v, b=1)", why="renamed")
    text, _ = rewrite(body(["a: f32[] = old(x; a=\"s\", z=2)"], "a"), rule)
    assert text == body(["a: f32[] = new(x; a=\"s\", b=1)"], "a")
    assert not rewrite(body(["a: f32[] = old(x; z=2)"], "a"), rule)[1]


@pytest.mark.parametrize("value, applies", [("(1, nan)", True), ("(True, nan)", False), ("(1.0, nan)", False),
                                            ("(1,)", False), ("None", False)])
def test_attributes_match_by_value_and_type(value, applies):
    rule = Rule("old(x; a=(1, nan))", "new(x)", why="renamed")
    assert bool(rewrite(body([f"a: f32[] = old(x; a={value})"], "a"), rule)[1]) == applies


def test_a_function_may_decline_and_may_replace_several_outputs():
    decline = Rule("split(_)", lambda match, build: None, why="never")
    swap = Rule("split(x)", lambda m, b: tuple(b("take", m["x"], types=[(v.dtype, v.shape)], place=i)
                                               for i, v in enumerate(m.node.outputs)), why="one at a time")
    line = "a: f32[1], b: f32[2] = split(x)"
    assert rewrite(body([line], "b, a"), decline) == (body([line], "b, a"), [])
    text, _ = rewrite(body([line], "b, a"), decline, swap)
    assert text == body(["a: f32[1] = take(x; place=0)", "b: f32[2] = take(x; place=1)"], "b, a")


def test_rules_that_undo_each_other_are_stopped():
    rules = Rule("add(x, y)", "add(y, x)", why="the other way round"), ADD_ZERO
    with pytest.raises(RuntimeError, match="no end after 50 applied rules[\\s\\S]*because: the other way"):
        rewrite(body(["a: f32[2, 3] = add(x, y)"], "a"), *rules, limit=50)


def test_effects_follow_renamed_values():
    lines = ["a: f32[2, 3] = add(y, 0:f32)", "b: f32[2, 3] = add(x, 0:f32)"]
    effects = "\nwrite x <- a\ngrad y += a\nhost show(a) after a"
    text, _ = rewrite(body(lines, "b") + effects, ADD_ZERO)
    assert text == body([], "x") + "\nwrite x <- y\ngrad y += y\nhost show(y) after y"


def test_an_aliased_output_keeps_its_name_and_a_written_value_stays_a_value():
    alias = body(["a: f32[2, 3] = add(x, 0:f32)"], "a") + "\nalias a of x strides (3, 1) offset 0"
    assert rewrite(alias, ADD_ZERO) == (alias, [])
    zero = Rule("sub(x, x)", "0.0", why="nothing is left")
    write = body(["a: f32[] = sub(x, x)"], "x", "x: f32[]") + "\nwrite x <- a"
    assert rewrite(write, zero) == (write, [])


def test_bad_rules_are_refused():
    with pytest.raises(ValueError, match="must name an op"):
        Rule("x", "x", why="")
    with pytest.raises(ValueError, match="uses y, which the pattern does not capture"):
        Rule("neg(x)", "y", why="")
    with pytest.raises(ValueError, match="uses _"):
        Rule("neg(_)", "_", why="")
    with pytest.raises(ValueError, match="expected the pattern's end"):
        Rule("neg(x) y", "x", why="")


@pytest.mark.parametrize("text", ["neg(x)", "add(mul(x, $a), 0)", "f(_; a=$b, ...)", "f(1.5:f32; a=(1, 2))",
                                  "f(;...)", "complex(a, n)", "f(True, complex(1.0, 2.0))"])
def test_patterns_print_and_parse(text):
    pattern = parse_pattern(text)
    assert parse_pattern(str(pattern)) == pattern
    assert str(pattern) == text.replace("(;", "(; ")


# -------------------------------------------------------------------------------- whole-graph steps
def test_dead_nodes_go_and_what_effects_need_stays():
    lines = ["a: f32[2, 3] = neg(x)", "b: f32[2, 3] = neg(a)", "c: f32[2, 3] = neg(y)"]
    assert show(eliminate_dead_code(parse(body(lines, "x")))) == body([], "x")
    effect = "\ngrad x += b"
    assert show(eliminate_dead_code(parse(body(lines, "y") + effect))) == body(lines[:2], "y") + effect


def test_equal_calls_are_computed_once():
    lines = ["a: f32[2, 3] = mul(x, 2.0:f32)", "b: f32[2, 3] = mul(x, 2.0:f32)  # other.py:1",
             "c: f32[2, 3] = neg(a)", "d: f32[2, 3] = neg(b)", "e: f32[2, 3] = add(c, d)"]
    text = show(eliminate_common_subexpressions(parse(body(lines, "e, b") + "\ngrad x += d")))
    assert text == body([lines[0], lines[2], "e: f32[2, 3] = add(c, c)"], "e, a") + "\ngrad x += c"


@pytest.mark.parametrize("first, second", [
    ("f32[2] = f(x, 0.0:f32)", "f32[2] = f(x, -0.0:f32)"),
    ("f32[2] = f(x, 1:f32)", "f32[2] = f(x, True:f32)"),
    ("f32[2] = f(x; a=1)", "f32[2] = f(x; a=True)"),
    ("f32[2] = f(x)", "f64[2] = f(x)"),
    ("f32[2] = f(x, y)", "f32[2] = f(y, x)"),
])
def test_different_calls_stay_apart(first, second):
    graph = parse(body([f"a: {first}", f"b: {second}"], "a, b"))
    assert show(eliminate_common_subexpressions(graph)) == show(graph)


def test_random_graphs_give_the_same_results_after_all_steps():
    rules = [CANCEL, ADD_ZERO, Rule("sub(x, neg(y))", "add(x, y)", why="minus a negation"),
             Rule("mul(neg(x), neg(y))", "mul(x, y)", why="signs"),
             Rule("neg(sub(x, y))", "sub(y, x)", why="flip"),
             Rule("add(add(x, y), z)", "add(x, add(y, z))", why="to the right")]
    applied = 0
    for seed in range(40):
        graph = random_program(random.Random(seed))
        arrays = [numpy.array([[1, -2, 3], [5, 0, -7]]), numpy.array([[2, 2, -1], [0, 9, 4]])]
        expected = run(graph, arrays, OPS)
        new, report = apply_rules(graph, rules, OPS)
        new = eliminate_dead_code(eliminate_common_subexpressions(new))
        result = run(verify(new, OPS), arrays, OPS)
        assert [a.tolist() for a in expected.outputs] == [a.tolist() for a in result.outputs], f"seed {seed}"
        assert expected.grads["x"].tolist() == result.grads["x"].tolist(), f"seed {seed}"
        applied += len(report)
    assert applied > 40


def random_program(generator):
    """An int64 program of 15 nodes over x and y, with a grad effect."""
    shape = (2, 3)
    values = [Value(name, dtypes.int64, shape) for name in "xy"]
    inputs, nodes = tuple(values), []
    for i in range(15):
        op, count = generator.choice((("neg", 1), ("add", 2), ("sub", 2), ("mul", 2)))
        operands = [generator.choice(values[-4:]) for _ in range(count)]
        if count == 2 and generator.random() < 0.3:
            operands[1] = Literal(generator.choice((0, 1)), dtypes.int64)
        values.append(Value(f"v{i}", dtypes.int64, shape))
        nodes.append(Node(op, tuple(operands), (), (values[-1],)))
    graph = Graph("f", inputs, tuple(nodes), (values[-1], values[-2]))
    return Program(graph, (Effect("grad", "x", (values[-3].name,)),))
