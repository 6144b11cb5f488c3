"""Loops: text to kernel and back."""

import math
import struct

import pytest

from flambeau.ir import loops as L
from flambeau.ir.loops_text import parse, show
from flambeau.types.dtype import float32, float64, int64

ALL_FORMS = '''\
kernel everything(x: r f32*, y: rw bf16*, out: w f32*; n: i64, m: i64) extent add(n, 1:i64): i64 {
  note "fusion" "stops at \\"softmax\\": two readers"
  local tile: f32[64]
  for i in begin..end step 1 {  # model.py:12
    var r1: f32x8 = 0.0:f32x8
    v0.n: i64x8 = splat(n): i64x8
    for k in 0:i64..m step 8 unroll {
      v1: f32x8 = x[add(mul(i, m): i64, k): i64]: f32x8 where lt(v0.n, lane(): i64x8): boolx8 else -0.5:f32x8
      r1 := fma(v1, v1, r1): f32x8  # C:/my models/net.py:7
    }
    v2: f32 = reduce_add(r1): f32
    if gt(v2, 0.0:f32): bool {
      tile[0:i64] <- v2
    } else {
      tile[0:i64] <- exp(neg(v2): f32): f32
      splice epilogue(i, v2)  # model.py:3
    }
    v3: f32 = splice prologue(i): f32
    out[i] <- (x[i]: f32) where y[i]: bf16
  }
  for j in 0:i64..n step 1 vector {
  }
}
'''


def test_every_form_prints_as_it_was_read():
    assert show(parse(ALL_FORMS)) == ALL_FORMS


def same(a, b):
    """Structural equality, types and values of every field included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if hasattr(a, "__dataclass_fields__") and type(a).__module__ == L.__name__:
        return all(same(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__)
    return a is b or a == b


def odd_nan(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def test_values_and_sources_survive():
    values = [0.0, -0.0, 0.1, 1e-45, -1e300, 5e-324, math.inf, -math.inf, math.nan,
              odd_nan(0xFFF8000000000001), 3]
    body = tuple(L.Let(f"v{n}", L.Const(float64, 4, v), ("a b.py", n)) for n, v in enumerate(values))
    body += (L.Let("flag", L.Const(parse_type("bool"), 1, True)), L.Let("least", L.Const(int64, 1, -2 ** 63)))
    kernel = L.Kernel("k", (), (), L.Const(int64, 1, 5), body, (("why", "a\nb"),))
    assert same(parse(show(kernel)), kernel)


def parse_type(short):
    from flambeau.types.dtype import by_name
    return by_name(short)


def test_a_masked_store_of_a_load_keeps_its_mask():
    for load_mask in (None, L.Const(parse_type("bool"), 1, True)):
        other = None if load_mask is None else L.Const(float32, 1, 0.0)
        inner = L.Load(float32, 1, "x", L.BEGIN, load_mask, other)
        store = L.Store("x", L.BEGIN, inner, L.Const(parse_type("bool"), 1, False))
        kernel = L.Kernel("k", (L.Buffer("x", float32, "rw"),), (), L.END, (store,))
        assert same(parse(show(kernel)), kernel)


def test_dotted_names_and_ranges_do_not_mix():
    kernel = parse("kernel k(; n.0: i64) extent n.0 { for a.b in begin..n.0 step 2 { v: i64 = a.b } }")
    loop = kernel.body[0]
    assert (loop.index, loop.stop.name, loop.step) == ("a.b", "n.0", 2)


def test_free_comments_are_skipped():
    kernel = parse("kernel k(;) extent 1:i64 {  # k.py:1\n  # word: 12\n  v: i64 = begin  # why\n}  # k.py:9")
    assert len(kernel.body) == 1 and kernel.body[0].source is None


@pytest.mark.parametrize("body, complaint", [
    ("v: f32 = y", "line 2 of the kernel: got y, wanted a name that is bound here"),
    ("v: f32 = begin", "line 2 of the kernel: got f32, wanted the type of the value, i64"),
    ("v: f33 = begin", "got f33, wanted a type"),
    ("v = begin", "got =, wanted ':'"),
    ("v: i64 = begin ?", "line 2 of the kernel: got '\\?'"),
    ("for i in begin..end step 1 { }\nv: i64 = i", "line 3 of the kernel: got i, wanted a name"),
    ("if true:bool {", "got the end, wanted a name"),
])
def test_errors_tell_the_line(body, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse("kernel k(;) extent 1:i64 {\n" + body + "\n}")
