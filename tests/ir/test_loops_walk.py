"""Walking over Loops reaches every part, and mapping keeps what does not change."""

from flambeau.ir import loops as L
from flambeau.ir import loops_walk as walk
from flambeau.ir.loops_text import parse, show

TEXT = """\
kernel k(x: rw f32*; n: i64) extent n {
  for i in begin..n step 1 {
    if lt(i, 1:i64): bool {
      v: f32 = x[2:i64]: f32 where lt(i, 3:i64): bool else 4.0:f32
    } else {
      var r: f32 = splice a(5:i64): f32
      r := 6.0:f32
      x[7:i64] <- r where lt(i, 8:i64): bool
      splice b(9:i64)
    }
  }
}
"""


def test_every_expression_and_name_is_found():
    kernel = parse(TEXT)
    literals = [e.value for e in walk.expressions(kernel.body) if isinstance(e, L.Const)]
    assert literals == [1, 2, 3, 4.0, 5, 6.0, 7, 8, 9]
    assert walk.kernel_names(kernel) == {"x", "n", "begin", "end", "i", "v", "r"}
    assert not any(name.startswith(walk.unused_prefix(kernel, "r")) for name in walk.kernel_names(kernel))


def rebuilt(kernel, change):
    def expr(e):
        return change(walk.map_parts(e, expr))

    def block(body):
        return tuple(walk.map_blocks(walk.map_parts(s, expr), block) for s in body)
    return block(kernel.body)


def test_mapping_changes_all_of_what_it_is_asked_and_nothing_else():
    kernel = parse(TEXT)
    assert all(a is b for a, b in zip(rebuilt(kernel, lambda e: e), kernel.body))
    doubled = rebuilt(kernel, lambda e: L.Const(e.dtype, 1, 2 * e.value) if isinstance(e, L.Const) else e)
    values = [e.value for e in walk.expressions(doubled) if isinstance(e, L.Const)]
    assert values == [2, 4, 6, 8.0, 10, 12.0, 14, 16, 18] and show(kernel) == TEXT
