"""The verifier finds each kind of mistake and shows the node."""

import pytest

from flambeau.ir.graph import Graph, Literal, Node, Program, Value
from flambeau.ir.graph_text import parse
from flambeau.ir.graph_verify import verify
from flambeau.types import dtype as dtypes
from flambeau.types.dim import symbol


class Same:
    """An op whose result is like its first input."""

    @staticmethod
    def infer(inputs, attrs):
        if attrs.get("fail"):
            raise ValueError("sizes differ")
        return [(inputs[0].dtype, inputs[0].shape)]


OPS = {"sin": Same, "add": Same}


def wrap(body, effects="", returned="x"):
    return f"graph f(x: f32[s0, 2], s: i64[]) {{\n{body}\n return {returned} }}\n{effects}"


def test_good_forms_are_returned():
    form = parse(wrap("y: f32[s0, 2] = add(x, 1:f32)", "write x <- y\nalias y of x strides (2, 1) offset 0\n"
                      "grad x += y\nrandom s -> s\nhost show(y) after y", "y"))
    assert verify(form, OPS) is form
    assert verify(form.graph) is form.graph


@pytest.mark.parametrize("body, message", [
    ("y: f32[3] = sin(x)", r"got f32\[3\], wanted f32\[s0, 2\]"),
    ("y: f64[s0, 2] = sin(x)", r"got f64\[s0, 2\], wanted f32\[s0, 2\]"),
    ("y: f32[s0, 2], z: f32[] = sin(x)", r"the types of y, z"),
    ("y: f32[s0, 2] = sim(x)", r"no op is called 'sim'[\s\S]*did you mean 'sin'"),
    ("y: f32[s0, 2] = sin(x; fail=True)", r"does not take these inputs: sizes differ"),
    ("y: f32[s0, 2] = sin(x; a=1, a=2)", r"attribute a is given twice"),
    ("y: f32[s0, 2] = sin(x, 1.5:i64)", r"literal does not fit its dtype i64"),
    ("y: f32[s0, 2] = sin(x, 300:u8)", r"literal does not fit its dtype u8"),
    ("y: f32[s0, 2] = sin(x, -129:i8)", r"literal does not fit its dtype i8"),
    ("y: f32[s0, 2] = sin(x, 1:bool)", r"literal does not fit its dtype bool"),
])
def test_bad_nodes(body, message):
    with pytest.raises(ValueError, match=message) as caught:
        verify(parse(wrap(body)), OPS)
    assert body in str(caught.value)


@pytest.mark.parametrize("effect, message", [
    ("write y <- x", r"y is not an input"),
    ("write x <- nothing", r"nothing does not exist"),
    ("write x <- s", r"s does not fit x: got i64\[\], wanted f32\[s0, 2\]"),
    ("write x <- x\nwrite x <- x", r"x has two effects of this kind"),
    ("grad y += x", r"y is not an input"),
    ("alias y of x strides (2, 1) offset 0", r"y is not an output"),
    ("alias x of x strides (2) offset 0", r"one stride an axis: got 1, wanted 2"),
    ("alias x of s strides (2, 1) offset 0", r"dtype of its base"),
    ("host print(nothing) after x", r"nothing does not exist"),
])
def test_bad_effects(effect, message):
    with pytest.raises(ValueError, match=message) as caught:
        verify(parse(wrap("y: f32[s0, 2] = sin(x)", effect)), OPS)
    assert effect.splitlines()[0] in str(caught.value)


def test_graphs_built_by_hand():
    x, y = Value("x", dtypes.float32, (2,)), Value("y", dtypes.float32, (2,))
    node = Node("sin", (x,), (), (y,))
    verify(Graph("f", (x,), (node,), (y,)))
    verify(Graph("f", (Value("x", dtypes.float32, (2,)),), (node,), (y,)))
    bad = [
        (Graph("f", (), (node,), (y,)), "x is used before it is defined"),
        (Graph("f", (x,), (node, node), (y,)), "y is defined twice"),
        (Graph("f", (x, x), (), (x,)), "x is defined twice"),
        (Graph("f", (x,), (), (y,)), "y is used before"),
        (Graph("f", (Value("x", dtypes.float32, (3,)),), (node,), (y,)), "another type"),
        (Graph("f", (Value("x", dtypes.float32, (2.0,)),), (), ()), "bad size"),
        (Graph("f", (Value("x", dtypes.float32, (-2,)),), (), ()), "bad size"),
        (Graph("f", (x,), (Node("sin", (x,), (), ()),), ()), "at least one value"),
        (Graph("f", (x,), (Node("sin", (1.0,), (), (y,)),), ()), "must be a Value or a Literal, got 1.0"),
        (Graph("f", (x,), (Node("sin", (x,), (("a", []),), (y,)),), ()), "cannot be printed"),
        (Graph("f", (), (), (Literal(symbol("n"), dtypes.bool_),)), "does not fit its dtype bool"),
    ]
    for graph, message in bad:
        with pytest.raises(ValueError, match=message):
            verify(Program(graph))
