"""Reductions and normalisations of the elements that a mask keeps.

What the mask drops is replaced by a number that does not change the result (0 of a sum, -inf of a maximum),
so every function is an op over a `where`. The mask is a bool tensor that broadcasts to the input; None keeps
all. The names are those of ops, so they stand in a namespace of their own, `flambeau.masked`.
"""

import math

from flambeau.base.errors import fail
from flambeau.ops import elementwise, mathematics, normalize as normal, norms, reduce, scan, sort
from flambeau.ops.complex_kernels import conjugate
from flambeau.ops.elementwise import cast, where
from flambeau.ops.reduce import highest, lowest
from flambeau.ops.spec import REGISTRY
from flambeau.ops.view import expand, squeeze
from flambeau.types.dtype import bool_, float32


def keep(input, mask, number):
    """The input with `number` where the mask is false."""
    if mask is None:
        return input
    number = number if input.dtype.kind in "fc" else bool(number) if input.dtype is bool_ else int(number)
    return where(cast(mask, bool_), input, number)


def _count(input, mask, dim, keepdim):
    """How many elements are kept along `dim`."""
    kept = expand(cast(mask, bool_), tuple(input.shape)) if mask is not None else input == input
    if mask is None and input.dtype.kind in "fc":
        kept = kept | (input != input)
    return reduce.sum(kept, dim, keepdim)


def _as(result, dtype):
    return result if dtype is None or result.dtype is dtype else cast(result, dtype)


# ------------------------------------------------------------------------------ reductions
def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the kept elements."""
    return reduce.sum(keep(input, mask, 0), dim, keepdim, dtype=dtype)


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the kept elements."""
    return reduce.prod(keep(input, mask, 1), dim, keepdim, dtype=dtype)


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest kept element; the lowest value of the dtype if none is kept."""
    return _as(reduce.amax(keep(input, mask, lowest(input.dtype)), dim, keepdim), dtype)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest kept element; the highest value of the dtype if none is kept."""
    return _as(reduce.amin(keep(input, mask, highest(input.dtype)), dim, keepdim), dtype)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the largest kept element, in the dtype of the input."""
    return _as(keep(input, mask, lowest(input.dtype)).argmax(dim, keepdim), dtype or input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The place of the smallest kept element, in the dtype of the input."""
    return _as(keep(input, mask, highest(input.dtype)).argmin(dim, keepdim), dtype or input.dtype)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the kept elements; NaN if none is kept."""
    dtype = dtype or input.dtype
    if dtype.kind not in "fc":
        fail("masked.mean", "the result would not be floating point", dtype, kind=ValueError)
    return sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask) / _count(input, mask, dim, keepdim)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The median of the kept elements, the lower of two; NaN if none is kept."""
    if input.dtype.kind == "f":
        return sort.nanmedian(keep(input, mask, math.nan), dim, keepdim)[0]
    found = sort.nanmedian(keep(cast(input, float32), mask, math.nan), dim, keepdim)[0]
    if reduce.any(found != found).item():
        fail("masked.median", "expects no fully masked out rows if dtype is not floating point",
             kind=ValueError)
    return cast(found, dtype or input.dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log(sum(exp(kept elements))); -inf if none is kept."""
    dtype = dtype or input.dtype
    kept = keep(input, mask, -math.inf if input.dtype.kind == "c" else lowest(input.dtype))
    return _as(normal.logsumexp(kept if kept.dtype.kind in "fc" else cast(kept, float32), dim, keepdim), dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The norm of the kept elements."""
    kept = keep(input, mask, math.inf if ord == -math.inf else 0)
    return norms.vector_norm(kept, 2.0 if ord is None else ord, dim, keepdim, dtype=dtype)


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance of the kept elements, the squares divided by their count less `correction` (1)."""
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    dtype = dtype or (input.dtype if input.dtype.kind in "fc" else float32)
    x, count = _as(input, dtype), _count(input, mask, dim, True)
    away = x - sum(x, dim, keepdim=True, mask=mask) / count
    squares = sum(away * conjugate(away), dim, keepdim=True, mask=mask)
    left = cast(count, dtype if dtype.kind == "f" else float32) - correction
    result = squares / where(left > 0, left, 0.0)
    return result if keepdim else squeeze(result, tuple(reduce.axes_of(x, _axes(x, dim))))


def _axes(x, dim):
    """The reduced axes as a tuple, None for all."""
    return None if dim is None or dim == () else (dim,) if isinstance(dim, int) else tuple(dim)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation of the kept elements; see `var`."""
    given = {"correction": correction, "keepdim": keepdim, "dtype": dtype, "mask": mask}
    return mathematics.sqrt(var(input, dim, unbiased, **given))


# ------------------------------------------------------------------------------ normalisations and scans
def softmax(input, dim, *, dtype=None, mask=None):
    """Softmax over the kept elements; the others become 0."""
    return normal.softmax(keep(input, mask, lowest(input.dtype)), dim, dtype or input.dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """log(softmax) over the kept elements; the others become -inf."""
    return normal.log_softmax(keep(input, mask, lowest(input.dtype)), dim, dtype or input.dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    """Softmax of the negated kept elements; the others become 0."""
    return normal.softmax(-keep(input, mask, highest(input.dtype)), dim, dtype or input.dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The kept elements divided by their norm, at least `eps`."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return keep(input, mask, 0) / elementwise.maximum(size, eps)


def cumsum(input, dim, *, dtype=None, mask=None):
    """The running sum of the kept elements."""
    return scan.cumsum(keep(input, mask, 0), dim, dtype=dtype or input.dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """The running product of the kept elements."""
    return scan.cumprod(keep(input, mask, 1), dim, dtype=dtype or input.dtype)


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), where what a mask drops counts as exp(-inf)."""
    pair = (keep(input, input_mask, lowest(input.dtype)), keep(other, other_mask, lowest(other.dtype)))
    return _as(REGISTRY["logaddexp"].function(*pair), dtype or input.dtype)


__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp",
           "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]
