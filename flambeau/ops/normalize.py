"""Normalisation: softmax and its relatives, variance, layer and batch normalisation, vector norms.

Each is a Composite: a formula over ops that the compiler fuses into one kernel which reads a row once. Half
precision is computed in float32 and rounded at the end. Derivatives are stated where they need fewer passes than
what tracing would give.
"""

import math

from flambeau.base.errors import ArgumentError, DTypeError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.compare import isfinite
from flambeau.ops.create import full
from flambeau.ops.elementwise import cast, maximum, minimum, scale, where
from flambeau.ops.kinds import Composite
from flambeau.ops.mathematics import exp, log, rsqrt, sqrt
from flambeau.ops.reduce import amax, amin, axes_of, count_of, mean, numpy_axes, spread, sum
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import op
from flambeau.ops.trace import current
from flambeau.ops.view import reshape
from flambeau.runtime._core import Tensor
from flambeau.types.dim import Dim
from flambeau.types.dtype import FLOATING, float32, get_default_dtype
from flambeau.types.shape import normalize_axes, normalize_axis

numpy = LazyModule("numpy")


def widen(x):
    """Half precision as float32, the dtype in which it is computed; others stay."""
    return cast(x, float32) if x.dtype.kind == "f" and x.dtype.itemsize == 2 else x


def narrow(x, dtype):
    """The result of a computation in the dtype that is asked for."""
    return x if x.dtype is dtype else cast(x, dtype)


def require_floating(name, x):
    if x.dtype.kind != "f":
        fail(name, "the input is not floating point", x.dtype, "a floating point dtype",
             hint="x.float() converts", kind=DTypeError)


def require_sizes(name, sizes, wanted):
    """Check sizes against the numbers a caller gave; symbolic ones are checked whenever the plan runs."""
    for size, number in zip(sizes, wanted):
        if isinstance(size, Dim):
            current().constraints.append((size, number))
        elif size != number:
            fail(name, "the sizes of the normalised axes differ", tuple(sizes), tuple(wanted),
                 kind=ShapeError)


class Normalization(Composite):
    """What the ops here share for the tests."""

    dtypes = FLOATING
    samples = unary_samples()
    tolerance = ulps(64)


class AlongAxis(Normalization):
    """Takes `dim`, one axis."""

    signature = "input, dim, dtype=None"
    cases = ({"dim": -1}, {"dim": 0})

    def prepare(self, values):
        x = values["input"]
        if not isinstance(x, Tensor):
            fail(self.name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        if values["dtype"] is None:
            require_floating(self.name, x)
        return values | {"dim": normalize_axis(values["dim"], x.ndim, self.name)}


# ------------------------------------------------------------------------------ softmax
@op
class Softmax(AlongAxis):
    """exp(input) scaled to sum 1 along `dim`; `dtype` is that of the result."""

    def compute(input, dim, dtype):
        x = widen(narrow(input, dtype or input.dtype))
        powers = exp(x - amax(x, dim, True))
        return narrow(powers / sum(powers, dim, True), dtype or input.dtype)

    def reference(input, dim, dtype=None):
        powers = numpy.exp(input - input.max(axis=dim, keepdims=True, initial=-math.inf))
        return powers / powers.sum(axis=dim, keepdims=True)

    def derivative(grad, out, *, dim):
        g, p = widen(grad), widen(out)
        return scale(g - sum(scale(g, p), dim, True), p)


@op
class LogSoftmax(AlongAxis):
    """log(softmax(input, dim)) without overflow or loss of accuracy."""

    def compute(input, dim, dtype):
        x = widen(narrow(input, dtype or input.dtype))
        shifted = x - amax(x, dim, True)
        return narrow(shifted - log(sum(exp(shifted), dim, True)), dtype or input.dtype)

    def reference(input, dim, dtype=None):
        shifted = input - input.max(axis=dim, keepdims=True, initial=-math.inf)
        return shifted - numpy.log(numpy.exp(shifted).sum(axis=dim, keepdims=True))

    def derivative(grad, out, *, dim):
        g = widen(grad)
        return g - exp(widen(out)) * sum(g, dim, True)


class AlongAxes(Normalization):
    """Takes `dim` (None: all axes) and `keepdim`."""

    signature = "input, dim=None, keepdim=False"
    cases = ({"dim": -1}, {"dim": 0, "keepdim": True}, {"dim": (0, 1)})

    def prepare(self, values):
        x = values["input"]
        if not isinstance(x, Tensor):
            fail(self.name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        require_floating(self.name, x)
        dim = values["dim"]
        if dim is not None:
            axes = normalize_axes(dim, x.ndim, self.name)
            values["dim"] = tuple(sorted(axes)) if axes else None
        values["keepdim"] = bool(values["keepdim"])
        return values


def drop(x, dim, keepdim):
    """Remove the reduced axes, which have size 1, unless they are kept."""
    return x if keepdim else reshape(x, tuple(s for a, s in enumerate(x.shape) if a not in axes_of(x, dim)))


@op
class Logsumexp(AlongAxes):
    """log(sum(exp(input))) over `dim` without overflow; integers become the default dtype."""

    def prepare(self, values):
        x = values["input"]
        if isinstance(x, Tensor) and x.dtype.kind in "biu":
            values["input"] = cast(x, get_default_dtype())
        return AlongAxes.prepare(self, values)

    def compute(input, dim, keepdim):
        x = widen(input)
        top = amax(x, dim, True)
        top = where(isfinite(top), top, 0.0)
        total = log(sum(exp(x - top), dim, True)) + top
        return narrow(drop(total, dim, keepdim), input.dtype)

    def reference(input, dim=None, keepdim=False):
        return numpy.log(numpy.exp(input).sum(axis=numpy_axes(dim), keepdims=keepdim))

    def derivative(grad, out, x, *, dim, keepdim):
        return spread(grad, x, dim, keepdim) * exp(widen(x) - widen(spread(out, x, dim, keepdim)))


# ------------------------------------------------------------------------------ variance
class Spread(AlongAxes):
    """Variance over `dim` with `correction` subtracted from the count; `unbiased` is the older name of 1 or 0."""

    signature = "input, dim=None, unbiased=None, keepdim=False, *, correction=1"

    def prepare(self, values):
        if isinstance(values["dim"], bool):
            values["dim"], values["unbiased"] = None, values["dim"]
        values = AlongAxes.prepare(self, values)
        if values["unbiased"] is not None:
            values["correction"] = int(values["unbiased"])
        if values["correction"] is None:
            values["correction"] = 1
        whole = int(values["correction"])
        return values | {"unbiased": None, "correction": whole if whole == values["correction"] else
                         float(values["correction"])}


def deviation(x, dim, correction):
    """(mean, variance) with the reduced axes kept, from widened x."""
    return deviation_from(mean(x, dim, True), x, dim, correction)


def deviation_from(center, x, dim, correction):
    away = x - center
    return center, sum(away * away, dim, True) / divisor(x, dim, correction)


def bounded_deviation(x, dim, correction):
    """As `deviation`, with a mean that rounding does not move out of the range of x: equal numbers vary by nothing."""
    center = minimum(maximum(mean(x, dim, True), amin(x, dim, True)), amax(x, dim, True))
    return deviation_from(center, x, dim, correction)


def divisor(x, dim, correction):
    """What the sum of squares is divided by: the count less the correction, not below 0."""
    count = count_of(x, dim)
    return maximum(full((), -float(correction), x.dtype) + count, 0.0) if correction else count


def deviation_slope(x, dim, correction):
    """The derivative of the variance with respect to each element."""
    return (x - mean(x, dim, True)) * 2.0 / divisor(x, dim, correction)


@op
class Var(Spread):
    """Variance over `dim` (None: all), the squares divided by count - correction."""

    def compute(input, dim, unbiased, keepdim, correction):
        return narrow(drop(bounded_deviation(widen(input), dim, correction)[1], dim, keepdim), input.dtype)

    def reference(input, dim=None, unbiased=None, keepdim=False, correction=1):
        return numpy.var(input, axis=numpy_axes(dim), keepdims=keepdim, ddof=correction)

    def derivative(grad, x, *, dim, keepdim, correction):
        return spread(grad, x, dim, keepdim) * deviation_slope(widen(x), dim, correction)


@op
class Std(Spread):
    """Standard deviation over `dim` (None: all): the root of `var`."""

    def compute(input, dim, unbiased, keepdim, correction):
        return narrow(drop(sqrt(bounded_deviation(widen(input), dim, correction)[1]), dim, keepdim), input.dtype)

    def reference(input, dim=None, unbiased=None, keepdim=False, correction=1):
        return numpy.std(input, axis=numpy_axes(dim), keepdims=keepdim, ddof=correction)

    def derivative(grad, out, x, *, dim, keepdim, correction):
        root = widen(spread(out, x, dim, keepdim))
        slope = where(root == 0, 0.0, deviation_slope(widen(x), dim, correction) / (root * 2.0))
        return spread(grad, x, dim, keepdim) * slope


@op
class VarMean(Spread):
    """(variance, mean) over `dim` (None: all) from the same reading of the input."""

    outputs = ("var", "mean")

    def compute(input, dim, unbiased, keepdim, correction):
        center, variance = bounded_deviation(widen(input), dim, correction)
        return tuple(narrow(drop(r, dim, keepdim), input.dtype) for r in (variance, center))

    def reference(input, dim=None, unbiased=None, keepdim=False, correction=1):
        axes = numpy_axes(dim)
        return (numpy.var(input, axis=axes, keepdims=keepdim, ddof=correction),
                numpy.mean(input, axis=axes, keepdims=keepdim))

    def derivative(grad, x, *, dim, keepdim, correction):
        of_variance, of_mean = (widen(spread(g, x, dim, keepdim)) for g in grad)
        return scale(of_variance, deviation_slope(widen(x), dim, correction)) + of_mean / count_of(x, dim)


# ------------------------------------------------------------------------------ layer norm
def along(vector, x, axis):
    """A 1-d tensor seen along one axis of x."""
    return widen(reshape(vector, tuple(vector.shape[0] if a == axis else 1 for a in range(x.ndim))))


def standardized(x, axes, eps):
    """The reference of normalisation, in NumPy."""
    return (x - x.mean(axis=axes, keepdims=True)) / numpy.sqrt(x.var(axis=axes, keepdims=True) + eps)


def channels(vector, x):
    """A NumPy vector along axis 1 of x; numbers stay."""
    return vector if numpy.ndim(vector) == 0 else vector.reshape([-1 if a == 1 else 1 for a in range(x.ndim)])


def except_axis(x, axis):
    return tuple(a for a in range(x.ndim) if a != axis)


@op
class LayerNorm(Normalization):
    """(input - mean) / sqrt(variance + eps) over the last axes, whose sizes are `normalized_shape`.

    The result is then * weight + bias, which have the shape `normalized_shape`; either may be None. The variance is
    the biased one.
    """

    signature = "input, normalized_shape, weight=None, bias=None, eps=1e-5"
    operands = ("input", "weight", "bias")
    samples = None

    def prepare(self, values):
        x, shape = values["input"], values["normalized_shape"]
        if not isinstance(x, Tensor):
            fail(self.name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        require_floating(self.name, x)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if not shape or len(shape) > x.ndim:
            fail(self.name, "normalized_shape does not fit the input", shape, f"1 to {x.ndim} sizes",
                 kind=ShapeError)
        for name in ("weight", "bias"):
            if values[name] is not None and values[name].ndim != len(shape):
                fail(self.name, f"{name} does not have the shape normalized_shape", tuple(values[name].shape),
                     shape, kind=ShapeError)
        return values | {"normalized_shape": shape}

    def compute(input, normalized_shape, weight, bias, eps):
        count = len(normalized_shape)
        for tensor in (input, weight, bias):
            if tensor is not None:
                require_sizes("layer_norm", tuple(tensor.shape)[-count:], normalized_shape)
        x = widen(input)
        axes = tuple(range(x.ndim - count, x.ndim))
        center, variance = deviation(x, axes, 0)
        result = (x - center) * rsqrt(variance + eps)
        if weight is not None:
            result = result * widen(weight)
        if bias is not None:
            result = result + widen(bias)
        return narrow(result, input.dtype)

    def reference(input, scale=1.0, shift=0.0, *, normalized_shape, weight=None, bias=None, eps=1e-5):
        axes = tuple(range(-len(normalized_shape), 0))
        return standardized(input, axes, eps) * scale + shift

    def derivative(grad, x, weight, bias, *, normalized_shape, eps):
        axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
        lead = tuple(range(x.ndim - len(normalized_shape)))
        g, wide = widen(grad), widen(x)
        center, variance = deviation(wide, axes, 0)
        scaling = rsqrt(variance + eps)
        normal = (wide - center) * scaling
        inner = g if weight is None else g * widen(weight)
        of_input = scaling * (inner - mean(inner, axes, True) - normal * mean(inner * normal, axes, True))
        of_weight = None if weight is None else sum(g * normal, lead) if lead else g * normal
        of_bias = None if bias is None else sum(g, lead) if lead else g
        return of_input, of_weight, of_bias


# ------------------------------------------------------------------------------ batch norm
class BatchNorm(Normalization):
    """Normalises each channel, axis 1 of the input."""

    looks_at_sizes = True
    samples = None

    def prepare(self, values):
        x = values["input"]
        if not isinstance(x, Tensor):
            fail(self.name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        require_floating(self.name, x)
        if x.ndim < 2:
            fail(self.name, "the input has no channel axis", tuple(x.shape), "(batch, channels, ...)",
                 kind=ShapeError)
        for name in self.operands[1:]:
            vector = values[name]
            if vector is not None and (vector.ndim != 1 or not _may_equal(vector.shape[0], x.shape[1])):
                fail(self.name, f"{name} does not have one element a channel", tuple(vector.shape),
                     (x.shape[1],), kind=ShapeError)
        return values


def _may_equal(a, b):
    return isinstance(a, Dim) or isinstance(b, Dim) or a == b


@op
class BatchNormTrain(BatchNorm):
    """(output, mean, variance): each channel by its own mean and biased variance, then * weight + bias."""

    internal = True
    signature = "input, weight=None, bias=None, eps=1e-5"
    operands = ("input", "weight", "bias")
    outputs = ("output", "mean", "variance")

    def compute(input, weight, bias, eps):
        x = widen(input)
        axes = except_axis(x, 1)
        center, variance = deviation(x, axes, 0)
        result = (x - center) * rsqrt(variance + eps)
        if weight is not None:
            result = result * along(weight, x, 1)
        if bias is not None:
            result = result + along(bias, x, 1)
        return narrow(result, input.dtype), drop(center, axes, False), drop(variance, axes, False)

    def reference(input, scale=1.0, shift=0.0, weight=None, bias=None, eps=1e-5):
        axes = except_axis(input, 1)
        result = standardized(input, axes, eps) * channels(scale, input) + channels(shift, input)
        return result, input.mean(axis=axes), input.var(axis=axes)

    def derivative(grad, x, weight, bias, *, eps):
        axes = except_axis(x, 1)
        g, wide = widen(grad[0]), widen(x)
        center, variance = deviation(wide, axes, 0)
        scaling = rsqrt(variance + eps)
        normal = (wide - center) * scaling
        total, product = sum(g, axes, True), sum(g * normal, axes, True)
        count = count_of(x, axes)
        factor = scaling if weight is None else scaling * along(weight, x, 1)
        of_input = factor * (g - total / count - normal * (product / count))
        of_input = of_input + (along(grad[1], x, 1) + along(grad[2], x, 1) * (wide - center) * 2.0) / count
        return (of_input, None if weight is None else drop(product, axes, False),
                None if bias is None else drop(total, axes, False))


@op
class BatchNormEval(BatchNorm):
    """Each channel normalised by the given mean and variance, then * weight + bias."""

    internal = True
    signature = "input, running_mean, running_var, weight=None, bias=None, eps=1e-5"
    operands = ("input", "running_mean", "running_var", "weight", "bias")

    def compute(input, running_mean, running_var, weight, bias, eps):
        x = widen(input)
        result = (x - along(running_mean, x, 1)) * rsqrt(along(running_var, x, 1) + eps)
        if weight is not None:
            result = result * along(weight, x, 1)
        if bias is not None:
            result = result + along(bias, x, 1)
        return narrow(result, input.dtype)

    def reference(input, running_mean, running_var, scale=1.0, shift=0.0, weight=None, bias=None, eps=1e-5):
        result = (input - channels(running_mean, input)) / numpy.sqrt(channels(running_var, input) + eps)
        return result * channels(scale, input) + channels(shift, input)


# ------------------------------------------------------------------------------ norms
@op
class Norm(AlongAxes):
    """The p-norm along `dim`: p is a number, inf, -inf, 'fro' (2) or 0 (how many elements differ from 0)."""

    signature = "input, p='fro', dim=None, keepdim=False"

    def prepare(self, values):
        values = AlongAxes.prepare(self, values)
        p = 2.0 if values["p"] in ("fro", None) else values["p"]
        if not isinstance(p, (int, float)):
            fail(self.name, "p is not a number", p, "a number, inf, -inf or 'fro'", kind=ArgumentError)
        return values | {"p": float(p)}

    def compute(input, p, dim, keepdim):
        x = abs(widen(input))
        if p == 0:
            total = sum(cast(x != 0, x.dtype), dim, True)
        elif p == 2:
            total = sqrt(sum(x * x, dim, True))
        elif p == 1:
            total = sum(x, dim, True)
        elif math.isinf(p):
            total = amax(x, dim, True) if p > 0 else amin(x, dim, True)
        else:
            total = sum(x ** p, dim, True) ** (1.0 / p)
        return narrow(drop(total, dim, keepdim), input.dtype)

    def reference(input, p="fro", dim=None, keepdim=False):
        axes, size = numpy_axes(dim), abs(input)
        if p == 0:
            return (size != 0).sum(axis=axes, keepdims=keepdim).astype(float)
        if math.isinf(p):
            return (size.max if p > 0 else size.min)(axis=axes, keepdims=keepdim)
        return (size ** p).sum(axis=axes, keepdims=keepdim) ** (1 / p)

    def derivative(grad, out, x, *, p, dim, keepdim):
        wide = widen(x)
        total, g = widen(spread(out, x, dim, keepdim)), spread(grad, x, dim, keepdim)
        side = where(wide > 0, 1.0, where(wide < 0, -1.0, 0.0))
        if p == 0:
            return g * (0.0 * wide)
        if p == 1:
            return g * side
        if math.isinf(p):
            hit = cast(abs(wide) == total, wide.dtype)
            return g * (side * hit / sum(hit, dim, True))
        ratio = abs(wide) / total
        slope = side * (ratio if p == 2 else ratio ** (p - 1.0))
        return g * where(total == 0, 0.0, slope)


__all__ = ["softmax", "log_softmax", "logsumexp", "var", "std", "var_mean", "layer_norm",       # noqa: F822 - by @op
           "batch_norm_train", "batch_norm_eval", "norm"]
