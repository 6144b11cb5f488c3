"""Norms of vectors and matrices, and distances between rows."""

import math

from flambeau.base.errors import ArgumentError, DTypeError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import abs as magnitude, cast, maximum, sign, square, where
from flambeau.ops.interpose import visible
from flambeau.ops.kinds import Composite
from flambeau.ops.mathematics import sqrt
from flambeau.ops.matmul import matmul
from flambeau.ops.out import with_out
from flambeau.ops.reduce import amax, amin, spread, sum as total
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import op, public
from flambeau.ops.view import expand, permute, reshape, transpose, unsqueeze
from flambeau.types.dtype import FLOATING, float32, float64
from flambeau.types.shape import broadcast_shapes, normalize_axes

numpy = LazyModule("numpy")
INFINITY = math.inf


@op
class PowerNorm(Composite):
    """(sum |x|^ord)^(1/ord) over `dim` (None: all); ord 0 counts what is not zero, +-inf takes the extreme
    magnitude.
    """

    name = "_power_norm"
    signature = "x, ord=2, dim=None, keepdim=False"
    operands = ("x",)
    dtypes = FLOATING
    tolerance = ulps(64)
    samples = unary_samples()
    shapes = ((5,), (5, 7), (2, 3, 33))
    cases = [{}, {"ord": 1.0, "dim": (-1,)}, {"ord": 3.0, "dim": (0,), "keepdim": True}, {"ord": INFINITY}]

    def prepare(self, values):
        dim = values["dim"]
        return values if dim is None else values | {"dim": normalize_axes(dim, values["x"].ndim, self.name)}

    def reference(x, ord=2, dim=None, keepdim=False):
        if ord == INFINITY:
            return numpy.max(abs(x), dim, keepdims=keepdim)
        return numpy.sum(abs(x) ** ord, dim, keepdims=keepdim) ** (1 / ord)

    def compute(x, ord=2, dim=None, keepdim=False):
        if ord == 2:
            return sqrt(total(square(x), dim, keepdim))
        if ord == 0:
            return total(cast(x != 0, x.dtype), dim, keepdim)
        if ord in (INFINITY, -INFINITY):
            return (amax if ord > 0 else amin)(magnitude(x), dim, keepdim)
        if ord == 1:
            return total(magnitude(x), dim, keepdim)
        return total(magnitude(x) ** ord, dim, keepdim) ** (1.0 / ord)

    def derivative(grad, out, x, *, ord, dim, keepdim):
        if ord == 0:
            return grad * 0 if x.ndim == 0 else spread(grad * 0, x, dim, keepdim)
        grad, norm = spread(grad, x, dim, keepdim), spread(out, x, dim, keepdim)
        if ord == 1:
            return grad * sign(x)
        if ord in (INFINITY, -INFINITY):
            hit = cast(magnitude(x) == norm, x.dtype)
            return grad * (sign(x) * hit / total(hit, dim, True))
        safe = where(norm == 0, 1.0, norm)
        if ord == 2:
            return grad * where(norm == 0, 0.0, x / safe)
        size = where(x == 0, 1.0, magnitude(x)) if ord < 2 else magnitude(x)
        scaled = sign(x) * size ** (ord - 1) * safe ** (1 - ord)
        return grad * where(norm == 0, 0.0, scaled)


@with_out
def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """The norm of all elements or over `dim`: see `PowerNorm`."""
    if x.dtype.kind not in "fc" or (dtype is not None and dtype.kind not in "fc"):
        fail("linalg.vector_norm", "expected a floating point tensor", x.dtype, hint="x.float()",
             kind=DTypeError)
    if not isinstance(ord, (int, float)):
        fail("linalg.vector_norm", "the order is not a number", ord, kind=ArgumentError)
    if dtype is not None:
        x = cast(x, dtype)
    everything = dim is None or (isinstance(dim, (tuple, list)) and not dim)
    dim = None if everything else normalize_axes(dim, x.ndim, "vector_norm")
    if (ord < 0 or ord == INFINITY) and any(x.shape[a] == 0 for a in (range(x.ndim) if dim is None else dim)):
        fail("linalg.vector_norm", f"the norm of order {ord} has no value over no elements", tuple(x.shape))
    return _power_norm(x, float(ord), dim, bool(keepdim))         # noqa: F821


# ------------------------------------------------------------------------------ matrices
@with_out
def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """The norm of each matrix: 'fro', 'nuc', 1, -1 (columns), inf, -inf (rows), 2, -2 (singular values)."""
    if A.dtype.kind not in "fc":
        fail("linalg.matrix_norm", "expected a floating point tensor", A.dtype, hint="A.float()",
             kind=DTypeError)
    if A.ndim < 2:
        fail("linalg.matrix_norm", "the input must have at least 2 dimensions", tuple(A.shape),
             kind=ShapeError)
    if dtype is not None:
        A = cast(A, dtype)
    first, second = normalize_axes(dim, A.ndim, "matrix_norm")
    if ord == "fro":
        return vector_norm(A, 2, (first, second), keepdim)
    if ord in (1, -1, INFINITY, -INFINITY):
        summed, other = (first, second) if ord in (1, -1) else (second, first)
        sums = total(magnitude(A), summed, True)
        if ord > 0 and sums.shape[other] == 0:
            return total(sums, (summed, other), keepdim)        # the largest of no sums is 0
        return (amax if ord > 0 else amin)(sums, (summed, other), keepdim)
    if ord not in ("nuc", 2, -2):
        fail("linalg.matrix_norm", "unknown order", ord, "'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    from flambeau.ops.linalg import _linalg_svd_reduced
    rest = [a for a in range(A.ndim) if a not in (first, second)]
    s = _linalg_svd_reduced(permute(A, (*rest, first, second)))[1]
    result = total(s, -1) if ord == "nuc" or 0 in A.shape else (amax if ord == 2 else amin)(s, -1)
    if keepdim:
        shape = [1 if a in (first, second) else n for a, n in enumerate(A.shape)]
        return reshape(result, tuple(shape))
    return result


@with_out
def linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None):
    """A matrix norm where `ord` is given for two axes, else a vector norm (torch.linalg.norm)."""
    axes = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None:
        return vector_norm(A, 2, axes, keepdim, dtype=dtype)
    if axes is None:
        if A.ndim not in (1, 2):
            fail("linalg.norm", "with an order and no dim the input must have 1 or 2 dimensions",
                 tuple(A.shape))
        axes = tuple(range(A.ndim))
    if len(axes) == 2:
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    return vector_norm(A, ord, axes, keepdim, dtype=dtype)


@public(method=True)
@with_out
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """The p-norm over `dim` (None: all elements); 'fro' is 2, 'nuc' the sum of singular values."""
    axes = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if p == "nuc":
        return matrix_norm(input, "nuc", axes or (-2, -1), keepdim, dtype=dtype)
    return vector_norm(input, 2 if p in ("fro", None) else p, axes, keepdim, dtype=dtype)


@public(method=False)
@with_out
def native_norm(input, p=2, dim=None, keepdim=False, dtype=None):
    """The p-norm over `dim` (None: all elements), under the name of an older function."""
    return norm(input, p, None if dim is None or dim == () else dim, keepdim, dtype)


@public(method=False)
@with_out
def nuclear_norm(input, dim=(-2, -1), keepdim=False):
    """The sum of the singular values."""
    return matrix_norm(input, "nuc", dim, keepdim)


@public(method=False)
def norm_except_dim(v, pow=2, dim=0):
    """The norms of the slices along `dim`, of which every other axis is kept with size 1; dim -1: of all."""
    if dim == -1:
        return vector_norm(v, pow)
    return vector_norm(v, pow, tuple(a for a in range(v.ndim) if a != dim), True)


@public(method=False)
def frobenius_norm(input, dim=(), keepdim=False):
    """The root of the sum of squares."""
    return vector_norm(input, 2, dim or None, keepdim)


# ------------------------------------------------------------------------------ distances
@op
class RowDistances(Composite):
    """(..., P, M), (..., R, M) -> (..., P, R): the norm of each difference of rows."""

    name = "_row_distances"
    signature = "x1, x2, p=2.0"
    operands = ("x1", "x2")
    dtypes = FLOATING
    tolerance = ulps(64)
    shapes = ((4, 3), (2, 4, 3))

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), rng.uniform(-3, 3, shape)]

    def reference(x1, x2, p=2.0):
        return numpy.sum(abs(x1[..., :, None, :] - x2[..., None, :, :]) ** p, -1) ** (1 / p)

    def compute(x1, x2, p=2.0):
        return _power_norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, (max(x1.ndim, x2.ndim),),  # noqa: F821
                           False)  # noqa: F821


@op
class ProductDistances(Composite):
    """(..., P, M), (..., R, M) -> (..., P, R): Euclidean distances by |a|^2 + |b|^2 - 2 a.b, one matrix product.

    Rounding errors are relative to the squares: those of close rows far from 0 lose digits.
    """

    name = "_product_distances"
    internal = True
    signature = "x1, x2"
    operands = ("x1", "x2")
    dtypes = (float32, float64)
    tolerance = ulps(4096)
    shapes = ((4, 3), (2, 4, 3))

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), rng.uniform(-3, 3, shape)]

    def reference(x1, x2):
        return numpy.sqrt(numpy.sum((x1[..., :, None, :] - x2[..., None, :, :]) ** 2, -1))

    def compute(x1, x2):
        ones, others = total(square(x1), -1, True), total(square(x2), -1)
        return sqrt(maximum(ones + unsqueeze(others, -2) - 2 * matmul(x1, transpose(x2, -1, -2)), 0))

    def derivative(grad, out, x1, x2):
        share = where(out == 0, 0.0, grad / out)
        return (x1 * total(share, -1, True) - matmul(share, x2),
                x2 * unsqueeze(total(share, -2), -1) - matmul(transpose(share, -1, -2), x1))


BY_PRODUCT = {"use_mm_for_euclid_dist_if_necessary": 25, "use_mm_for_euclid_dist": 0,
              "donot_use_mm_for_euclid_dist": INFINITY}


@public(method=False)
@visible
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The p-norm distance of each row of x1 from each row of x2: (..., P, M), (..., R, M) -> (..., P, R).

    Euclidean distances of more than 25 rows come from a matrix product, which costs digits for rows that lie
    closer to each other than to 0; compute_mode "donot_use_mm_for_euclid_dist" never does that,
    "use_mm_for_euclid_dist" always.

    >>> fl.cdist(fl.tensor([[0., 0.]]), fl.tensor([[3., 4.], [0., 1.]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in BY_PRODUCT:
        fail("cdist", f"{compute_mode} is not a valid value for compute_mode", compute_mode, " or ".join(BY_PRODUCT),
             kind=ValueError)
    for x in (x1, x2):
        if x.dtype.kind != "f" or x.ndim < 2:
            fail("cdist", "expected floating point matrices", (x.dtype, tuple(x.shape)))
    if x1.shape[-1] != x2.shape[-1]:
        fail("cdist", "the rows have different lengths", [tuple(x1.shape), tuple(x2.shape)], kind=ShapeError)
    if p < 0:
        fail("cdist", "only non-negative p values are supported", p)
    if 0 in x1.shape or 0 in x2.shape:
        return total(unsqueeze(x1, -2) - unsqueeze(x2, -3), -1)
    most_rows = max(x1.shape[-2], x2.shape[-2])
    if p == 2 and x1.dtype is x2.dtype and x1.dtype.itemsize > 2 and most_rows > BY_PRODUCT[compute_mode]:
        batch = broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2]), op="cdist")
        x1, x2 = (expand(x, (*batch, *x.shape[-2:])) for x in (x1, x2))
        return _product_distances(x1, x2)           # noqa: F821
    return _row_distances(x1, x2, float(p))         # noqa: F821


@public(method=False)
def pdist(input, p=2.0):
    """The distances of all pairs of rows i < j, in a row."""
    from flambeau.ops.index import index_select
    from flambeau.ops.host import tensor_of
    from flambeau.types.dtype import int64
    first, second = (tensor_of(i, int64) for i in numpy.triu_indices(input.shape[0], 1))
    return vector_norm(index_select(input, 0, first) - index_select(input, 0, second), p, -1)


@public(method=False)
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last axis."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
