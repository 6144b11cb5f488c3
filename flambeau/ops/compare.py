"""Comparisons, logic and bits. Results of comparisons and logic are bool; none of these has a derivative."""

import math

from flambeau.base.errors import DTypeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import EVERY, Binary, number, zero
from flambeau.ops.kinds import Elementwise
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.types.dtype import INTEGERS, bool_, int32, int64

numpy = LazyModule("numpy")


def whole_samples(count, low=-3, high=3):
    """`count` operands of whole numbers in [low, high]: equal pairs and zeros are common."""
    return lambda rng, shape: [rng.integers(low, high + 1, shape).astype(float) for _ in range(count)]


# ------------------------------------------------------------------------------ comparisons
class Comparison(Binary):
    """Compares two operands in their common dtype; the result is bool."""

    promotion = "compare"
    tensor_first = True
    differentiable = False
    dtypes = EVERY
    samples = whole_samples(2)


@op
class Eq(Comparison):
    """True where input equals other; NaN equals nothing."""

    def reference(input, other):
        return input == other

    def scalar(b, x, y):
        return b.eq(x, y)


@op
class Ne(Comparison):
    """True where input differs from other; NaN differs from everything."""

    alias_names = ("not_equal",)

    def reference(input, other):
        return input != other

    def scalar(b, x, y):
        return b.ne(x, y)


@op
class Lt(Comparison):
    """True where input is less than other."""

    alias_names = ("less",)

    def reference(input, other):
        return input < other

    def scalar(b, x, y):
        return b.lt(x, y)


@op
class Le(Comparison):
    """True where input is less than other or equal."""

    alias_names = ("less_equal",)

    def reference(input, other):
        return input <= other

    def scalar(b, x, y):
        return b.le(x, y)


@op
class Gt(Comparison):
    """True where input is greater than other."""

    alias_names = ("greater",)

    def reference(input, other):
        return input > other

    def scalar(b, x, y):
        return b.gt(x, y)


@op
class Ge(Comparison):
    """True where input is greater than other or equal."""

    alias_names = ("greater_equal",)

    def reference(input, other):
        return input >= other

    def scalar(b, x, y):
        return b.ge(x, y)


# ------------------------------------------------------------------------------ questions about one element
class Question(Elementwise):
    """A bool about each element."""

    promotion = "compare"
    differentiable = False
    numbers = False
    dtypes = EVERY
    samples = whole_samples(1)
    tolerance = ulps(0)


def false(b, x):
    """The constant False beside x."""
    return b.const(False, bool_, x.lanes)


@op
class Isnan(Question):
    """True where the element is NaN."""

    def reference(input):
        return numpy.isnan(input)

    def scalar(b, x):
        return b.ne(x, x) if x.dtype.kind == "f" else false(b, x)


@op
class Isinf(Question):
    """True where the element is an infinity of either sign."""

    def reference(input):
        return numpy.isinf(input)

    def scalar(b, x):
        return b.eq(b.abs(x), number(b, math.inf, x)) if x.dtype.kind == "f" else false(b, x)


@op
class Isfinite(Question):
    """True where the element is neither infinite nor NaN."""

    def reference(input):
        return numpy.isfinite(input)

    def scalar(b, x):
        if x.dtype.kind != "f":
            return b.const(True, bool_, x.lanes)
        return b.lt(b.abs(x), number(b, math.inf, x))


@op
class Signbit(Question):
    """True where the sign bit is set: below zero, also for -0.0."""

    def reference(input):
        return input < 0 if input.dtype.kind in "biu" else numpy.signbit(input)

    def scalar(b, x):
        if x.dtype.kind in "bu":
            return false(b, x)
        if x.dtype.kind == "f":
            x = b.bitcast(x, dtype=int32 if x.dtype.itemsize == 4 else int64)
        return b.lt(x, zero(b, x))


# ------------------------------------------------------------------------------ logic
class Logical(Binary):
    """Operands count as true where they are not zero; the result is bool."""

    promotion = "bool"
    differentiable = False
    dtypes = EVERY
    samples = whole_samples(2, -1, 1)


@op
class LogicalAnd(Logical):
    """True where both operands are not zero."""

    def reference(input, other):
        return numpy.logical_and(input, other)

    def scalar(b, x, y):
        return b.and_(x, y)


@op
class LogicalOr(Logical):
    """True where at least one operand is not zero."""

    def reference(input, other):
        return numpy.logical_or(input, other)

    def scalar(b, x, y):
        return b.or_(x, y)


@op
class LogicalXor(Logical):
    """True where exactly one operand is not zero."""

    def reference(input, other):
        return numpy.logical_xor(input, other)

    def scalar(b, x, y):
        return b.xor(x, y)


@op
class LogicalNot(Question):
    """True where the element is zero."""

    promotion = "bool"

    def reference(input):
        return numpy.logical_not(input)

    def scalar(b, x):
        return b.not_(x)


# ------------------------------------------------------------------------------ bits
def refuse_floating(name, bools=True):
    """A `check` statement: bits of floating point numbers are not combined."""
    def check(dtype):
        if dtype.kind == "f" or (dtype is bool_ and not bools):
            hint = "logical_and(), logical_or(), logical_not() compare with zero" if bools else "convert first: x.long()"
            fail(name, "bit operations are not defined for this dtype", dtype,
                 "a bool or integer dtype" if bools else "an integer dtype", hint=hint, kind=DTypeError)
    return check


class Bitwise(Binary):
    """Combines the bits of integers; bools as logic does."""

    differentiable = False
    dtypes = (bool_,) + INTEGERS
    samples = whole_samples(2, -100, 100)


@op
class BitwiseAnd(Bitwise):
    """Bits that are set in both operands."""

    check = refuse_floating("bitwise_and")

    def reference(input, other):
        return input & other

    def scalar(b, x, y):
        return b.and_(x, y)


@op
class BitwiseOr(Bitwise):
    """Bits that are set in at least one operand."""

    check = refuse_floating("bitwise_or")

    def reference(input, other):
        return input | other

    def scalar(b, x, y):
        return b.or_(x, y)


@op
class BitwiseXor(Bitwise):
    """Bits that are set in exactly one operand."""

    check = refuse_floating("bitwise_xor")

    def reference(input, other):
        return input ^ other

    def scalar(b, x, y):
        return b.xor(x, y)


@op
class BitwiseNot(Elementwise):
    """All bits turned over."""

    differentiable = False
    dtypes = (bool_,) + INTEGERS
    samples = whole_samples(1, -100, 100)
    tolerance = ulps(0)
    check = refuse_floating("bitwise_not")

    def reference(input):
        return ~input

    def scalar(b, x):
        return b.not_(x)


class Shift(Bitwise):
    """Moves bits; a count that is negative or as wide as the dtype moves all of them out."""

    dtypes = INTEGERS

    def samples(rng, shape):
        return [rng.integers(-100, 101, shape).astype(float), rng.integers(0, 8, shape).astype(float)]


@op
class BitwiseLeftShift(Shift):
    """input times 2 to the power other; bits that leave the dtype are lost."""

    check = refuse_floating("bitwise_left_shift", bools=False)

    def reference(input, other):
        return input << other

    def scalar(b, x, y):
        return b.shl(x, y)


@op
class BitwiseRightShift(Shift):
    """input divided by 2 to the power other, rounded down; the sign stays."""

    check = refuse_floating("bitwise_right_shift", bools=False)

    def reference(input, other):
        return input >> other

    def scalar(b, x, y):
        return b.shr(x, y)
