"""The complex form of each kind of op: what `bind` asks when a call has a complex operand.

Elementwise ops have formulas (complex_rules.py). A linear op is applied to both parts, a product of two
operands to all pairs of parts; a composite runs op by op. Views, gathers and host functions take complex
elements as they are.
"""

import math

from flambeau.ops import plans, spec
from flambeau.ops.complex_kernels import PART, join, parts, refuse
from flambeau.ops.complex_rules import cast, elementwise, magnitude
from flambeau.ops.elementwise import where
from flambeau.ops.join import cat
from flambeau.ops.mathematics import exp, log, sqrt
from flambeau.ops.reinterpret import view_as_complex, view_as_real
from flambeau.ops.spec import REGISTRY
from flambeau.ops.view import narrow, reshape, squeeze
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import DType
from flambeau.types.shape import normalize_axes, normalize_axis


def is_complex(value):
    """A complex tensor, number or dtype, or a tuple with such a tensor."""
    if isinstance(value, Tensor):
        return value.dtype.kind == "c"
    if isinstance(value, (tuple, list)):
        return any(isinstance(v, Tensor) and v.dtype.kind == "c" for v in value)
    return isinstance(value, complex) or (isinstance(value, DType) and value.kind == "c")


def call(operation, args, kwargs):
    """Run a call with a complex operand; NotImplemented where the op takes complex elements as they are."""
    for value in (*args, *kwargs.values()):
        if getattr(type(value), "is_traced", False) or getattr(type(value), "takes_complex", False):
            return NotImplemented
    if operation.name not in RULES and operation.kind not in KINDS:
        return NotImplemented
    values = operation.gather_arguments(args, kwargs)
    if operation.name in RULES:
        return RULES[operation.name](**values)
    return KINDS[operation.kind](operation, operation.prepare(values))


# ------------------------------------------------------------------------------ linear and bilinear ops
def _part(value, which):
    """The real (0) or imaginary (1) part of an operand or attribute."""
    if isinstance(value, Tensor):
        return parts(value)[which] if value.dtype.kind == "c" else value
    if isinstance(value, complex):
        return (value.real, value.imag)[which]
    if isinstance(value, tuple):
        return tuple(_part(v, which) for v in value)
    return value


def run(operation, values):
    """A prepared call with real operands."""
    return plans.interpret(operation, operation.split(values)[0], values)


def linear(operation, values):
    """Apply the op to both parts."""
    return join(*[run(operation, {n: _part(v, which) for n, v in values.items()}) for which in (0, 1)])


def on_pairs(operation, values):
    """Apply the op along axes, given from the front, to pairs of parts."""
    return view_as_complex(run(operation, values | {"input": view_as_real(values["input"])}))


def bilinear(operation, values):
    """Apply a product of the first two operands to their parts; a third operand is added."""
    first, second, *added = operation.operands
    if not all(values[n].dtype.kind == "c" for n in (first, second)):
        return linear(operation, values)
    (a, b), (c, d) = parts(values[first]), parts(values[second])
    bias = parts(values[added[0]]) if added and values[added[0]] is not None else (None, None)
    plain = {n: None for n in added}

    def product(x, y, bias=None):
        return run(operation, values | plain | {first: x, second: y} | {n: bias for n in added[:1]})
    return join(product(a, c, bias[0]) - product(b, d), product(a, d, bias[1]) + product(b, c))


def reduction(operation, values):
    """sum and mean on the parts, any and all of what is not zero."""
    x, dtype = values["input"], values.get("dtype")
    if operation.name in ("any", "all"):
        return operation.function(x != 0, values["dim"], values["keepdim"])
    if operation.name not in ("sum", "mean"):
        refuse(operation.name, x.dtype)
    if dtype is not None:
        return operation.function(cast(x, dtype), values["dim"], values["keepdim"])
    if x.ndim == 0:
        return x * 1
    dim = tuple(range(x.ndim)) if values["dim"] is None else values["dim"]
    return on_pairs(operation, values | {"dim": dim})


def composite(operation, values):
    """Run it op by op."""
    return operation.compute(**values)


def scan(operation, values):
    """Running sums on the parts."""
    x = values["input"]
    if operation.name not in ("cumsum", "suffix_sum", "delay"):
        refuse(operation.name, x.dtype)
    if values.get("dtype") is not None:
        x = cast(x, values["dtype"])
        values = values | {"input": x, "dtype": None}
    if x.dtype.kind != "c":
        return operation.function(**values)
    return on_pairs(operation, values) if x.ndim else x * 1


def refused(operation, values):
    refuse(operation.name, values[operation.operands[0]].dtype)


KINDS = {"elementwise": elementwise, "reduction": reduction, "contraction": bilinear, "window": bilinear,
         "scan": scan, "sort": refused, "composite": composite}


# -------------------------------------------------------------------------- products and sums of exponentials
def _in(x, dtype):
    return x if dtype is None or dtype is x.dtype else cast(x, dtype)


def _product_along(x, dim):
    """Halves multiplied until one element is left, the axis kept."""
    if x.shape[dim] == 0:
        return REGISTRY["sum"].function(x, dim, True) + 1
    while x.shape[dim] > 1:
        half, odd = divmod(x.shape[dim], 2)
        product = narrow(x, dim, 0, half) * narrow(x, dim, half, half)
        x = cat((product, narrow(x, dim, 2 * half, 1)), dim) if odd else product
    return x


def prod(input, dim=None, keepdim=False, *, dtype=None):
    """The product over `dim` (None: all)."""
    x = _in(input, dtype)
    if x.dtype.kind != "c":
        return REGISTRY["prod"].function(x, dim, keepdim)
    axes = tuple(range(x.ndim)) if dim is None or dim == () else normalize_axes(dim, x.ndim, "prod")
    for axis in axes:
        x = _product_along(x, axis)
    return x if keepdim or not axes else reshape(x, tuple(s for a, s in enumerate(x.shape) if a not in axes))


def _running(x, dim, combine):
    """Running results of an associative operation: each step doubles how many elements one has."""
    shift, result = 1, x * 1
    while x.ndim and shift < x.shape[dim]:
        rest = x.shape[dim] - shift
        later = combine(narrow(result, dim, shift, rest), narrow(result, dim, 0, rest))
        result, shift = cat((narrow(result, dim, 0, shift), later), dim), 2 * shift
    return result


def cumprod(input, dim, *, dtype=None):
    """Running products."""
    x = _in(input, dtype)
    if x.dtype.kind != "c":
        return REGISTRY["cumprod"].function(x, dim)
    return _running(x, normalize_axis(dim, x.ndim, "cumprod"), REGISTRY["mul"].function)


def _top(x, dim):
    """The largest real part along `dim`, kept; 0 where it is infinite."""
    real = x.detach().real
    top = REGISTRY["amax"].function(real, dim, True)
    return where(REGISTRY["isinf"].function(top), 0.0, top)


def logsumexp(input, dim=None, keepdim=False):
    """log(sum(exp(input))) over `dim`."""
    dim = tuple(range(input.ndim)) if dim is None else normalize_axes(dim, input.ndim, "logsumexp")
    if any(input.shape[a] == 0 for a in dim):
        result = log(REGISTRY["sum"].function(exp(input), dim, True))
    else:
        top = _top(input, dim)
        result = log(REGISTRY["sum"].function(exp(input - top), dim, True)) + top
    return result if keepdim or not dim else squeeze(result, dim)


def logcumsumexp(input, dim):
    """log(cumsum(exp(input))) along `dim`."""
    add = REGISTRY["logaddexp"].function
    return _running(input, normalize_axis(dim, input.ndim, "logcumsumexp"), lambda later,
                    earlier: add(earlier, later))


def softmax_in(name):
    """softmax in a real dtype takes the real parts; complex numbers have no order."""
    def function(input, dim, dtype=None):
        if dtype is None or dtype.kind == "c":
            refuse(name, input.dtype)
        return REGISTRY[name].function(cast(input, dtype), dim)
    return function


# ------------------------------------------------------------------------------ variance and norms
def _root(x):
    """The square root with gradient 0 at 0."""
    return where(x == 0, 0.0, sqrt(where(x == 0, 1.0, x)))


def var(*arguments, **named):
    """The variance of the real plus that of the imaginary parts."""
    input = named.pop("input")
    re, im = parts(input)
    function = REGISTRY["var"].function
    return function(re, *arguments, **named) + function(im, *arguments, **named)


def std(**named):
    return _root(var(**named))


def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=1):
    means = [REGISTRY["var_mean"].function(p, dim, unbiased, keepdim, correction=correction)
             for p in parts(input)]
    return REGISTRY["var_mean"].pack((means[0][0] + means[1][0], join(means[0][1], means[1][1])))


def power_norm(x, ord=2, dim=None, keepdim=False):
    """The norm of the magnitudes."""
    return REGISTRY["_power_norm"].function(magnitude(x), ord, dim, keepdim)


def norm(input, *arguments, **named):
    return REGISTRY["norm"].function(magnitude(input), *arguments, **named)


# ------------------------------------------------------------------------------ random numbers
def drawn(name, factor):
    """Both parts drawn; those of normal numbers have half the variance each."""
    def function(like, key):
        pairs = like.new_empty((*like.shape, 2), dtype=PART[like.dtype])
        return view_as_complex(REGISTRY[name].function(pairs, key) * factor)
    return function


RULES = {"prod": prod, "cumprod": cumprod, "logsumexp": logsumexp, "logcumsumexp": logcumsumexp,
         "softmax": softmax_in("softmax"), "log_softmax": softmax_in("log_softmax"), "var": var, "std": std,
         "var_mean": var_mean, "_power_norm": power_norm, "norm": norm, "uniform_like": drawn("uniform_like",
                                                                                              1.0),
         "normal_like": drawn("normal_like", math.sqrt(0.5))}
spec.set_complex(is_complex, call)
