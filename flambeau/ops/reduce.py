"""Reductions: one value from the elements along axes."""

from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import EVERY, NUMBERS, cast, div, mul, where
from flambeau.ops.kinds import Reduction, compute_dtype
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import op
from flambeau.ops.view import expand, reshape
from flambeau.types.dtype import FLOATING, bool_, float64, int64, uint8

numpy = LazyModule("numpy")


def spread(reduced, x, dim, keepdim):
    """A reduced tensor seen in the shape of `x` again."""
    if not keepdim and dim is not None:
        shape = tuple(1 if a in dim else s for a, s in enumerate(x.shape))
        reduced = reshape(reduced, shape)
    return expand(reduced, tuple(x.shape))


def axes_of(x, dim):
    return tuple(range(x.ndim)) if dim is None else dim


def count_of(x, dim):
    """How many elements make one result."""
    count = 1
    for a in axes_of(x, dim):
        count = count * x.shape[a]
    return count


def numpy_axes(dim):
    return None if dim is None else tuple(dim)


CASES = [{}, {"dim": 0}, {"dim": -1}, {"dim": -1, "keepdim": True}]


class Folding(Reduction):
    """What the reductions here share for the tests."""

    dtypes = NUMBERS
    samples = unary_samples()
    tolerance = ulps(64)
    cases = CASES


@op
class Sum(Folding):
    """Sum over `dim` (None: all). Bools and integers sum in int64."""

    accumulate = "sum"
    combine = "add"

    def identity(dtype):
        return 0

    def reference(input, dim=None, keepdim=False, dtype=None):
        return numpy.sum(input, axis=numpy_axes(dim), keepdims=keepdim)

    def derivative(grad, x, *, dim, keepdim):
        return spread(grad, x, dim, keepdim)


def power_below_inverse(b, count, dtype):
    """The power of two w with 1/2 < w * count <= 1: the sum of w * x does not overflow where the mean does not, and has
    the digits of the sum of x, as w only moves the exponent."""
    bits = b.call("bitcast", b.cast(count, float64), dtype=int64)
    exponent = b.shr(bits, b.const(52, int64))            # of 2**e <= count < 2**(e + 1), plus 1023
    inverse = b.shl(b.sub(b.const(2045, int64), exponent), b.const(52, int64))
    return b.cast(b.call("bitcast", inverse, dtype=float64), dtype)


@op
class Mean(Folding):
    """Mean over `dim` (None: all)."""

    accumulate = "float"
    combine = "add"
    dtypes = FLOATING

    def identity(dtype):
        return 0

    def weight(b, count, dtype):
        return power_below_inverse(b, count, dtype)

    def finish(b, total, count):
        weight = power_below_inverse(b, count, total.dtype)
        return b.div(total, b.mul(b.cast(count, total.dtype), weight))

    def reference(input, dim=None, keepdim=False, dtype=None):
        return numpy.mean(input, axis=numpy_axes(dim), keepdims=keepdim)

    def derivative(grad, x, *, dim, keepdim):
        return spread(div(grad, count_of(x, dim)), x, dim, keepdim)


@op
class Prod(Folding):
    """Product over `dim` (None: all)."""

    accumulate = "sum"
    combine = "mul"

    def identity(dtype):
        return 1

    def reference(input, dim=None, keepdim=False, dtype=None):
        return numpy.prod(input, axis=numpy_axes(dim), keepdims=keepdim)

    def derivative(grad, x, *, dim, keepdim):
        zeros = sum(cast(x == 0, x.dtype), dim, True)
        others = prod(where(x == 0, 1.0, x), dim, True)         # the product without zeros
        at_zero = where((x == 0) & (zeros == 1), others, 0.0)
        elsewhere = where(zeros == 0, prod(x, dim, True) / where(x == 0, 1.0, x), 0.0)
        return spread(grad, x, dim, keepdim) * (at_zero + elsewhere)


class Extreme(Folding):
    """Largest or smallest; ties share the gradient equally."""

    empty_error = True
    dtypes = EVERY

    def derivative(grad, out, x, *, dim, keepdim):
        hit = x == spread(out, x, dim, keepdim)
        share = mul(cast(hit, x.dtype), 1.0)
        return spread(grad, x, dim, keepdim) * (share / sum(share, dim, True))


@op
class Amax(Extreme):
    """The largest element along `dim`; NaN if there is one."""

    combine = "max"

    def identity(dtype):
        return lowest(dtype)

    def reference(input, dim=None, keepdim=False, dtype=None):
        return numpy.amax(input, axis=numpy_axes(dim), keepdims=keepdim)


@op
class Amin(Extreme):
    """The smallest element along `dim`; NaN if there is one."""

    combine = "min"

    def identity(dtype):
        return highest(dtype)

    def reference(input, dim=None, keepdim=False, dtype=None):
        return numpy.amin(input, axis=numpy_axes(dim), keepdims=keepdim)


def lowest(dtype):
    """The identity of max."""
    if dtype.kind == "f":
        return float("-inf")
    if dtype.kind in "bu":
        return 0
    return -(1 << (8 * dtype.itemsize - 1))


def highest(dtype):
    """The identity of min."""
    if dtype.kind == "f":
        return float("inf")
    if dtype.kind == "b":
        return 1
    return (1 << (8 * dtype.itemsize - (dtype.kind == "i"))) - 1


class Logical(Folding):
    """Combines truth values."""

    accumulate = "bool"
    differentiable = False
    dtypes = EVERY
    tolerance = ulps(0)

    def eager(self, values):
        if values["dim"] == ():
            result = values["input"] != 0
            return cast(result, uint8) if values["input"].dtype is uint8 else result
        return Folding.eager(self, values)

    def prepare(self, values):
        nothing = values["dim"] == ()               # which reduces no axis here
        return Folding.prepare(self, values) | ({"dim": ()} if nothing else {})

    def types(self, inputs, attrs):
        dtype = inputs[0].dtype
        return compute_dtype(dtype), bool_, uint8 if dtype is uint8 else bool_

    def value(b, x):
        return x if x.dtype is bool_ else b.ne(x, b.const(0.0 if x.dtype.kind == "f" else 0, x.dtype, x.lanes))


@op
class Any(Logical):
    """True if any element along `dim` is non-zero."""

    combine = "or"

    def identity(dtype):
        return False

    def reference(input, dim=None, keepdim=False, dtype=None):
        return numpy.any(input, axis=numpy_axes(dim), keepdims=keepdim)


@op
class All(Logical):
    """True if every element along `dim` is non-zero."""

    combine = "and"

    def identity(dtype):
        return True

    def reference(input, dim=None, keepdim=False, dtype=None):
        return numpy.all(input, axis=numpy_axes(dim), keepdims=keepdim)
