"""Writing out mathematical functions."""

import numpy
import pytest

from flambeau.compiler.expand import expand_math
from flambeau.ir import loops as L
from flambeau.ir import loops_text
from flambeau.ir.loops_verify import verify
from flambeau.types import dtype as D
from tests.compiler import kernels as K

FUNCTIONS = {"twice": lambda b, x: b.add(x, x),
             "blend": lambda b, x, y: b.fma(x, b.const(2.0, x.dtype, x.lanes), y)}


def apply(op, *args):
    return L.Apply(args[0].dtype, args[0].lanes, op, args)


def test_functions_are_written_in_front_of_their_statement():
    def body(b):
        with b.loop("i", 0, 4) as i:
            x = L.Load(D.float32, 1, "x", i)
            six = apply("twice", apply("blend", x, x))
            b.store("out", i, L.apply("add", six, L.Const(D.float32, 1, 1.0)))

    kernel = K.make("nested", [("x", D.float32)], [("out", D.float32)], body)
    expanded = verify(expand_math(kernel, FUNCTIONS))
    text = loops_text.show(expanded)
    assert "twice" not in text and "blend" not in text
    assert text.index("m1") > text.index("for i")           # inside the loop
    x = numpy.array([1, 2, 3, 4], "f")
    native, expected = K.run_both(expanded, {"x": x, "out": numpy.zeros(4, "f")})
    assert native["out"].tolist() == expected["out"].tolist() == (6 * x + 1).tolist()


@pytest.mark.parametrize("dtype", [D.float16, D.bfloat16], ids=lambda d: d.short)
def test_narrow_floats_are_computed_in_float32(dtype):
    zero = L.as_index(0)
    kernel = K.make("narrow", [], [("x", dtype)],
                    lambda b: b.store("x", zero, apply("twice", b.load("x", zero, dtype, 8))))
    expanded = verify(expand_math(kernel, FUNCTIONS))
    assert "f32x8" in loops_text.show(expanded)
    native, expected = K.run_both(expanded, {"x": K.values_of(dtype, 8)})
    K.assert_same(native["x"], expected["x"], dtype)


def test_nothing_to_do_and_unknown_functions():
    plain = K.make("plain", [("x", D.float32)], [], lambda b: b.neg(b.load("x", L.as_index(0), D.float32)))
    assert expand_math(plain, FUNCTIONS) is plain
    one = L.Const(D.float32, 1, 1.0)
    strange = K.make("strange", [("x", D.float32)], [], lambda b: b.let(apply("gudermann", one)))
    with pytest.raises(ValueError, match="no operation or function is called gudermann"):
        expand_math(strange, FUNCTIONS)


def test_names_of_the_kernel_are_left_alone():
    def body(b):
        x = b.let(L.Load(D.float32, 1, "x", L.as_index(0)), "m1")
        b.store("x", L.as_index(0), b.add(apply("twice", x), x))

    expanded = expand_math(K.make("clash", [], [("x", D.float32)], body), FUNCTIONS)
    native, _ = K.run_both(expanded, {"x": numpy.array([5.0], "f")})
    assert native["x"][0] == 15
