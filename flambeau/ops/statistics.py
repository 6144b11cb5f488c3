"""Statistics: counts, histograms, quantiles, moments without NaN, covariance, distances, closeness."""

import builtins
import math
from flambeau.base.errors import DTypeError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.chosen import counts_of
from flambeau.ops.compare import isfinite, isnan, logical_not
from flambeau.ops.complex_kernels import conjugate, join, parts
from flambeau.ops.create import full
from flambeau.ops.elementwise import cast, minimum, where
from flambeau.ops.host import array_of, tensor_of
from flambeau.ops.index import bounds_of, gather, gather_sum
from flambeau.ops.interpose import visible
from flambeau.ops.kinds import composite
from flambeau.ops.mathematics import sqrt
from flambeau.ops.normalize import narrow, norm, var_mean, widen
from flambeau.ops.out import with_out
from flambeau.ops.reduce import all as every, amax, amin, any as some, mean, sum
from flambeau.ops.results import result_tuple
from flambeau.ops.rounding import ceil, floor, round
from flambeau.ops.samples import ulps
from flambeau.ops.sort import searchsorted, sort
from flambeau.ops.spec import REGISTRY, public
from flambeau.ops.trace import current
from flambeau.ops.view import expand, permute, reshape, transpose, unsqueeze
from flambeau.ops.wrapped import elements_of
from flambeau.ops.write import number_in_memory
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import bool_, float32, float64, int32, int64, promote
from flambeau.types.shape import normalize_axis, show_shape

numpy = LazyModule("numpy")


def number_tensor(value, dtype):
    """A 0-d tensor that holds a number."""
    if current() is not None:
        return full((), value, dtype)
    return number_in_memory(value, dtype)


# ------------------------------------------------------------------------------ counts and extremes
@public()
def count_nonzero(input, dim=None):
    """How many elements along `dim` (None: of all) differ from zero, int64."""
    return sum(input != 0, dim, dtype=int64)


Aminmax = result_tuple("aminmax", ("min", "max"))


@public()
@with_out
def aminmax(input, *, dim=None, keepdim=False):
    """(min, max) of all elements or along `dim`; NaN if there is one."""
    return Aminmax(amin(input, dim, keepdim), amax(input, dim, keepdim))


@public()
def bincount(input, weights=None, minlength=0):
    """How often each of 0, 1, ... occurs in a 1-d tensor of integers >= 0, or the sum of the weights there.

    >>> bincount(tensor([1, 2, 1]))
    tensor([0, 2, 1])
    """
    if input.dtype.kind not in "iu":
        fail("bincount", "only integers can be counted", input.dtype, "an integer dtype", kind=DTypeError)
    numbers = input if input.dtype in (int32, int64) else cast(input, int64)
    low, high = bounds_of(numbers) if input.numel() else (0, -1)
    if input.ndim != 1 or low < 0:
        fail("bincount", "bincount only supports 1-d non-negative integral inputs.", show_shape(input.shape))
    if minlength < 0:
        fail("bincount", "minlength should be >= 0", minlength)
    if weights is None:
        return counts_of(numbers, max(high + 1, minlength))
    if tuple(weights.shape) != tuple(input.shape):
        fail("bincount", "weights should be 1-d and have the same length as input", show_shape(weights.shape),
             show_shape(input.shape))
    dtype = float32 if weights.dtype is float32 else float64
    return gather_sum(cast(weights.detach(), dtype), 0, numbers, max(high + 1, minlength))


@composite(name="_equal_bins", differentiable=False, dtypes=(float32, float64), tolerance=ulps(0),
           samples=lambda rng, shape: [rng.uniform(-3, 3, shape), -2.0, 1.5, 6.0],
           reference=lambda input, low, scale, bins: numpy.where(
               (input >= low) & (input <= low + bins / scale),
               numpy.minimum(numpy.floor((input - low) * scale), bins - 1), bins).astype("int64"))
def _equal_bins(input, low, scale, bins):
    """Which of `bins` intervals of width 1 / scale from `low` on holds an element; `bins` where none does."""
    place = (cast(input, float64) - low) * scale
    inside = (place >= 0) & (place <= bins)                     # false for NaN
    return cast(where(inside, minimum(floor(place), bins - 1), bins), int64)


@public()
@with_out
def histc(input, bins=100, min=0, max=0):
    """How many elements are in each of `bins` equal intervals from `min` to `max`; both 0: of the input.

    >>> histc(tensor([1., 2., 1.]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    if input.dtype.kind != "f":
        fail("histc", "the input is not floating point", input.dtype, kind=DTypeError)
    if bins < 1:
        fail("histc", "bins must be > 0", bins)
    x = reshape(input.detach(), (-1,))
    low, high = float(min), float(max)
    if low == high and x.numel():
        low, high = amin(x).item(), amax(x).item()
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        fail("histc", f"range of [{low}, {high}] is not finite")
    if low > high:
        fail("histc", "max must be larger than min", (low, high))
    low, scale, last = (number_tensor(float(n), float64) for n in (low, bins / (high - low), bins))
    return cast(counts_of(_equal_bins(x, low, scale, last), bins + 1)[:bins], input.dtype)


Histogram = result_tuple("histogram", ("hist", "bin_edges"))


@public()
@with_out
def histogram(input, bins, *, range=None, weight=None, density=False):
    """(hist, bin_edges): how many elements, or how much of `weight`, fall into each bin.

    A bin holds its lower edge and the last one also its upper edge.

    Args:
        bins: their number, from `range` or the extremes of the input; or a tensor of ascending edges.
        density: divide by the total and by the width of each bin.
    """
    if input.dtype.kind != "f":
        fail("histogram", "the input is not floating point", input.dtype, kind=DTypeError)
    array = array_of(input.detach()).reshape(-1)
    if isinstance(bins, Tensor):
        edges = array_of(bins.detach())
    else:
        if bins < 1:
            fail("histogram", "bins must be > 0", bins)
        edges = _edges(array, bins, range)
    weights = None if weight is None else array_of(weight.detach()).reshape(-1)
    counts = _counted(array[:, None], [edges], weights, density)
    return Histogram(tensor_of(counts, input.dtype), tensor_of(edges, input.dtype))


Histogramdd = result_tuple("histogramdd", ("hist", "bin_edges"))


@public(method=False)
def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """(hist, bin_edges): a histogram of points, whose coordinates stand along the last axis of `input`.

    Args:
        input: (..., dimensions).
        bins: how many an axis, an int or one for each; or a list of 1-d tensors of edges.
        range: lowest and highest edge of each axis, in a row.
    """
    if input.dtype.kind != "f":
        fail("histogramdd", "the input is not floating point", input.dtype, kind=DTypeError)
    count = input.shape[-1]
    points = array_of(input.detach()).reshape(-1, count)
    bins = (bins,) * count if isinstance(bins, (int, Tensor)) else tuple(bins)
    if len(bins) != count:
        fail("histogramdd", "there must be one entry of bins for each coordinate", len(bins), count)
    if isinstance(bins[0], Tensor):
        edges = [array_of(b.detach()) for b in bins]
    else:
        flat = None if range is None else [float(r) for r in range]
        pairs = [None if flat is None else flat[2 * a:2 * a + 2] for a in builtins.range(count)]
        edges = [_edges(points[:, a], b, pair) for a, (b, pair) in enumerate(zip(bins, pairs))]
    weights = None if weight is None else array_of(weight.detach()).reshape(-1)
    counts = _counted(points, edges, weights, density)
    return Histogramdd(tensor_of(counts, input.dtype), tuple(tensor_of(e, input.dtype) for e in edges))


def _edges(values, bins, pair):
    """Edges of equal bins over a range, or over the extremes of the values."""
    low, high = pair if pair is not None else (values.min(), values.max()) if values.size else (0.0, 1.0)
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    return numpy.linspace(low, high, bins + 1, dtype=values.dtype)


def _counted(points, edges, weights, density):
    """How many points (count, axes), or how much weight, lie in each cell between the edges of the axes."""
    shape = tuple(max(len(line) - 1, 0) for line in edges)
    inside, cell = numpy.ones(len(points), bool), numpy.zeros(len(points), "int64")
    for values, line in zip(points.T, edges):
        inside &= (values >= line[0]) & (values <= line[-1])
        places = numpy.searchsorted(line, values, "right") - 1
        cell = cell * (len(line) - 1) + numpy.minimum(places, len(line) - 2)
    weights = None if weights is None else weights[inside]
    counts = numpy.bincount(cell[inside], weights, math.prod(shape)).reshape(shape)
    if not density:
        return counts
    volume = numpy.ones(())
    for line in edges:
        volume = volume[..., None] * numpy.diff(line)
    with numpy.errstate(all="ignore"):
        return counts / counts.sum() / volume


# ------------------------------------------------------------------------------ moments
@public()
@with_out
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    """The sum of the elements that are not NaN, of all or along `dim`."""
    kept = where(isnan(input), 0.0, input) if input.dtype.kind == "f" else input
    return sum(kept, dim, keepdim, dtype=dtype)


@public()
@with_out
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """The mean of the elements that are not NaN, of all or along `dim`; NaN where there is none."""
    if input.dtype.kind != "f":
        fail("nanmean", "the input is not floating point", input.dtype, "a floating point dtype",
             kind=DTypeError)
    count = sum(logical_not(isnan(input)), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


@public(method=False)
def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    """(standard deviation, mean) of all elements or along `dim`; see `std`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    variance, center = var_mean(input, dim, unbiased, keepdim, correction=correction)
    return sqrt(variance), center


# ------------------------------------------------------------------------------ quantiles
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@public()
@with_out
@visible
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """The q-th quantiles of all elements or along `dim`; NaN where a line has one.

    Args:
        q: a number or a 1-d tensor in [0, 1]; a tensor gives the result a leading axis.
        interpolation: between two elements: 'linear', 'lower', 'higher', 'midpoint' or 'nearest'.

    >>> quantile(tensor([1., 2., 3., 4.]), 0.5)
    tensor(2.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@public()
@with_out
@visible
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """As `quantile`, of the elements that are not NaN; NaN where there is none."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _quantile(name, input, q, dim, keepdim, interpolation, ignore_nan):
    q = _checked_q(name, input, q, interpolation)
    rank = input.ndim
    if dim is None:
        lines = reshape(input, (-1,))
    else:
        dim = normalize_axis(dim, rank, name)
        others = tuple(a for a in range(rank) if a != dim)
        lines = permute(input, (*others, dim)) if rank else reshape(input, (1,))
    chosen = _interpolated(sort(lines, -1)[0], _ranks(lines, reshape(q, (-1,)), ignore_nan), interpolation)
    result = permute(chosen, (chosen.ndim - 1, *range(chosen.ndim - 1)))        # (q, other axes)
    if keepdim:
        kept = (1,) * rank if dim is None else (*input.shape[:dim], 1, *input.shape[dim + 1:])
        result = reshape(result, (result.shape[0], *(kept if rank else ())))
    return result if q.ndim else reshape(result, tuple(result.shape[1:]))


def _checked_q(name, input, q, interpolation):
    """`q` as a tensor, after all checks."""
    if input.numel() == 0:
        fail(name, "input tensor must be non-empty", show_shape(input.shape))
    if input.dtype not in (float32, float64):
        fail(name, "input tensor must be either float or double dtype", input.dtype)
    if interpolation not in INTERPOLATIONS:
        fail(name, "unknown interpolation", interpolation, f"one of {', '.join(INTERPOLATIONS)}")
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            fail(name, "q must be in the range [0, 1]", q)
        return number_tensor(float(q), input.dtype)
    if q.ndim > 1:
        fail(name, "q must be a scalar or 1D tensor", show_shape(q.shape))
    if q.dtype is not input.dtype:
        fail(name, "q tensor must be same dtype as the input tensor", q.dtype, input.dtype)
    given = elements_of(q).detach()
    if q.numel() and not every((given >= 0) & (given <= 1)).item():
        fail(name, "q values must be in the range [0, 1]", q)
    return q


def _ranks(lines, q, ignore_nan):
    """The place, with a fraction, of each quantile in each sorted line: (..., q)."""
    missing, last = isnan(lines), lines.shape[-1] - 1
    shape = (*lines.shape[:-1], q.shape[0])
    if ignore_nan:
        count = sum(logical_not(missing), -1, True)
        return q * where(count > 0, count - 1, 0)
    return where(expand(some(missing, -1, True), shape), last, expand(q * last, shape))


def _interpolated(lines, ranks, interpolation):
    """The elements at fractional places of sorted lines."""
    if interpolation in ("lower", "higher", "nearest"):
        whole = {"lower": floor, "higher": ceil, "nearest": round}[interpolation](ranks)
        return gather(lines, -1, cast(whole, int64))
    below, above = (gather(lines, -1, cast(r(ranks), int64)) for r in (floor, ceil))
    if interpolation == "midpoint":
        return below + (above - below) * 0.5
    weight = ranks - floor(ranks)
    return where(weight < 0.5, below + weight * (above - below), above - (above - below) * (1 - weight))


# ------------------------------------------------------------------------------ covariance
@public()
def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariance matrix of variables (rows) from observations (columns); of one variable 0-d.

    Args:
        fweights: how often each observation counts, integers (observations,).
        aweights: how much each observation counts (observations,).
    """
    if input.ndim > 2:
        fail("cov", "the input has more than two dimensions", show_shape(input.shape),
             "(variables, observations)")
    if input.dtype is bool_:
        fail("cov", "bool dtype is not supported for input")
    rows = reshape(input, (1, -1)) if input.ndim < 2 else input
    rows = rows if rows.dtype.kind in "fc" else cast(rows, float32)
    weight = _observation_weights(rows, fweights, aweights)
    count = rows.shape[1]
    if weight is None:
        total, center = count, mean(rows, 1, True)
        weighted = rows - center
    else:
        total = sum(weight)
        center = sum(rows * weight, 1, True) / total
        weighted = (rows - center) * weight
    if correction and aweights is not None:
        shares = aweights * weight if fweights is None else weight * aweights
        total = total - correction * sum(shares) / total
    else:
        total = total - correction
    total = max(total, 0) if not isinstance(total, Tensor) else where(total > 0, total, 0.0)
    product = weighted @ conjugate(transpose(rows - center, 0, 1))
    product = product / total
    return reshape(product, ()) if rows.shape[0] == 1 else product


def _observation_weights(rows, fweights, aweights):
    """The product of both weights, or None."""
    weight = None
    for name, given, kinds in (("fweights", fweights, "iu"), ("aweights", aweights, "f")):
        if given is None:
            continue
        if given.ndim != 1 or given.shape[0] != rows.shape[1]:
            fail("cov", f"{name} does not have one element an observation", show_shape(given.shape),
                 rows.shape[1], kind=ShapeError)
        if given.dtype.kind not in kinds:
            fail("cov", f"{name} has the wrong dtype", given.dtype,
                 "integers" if kinds == "iu" else "floating point")
        if some(elements_of(given).detach() < 0).item():
            fail("cov", f"{name} cannot be negative", given)
        weight = given if weight is None else weight * given
    return weight


@public()
def corrcoef(input):
    """The matrix of Pearson's correlation coefficients of variables (rows) from observations (columns)."""
    if input.ndim > 2:
        fail("corrcoef", "the input has more than two dimensions", show_shape(input.shape))
    matrix = cov(input)
    if matrix.ndim == 0:            # one variable
        return matrix / matrix
    diagonal = REGISTRY["diagonal"].function(matrix)
    deviation = sqrt(parts(diagonal)[0] if matrix.dtype.kind == "c" else diagonal)
    scaled = matrix / unsqueeze(deviation, -1) / unsqueeze(deviation, 0)
    if scaled.dtype.kind == "c":
        return join(*map(_within_one, parts(scaled)))
    return _within_one(scaled)


def _within_one(x):
    return where(x > 1, 1.0, where(x < -1, -1.0, x))


# ------------------------------------------------------------------------------ distance and closeness
@public()
def dist(input, other, p=2):
    """The p-norm of input - other over all elements."""
    return norm(input - other, float(p))


@public(inplace=True)
@with_out
def renorm(input, p, dim, maxnorm):
    """Slices along `dim` whose p-norm is above `maxnorm` are scaled down to it."""
    dim = normalize_axis(dim, input.ndim, "renorm")
    if input.ndim < 2:
        fail("renorm", "the input needs at least 2 dimensions", input.ndim)
    if p <= 0:
        fail("renorm", "non-positive-norm not supported", p)
    if maxnorm < 0:
        fail("renorm", "expected maxnorm to be >= 0", maxnorm)
    wide = widen(input)
    size = norm(wide, float(p), tuple(a for a in range(input.ndim) if a != dim), True)
    return narrow(wide * where(size > maxnorm, maxnorm / (size + 1e-7), 1.0), input.dtype)


@public()
def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Where |input - other| <= atol + rtol * |other|, or both are equal (with `equal_nan` both NaN)."""
    if input.dtype is not other.dtype:
        fail("isclose", f"{other.dtype} did not match {input.dtype}", (input.dtype, other.dtype), "one dtype")
    if rtol < 0 or atol < 0:
        fail("isclose", "rtol and atol must be greater than or equal to zero", (rtol, atol))
    close = input == other
    if input.dtype.kind in "fc" and equal_nan:
        close = close | (isnan(input) & isnan(other))
    if rtol == 0 and atol == 0:
        return close
    x, y = (t if t.dtype.kind in "fc" else cast(t, float64) for t in (input, other))
    away = abs(x - y)
    return close | (isfinite(away) & (away <= atol + abs(y * rtol)))


@public()
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """True if `isclose` holds for all elements."""
    return bool(every(isclose(input, other, rtol, atol, equal_nan)).item())


@public()
def equal(input, other):
    """True if both have the same shape and the same elements; NaN differs from itself."""
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool(every(input == other).item())


@public(method=False)
@with_out
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Which elements occur among `test_elements`; one of both may be a number.

    >>> isin(tensor([1, 2, 3]), tensor([2, 5]))
    tensor([False,  True, False])
    """
    if not isinstance(elements, Tensor):
        elements = number_tensor(elements, test_elements.dtype)
    if not isinstance(test_elements, Tensor):
        found = elements == test_elements
        return logical_not(found) if invert else found
    dtype = promote(elements.dtype, test_elements.dtype)
    values, known = cast(elements, dtype), sort(reshape(cast(test_elements, dtype), (-1,)))[0]
    if known.shape[0] == 0:
        found = values != values if dtype.kind != "f" else isnan(values) & False
    else:
        places = searchsorted(known, values)
        places = where(places >= known.shape[0], known.shape[0] - 1, places)
        found = reshape(gather(known, 0, reshape(places, (-1,))), tuple(values.shape)) == values
    return logical_not(found) if invert else found


