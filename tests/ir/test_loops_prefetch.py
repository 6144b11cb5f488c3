"""Prefetch: printed, parsed, checked and run without any effect."""

import numpy
import pytest

from flambeau.ir import loops_interpret, loops_text
from flambeau.ir.loops_verify import verify

TEXT = """kernel k(x: r f32*, y: w f32*; n: i64) extent n {
  for i in begin..end step 1 {
    prefetch x[add(i, 16:i64): i64]
    prefetch y[i] write
    v: f32 = x[i]: f32
    y[i] <- v
  }
}
"""


def test_round_trip_and_meaning():
    kernel = loops_text.parse(TEXT)
    assert loops_text.show(kernel) == TEXT
    verify(kernel)
    x, y = numpy.arange(5, dtype="float32"), numpy.zeros(5, "float32")
    loops_interpret.run(kernel, {"x": x, "y": y}, {"n": 5})
    assert (x == y).all()


def test_an_unknown_buffer_is_refused():
    with pytest.raises(Exception, match="z"):
        verify(loops_text.parse(TEXT.replace("prefetch x", "prefetch z")))
