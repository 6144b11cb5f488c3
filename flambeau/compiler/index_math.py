"""Index arithmetic that templates write: nested i64 expressions, folded where both sides are known."""

from flambeau.ir import loops as L
from flambeau.types.dtype import bool_, int32, int64, uint32


def index(name):
    """The Var of an i64 param or loop index."""
    return L.Var(int64, 1, name)


def add(*terms):
    """The sum of ints and index expressions."""
    total = L.as_index(0)
    for term in terms:
        total = L.add(total, term)
    return total


def mul(*factors):
    """The product of ints and index expressions."""
    product = L.as_index(1)
    for factor in factors:
        product = L.mul(product, factor)
    return product


def sub(a, b):
    if isinstance(b, int) or isinstance(b, L.Const) and b.lanes == 1:
        return L.add(a, -(b if isinstance(b, int) else b.value))
    return L.apply("sub", L.as_index(a), b)


def div(a, b):
    """a / b toward zero; 0 where b is 0."""
    a, b = L.as_index(a), L.as_index(b)
    if isinstance(b, L.Const) and b.value == 1:
        return a
    if isinstance(a, L.Const) and isinstance(b, L.Const) and b.value >= 0 and a.value >= 0:
        return L.as_index(a.value // b.value if b.value else 0)
    return L.apply("idiv", a, b)


def rem(a, b):
    a, b = L.as_index(a), L.as_index(b)
    if isinstance(b, L.Const) and b.value == 1:
        return L.as_index(0)
    if isinstance(a, L.Const) and isinstance(b, L.Const) and b.value > 0 and a.value >= 0:
        return L.as_index(a.value % b.value)
    return L.apply("irem", a, b)


def minimum(a, b):
    return _extreme("min", min, L.as_index(a), L.as_index(b))


def maximum(a, b):
    return _extreme("max", max, L.as_index(a), L.as_index(b))


def _extreme(op, choose, a, b):
    if isinstance(a, L.Const) and isinstance(b, L.Const) and a.lanes == b.lanes == 1:
        return L.as_index(choose(a.value, b.value))
    return L.apply(op, a, b)


def ceil_div(a, b):
    """a / b rounded up, for a >= 0 and b > 0."""
    b = L.as_index(b)
    return div(L.add(a, b.value - 1) if isinstance(b, L.Const) else sub(L.add(a, b), 1), b)


def round_up(a, multiple):
    """The first multiple of the int `multiple` from `a` on."""
    return mul(ceil_div(a, multiple), multiple)


def first_of(index, step):
    """The scalar index of lane 0 if the lanes of the vector `index` are `step` apart, else None."""
    if not isinstance(index, L.Apply) or index.op != "add":
        return None
    first, offsets = index.args
    if not (isinstance(offsets, L.Apply) and offsets.op == "mul"):
        return None
    lane, factor = offsets.args
    if not (isinstance(lane, L.Apply) and lane.op == "lane" and isinstance(factor, L.Const) and factor.value == step):
        return None
    if isinstance(first, L.Const):
        return L.as_index(first.value)
    return first.args[0] if isinstance(first, L.Apply) and first.op == "splat" else None


def lanes_below(limit, lanes):
    """The mask of the lanes whose number is below the index `limit`."""
    if lanes == 1:
        return L.apply("lt", L.as_index(0), limit)
    numbers = L.Apply(int32, lanes, "lane", ())
    small = L.apply("cast", maximum(minimum(limit, lanes), 0), dtype=int32)
    return L.apply("lt", numbers, small)


def all_lanes(lanes):
    return L.Const(bool_, lanes, True)


def within(value, size):
    """True where 0 <= value < size, in one comparison; both are i32, `size` perhaps scalar."""
    unsigned = [L.apply("cast", v, dtype=uint32) for v in (value, size)]
    return L.apply("lt", unsigned[0], unsigned[1])
