"""Filling a template: names stay apart, statements land in place, results are checked."""

import numpy
import pytest

from flambeau.ir import loops as L
from flambeau.ir.loops_interpret import run
from flambeau.ir.loops_text import parse, show
from flambeau.ir.loops_verify import verify
from flambeau.ir.splice import fill, splices
from flambeau.types.dtype import float32, int64

TEMPLATE = """
kernel rows(x: r f32*; n: i64) extent n {
  local t: f32[4]
  for i in begin..end step 1 {  # net.py:4
    var r1: f32x4 = 0.0:f32x4
    for k in 0:i64..n step 4 {
      r1 := add(r1, splice input(add(mul(i, n): i64, k): i64): f32x4): f32x4  # net.py:5
    }
    splice output(i, reduce_add(r1): f32)  # net.py:6
  }
}
"""


def scaled_input(b, index, lanes):
    factor = b.load("scale", L.as_index(0), float32)
    return b.mul(b.load("x", index, float32, lanes=lanes), factor)


def counted_output(b, row, total):
    """Stores the total three times, with names that the template has too."""
    name = b.local("t", float32, 3)
    with b.loop("i", 0, 3) as copy:
        b.store(name, copy, total)
    saved = b.declare(b.load(name, L.as_index(2), float32), "r1")
    b.store("out", row, saved)


EXTRA = (L.Buffer("scale", float32, "r"), L.Buffer("out", float32, "w"))


def test_a_filled_template_runs_and_its_names_stay_apart():
    template = parse(TEMPLATE)
    assert splices(template) == ({"input"}, {"output"})
    kernel = fill(template, {"input": scaled_input}, {"output": counted_output}, buffers=EXTRA,
                  notes=(("why", "test"),))
    assert splices(verify(kernel)) == (set(), set()) and show(parse(show(kernel))) == show(kernel)
    x, out = numpy.arange(16, dtype="f4"), numpy.zeros(4, "f4")
    run(kernel, {"x": x, "scale": numpy.array([2], "f4"), "out": out}, {"n": 4})
    assert out.tolist() == (2 * x.reshape(4, 4).sum(1)).tolist()
    assert kernel.notes == (("why", "test"),)
    assert "x[add(mul(i, n): i64, k): i64]" in show(kernel)


def test_statements_stand_before_the_use_and_keep_the_source():
    kernel = fill(parse(TEMPLATE), {"input": scaled_input}, buffers=EXTRA)
    inner = kernel.body[1].body[1].body
    assert [type(s).__name__ for s in inner] == ["Let", "Let", "Let", "Assign"]
    assert {s.source for s in inner} == {("net.py", 5)}
    assert splices(kernel) == (set(), {"output"})
    verify(kernel, allow_splices=True)


def test_unchanged_statements_are_the_same_objects():
    template = parse(TEMPLATE)
    kernel = fill(template, stores={"output": counted_output}, buffers=EXTRA)
    assert kernel.body[-1].body[0] is template.body[1].body[0]


@pytest.mark.parametrize("loads, buffers, complaint", [
    ({"inputs": scaled_input}, EXTRA, r"no splice to load named inputs in kernel rows: wanted .*'input'"),
    ({"input": lambda b, index, lanes: b.const(1.0, float32)}, (),
     r"the load input was filled .* got 1.0:f32 of type f32, wanted f32x4(.|\n)*net.py:5"),
    ({"input": lambda b, index, lanes: None}, (), "got None, wanted f32x4"),
    ({"input": scaled_input}, (L.Buffer("k", float32, "r"),), "the added name k is taken"),
])
def test_faults(loads, buffers, complaint):
    with pytest.raises(ValueError, match=complaint):
        fill(parse(TEMPLATE), loads, buffers=buffers)


def test_index_arguments_stay_expressions_and_values_get_names():
    seen = []

    def zeros(b, index, lanes):
        seen.append(index)
        return b.const(0.0, float32, lanes)
    fill(parse(TEMPLATE), {"input": zeros}, {"output": lambda b, row, total: seen.append(total)})
    assert isinstance(seen[0], L.Apply) and seen[0].dtype is int64
    assert isinstance(seen[1], L.Var) and seen[1].dtype is float32
