"""The mathematical functions by name, as sequences of Loops operations.

`MATH[name](b, x)` emits, through the Builder `b`, what computes the function of the expression `x`
(float32 or float64, any number of lanes) and returns the result, an expression of the same dtype and
lanes. Two take two arguments: pow(x, y) and atan2(y, x). Every function is defined for every argument:
NaN, infinities, signed zeros and subnormal numbers, and is within 2 units in the last place in float32
and 4 in float64 (docs/accuracy.md has the measured figures). There are no tables in memory and no calls;
only sin, cos and tan branch, past a piece for huge arguments that is skipped when no lane needs it: so
vectorize first, then expand.

    >>> from flambeau.ir.loops import Builder, Const
    >>> from flambeau.types.dtype import float32
    >>> b = Builder()
    >>> MATH["exp"](b, b.declare(Const(float32, 16, 1.0))).lanes
    16
"""

from flambeau.compiler import math_exponential, math_gamma, math_hyperbolic, math_special, math_trigonometric

MATH = {
    "exp": math_exponential.exp,
    "exp2": math_exponential.exp2,
    "expm1": math_exponential.expm1,
    "log": math_exponential.log,
    "log2": math_exponential.log2,
    "log10": math_exponential.log10,
    "log1p": math_exponential.log1p,
    "tanh": math_hyperbolic.tanh,
    "sinh": math_hyperbolic.sinh,
    "cosh": math_hyperbolic.cosh,
    "sigmoid": math_hyperbolic.sigmoid,
    "asinh": math_hyperbolic.asinh,
    "acosh": math_hyperbolic.acosh,
    "atanh": math_hyperbolic.atanh,
    "sin": math_trigonometric.sin,
    "cos": math_trigonometric.cos,
    "tan": math_trigonometric.tan,
    "asin": math_trigonometric.asin,
    "acos": math_trigonometric.acos,
    "atan": math_trigonometric.atan,
    "atan2": math_trigonometric.atan2,
    "erf": math_special.erf,
    "erfc": math_special.erfc,
    "pow": math_special.pow,
    "cbrt": math_special.cbrt,
    "rsqrt": math_special.rsqrt,
}

# Of these, float32 is as accurate; float64 loses digits beside zeros and far out (tests/ops/test_special.py).
SPECIAL = {name: getattr(math_gamma, name)
           for name in ("lgamma", "digamma", "erfcx", "ndtr", "log_ndtr", "erfinv", "ndtri")}
SPECIAL |= {f"polygamma_{order}": math_gamma.polygamma(order) for order in range(1, 9)}
FUNCTIONS = MATH | SPECIAL
