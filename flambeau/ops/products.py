"""Products of vectors, matrices and tensors beside `matmul`: plain functions over ops."""

from flambeau.base.errors import ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.complex_kernels import conjugate
from flambeau.ops.elementwise import NUMBERS, mul
from flambeau.ops.interpose import visible
from flambeau.ops.kinds import Composite
from flambeau.ops.matmul import bmm, matmul, same_dtype
from flambeau.ops.out import with_out
from flambeau.ops.reduce import sum as total
from flambeau.ops.samples import ulps
from flambeau.ops.shape import diagonal, parts
from flambeau.ops.spec import op, public
from flambeau.ops.view import permute, reshape, unsqueeze
from flambeau.runtime._core import Tensor
from flambeau.types.shape import normalize_axis, show_shape

numpy = LazyModule("numpy")


def expect_rank(name, ranks, *tensors):
    """Each tensor has one of the given numbers of axes."""
    ranks = (ranks,) if isinstance(ranks, int) else ranks
    for t in tensors:
        if not isinstance(t, Tensor):
            fail(name, "the operands must be tensors", type(t).__name__, kind=TypeError)
        if t.ndim not in ranks:
            fail(name, "an operand has the wrong number of dims", show_shape(t.shape),
                 " or ".join(f"{r}-d" for r in ranks), kind=ShapeError)
    same_dtype(name, *tensors)


def expect_size(name, got, want):
    if got != want:
        fail(name, "sizes do not fit", got, want, kind=ShapeError)


# ------------------------------------------------------------------------------ vectors
@op
class Dot(Composite):
    """The sum of products of two vectors of one length."""

    signature = "input, tensor"
    operands = ("input", "tensor")
    dtypes = NUMBERS
    tolerance = ulps(64)
    shapes = ((5,), (33,))
    looks_at_sizes = True
    inplace = False

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape) for _ in range(2)]

    def prepare(self, values):
        input, tensor = values["input"], values["tensor"]
        expect_rank("dot", 1, input, tensor)
        sizes = input.shape[0], tensor.shape[0]
        if all(isinstance(size, int) for size in sizes):        # while tracing, the product makes them one
            expect_size("dot", *sizes)
        return values

    def compute(input, tensor):
        return total(mul(input, tensor), dtype=input.dtype)

    def reference(input, tensor):
        return numpy.dot(input, tensor)


@public(method=True)
@with_out
@visible
def vdot(input, other):
    """The sum of products of two vectors (of the conjugate of the first)."""
    return dot(conjugate(input), other)             # noqa: F821


@public(method=True, aliases=("ger",))
@with_out
@visible
def outer(input, vec2):
    """(n), (m) -> (n, m): every product."""
    if input.ndim != 1 or vec2.ndim != 1:
        fail("outer", "the operands must be vectors", [show_shape(input.shape), show_shape(vec2.shape)],
             kind=ShapeError)
    return mul(unsqueeze(input, 1), unsqueeze(vec2, 0))


@public(method=True)
@with_out
@visible
def inner(input, other):
    """Sums of products over the last axis of both."""
    if input.ndim == 0 or other.ndim == 0:
        return mul(input, other)
    if input.shape[-1] != other.shape[-1]:
        fail("inner", "the last sizes differ", [show_shape(input.shape), show_shape(other.shape)],
             kind=ShapeError)
    return tensordot(input, other, ([-1], [-1]))


@public(method=True)
@with_out
@visible
def mv(input, vec):
    """(n, m), (m) -> (n)."""
    expect_rank("mv", 2, input)
    expect_rank("mv", 1, vec)
    return matmul(input, vec)


def cross_product(x, y, dim):
    """The vector product along an axis of size 3."""
    dim = normalize_axis(dim, x.ndim, "cross")
    for t in (x, y):
        if t.shape[dim] != 3:
            fail("cross", f"dimension {dim} does not have size 3", show_shape(t.shape), kind=ShapeError)
    from flambeau.ops.join import cat
    (a1, a2, a3), (b1, b2, b3) = (parts(t, dim, (1, 1, 1)) for t in (x, y))
    return cat((a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1), dim)


@public(method=True)
@with_out
def cross(input, other, dim=None):
    """The vector product along `dim` (None: the first axis of size 3)."""
    if dim is None:
        dim = next((i for i, s in enumerate(input.shape) if s == 3), None)
        if dim is None:
            fail("cross", "no dimension of size 3 in input", show_shape(input.shape), kind=ShapeError)
    return linalg_cross(input, other, dim=dim)


@with_out
def linalg_cross(input, other, *, dim=-1):
    """The vector product along `dim`, the other axes broadcast."""
    if input.ndim != other.ndim:
        fail("linalg.cross", "the inputs must have the same number of dimensions", [input.ndim, other.ndim],
             kind=ShapeError)
    return cross_product(input, other, dim)


# ------------------------------------------------------------------------------ matrices
def added(name, input, product, beta, alpha):
    """beta * input + alpha * product; at beta 0 the input is not read."""
    if product.dtype.kind in "iu":          # whole numbers have whole factors
        beta, alpha = int(beta), int(alpha)
    elif product.dtype.kind == "b":         # and bools either count or do not
        beta, alpha = bool(beta), bool(alpha)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    if input.dtype is not product.dtype:
        fail(name, "the dtypes of the operands differ", [input.dtype, product.dtype], "one dtype")
    from flambeau.types.shape import broadcast_shapes
    if tuple(broadcast_shapes(tuple(input.shape), tuple(product.shape), op=name)) != tuple(product.shape):
        fail(name, "the input does not broadcast to the product",
             [show_shape(input.shape), show_shape(product.shape)],
             kind=ShapeError)
    return (input if beta == 1 else input * beta) + product


@public(method=True, inplace=True)
@with_out
@visible
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    expect_rank("addmm", 2, mat1, mat2)
    return added("addmm", input, matmul(mat1, mat2), beta, alpha)


@public(method=True, inplace=True)
@with_out
@visible
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """beta * input + alpha * (mat @ vec)."""
    return added("addmv", input, mv(mat, vec), beta, alpha)


@public(method=True, inplace=True)
@with_out
@visible
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """beta * input + alpha * outer(vec1, vec2)."""
    return added("addr", input, outer(vec1, vec2), beta, alpha)


@public(method=True, inplace=True)
@with_out
@visible
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * bmm(batch1, batch2)."""
    return added("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@public(method=True, inplace=True)
@with_out
@visible
def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * the sum of the batch of products."""
    return added("addbmm", input, total(bmm(batch1, batch2), 0, dtype=batch1.dtype), beta, alpha)


@public(method=True)
@visible
def trace(input):
    """The sum of the diagonal of a matrix."""
    if input.ndim != 2:
        fail("trace", "expected a matrix", show_shape(input.shape), kind=ShapeError)
    return total(diagonal(input))


@public(method=True)
@with_out
def kron(input, other):
    """Every element of `input` times all of `other`, as blocks."""
    rank = max(input.ndim, other.ndim)
    a = (1,) * (rank - input.ndim) + tuple(input.shape)
    b = (1,) * (rank - other.ndim) + tuple(other.shape)
    spread_a = [n for s in a for n in (s, 1)]
    spread_b = [n for s in b for n in (1, s)]
    product = mul(reshape(input, tuple(spread_a)), reshape(other, tuple(spread_b)))
    return reshape(product, tuple(x * y for x, y in zip(a, b)))


# ------------------------------------------------------------------------------ tensors
@public(method=False)
@with_out
def tensordot(a, b, dims=2):
    """Sums of products over axes: the last `dims` of a and first of b, or a pair of lists of axes."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            fail("tensordot", "expects dims >= 0", dims)
        left, right = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        left, right = ([d % t.ndim for d in (side if isinstance(side, (tuple, list)) else [side])]
                       for side, t in zip(dims, (a, b)))
    for i, j in zip(left, right):       # an axis of size 1 is spread over its partner
        if a.shape[i] == 1 != b.shape[j]:
            b = total(b, j, True, dtype=b.dtype)
        elif b.shape[j] == 1 != a.shape[i]:
            a = total(a, i, True, dtype=a.dtype)
    if len(left) != len(right) or any(a.shape[i] != b.shape[j] for i, j in zip(left, right)):
        fail("tensordot", "the contracted dimensions do not match",
             [show_shape(a.shape), show_shape(b.shape)], kind=ShapeError)
    rest_a, rest_b = [[i for i in range(t.ndim) if i not in used] for t, used in ((a, left), (b, right))]
    size = _product(a.shape[i] for i in left)
    rows, columns = _product(a.shape[i] for i in rest_a), _product(b.shape[i] for i in rest_b)
    x = reshape(permute(a, (*rest_a, *left)), (rows, size))
    y = reshape(permute(b, (*right, *rest_b)), (size, columns))
    return reshape(matmul(x, y), (*[a.shape[i] for i in rest_a], *[b.shape[i] for i in rest_b]))


def _product(sizes):
    result = 1
    for s in sizes:
        result = result * s
    return result


@public(method=False)
@visible
def bilinear(input1, input2, weight, bias=None):
    """(..., i), (..., j), weight (o, i, j) -> (..., o): input1 @ weight[o] @ input2, plus bias."""
    if tuple(input1.shape[:-1]) != tuple(input2.shape[:-1]):
        fail("bilinear", "the leading sizes of the inputs differ",
             [show_shape(input1.shape), show_shape(input2.shape)],
             kind=ShapeError)
    out, i, j = weight.shape
    rows = _product(input1.shape[:-1])
    left = matmul(reshape(input1, (rows, i)), reshape(permute(weight, (1, 0, 2)), (i, out * j)))
    result = total(mul(reshape(left, (rows, out, j)), reshape(input2, (rows, 1, j))), -1)
    result = reshape(result, (*input1.shape[:-1], out))
    return result if bias is None else result + bias


