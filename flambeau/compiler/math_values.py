"""Arithmetic notation for functions that emit Loops operations: `a * b + 1` for b.add(b.mul(a, b), one).

A Value is an expression with its Builder. Operators emit one operation each, never a contraction: a fused
multiply-add is written `fma(a, b, c)`. Python numbers beside a Value become constants of its dtype and lanes.
"""

import struct
from dataclasses import dataclass
from fractions import Fraction

from flambeau.types.dtype import float32, float64, int32, int64


@dataclass(frozen=True)
class Format:
    """The binary layout of a floating point dtype, as far as the functions need it."""

    digits: int         # bits of the mantissa that are stored
    bias: int           # of the exponent
    tiniest: float      # smallest normal number
    integer: object     # dtype of the same size

    @property
    def shifter(self):
        """x + shifter rounds x to an integer that then stands in the low bits; an even number of halves."""
        return 1.5 * 2.0 ** self.digits

    @property
    def one(self):
        """The bits of 1.0."""
        return self.bias << self.digits


FORMATS = {float32: Format(23, 127, 2.0 ** -126, int32), float64: Format(52, 1023, 2.0 ** -1022, int64)}


class Value:
    """An expression and the Builder that emits what is done with it."""

    __slots__ = ("b", "e")
    __hash__ = None

    def __init__(self, b, e):
        self.b, self.e = b, e

    @property
    def dtype(self):
        return self.e.dtype

    @property
    def lanes(self):
        return self.e.lanes

    @property
    def format(self):
        return FORMATS[self.e.dtype]

    def constant(self, number):
        """`number` in this value's dtype and lanes."""
        return Value(self.b, self.b.const(number, self.dtype, self.lanes))

    def like(self, other):
        return other if isinstance(other, Value) else self.constant(other)

    def apply(self, op, *others, **how):
        return Value(self.b, self.b.call(op, self.e, *(self.like(o).e for o in others), **how))

    def __add__(self, other):
        return self.apply("add", other)

    def __radd__(self, other):
        return self.like(other).apply("add", self)

    def __sub__(self, other):
        return self.apply("sub", other)

    def __rsub__(self, other):
        return self.like(other).apply("sub", self)

    def __mul__(self, other):
        return self.apply("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self.apply("div", other)

    def __rtruediv__(self, other):
        return self.like(other).apply("div", self)

    def __neg__(self):
        return self.apply("neg")

    def __abs__(self):
        return self.apply("abs")

    def __and__(self, other):
        return self.apply("and", other)

    def __or__(self, other):
        return self.apply("or", other)

    def __xor__(self, other):
        return self.apply("xor", other)

    def __invert__(self):
        return self.apply("not")

    def __lshift__(self, other):
        return self.apply("shl", other)

    def __rshift__(self, other):
        return self.apply("shr", other)

    def __lt__(self, other):
        return self.apply("lt", other)

    def __le__(self, other):
        return self.apply("le", other)

    def __gt__(self, other):
        return self.apply("gt", other)

    def __ge__(self, other):
        return self.apply("ge", other)

    def __eq__(self, other):
        return self.apply("eq", other)

    def __ne__(self, other):
        return self.apply("ne", other)

    def cast(self, dtype):
        return Value(self.b, self.b.cast(self.e, dtype))

    def bits(self):
        """A floating value's bits as a signed integer of the same size."""
        return self.apply("bitcast", dtype=self.format.integer)

    def floating(self, dtype):
        """Integer bits as a floating value."""
        return self.apply("bitcast", dtype=dtype)


def fma(a, b, c):
    """a * b + c, rounded once."""
    first = next(v for v in (a, b, c) if isinstance(v, Value))
    return first.like(a).apply("fma", first.like(b), first.like(c))


def select(condition, a, b):
    """`a` where `condition` holds, else `b` (one of them may be a number)."""
    first = a if isinstance(a, Value) else b
    return condition.apply("select", first.like(a), first.like(b))


def at_most(x, limit):
    """min(x, limit), NaN kept: one instruction."""
    return select(x > limit, limit, x)


def at_least(x, limit):
    """max(x, limit), NaN kept: one instruction."""
    return select(x < limit, limit, x)


def sqrt(x):
    return x.apply("sqrt")


def copysign(magnitude, sign):
    return magnitude.apply("copysign", sign)


def polynomial(x, coefficients):
    """The polynomial with `coefficients` (numbers or Values), lowest power first: one fma for all but one.

    Long ones are split into even and odd powers, down to SHORT coefficients a chain: the processor waits for
    chains of dependent operations, not for their number."""
    if len(coefficients) > SHORT:
        square = x * x
        return fma(x, polynomial(square, coefficients[1::2]), polynomial(square, coefficients[::2]))
    result = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result


SHORT = 6


def any_lane(condition):
    """A scalar bool: true if any lane of `condition` is."""
    return condition.apply("reduce_or") if condition.lanes > 1 else condition


def parts(number, dtype, count):
    """`number`, written in decimal, as a sum of `count` floats, each the nearest of what is left."""
    rest, result = Fraction(number), []
    for _ in range(count):
        part = float(rest)
        if dtype is float32:
            part = struct.unpack("f", struct.pack("f", part))[0]
        result.append(part)
        rest -= Fraction(part)
    return result


def function(define):
    """Make `define(x, ...)` on Values a function (b, x, ...) on a Builder's expressions."""
    def emit(b, *args):
        return define(*(Value(b, x) for x in args)).e
    emit.__name__, emit.__doc__, emit.on_values = define.__name__, define.__doc__, define
    return emit


def through_float64(define):
    """Let a float32 argument be computed in float64 and rounded at the end."""
    def widened(*args):
        if args[0].dtype is float64:
            return define(*args)
        return define(*(x.cast(float64) for x in args)).cast(float32)
    widened.__name__, widened.__doc__ = define.__name__, define.__doc__
    return widened


PI = "3.14159265358979323846264338327950288419716939937510582097494459230781640628620"
LN2 = "0.693147180559945309417232121458176568075500134360255254120680009493393621969694"
LOG2_E = "1.44269504088896340735992468100189213742664595415298593413544940693110921918118"
LOG10_E = "0.434294481903251827651128918916605082294397005803666566114453783165864649208870"
LOG10_2 = "0.301029995663981195213738894724493026768189881462108541310427461127108189274244"
