"""The printed form of graphs: every text parses back to itself, and mistakes are pointed at."""

import math
import random
import struct

import pytest

from flambeau.ir.graph import Effect, Graph, Literal, Node, Program, Value
from flambeau.ir.graph_text import parse, parse_program, show, show_attribute
from flambeau.types import dtype as dtypes
from flambeau.types.dim import symbol

FULL = """\
graph step(x: f32[s0, 10], w: f32[10], state: i64[2], e: bf16[]) {
  y: f32[s0, 10] = mul(x, w)  # train me.py:12
  values: f32[2*s0], at: i64[2*s0] = topk(y, 1.5:f32; dim=-1, up=True, name="a\\"#:\\n", to=f16, none=None)
  z: f32[s0, 10] = add(y, {s0}:i64; shape=({2*s0 + 1}, 3), one=(1,), empty=(), nested=((1, 2.5), (-inf, nan)))
  layer.0.c: c64[] = constant(complex(1.0, -0.0):c64, True:bool, -3:i8)
  return z, layer.0.c, 2.0:f64
}
write x <- z  # a.py:3
grad w += w
alias z of x strides (10, 1) offset 2*s0
random state -> state
host print(y, z) after at
host done() after y"""


def test_full_text_round_trips():
    form = parse(FULL)
    assert isinstance(form, Program)
    assert show(form) == FULL


def test_parsed_parts_have_the_written_values():
    program = parse(FULL)
    graph = program.graph
    mul, topk, add, constant = graph.nodes
    s0 = symbol("s0")
    assert mul.source == ("train me.py", 12) and topk.source is None
    assert mul.inputs[0] is graph.inputs[0] and add.outputs[0] is graph.outputs[0]
    assert graph.inputs[0].shape == (s0, 10) and graph.inputs[3].shape == ()
    assert dict(topk.attrs) == {"dim": -1, "up": True, "name": 'a"#:\n', "to": dtypes.float16, "none": None}
    assert add.inputs[1].value == s0 and add.inputs[1].dtype is dtypes.int64
    attrs = dict(add.attrs)
    assert attrs["shape"] == (2 * s0 + 1, 3) and attrs["one"] == (1,) and attrs["empty"] == ()
    assert math.isnan(attrs["nested"][1][1])
    assert constant.inputs[1].value is True and type(constant.inputs[2].value) is int
    write, _, alias, _, host, done = program.effects
    assert write.source == ("a.py", 3) and write.operands == ("z",)
    assert alias.strides == (10, 1) and alias.offset == 2 * s0
    assert host.operands == ("y", "z", "at") and done.operands == ("y",)


def test_graph_without_effects_is_a_graph_and_may_be_asked_for_as_a_program():
    text = "graph f() {\n  return\n}"
    assert isinstance(parse(text), Graph)
    assert isinstance(parse_program(text), Program) and show(parse_program(text)) == text


def test_blanks_and_comments_are_free():
    text = "graph f(x: f32[ 2 ]) { # a note\n  # another\n\n y : f32[2]=sin(x;) # a.py:7\n return y, }"
    graph = parse(text)
    assert graph.nodes[0].source == ("a.py", 7)
    assert show(graph) == "graph f(x: f32[2]) {\n  y: f32[2] = sin(x)  # a.py:7\n  return y\n}"


@pytest.mark.parametrize("file", ["<stdin>", "C:\\a b.py", "odd\nname.py", " blank.py", '"quoted".py',
                                  "a#b:3", "ä.py"])
def test_any_file_name_round_trips(file):
    x = Value("x", dtypes.float32, ())
    y = Value("y", dtypes.float32, ())
    graph = Graph("f", (x,), (Node("sin", (x,), (), (y,), (file, 9)),), (y,))
    assert parse(show(graph)).nodes[0].source == (file, 9)


def test_floats_round_trip_to_the_last_bit():
    generator = random.Random(1)
    values = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 5e-324, 1.7976931348623157e308, 1e16, 0.1]
    values += [struct.unpack("d", generator.randbytes(8))[0] for _ in range(200)]
    for value in values:
        if math.isnan(value):
            value = math.copysign(math.nan, value)
        graph = Graph("f", (), (), (Literal(value, dtypes.float64),))
        back = parse(show(graph)).outputs[0].value
        assert type(back) is float and struct.pack("d", back) == struct.pack("d", value)


def test_values_may_be_called_like_constants_and_dtypes():
    text = ("graph f(nan: f32[], f32: f32[], complex: f32[], inf: f32[]) {\n"
            "  return nan, f32, nan:f32, complex, inf\n}")
    assert show(parse(text)) == text


def test_an_int_a_bool_and_a_float_stay_apart():
    assert [show_attribute(v) for v in (1, True, 1.0, 1 + 0j)] == ["1", "True", "1.0", "complex(1.0, 0.0)"]


def random_attribute(generator, depth=0):
    def text():
        return "".join(chr(generator.randrange(0x110000)) for _ in range(generator.randrange(9)))

    def items():
        return tuple(random_attribute(generator, depth + 1) for _ in range(generator.randrange(4)))
    kinds = [lambda: None, lambda: generator.random() < 0.5, lambda: generator.randrange(-2**70, 2**70),
             lambda: generator.uniform(-1, 1) * 10 ** generator.randrange(-300, 300),
             text, lambda: generator.choice(dtypes.ALL), lambda: symbol("n") * 3 // symbol("k") - 1]
    return generator.choice(kinds + [items] * 3 * (depth < 3))()


def test_random_attributes_round_trip():
    generator = random.Random(2)
    for _ in range(300):
        attr = random_attribute(generator)
        graph = Graph("f", (), (Node("op", (), (("a", attr),), (Value("y", dtypes.bool_, ()),)),), ())
        (_, back), = parse(show(graph)).nodes[0].attrs
        assert back == attr and type(back) is type(attr) and show_attribute(back) == show_attribute(attr)


def test_a_damaged_text_is_refused_or_read_but_never_breaks_the_parser():
    outcomes = set()
    for i in range(len(FULL)):
        for text in (FULL[:i], FULL[:i] + FULL[i + 1:], FULL[:i] + "(" + FULL[i:]):
            try:
                show(parse(text))
                outcomes.add("read")
            except ValueError:
                outcomes.add("refused")
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize("text, message", [
    ("graph f(x: f32[2]) {\n  y: f32[2] = sin(z)\n  return y\n}", r"line 2, column 19: z is used before"),
    ("graph f(x: f32[2]) {\n  x: f32[2] = sin(x)\n  return x\n}", r"line 2, .*x is defined twice"),
    ("graph f(x: f32[2]) {\n  y: f32[2] = add(y, x)\n  return y\n}", r"y is used before"),
    ("graph f(x: f99[2]) {\n  return x\n}", r"line 1, column 12: no dtype is called 'f99'"),
    ("graph f(x: f32[2]) {\n  return x", r"line 2, .*expected '}'"),
    ("graph f(x: f32[+]) {\n  return x\n}", r"expected a size"),
    ("graph f(x: f32[2]) {\n  return 1.5\n}", r"a constant with its dtype"),
    ("graph f() {\n  return\n}\nwrote x <- y", r"no effect is called 'wrote'"),
])
def test_mistakes_are_pointed_at(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(text)
    assert "^" in str(caught.value)


def test_what_cannot_be_printed_is_refused():
    x = Value("x", dtypes.float32, ())
    for attr in ([1], object(), {"a": 1}):
        with pytest.raises(TypeError, match="cannot hold"):
            show(Node("f", (x,), (("a", attr),), (x,)))
    for name in ("a b", "return", "1a", "", "a\n"):
        with pytest.raises(ValueError, match="cannot name"):
            show(Graph("f", (Value(name, dtypes.float32, ()),), (), ()))
    with pytest.raises(ValueError, match="no effect of kind"):
        show(Effect("wish", "x"))
