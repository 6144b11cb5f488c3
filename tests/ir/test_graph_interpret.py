"""The interpreter against NumPy: sizes, literals, storage of each dtype, effects, and its refusals."""

import math

import numpy
import pytest

from flambeau.ir import graph_interpret
from flambeau.ir.graph_interpret import Result, round_to_bfloat16, run, widen_bfloat16
from flambeau.ir.graph_text import parse
from flambeau.types.dtype import bfloat16


class Op:
    def __init__(self, reference):
        self.reference = reference


OPS = {
    "add": Op(lambda x, y: x + y),
    "sum": Op(lambda x, axis=None: numpy.sum(x, axis=axis, dtype=numpy.float64)),
    "reshape": Op(lambda x, shape: x.reshape(shape)),
    "split": Op(lambda x: (x[:1], x[1:])),
    "nonzero": Op(lambda x: numpy.nonzero(x)[0]),
    "fail": Op(lambda x: 1 // 0),
}


def test_symbolic_sizes_come_from_the_arrays():
    graph = parse("""graph f(x: f32[n, 3]) {
        y: f32[3*n] = reshape(x; shape=({3*n},))
        z: f32[3*n] = add(y, {n}:f32)
        t: f32[] = sum(z)
        return z, t, {n + 1}:i64 }""")
    x = numpy.arange(6, dtype="float32").reshape(2, 3)
    z, total, size = run(graph, [x], OPS)
    assert z.tolist() == [2, 3, 4, 5, 6, 7] and z.dtype == "float32"
    assert total == 27 and total.dtype == "float32" and total.shape == ()
    assert size == 3 and size.dtype == "int64"


def test_several_outputs_and_sizes_that_depend_on_data():
    graph = parse("""graph f(x: f32[4]) {
        a: f32[1], b: f32[3] = split(x)
        i: i64[k] = nonzero(x)
        j: i64[k] = add(i, {k}:i64)
        return a, b, j }""")
    a, b, j = run(graph, [numpy.array([0, 1, 0, 2], "float32")], OPS)
    assert a.tolist() == [0] and b.tolist() == [1, 0, 2] and j.tolist() == [3, 5]


def test_bfloat16_is_rounded_after_each_node():
    graph = parse("graph f(x: bf16[2]) { y: bf16[2] = add(x, 1.0:bf16) return y, 0.1:bf16 }")
    y, tenth = run(graph, [round_to_bfloat16([1 / 256, 3 / 256])], OPS)
    assert y.dtype == numpy.uint16 and widen_bfloat16(y).tolist() == [1.0, 1.015625]    # ties to even
    assert widen_bfloat16(tenth) == numpy.float32(0.10009765625) and tenth.shape == ()


def test_bfloat16_rounding_is_exact_for_every_kind_of_number():
    bits = numpy.arange(65536, dtype=numpy.uint16)
    values = widen_bfloat16(bits)
    back = round_to_bfloat16(values)
    finite = ~numpy.isnan(values)
    assert (back[finite] == bits[finite]).all()
    assert numpy.isnan(widen_bfloat16(back[~finite])).all()
    near_infinity = widen_bfloat16(round_to_bfloat16([3.3961775e38, 3.39e38, -1e300]))
    assert near_infinity.tolist() == [math.inf, 3.3895313892515355e38, -math.inf]
    noise = numpy.array([0x7F800001, 0xFFBFFFFF], numpy.uint32).view(numpy.float32)     # NaN in the low bits
    assert numpy.isnan(widen_bfloat16(round_to_bfloat16(noise))).all()


def test_float16_sums_are_computed_wider_and_rounded_once():
    graph = parse("graph f(x: f16[n]) { t: f16[] = sum(x) return t }")
    total, = run(graph, [numpy.full(3000, 1, "float16")], OPS)
    assert total == 3000 and total.dtype == "float16"


def test_effects_of_a_program():
    program = parse("""graph f(x: f32[2], w: f32[2], r: i64[1]) {
        y: f32[2] = add(x, w)
        s: i64[1] = add(r, 1:i64)
        return y }
        write x <- y
        grad w += y
        grad w += x
        random r -> s
        alias y of x strides (1) offset 0
        host show(y, s) after y""")
    x, w = numpy.array([1, 2], "float32"), numpy.array([10, 20], "float32")
    result = run(program, [x, w, numpy.array([7])], OPS)
    assert isinstance(result, Result)
    assert result.outputs[0].tolist() == [11, 22] and result.writes["x"].tolist() == [11, 22]
    assert result.grads["w"].tolist() == [12, 24] and result.random["r"].tolist() == [8]
    assert result.aliases == {"y": ("x", (1,), 0)}
    (name, arrays), = result.host
    assert name == "show" and [a.tolist() for a in arrays] == [[11, 22], [8]]
    assert x.tolist() == [1, 2], "inputs are not changed"


FOUR = [numpy.zeros(4, "f4")]


@pytest.mark.parametrize("text, arrays, message", [
    ("graph f(x: f32[2]) { return x }", [numpy.zeros(2)], r"got float64\[2\], wanted float32\[2\]"),
    ("graph f(x: f32[2]) { return x }", [numpy.zeros(3, "f4")], r"got float32\[3\], wanted float32\[2\]"),
    ("graph f(x: f32[n, n]) { return x }", [numpy.zeros((2, 3), "f4")], r"wanted float32\[2, 2\]"),
    ("graph f(x: f32[n, 2*n]) { return x }", [numpy.zeros((2, 3), "f4")], r"wanted float32\[2, 4\]"),
    ("graph f(x: f32[2]) { return x }", [], r"got 0 arrays, wanted 1: x"),
    ("graph f(x: f32[2*n]) { return x }", [numpy.zeros(4, "f4")], r"unknown size n[\s\S]*env=\{'n'"),
    ("graph f(x: f32[4]) { y: f32[3] = add(x, x) return y }", FOUR, r"y in: y: f32\[3\] = add"),
    ("graph f(x: f32[4]) { y: f32[1] = split(x) return y }", FOUR, r"another number of arrays"),
    ("graph f(x: f32[4]) { return x }\nalias x of x strides (2) offset 0", [numpy.zeros(4, "f4")],
     r"leaves its base x: got elements 0 to 6, wanted 0 to 3"),
])
def test_refusals(text, arrays, message):
    with pytest.raises(ValueError, match=message):
        run(parse(text), arrays, OPS)


def test_composite_sizes_can_be_passed():
    graph = parse("graph f(x: f32[2*n]) { return {n}:i64 }")
    assert run(graph, [numpy.zeros(4, "f4")], OPS, env={"n": 2})[0] == 2


def test_an_error_in_a_reference_names_the_node():
    graph = parse("graph f(x: f32[4]) { y: f32[4] = fail(x)  # a.py:3\n return y }")
    with pytest.raises(ZeroDivisionError) as caught:
        run(graph, [numpy.zeros(4, "f4")], OPS)
    assert caught.value.__notes__ == ["while interpreting: y: f32[4] = fail(x)  # a.py:3"]


def test_storage_of_numbers():
    assert graph_interpret.store(1.0, bfloat16) == 0x3F80
