"""The verifier of Loops: what it accepts, and that each fault is told with its statement."""

import pytest

from flambeau.ir import loops as L
from flambeau.ir.loops_text import parse
from flambeau.ir.loops_verify import _KINDS, verify
from flambeau.types.dtype import bool_, float32, int32, int64


def kernel_of(*stmts, params=("n",), extent=None, buffers=None):
    usual = L.Buffer("x", float32, "r"), L.Buffer("out", float32, "w"), L.Buffer("h", int64, "rw")
    buffers = buffers or usual
    return L.Kernel("k", buffers, params, extent or L.Const(int64, 1, 4), stmts)


def text(body):
    return parse("kernel k(x: r f32*, out: w f32*, h: rw i64*; n: i64) extent n {\n" + body + "\n}")


def test_every_operation_has_a_dtype_rule():
    assert set(_KINDS) == {op for op in L.OPERATIONS if op not in L.REDUCING and op != "lane"}


def test_a_template_needs_leave_for_its_splices():
    template = text("v: f32 = splice prologue(n): f32  # model.py:3\nsplice epilogue(n, v)  # model.py:4")
    assert verify(template, allow_splices=True) is template
    with pytest.raises(ValueError, match=r"this splice is not filled in kernel k: got prologue(.|\n)*"
                                         r"at model.py:3(.|\n)*splice prologue\(n\)"):
        verify(template)


GOOD = """
for i in begin..end step 1 { v: f32 = x[i]: f32 out[i] <- v }
for i in begin..end step 8 {
    v: f32x8 = x[add(splat(i): i64x8, lane(): i64x8): i64x8]: f32x8
    out[i] <- exp(v): f32x8
}
if eq(h[0:i64]: i64, n): bool { h[0:i64] <- cast(true:bool): i64 } else { var v: i64 = n  v := begin }
"""


def test_sibling_blocks_may_use_the_same_names():
    verify(text(GOOD))


BAD_TEXT = [
    ("v: f32 = x[0:i64]: f32\nv: f32 = v", "the name v is bound twice"),
    ("for n in 0:i64..1:i64 step 1 { }", "the name n is bound twice"),
    ("x: f32 = 0.0:f32", "the name x is bound twice"),
    ("v: f32 = x[0:i64]: f32\nv := v", "v is no register in kernel k: got a Let, wanted a Declare"),
    ("var v: f32 = 0.0:f32\nv := n", "the assigned value has the wrong type.* got n of type i64, wanted f32"),
    ("n := n", "n is no register"),
    ("out[0:i64] <- out[0:i64]: f32", "buffer out may not be read in kernel k: got access w, wanted r or rw"),
    ("x[0:i64] <- 0.0:f32", "buffer x may not be written"),
    ("y[0:i64] <- 0.0:f32", "there is no buffer y in kernel k: wanted one of x, out, h"),
    ("v: f64 = x[0:i64]: f64", "buffer x has another dtype in kernel k: got f64, wanted f32"),
    ("out[0:i64] <- n", "buffer out has another dtype"),
    ("out[0:i32] <- 0.0:f32", "the index has the wrong type in kernel k: got 0:i32 of type i32, wanted i64"),
    ("out[lane(): i64x4] <- 0.0:f32", "the index has the wrong type"),
    ("out[n] <- 0.0:f32x4 where true:bool", "the mask has the wrong type.* wanted boolx4"),
    ("v: f32x2 = x[n]: f32x2 where true:boolx2 else 0.0:f32", "the other value has the wrong type.* f32x2"),
    ("for i in 0:i32..n step 1 { }", "the start has the wrong type"),
    ("for i in 0:i64..n step 0 { }", "a loop counts up"),
    ("if n { }", "the condition has the wrong type in kernel k: got n of type i64, wanted bool"),
    ("v: i64 = n\nlocal t: f32[4]", "local buffer t must stand before"),
    ("if true:bool { local t: f32[4] }", "local buffer t must stand at the top"),
    ("local t: f32[0]", "no constant size"),
    ("v: i64 = add(n): i64", "add has the wrong number of arguments in kernel k: got 1, wanted 2"),
    ("v: i64 = add(n, 1:i32): i64", "an argument of add has the wrong type"),
    ("v: i64 = div(n, n): i64", "div does not take this dtype in kernel k: got i64, wanted floating"),
    ("v: f32 = and(1.0:f32, 1.0:f32): f32", "and does not take this dtype"),
    ("v: i64 = lt(n, n): i64", "lt gives another dtype in kernel k: got i64, wanted bool"),
    ("v: i64 = select(n, n, n): i64", "select does not take this dtype"),
    ("v: i64x4 = add(n, lane(): i64x4): i64x4", "an argument of add has the wrong lanes.* got 1, wanted 4"),
    ("v: i64 = reduce_add(lane(): i64x6): i64", "reduce_add halves a vector to a scalar"),
    ("v: i64x3 = even(lane(): i64x3, lane(): i64x3): i64x3", "even takes an even number of lanes"),
    ("v: i32 = bitcast(n): i32", "bitcast keeps the size"),
    ("v: i64 = exp(n): i64", "exp does not take this dtype"),
    ("v: i32 = 3000000000:i32", "a literal does not fit its dtype.* wanted a Python number of i32"),
    ("v: i64 = 1.0:i64", "a literal does not fit"),
]


@pytest.mark.parametrize("body, complaint", BAD_TEXT)
def test_faults_are_told_with_the_statement(body, complaint):
    with pytest.raises(ValueError, match=complaint) as caught:
        verify(text(body))
    assert body.splitlines()[-1].split("{")[-1].strip(" }") in str(caught.value)


@pytest.mark.parametrize("kernel, complaint", [
    (kernel_of(L.Let("v", L.Var(int64, 1, "gone"))), "this name is not bound here in kernel k: got gone"),
    (kernel_of(L.Let("v", L.Var(int32, 1, "n"))), "this use has the wrong type"),
    (kernel_of(L.Let("for", L.Var(int64, 1, "n"))), "this name cannot be printed in kernel k: got 'for'"),
    (kernel_of(L.Let("v", 3)), "this is no expression"),
    (kernel_of(L.Const(int64, 1, 3)), "this is no statement"),
    (kernel_of(L.Let("v", L.Load(float32, 1, "x", L.BEGIN, L.Const(bool_, 1, True)))), "come together"),
    (kernel_of(L.If(L.Const(bool_, 1, True), (L.Let("v", L.BEGIN),)), L.Let("w", L.Var(int64, 1, "v"))),
     "this name is not bound here in kernel k: got v"),
    (kernel_of(extent=L.END), "this name is not bound here in kernel k: got end"),
    (kernel_of(params=("begin",)), "the name begin is bound twice"),
    (kernel_of(buffers=(L.Buffer("x", float32, "read"),)), "access of buffer x is unknown"),
])
def test_faults_that_text_cannot_hold(kernel, complaint):
    with pytest.raises(ValueError, match=complaint):
        verify(kernel)


def test_known_functions_can_be_listed():
    kernel = text("v: f32 = expp(1.0:f32): f32")
    verify(kernel)
    with pytest.raises(ValueError, match="this operation is unknown in kernel k: got expp"):
        verify(kernel, functions={"exp"})
