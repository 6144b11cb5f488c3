"""Elementwise ops. A further one is one class here: body, derivative and NumPy reference."""

from flambeau.base.errors import DTypeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ir.loops import Const
from flambeau.ops.kinds import Elementwise
from flambeau.ops.samples import binary_samples, positive_samples, ulps, unary_samples
from flambeau.ops.spec import REGISTRY, op
from flambeau.types.dtype import FLOATING, INTEGERS, bool_, int64

numpy = LazyModule("numpy")
NUMBERS = INTEGERS + FLOATING
EVERY = (bool_,) + NUMBERS


def one(b, x):
    """The constant 1 beside x."""
    return b.const(1.0 if x.dtype.kind == "f" else 1, x.dtype, x.lanes)


def zero(b, x):
    """The constant 0 beside x."""
    return b.const(0.0 if x.dtype.kind == "f" else 0, x.dtype, x.lanes)


def number(b, value, x):
    """A constant beside x."""
    return b.const(float(value) if x.dtype.kind == "f" else int(value), x.dtype, x.lanes)


class Unary(Elementwise):
    """A floating point function of one operand."""

    promotion = "float"
    dtypes = FLOATING
    samples = unary_samples()
    tolerance = ulps(4)


class Binary(Elementwise):
    """An op on two operands that promote together."""

    signature = "input, other"
    operands = ("input", "other")
    dtypes = NUMBERS
    samples = binary_samples()
    tolerance = ulps(0)


# ------------------------------------------------------------------------------ arithmetic
class Scaled(Binary):
    """input op alpha * other: another alpha than 1 is an operand of `add_scaled`, so it costs no kernel of its own."""

    signature = "input, other, *, alpha=1"
    sign = 1

    def types(self, inputs, attrs):
        return Elementwise.types(self, inputs, {})

    def eager(self, values):
        alpha = values["alpha"]
        if alpha == 1:
            return Elementwise.eager(self, values)
        return add_scaled(values["input"], values["other"], self.factor(alpha))     # noqa: F821

    def into(self, values, target):
        if values["alpha"] == 1:
            return Elementwise.into(self, values, target)
        scaled = REGISTRY["add_scaled"]
        given = {"input": values["input"], "other": values["other"], "alpha": self.factor(values["alpha"])}
        return scaled.into(scaled.prepare(given), target)

    def factor(self, alpha):
        """What the other operand is multiplied by before it is added."""
        if self.sign < 0:
            return -alpha
        return 1 if alpha is True else alpha

    def trace(self, tracer, values):
        if values["alpha"] == 1:
            return Elementwise.trace(self, tracer, values)
        return add_scaled(values["input"], values["other"], self.sign * values["alpha"])     # noqa: F821


@op
class Add(Scaled):
    """input + alpha * other. Bools combine by or."""

    dtypes = EVERY

    def reference(input, other, alpha=1):
        return input | other if input.dtype == bool and other.dtype == bool else input + alpha * other

    def scalar(b, x, y, alpha=1):
        return b.or_(x, y) if x.dtype is bool_ else b.add(x, y)

    def derivative(grad, x, y):
        return grad, grad


@op
class Sub(Scaled):
    """input - alpha * other."""

    sign = -1
    alias_names = ("subtract",)

    def check(dtype):
        if dtype is bool_:
            fail("sub", "subtraction of bool tensors is not supported", hint="use the ^ operator or logical_xor()")

    def reference(input, other, alpha=1):
        return input - alpha * other

    def scalar(b, x, y, alpha=1):
        return b.sub(x, y)

    def derivative(grad, x, y):
        return grad, -grad


@op
class AddScaled(Elementwise):
    """input + alpha * other."""

    internal = True
    signature = "input, other, alpha"
    operands = ("input", "other", "alpha")
    dtypes = NUMBERS
    tolerance = ("ulps", 4, 4.0)

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape) for _ in range(3)]

    def reference(input, other, alpha):
        return input + alpha * other

    def scalar(b, x, y, a):
        return b.or_(x, b.and_(y, a)) if x.dtype is bool_ else b.add(x, b.mul(y, a))

    def derivative(grad, x, y, a):
        return grad, grad * a, grad * y


@op
class Rsub(Scaled):
    """other - alpha * input."""

    def eager(self, values):
        return sub(values["other"], values["input"], alpha=values["alpha"])         # noqa: F821

    def trace(self, tracer, values):
        return sub(values["other"], values["input"], alpha=values["alpha"])         # noqa: F821

    def reference(input, other, alpha=1):
        return other - alpha * input

    def scalar(b, x, y, alpha=1):
        return b.sub(y, x)

    def derivative(grad, x, y):
        return -grad, grad


@op
class Mul(Binary):
    """input * other. Bools combine by and."""

    dtypes = EVERY
    alias_names = ("multiply",)

    def reference(input, other):
        return input * other

    def scalar(b, x, y):
        return b.and_(x, y) if x.dtype is bool_ else b.mul(x, y)

    def derivative(grad, x, y):
        return grad * y, grad * x


@op
class Scale(Binary):
    """grad * factor, but zero where grad is zero even if factor is infinite or NaN: the product of derivatives."""

    internal = True
    dtypes = FLOATING

    def reference(input, other):
        with numpy.errstate(all="ignore"):
            return numpy.where(input == 0, numpy.zeros_like(input * other), input * other)

    def scalar(b, g, f):
        return b.select(b.eq(g, zero(b, g)), zero(b, g), b.mul(g, f))

    def derivative(grad, g, f):
        return grad * f, grad * g


@op
class Div(Binary):
    """input / other (true division); rounding_mode 'floor' or 'trunc' rounds the quotient."""

    signature = "input, other, *, rounding_mode=None"
    promotion = "float"
    alias_names = ("divide", "true_divide")
    dtypes = FLOATING
    divisor = 1
    samples = binary_samples(away_from_zero=True)

    def types(self, inputs, attrs):
        if attrs.get("rounding_mode") is None:
            return Elementwise.types(self, inputs, attrs)
        return REGISTRY["floor_divide"].types(inputs, attrs)

    def reference(input, other, rounding_mode=None):
        quotient = input / other
        return {"floor": numpy.floor, "trunc": numpy.trunc, None: lambda q: q}[rounding_mode](quotient)

    def scalar(b, x, y, rounding_mode=None):
        if rounding_mode == "floor":
            return floor_quotient(b, x, y)
        if x.dtype.kind != "f":
            return b.idiv(x, y)
        quotient = b.div(x, y)
        return b.trunc(quotient) if rounding_mode == "trunc" else quotient

    def derivative(grad, x, y, *, rounding_mode):
        if rounding_mode is not None:
            return grad * 0, grad * 0
        return grad / y, -(grad * (x / (y * y)))


def floor_quotient(b, x, y):
    """Division rounded toward minus infinity; x / 0 is 0 for integers."""
    if x.dtype.kind == "f":
        return b.floor(b.div(x, y))
    quotient = b.idiv(x, y)
    if x.dtype.kind == "u":
        return quotient
    inexact = b.ne(b.mul(quotient, y), x)
    opposite = b.xor(b.lt(x, zero(b, x)), b.lt(y, zero(b, y)))
    adjust = b.and_(b.and_(inexact, opposite), b.ne(y, zero(b, y)))
    return b.select(adjust, b.sub(quotient, one(b, x)), quotient)


def no_bools(name):
    """A `check` statement that refuses bools, which have no quotients."""
    def check(dtype):
        if dtype.kind == "b":
            fail(name, f'"{name}" not implemented for bools', dtype, hint="x.int() converts", kind=DTypeError)
    return check


@op
class FloorDivide(Binary):
    """The quotient rounded toward minus infinity, in the promoted dtype."""

    divisor = 1
    check = no_bools("floor_divide")
    samples = binary_samples(away_from_zero=True)

    def reference(input, other):
        return numpy.floor(input / other) if input.dtype.kind == "f" else input // other

    def scalar(b, x, y):
        return floor_quotient(b, x, y)

    def derivative(grad, x, y):
        return grad * 0, grad * 0


@op
class Remainder(Binary):
    """input - floor(input / other) * other: the sign of the divisor."""

    divisor = 1
    check = no_bools("remainder")
    samples = binary_samples(away_from_zero=True)
    tolerance = ulps(16)

    def reference(input, other):
        return numpy.mod(input, other)

    def scalar(b, x, y):
        if x.dtype.kind != "f":
            rest = b.irem(x, y)
            if x.dtype.kind == "u":
                return rest
            wrong = b.and_(b.ne(rest, zero(b, x)), b.xor(b.lt(rest, zero(b, x)), b.lt(y, zero(b, y))))
            return b.select(wrong, b.add(rest, y), rest)
        whole = b.trunc(b.div(x, y))
        rest = b.select(b.eq(whole, zero(b, x)), x, b.fma(b.neg(whole), y, x))
        wrong = b.and_(b.ne(rest, zero(b, x)), b.xor(b.lt(rest, zero(b, x)), b.lt(y, zero(b, y))))
        return b.select(wrong, b.add(rest, y), rest)

    def derivative(grad, x, y):
        return grad, -(grad * floor_divide(x, y))    # noqa: F821 - put here by @op


@op
class Pow(Binary):
    """input to the power other; an integer to a negative power is 0 (1 and -1 aside)."""

    signature = "input, exponent"
    operands = ("input", "exponent")
    samples = positive_samples(2)
    tolerance = ulps(16)

    def reference(input, exponent):
        return numpy.power(input, exponent)

    def scalar(b, x, y):
        if x.dtype.kind != "f":
            return integer_power(b, x, y)
        products = {1: x, 2: b.mul(x, x), 3: b.mul(b.mul(x, x), x)}     # as powers.py has them
        if isinstance(y, Const) and y.value in products:
            return products[y.value]
        power = b.call("pow", x, y)
        for exponent, product in products.items():
            power = b.select(b.eq(y, number(b, exponent, x)), product, power)
        return power

    def derivative(grad, out, x, y):
        from flambeau.ops.mathematics import log
        base = where(y == 0, 0.0, y * pow(x, y - 1))             # noqa: F821
        return grad * base, grad * where((x == 0) & (y >= 0), 0.0, out * log(x))     # noqa: F821


def integer_power(b, x, y):
    """Square and multiply over the bits of the exponent; negative exponents give 1 / x rounded to zero."""
    if x.dtype.kind == "b":
        return b.select(y, x, one(b, x))
    result, base, rest = one(b, x), x, y
    for _ in range(min(16, 8 * x.dtype.itemsize)):
        odd = b.ne(b.and_(rest, one(b, x)), zero(b, x))
        result = b.select(odd, b.mul(result, base), result)
        base, rest = b.mul(base, base), b.shr(rest, one(b, x))
    if x.dtype.kind == "u":
        return result
    minus_one = b.select(b.ne(b.and_(y, one(b, x)), zero(b, x)), number(b, -1, x), one(b, x))
    inverse = b.select(b.eq(x, one(b, x)), one(b, x), b.select(b.eq(x, number(b, -1, x)), minus_one, zero(b, x)))
    return b.select(b.lt(y, zero(b, x)), inverse, result)


@op
class Maximum(Binary):
    """The larger of the two; NaN if either is NaN. Ties share the gradient equally."""

    dtypes = EVERY

    def reference(input, other):
        return numpy.maximum(input, other)

    def scalar(b, x, y):
        return b.or_(x, y) if x.dtype is bool_ else b.max(x, y)

    def derivative(grad, x, y):
        tie = where(x == y, 0.5, 1.0)               # noqa: F821
        return grad * where(x >= y, tie, 0.0), grad * where(y >= x, tie, 0.0)        # noqa: F821


@op
class Minimum(Binary):
    """The smaller of the two; NaN if either is NaN. Ties share the gradient equally."""

    dtypes = EVERY

    def reference(input, other):
        return numpy.minimum(input, other)

    def scalar(b, x, y):
        return b.and_(x, y) if x.dtype is bool_ else b.min(x, y)

    def derivative(grad, x, y):
        tie = where(x == y, 0.5, 1.0)               # noqa: F821
        return grad * where(x <= y, tie, 0.0), grad * where(y <= x, tie, 0.0)        # noqa: F821


# ------------------------------------------------------------------------------ one operand, any number
class Simple(Elementwise):
    """One operand, result in the same dtype."""

    dtypes = NUMBERS
    samples = unary_samples()
    tolerance = ulps(0)


@op
class Neg(Simple):
    """-input."""

    alias_names = ("negative",)

    def check(dtype):
        if dtype is bool_:
            fail("neg", "negation of a bool tensor is not supported", hint="use the ~ operator or logical_not()")

    def reference(input):
        return -input

    def scalar(b, x):
        return b.neg(x)

    def derivative(grad, x):
        return -grad


@op
class Abs(Simple):
    """Absolute value."""

    alias_names = ("absolute",)

    def reference(input):
        return numpy.abs(input)

    def scalar(b, x):
        return x if x.dtype.kind in "bu" else b.abs(x)

    def derivative(grad, x):
        return grad * sign(x)       # noqa: F821


@op
class Sign(Simple):
    """-1, 0 or 1 by the sign of the element; 0 for NaN."""

    def reference(input):
        return numpy.where(input == input, numpy.sign(input), 0).astype(input.dtype)

    def scalar(b, x):
        if x.dtype is bool_:
            return x
        positive = b.select(b.gt(x, zero(b, x)), one(b, x), zero(b, x))
        if x.dtype.kind == "u":
            return positive
        return b.select(b.lt(x, zero(b, x)), number(b, -1, x), positive)

    def derivative(grad, x):
        return grad * 0


@op
class Square(Simple):
    """input * input; bools count as integers."""

    def types(self, inputs, attrs):
        inner, result = Simple.types(self, inputs, attrs)
        return ([int64], int64) if result is bool_ else (inner, result)

    def reference(input):
        return input * input

    def scalar(b, x):
        return b.mul(x, x)

    def derivative(grad, x):
        return grad * (x * 2)


@op
class Relu(Simple):
    """max(input, 0); NaN stays."""

    def reference(input):
        return numpy.maximum(input, 0).astype(input.dtype)

    def scalar(b, x):
        return x if x.dtype.kind in "bu" else b.max(x, zero(b, x))

    def derivative(grad, out, x):
        return grad * (out > 0)


# ------------------------------------------------------------------------------ dtype, copies, choice
@op
class Cast(Elementwise):
    """The same values in another dtype (Tensor.to)."""

    internal = True
    signature = "input, dtype"
    dtypes = EVERY
    samples = unary_samples(0, 100)
    tolerance = ulps(0)

    def attributes_optional(self):
        return False

    def native_arity(self):
        return 0

    def types(self, inputs, attrs):
        return [inputs[0].dtype], attrs["dtype"]

    def reference(input, dtype):
        return input.astype("float32" if dtype.name == "bfloat16" else dtype.numpy)

    def scalar(b, x, dtype=None):
        return x

    def derivative(grad, x, *, dtype):
        return cast(grad, x.dtype)      # noqa: F821


@op
class Copy(Elementwise):
    """A copy of the operand in new memory."""

    internal = True
    dtypes = EVERY
    samples = unary_samples()
    tolerance = ulps(0)
    numbers = False

    def types(self, inputs, attrs):
        return [inputs[0].dtype], inputs[0].dtype

    def reference(input):
        return input.copy()

    def scalar(b, x):
        return x

    def derivative(grad, x):
        return grad


@op
class Where(Elementwise):
    """input where condition is true, else other."""

    signature = "condition, input, other"
    operands = ("condition", "input", "other")
    unpromoted = 1
    numbers_fit = True
    dtypes = EVERY
    tolerance = ulps(0)

    def samples(rng, shape):
        return [rng.uniform(-1, 1, shape) > 0, rng.uniform(-3, 3, shape), rng.uniform(-3, 3, shape)]

    def reference(condition, input, other):
        return numpy.where(condition, input, other)

    def scalar(b, c, x, y):
        return b.select(c, x, y)

    def derivative(grad, c, x, y):
        return None, where(c, grad, 0.0), where(c, 0.0, grad)       # noqa: F821


@op
class FullLike(Elementwise):
    """A constant in the shape of the operand."""

    internal = True
    signature = "input, fill_value"
    dtypes = EVERY
    differentiable = False
    numbers = False
    tolerance = ulps(0)
    samples = unary_samples()

    def native_arity(self):
        return 0

    def attributes_optional(self):
        return False

    def types(self, inputs, attrs):
        return [inputs[0].dtype], inputs[0].dtype

    def reference(input, fill_value=1):
        return numpy.full_like(input, fill_value)

    def scalar(b, x, fill_value=None):
        if x.dtype is bool_:
            return b.const(bool(fill_value), x.dtype, x.lanes)
        if x.dtype.kind == "f":
            from flambeau.ops.kinds import compute_dtype
            return b.const(float(fill_value), compute_dtype(x.dtype), x.lanes)
        return number(b, fill_value, x)
