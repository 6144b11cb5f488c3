"""Factors of symmetric and Hermitian matrices that need not be positive: A = P L D L^T P^T.

D has blocks of one or two rows, chosen as Bunch and Kaufman do (Some stable methods for calculating inertia
and solving symmetric linear systems, 1977). L and D stand in one lower triangle. `pivots` are LAPACK's: p > 0
where a block of one row was exchanged with row p, twice -p for a block of two whose second row was.
"""

import math
from flambeau.base.errors import ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.complex_kernels import conjugate
from flambeau.ops.linalg import Dense, LinAlgError, matrices, symmetric_samples
from flambeau.ops.out import with_out
from flambeau.ops.results import result_tuple
from flambeau.ops.spec import op
from flambeau.types.dtype import int32

numpy = LazyModule("numpy")
Factor = result_tuple("linalg_ldl_factor", ("LD", "pivots"))
GROWTH = (1 + math.sqrt(17)) / 8        # a pivot this part of the others bounds the growth of elements


def _size(x):
    return abs(x.real) + abs(x.imag)


def _choose(a, k, hermitian):
    """(row to exchange, rows in the block) for the step at row k; (k, 0) for a column of zeros."""
    own = _size(a[k, k].real if hermitian else a[k, k])
    below = _size(a[k + 1:, k])
    if own == 0 and not below.any():
        return k, 0
    largest = below.max() if len(below) else 0
    if own >= GROWTH * largest:
        return k, 1
    row = k + 1 + int(below.argmax())
    others = numpy.concatenate([_size(a[row, k:row]), _size(a[row + 1:, row])]).max()
    if own >= GROWTH * largest * (largest / others):
        return k, 1
    mine = _size(a[row, row].real if hermitian else a[row, row])
    return (row, 1) if mine >= GROWTH * others else (row, 2)


def _across(x, hermitian):
    return x.conj() if hermitian else x


def _exchange(a, k, first, second, hermitian):
    """Rows and columns `first` < `second` of the lower triangle that starts at k."""
    a[[first, second], k:first] = a[[second, first], k:first]
    behind = a[second + 1:, [first, second]]
    a[second + 1:, [second, first]] = behind
    column, row = a[first + 1:second, first].copy(), a[second, first + 1:second].copy()
    a[first + 1:second, first], a[second, first + 1:second] = _across(row, hermitian), _across(column,
                                                                                               hermitian)
    a[second, first] = _across(a[second, first], hermitian)
    a[first, first], a[second, second] = a[second, second], a[first, first]


def _block(a, k, rows, hermitian):
    """The diagonal block of D that stands at row k."""
    d = numpy.array(a[k:k + rows, k:k + rows])
    if rows == 2:
        d[0, 1] = _across(d[1, 0], hermitian)
    if hermitian:
        d[range(rows), range(rows)] = d.diagonal().real
    return d


def ldl_one(a, hermitian):
    """Factor one matrix in place (NumPy); returns (pivots, info)."""
    n, k, info = len(a), 0, 0
    pivots = numpy.zeros(n, "int32")
    while k < n:
        place, rows = _choose(a, k, hermitian)
        if rows == 0:
            info, rows, pivots[k] = info or k + 1, 1, k + 1
            k += 1
            continue
        last = k + rows - 1
        if place != last:
            _exchange(a, k, last, place, hermitian)
        d, rest = _block(a, k, rows, hermitian), k + rows
        factor = numpy.linalg.solve(d.T, a[rest:, k:rest].T).T
        a[rest:, rest:] -= factor @ d @ _across(factor.T, hermitian)
        a[rest:, k:rest] = factor
        if hermitian:
            a[range(n), range(n)] = a.diagonal().real
        pivots[k:rest] = place + 1 if rows == 1 else -(place + 1)
        k = rest
    return pivots, info


def _steps(pivots):
    """(first row, rows of the block, row exchanged with its last) of each step."""
    k = 0
    while k < len(pivots):
        rows = 1 if pivots[k] > 0 else 2
        yield k, rows, abs(int(pivots[k])) - 1
        k += rows


def solve_one(a, pivots, b, hermitian):
    """Solve with one factored matrix in place of b (NumPy)."""
    steps = list(_steps(pivots))
    for k, rows, place in steps:
        last, rest = k + rows - 1, k + rows
        b[[last, place]] = b[[place, last]]
        b[rest:] -= a[rest:, k:rest] @ b[k:rest]
        b[k:rest] = numpy.linalg.solve(_block(a, k, rows, hermitian), b[k:rest])
    for k, rows, place in reversed(steps):
        last, rest = k + rows - 1, k + rows
        b[k:rest] -= _across(a[rest:, k:rest].T, hermitian) @ b[rest:]
        b[[last, place]] = b[[place, last]]


@op
class LinalgLdlFactor(Dense):
    """(LD, pivots, info) of symmetric or (`hermitian`) Hermitian matrices; the lower triangle is read."""

    name = "_linalg_ldl_factor"
    signature = "A, hermitian=False"
    outputs = ("LD", "pivots", "info")
    differentiable = False
    samples = symmetric_samples

    def infer(self, inputs, attrs):
        matrices("ldl_factor", *inputs, square=True)
        shape = tuple(inputs[0].shape)
        return [(inputs[0].dtype, shape), (int32, shape[:-1]), (int32, shape[:-2])]

    def host(A, hermitian):
        packed, n = numpy.tril(A), A.shape[-1]
        batch = A.shape[:-2]
        pivots, info = numpy.zeros((*batch, n), "int32"), numpy.zeros(batch, "int32")
        for i in numpy.ndindex(*batch):
            pivots[i], info[i] = ldl_one(packed[i], hermitian)
        return numpy.tril(packed), pivots, info

    def reference(A, hermitian=False):
        return LinalgLdlFactor.host(A, hermitian)


@op
class LinalgLdlSolve(Dense):
    """X with A X = B for factored A."""

    name = "_linalg_ldl_solve"
    signature = "LD, pivots, B, hermitian=False"
    operands = ("LD", "pivots", "B")
    shapes = ()

    def infer(self, inputs, attrs):
        return [(inputs[2].dtype, tuple(inputs[2].shape))]

    def host(LD, pivots, B, hermitian):
        x = numpy.array(B)
        for i in numpy.ndindex(*B.shape[:-2]):
            solve_one(LD[i], pivots[i], x[i], hermitian)
        return x

    reference = host

    def derivative(grad, LD, pivots, B, *, hermitian):
        if hermitian:
            return None, None, _linalg_ldl_solve(LD, pivots, grad, True)          # noqa: F821
        return None, None, conjugate(_linalg_ldl_solve(LD, pivots, conjugate(grad)))         # noqa: F821


@with_out
def ldl_factor(A, *, hermitian=False):
    """(LD, pivots) with A = P L D L^T P^T, or L^H for `hermitian`; the lower triangle of A is read.

    Args:
        A: (..., n, n).

    Raises:
        LinAlgError: for a matrix whose D is singular.

    >>> packed, pivots = ldl_factor(tensor([[0.0, 2.0], [2.0, 0.0]]))
    >>> pivots.tolist()
    [-2, -2]
    >>> ldl_solve(packed, pivots, tensor([[2.0], [4.0]])).tolist()
    [[2.0], [1.0]]
    """
    packed, pivots, info = ldl_factor_ex(A, hermitian=hermitian)
    if info.numel() and info.any().item():
        fail("linalg.ldl_factor", "a diagonal block of D is zero", hint="use ldl_factor_ex", kind=LinAlgError)
    return Factor(packed, pivots)


@with_out
def ldl_factor_ex(A, *, hermitian=False, check_errors=False):
    """(LD, pivots, info): info is the first row of D that is zero, counted from 1, or 0."""
    return _linalg_ldl_factor(A, bool(hermitian))           # noqa: F821


@with_out
def ldl_solve(LD, pivots, B, *, hermitian=False):
    """X with A X = B: LD (..., n, n) and pivots (..., n) from `ldl_factor`, B (..., n, k)."""
    from flambeau.ops.linalg_functions import together
    from flambeau.ops.view import expand
    matrices("ldl_solve", LD, square=True)
    if B.ndim < 2 or B.shape[-2] != LD.shape[-1]:
        fail("linalg.ldl_solve", "the sizes of LD and B do not fit", [tuple(LD.shape), tuple(B.shape)],
             f"B with {LD.shape[-1]} rows", kind=ShapeError)
    if pivots.dtype.kind != "i" or tuple(pivots.shape) != tuple(LD.shape[:-1]):
        fail("linalg.ldl_solve", "pivots must be integers, one a row of LD", (pivots.dtype,
                                                                              tuple(pivots.shape)))
    if LD.dtype is not B.dtype:
        fail("linalg.ldl_solve", "the operands have different dtypes", [LD.dtype, B.dtype], "one dtype")
    packed, b = together("linalg.ldl_solve", LD, B)
    return _linalg_ldl_solve(packed, expand(pivots, tuple(packed.shape[:-1])), b,
                             bool(hermitian))      # noqa: F821
