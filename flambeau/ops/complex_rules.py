"""What each elementwise op means on complex numbers: its formula on Pairs, by the op's name."""

import math

from flambeau.ops import complex_pair as pair
from flambeau.ops.compare import isfinite, logical_and, logical_or, logical_xor
from flambeau.ops.complex_kernels import Complex, Formula, apply_formula, conjugate, join, parts, refuse
from flambeau.ops.elementwise import add, copy, neg, sub
from flambeau.ops.spec import REGISTRY
from flambeau.runtime._core import Tensor


# --------------------------------------------------------------------- derivatives that are not the real op's
def _abs_gradient(grad, out, inputs, attrs):
    return [REGISTRY["mul"].function(sgn(inputs[0]), grad)]


def _angle_gradient(grad, out, inputs, attrs):
    """The angle of x + i y grows by (x dy - y dx) / |z|^2."""
    from flambeau.ops.elementwise import where
    size = magnitude(inputs[0])
    safe = where(size == 0, 1.0, size)
    return [sgn(inputs[0]) * 1j * (grad / safe)]


def _sgn_gradient(grad, out, inputs, attrs):
    """What of the gradient stands across the direction, divided by the magnitude."""
    from flambeau.ops.elementwise import where
    size = magnitude(inputs[0])
    along, _ = parts(conjugate(out) * grad)
    safe = where(size == 0, 1.0, size)
    return [(grad - out * along) * where(size == 0, 0.0, 1.0 / safe)]


def _acosh_gradient(grad, out, inputs, attrs):
    """The product of roots: the root of the product lies on another branch in the left half plane."""
    from flambeau.ops.mathematics import rsqrt
    z = inputs[0]
    return [conjugate(rsqrt(z - 1) * rsqrt(z + 1)) * grad]


def _sinc_gradient(grad, out, inputs, attrs):
    """(cos(pi z) - sinc(z)) / z; near 0, where that cancels, the series -pi^2 z / 3 (1 - (pi z)^2 / 10)."""
    from flambeau.ops.elementwise import where
    from flambeau.ops.mathematics import cos
    z = inputs[0]
    near = magnitude(z) < 1e-2
    safe = where(near, 1.0, z)
    turned = z * math.pi
    series = turned * (-math.pi / 3) * (1 - turned * turned / 10)
    return [conjugate(where(near, series, (cos(turned) - out) / safe)) * grad]


def _pow_gradient(grad, out, inputs, attrs):
    from flambeau.ops.elementwise import where
    base, exponent = inputs
    one_less = base ** (exponent - 1)
    into_base = where(equal_zero(exponent), 0.0, conjugate(exponent * one_less)) * grad
    if not isinstance(exponent, Tensor):
        return [into_base, None]
    flat = logical_and(equal_zero(base), at_least_zero(exponent))
    slope = out * REGISTRY["log"].function(_as_complex(base, out))
    return [into_base, where(flat, 0.0, conjugate(slope)) * grad]


def equal_zero(value):
    return value == 0


def at_least_zero(value):
    return (value.real if value.dtype.kind == "c" else value) >= 0


def _as_complex(value, like):
    if not isinstance(value, Tensor):
        from flambeau.ops.write import write
        from flambeau.runtime import _core
        return write(_core.empty_strided((), None, like.dtype), value)
    return value if value.dtype.kind == "c" else join(value, 0.0)


def _logical(combine):
    return Formula(lambda a, b: combine(pair.nonzero(a), pair.nonzero(b)), "bool")


def _lerp(a, b, weight):
    return a + weight * (b - a)


def _choose(condition, a, b):
    return pair.choose(condition.re, a, b)


FORMULAS = {
    "add": Formula(lambda a, b, alpha=1: a + b, linear=add), "sub": Formula(lambda a, b, alpha=1: a - b,
                                                                            linear=sub),
    "add_scaled": Formula(lambda a, b, alpha: a + alpha * b),
    "mul": Formula(lambda a, b: a * b), "scale": Formula(pair.scaled_gradient),
    "div": Formula(lambda a, b, rounding_mode=None: a / b),
    "reciprocal": Formula(pair.reciprocal_of), "neg": Formula(lambda z: -z, linear=neg),
    "square": Formula(lambda z: z * z),
    "pow": Formula(pair.power, derivative=_pow_gradient),
    "addcmul": Formula(lambda a, b, c, value: a + value * (b * c)),
    "addcdiv": Formula(lambda a, b, c, value: a + value * (b / c)),
    "lerp": Formula(_lerp), "where": Formula(_choose),
    "exp": Formula(pair.exponential), "exp2": Formula(lambda z: pair.exponential(z.scaled(math.log(2)))),
    "expm1": Formula(pair.exponential_minus_one), "log": Formula(pair.logarithm),
    "log2": Formula(pair.logarithm_to(2)), "log10": Formula(pair.logarithm_to(10)),
    "log1p": Formula(pair.logarithm_of_one_plus), "logaddexp": Formula(pair.log_of_sum),
    "sqrt": Formula(pair.root), "rsqrt": Formula(lambda z: pair.reciprocal_of(pair.root(z))),
    "sigmoid": Formula(pair.logistic), "silu": Formula(lambda z: z * pair.logistic(z)),
    "sin": Formula(pair.sine), "cos": Formula(pair.cosine), "tan": Formula(pair.tangent),
    "asin": Formula(pair.arc_sine), "acos": Formula(pair.arc_cosine), "atan": Formula(pair.arc_tangent),
    "sinh": Formula(pair.hyperbolic_sine), "cosh": Formula(pair.hyperbolic_cosine),
    "tanh": Formula(pair.hyperbolic_tangent), "asinh": Formula(pair.area_hyperbolic_sine),
    "acosh": Formula(pair.area_hyperbolic_cosine, "complex", _acosh_gradient, "inputs"),
    "atanh": Formula(pair.area_hyperbolic_tangent),
    "sinc": Formula(pair.sine_over, "complex", _sinc_gradient),
    "tanhshrink": Formula(lambda z: z - pair.hyperbolic_tangent(z)),
    "abs": Formula(lambda z: pair.size_of(z), "real", _abs_gradient, "inputs"),
    "angle": Formula(lambda z: pair.angle_of(z), "real", _angle_gradient, "inputs"),
    "sgn": Formula(pair.direction_of, "complex", _sgn_gradient),
    "eq": Formula(pair.equal, "bool"), "ne": Formula(pair.unequal, "bool"),
    "isnan": Formula(pair.not_a_number, "bool"), "isinf": Formula(pair.infinite, "bool"),
    "isfinite": Formula(lambda z: logical_and(isfinite(z.re), isfinite(z.y)), "bool"),
    "isreal": Formula(lambda z: z.y == 0, "bool"),
    "logical_not": Formula(pair.zero, "bool"), "logical_and": _logical(logical_and),
    "logical_or": _logical(logical_or), "logical_xor": _logical(logical_xor),
    "copy": Formula(lambda z: z.scaled(1.0), linear=copy),
}
_FORMS = {}


def form_of(operation):
    """The complex form of an elementwise op, None if it has none."""
    form = _FORMS.get(operation.name)
    if form is None and operation.name in FORMULAS:
        form = _FORMS[operation.name] = Complex(operation, FORMULAS[operation.name])
    return form


class _Sgn:
    name, unpromoted = "sgn", 0


SGN = Complex(_Sgn, FORMULAS["sgn"])


def sgn(x):
    """x / |x| of a complex tensor; 0 at 0."""
    return apply_formula(SGN, [x], {})


def magnitude(x):
    """|x| of a complex tensor."""
    return REGISTRY["abs"].function(x)


def elementwise(operation, values):
    """An elementwise op on complex operands."""
    if operation.name in SPECIAL:
        return SPECIAL[operation.name](**values)
    operands, attrs = operation.split(values)
    form = form_of(operation)
    if form is None or attrs.get("rounding_mode") is not None:
        refuse(operation.name, [o.dtype for o in operands if isinstance(o, Tensor)])
    operands = [o if isinstance(o, (Tensor, complex)) else operation.as_operand(o) for o in operands]
    return apply_formula(form, operands, attrs)


# ------------------------------------------------------------------------------ ops that other ops make up
def _scaled(sign):
    def function(input, other, alpha=1):
        name = "add" if sign > 0 else "sub"
        if alpha == 1:
            return apply_formula(form_of(REGISTRY[name]), [input, other], {})
        return apply_formula(form_of(REGISTRY["add_scaled"]), [input, other, sign * alpha], {})
    return function


def cast(input, dtype):
    """Between complex dtypes, from real ones (imaginary part 0), to real ones (the real part)."""
    from flambeau.ops.complex_kernels import PART
    convert = REGISTRY["cast"].function
    if input.dtype is dtype:
        return REGISTRY["copy"].function(input)
    if dtype.kind == "b":
        return input != 0
    if dtype.kind != "c":
        return convert(parts(input)[0], dtype)
    part = PART[dtype]
    if input.dtype.kind != "c":
        return join(convert(input, part), 0.0)
    return join(*[convert(p, part) for p in parts(input)])


def _full_like(input, fill_value):
    from flambeau.ops.write import write
    from flambeau.runtime import _core
    return write(_core.empty_strided(tuple(input.shape), None, input.dtype), fill_value)


def _softsign_of(input):
    return input / (magnitude(input) + 1)


SPECIAL = {"add": _scaled(1), "sub": _scaled(-1), "rsub": lambda input, other, alpha=1: _scaled(-1)(other,
                                                                                                    input,
                                                                                                    alpha),
           "cast": cast, "full_like": _full_like, "softsign": _softsign_of,
           "rad2deg": lambda input: input * (180 / math.pi), "deg2rad": lambda input: input * (math.pi / 180)}
