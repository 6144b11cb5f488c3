"""Gaussian elimination with row exchanges, Householder reflections as LAPACK's, the matrix exponential."""

from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import where
from flambeau.ops.join import cat
from flambeau.ops.linalg import Dense, _linalg_solve_triangular, _smaller, holomorphic, matrices, mt
from flambeau.ops.matmul import matmul
from flambeau.ops.spec import op
from flambeau.ops.triangles import _eye_like, _lower_triangle, _upper_triangle
from flambeau.ops.view import narrow
from flambeau.types.dtype import int32

numpy = LazyModule("numpy")


# ------------------------------------------------------------------------------ LU
@op
class LinalgLuFactor(Dense):
    """L and U in one matrix (the unit diagonal of L left out), and the 1-based row exchanges."""

    name = "_linalg_lu_factor"
    outputs = ("LU", "pivots", "info")
    shapes = ((2, 4, 4), (3, 5), (5, 3))

    def infer(self, inputs, attrs):
        matrices("lu_factor", *inputs)
        *batch, m, n = inputs[0].shape
        return [(inputs[0].dtype, tuple(inputs[0].shape)), (int32, (*batch, _smaller(m, n))),
                (int32, tuple(batch))]

    def host(A):
        return lu_factor(A)

    reference = host

    @holomorphic
    def derivative(grad, out, A):
        (packed, pivots, _), into = out, grad[0]
        m, n = packed.shape[-2:]
        k = min(m, n)
        square, into_square = (narrow(narrow(t, -2, 0, k), -1, 0, k) for t in (packed, into))
        low, up = _lower_triangle(square, -1) + _eye_like(square), _upper_triangle(square, 0)
        into_low, into_up = _lower_triangle(into_square, -1), _upper_triangle(into_square, 0)
        rest = None
        if m > k:           # L2 = A2 U^-1
            below = narrow(packed, -2, k, m - k)
            rest = mt(_linalg_solve_triangular(up, mt(narrow(into, -2, k, m - k)), upper=True))
            into_up = into_up - matmul(mt(below), rest)
        if n > k:           # U2 = L^-1 A2
            behind = narrow(packed, -1, k, n - k)
            rest = _linalg_solve_triangular(mt(low), narrow(into, -1, k, n - k), upper=True,
                                            unitriangular=True)
            into_low = into_low - matmul(rest, mt(behind))
        middle = _lower_triangle(matmul(mt(low), into_low), -1) + _upper_triangle(matmul(into_up, mt(up)), 0)
        middle = _linalg_solve_triangular(mt(low), middle, upper=True, unitriangular=True)
        middle = mt(_linalg_solve_triangular(up, mt(middle), upper=True))
        if rest is not None:
            middle = cat((middle, rest), -2 if m > k else -1)
        return matmul(zero_one_permutation(pivots, m, into.dtype), middle)


@op
class RowExchanges(Dense):
    """The matrices P with A = P L U for 1-based row exchanges."""

    name = "_linalg_row_exchanges"
    signature = "pivots, rows, dtype"
    operands = ("pivots",)
    differentiable = False
    shapes = ()

    def infer(self, inputs, attrs):
        return [(attrs["dtype"], (*inputs[0].shape[:-1], attrs["rows"], attrs["rows"]))]

    def host(pivots, rows, dtype):
        count = int(numpy.prod(pivots.shape[:-1], dtype=int))
        flat = pivots.reshape(count, pivots.shape[-1])
        order = numpy.tile(numpy.arange(rows), (count, 1))
        every = numpy.arange(count)
        for j in range(flat.shape[-1]):
            other = flat[:, j] - 1
            order[every, j], order[every, other] = order[every, other], order[every, j]
        return numpy.swapaxes(numpy.eye(rows)[order], -1, -2).reshape(*pivots.shape[:-1], rows, rows)


def zero_one_permutation(pivots, rows, dtype):
    """The matrices P with A = P L U for 1-based row exchanges."""
    return _linalg_row_exchanges(pivots, rows, dtype)          # noqa: F821


def lu_factor(A):
    """Gaussian elimination with row exchanges, all matrices of the batch at once (NumPy arrays)."""
    a = numpy.array(A)
    *batch, m, n = a.shape
    a = a.reshape(-1, m, n)
    k = min(m, n)
    pivots, info = numpy.zeros((len(a), k), "int32"), numpy.zeros(len(a), "int32")
    every = numpy.arange(len(a))
    for j in range(k):
        column = a[:, j:, j]
        best = j + (abs(column.real) + abs(column.imag)).argmax(-1)         # as LAPACK compares
        pivots[:, j] = best + 1
        a[every, j], a[every, best] = a[every, best], a[every, j]
        pivot = a[:, j, j]
        info = numpy.where((pivot == 0) & (info == 0), j + 1, info)
        a[:, j + 1:, j] /= numpy.where(pivot == 0, 1, pivot)[:, None]
        a[:, j + 1:, j + 1:] -= a[:, j + 1:, j, None] * a[:, j, None, j + 1:]
    return a.reshape(*batch, m, n), pivots.reshape(*batch, k), info.astype("int32").reshape(batch)


def reflections(A):
    """(packed, tau) of LAPACK's geqrf for each matrix of a batch (NumPy arrays)."""
    *batch, m, n = A.shape
    packed, tau = numpy.zeros((*batch, m, n), A.dtype), numpy.zeros((*batch, min(m, n)), A.dtype)
    for i in numpy.ndindex(*batch):
        packed[i], tau[i] = (part.T for part in numpy.linalg.qr(A[i], "raw"))
    return packed, tau


class OutOfBand(Dense):
    """A decomposition without a derivative: a step of others."""

    differentiable = False
    shapes = ()


@op
class CompleteQr(OutOfBand):
    """Square Q and R of A = Q R."""

    name = "_linalg_complete_qr"
    outputs = ("Q", "R")

    def infer(self, inputs, attrs):
        shape = tuple(inputs[0].shape)
        return [(inputs[0].dtype, (*shape[:-1], shape[-2])), (inputs[0].dtype, shape)]

    def host(A):
        return numpy.linalg.qr(A, "complete")


@op
class Reflections(OutOfBand):
    """(a, tau) of `reflections`."""

    name = "_linalg_reflections"
    outputs = ("a", "tau")

    def infer(self, inputs, attrs):
        *batch, m, n = inputs[0].shape
        return [(inputs[0].dtype, (*batch, m, n)), (inputs[0].dtype, (*batch, _smaller(m, n)))]

    def host(A):
        return reflections(A)


# ------------------------------------------------------------------------------ exponential
@op
class MatrixExp(Dense):
    """The matrix exponential of each square matrix."""

    name = "_matrix_exp"

    def infer(self, inputs, attrs):
        matrices("matrix_exp", *inputs, square=True, half=True)
        return [(inputs[0].dtype, tuple(inputs[0].shape))]

    def host(A):
        return exponential(A.astype("complex128" if A.dtype.kind == "c" else "float64"))

    reference = host

    @holomorphic
    def derivative(grad, A):
        n = A.shape[-1]
        across = mt(A)
        above = cat((across, grad), -1)
        below = cat((where(across == across, 0.0, across), across), -1)
        return narrow(narrow(_matrix_exp(cat((above, below), -2)), -2, 0, n), -1, n, n)         # noqa: F821


def exponential(a):
    """Taylor's series of degree 18 on a / 2^s, squared s times (NumPy arrays)."""
    if a.size == 0:
        return a
    norm = abs(a).sum(-2).max(-1)
    with numpy.errstate(divide="ignore"):
        steps = numpy.maximum(0, numpy.ceil(numpy.log2(norm)) + 1)
    steps = numpy.where(numpy.isfinite(steps), steps, 0)
    scaled = a / 2.0 ** steps[..., None, None]
    result = term = numpy.broadcast_to(numpy.eye(a.shape[-1]), a.shape)
    for i in range(1, 19):
        term = term @ scaled / i
        result = result + term
    for i in range(int(steps.max())):
        result = numpy.where((i < steps)[..., None, None], result @ result, result)
    return result
