"""The functions of `flambeau.linalg`: plain Python over the dense ops of `linalg` and other ops."""

from flambeau.base.errors import DTypeError, ShapeError, fail
from flambeau.ops import linalg as dense, linalg_lu as elimination
from flambeau.ops.complex_kernels import conjugate, parts
from flambeau.ops.create import iota
from flambeau.ops.elementwise import cast, where
from flambeau.ops.interpose import visible
from flambeau.ops.kinds import broadcast
from flambeau.ops.linalg import mh, mt
from flambeau.ops.linalg_lu import zero_one_permutation
from flambeau.ops.matmul import matmul
from flambeau.ops.out import with_out
from flambeau.ops.reduce import amax, sum as total
from flambeau.ops.results import result_tuple
from flambeau.ops.spec import public
from flambeau.ops.triangles import _eye_like, _lower_triangle, _upper_triangle
from flambeau.ops.mathematics import log
from flambeau.ops.view import expand, narrow, reshape, squeeze, unsqueeze
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import int32, int64

FINFO_EPS = {"float32": 2.0 ** -23, "float64": 2.0 ** -52}
InvEx = result_tuple("linalg_inv_ex", ("inverse", "info"))
SolveEx = result_tuple("linalg_solve_ex", ("result", "info"))
CholeskyEx = result_tuple("linalg_cholesky_ex", ("L", "info"))
Lstsq = result_tuple("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
Lu = result_tuple("linalg_lu", ("P", "L", "U"))
LuFactor = result_tuple("linalg_lu_factor", ("LU", "pivots"))
Geqrf = result_tuple("geqrf", ("a", "tau"))
Qr = result_tuple("linalg_qr", ("Q", "R"))
Svd = result_tuple("linalg_svd", ("U", "S", "Vh"))
OldSvd = result_tuple("svd", ("U", "S", "V"))
TriangularSolve = result_tuple("triangular_solve", ("solution", "cloned_coefficient"))


# ------------------------------------------------------------------------------ helpers
def together(name, a, b):
    """Two batches of matrices with their batch axes broadcast."""
    batch = broadcast(name, tuple(a.shape[:-2]), tuple(b.shape[:-2]))
    return (x if tuple(x.shape[:-2]) == tuple(batch) else expand(x, (*batch, *x.shape[-2:])) for x in (a, b))


def no_info(x):
    """An info tensor that says: no failure."""
    shape = tuple(x.shape[:-2])
    return x.new_zeros(shape, dtype=int32)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices as vectors (a view)."""
    from flambeau.ops.shape import diagonal as view_diagonal
    return view_diagonal(A, offset, dim1, dim2)


# ------------------------------------------------------------------------------ determinants, inverses
@public(method=True)
@with_out
def det(A):
    """The determinant of each square matrix."""
    return dense._linalg_det(A)


@public(method=True)
@with_out
def slogdet(A):
    """(sign, logabsdet) of the determinant of each square matrix."""
    return dense._linalg_slogdet(A)


@public(method=True)
@visible
def logdet(input):
    """log(det(input)); NaN where the determinant is negative."""
    sign, logarithm = dense._linalg_slogdet(input)
    if sign.dtype.kind == "c":
        return log(sign) + logarithm
    return where(sign < 0, float("nan"), logarithm)


@with_out
def inv(A):
    """The inverse of each square matrix; LinAlgError if one is singular."""
    return dense._linalg_inv(A)


@public(method=True)
@with_out
def inverse(input):
    """The inverse of each square matrix."""
    return dense._linalg_inv(input)


@with_out
def inv_ex(A, *, check_errors=False):
    """(inverse, info): info is 0 for each matrix that has one."""
    return InvEx(dense._linalg_inv(A), no_info(A))


@with_out
def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """The pseudo-inverse; singular values up to max(atol, rtol * largest) count as zero."""
    dense.matrices("pinv", A)
    if rcond is not None:
        rtol = rcond
    return dense._linalg_pinv(A, _relative(A, atol, rtol), bool(hermitian))


def _relative(A, atol, rtol):
    """The relative tolerance that atol and rtol come to."""
    m, n = A.shape[-2:]
    atol, rtol = (t.item() if isinstance(t, Tensor) and t.ndim == 0 else t for t in (atol, rtol))
    if rtol is None:
        rtol = 0.0 if atol else max(m, n) * FINFO_EPS[dense.real_of(A.dtype).name]
    if atol:
        largest = dense._linalg_svd_reduced(A.detach())[1].max().item() if A.numel() else 1.0
        rtol = max(rtol, atol / largest if largest else 0.0)
    return float(rtol)


@public(method=True)
@visible
def pinverse(input, rcond=1e-15):
    """The pseudo-inverse of each matrix."""
    return pinv(input, rcond)


# ------------------------------------------------------------------------------ systems
@with_out
@visible
def solve(A, B, *, left=True):
    """X with A X = B (left=False: X A = B); B may be a vector for each matrix."""
    dense.matrices("solve", A, square=True)
    if A.dtype is not B.dtype:
        fail("linalg.solve", "the operands have different dtypes", [A.dtype, B.dtype], "one dtype")
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    b = unsqueeze(B, -1) if vector else B
    if not left and not vector:
        return mt(solve(mt(A), mt(B)))
    if b.shape[-2] != A.shape[-1]:
        fail("linalg.solve", "the sizes of A and B do not fit", [tuple(A.shape), tuple(B.shape)],
             f"B with {A.shape[-1]} rows", kind=ShapeError)
    x = dense._linalg_solve(*together("linalg.solve", A, b))
    return squeeze(x, -1) if vector else x


@with_out
def solve_ex(A, B, *, left=True, check_errors=False):
    """(result, info) of solve."""
    return SolveEx(solve(A, B, left=left), no_info(A))


@with_out
@visible
def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X with A X = B (left=False: X A = B) for triangular A."""
    dense.matrices("solve_triangular", A, square=True)
    dense.matrices("solve_triangular", A, B)
    if not left:
        return mt(solve_triangular(mt(A), mt(B), upper=not upper, unitriangular=unitriangular))
    if A.shape[-1] != B.shape[-2]:
        fail("linalg.solve_triangular", "the sizes of A and B do not fit", [tuple(A.shape), tuple(B.shape)],
             f"B with {A.shape[-1]} rows", kind=ShapeError)
    a, b = together("linalg.solve_triangular", A, B)
    return dense._linalg_solve_triangular(a, b, upper=upper, unitriangular=unitriangular)


@public(method=True)
@with_out
@visible
def triangular_solve(b, A, upper=True, transpose=False, unitriangular=False):
    """(solution, A) of A X = b for triangular A."""
    matrix = mt(A) if transpose else A
    x = solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolve(x, A)


@with_out
@visible
def lstsq(A, B, rcond=None, *, driver=None):
    """The X of least squares |A X - B|, with residuals, rank and singular values (empty but for driver
    'gelsd', 'gelss').
    """
    dense.matrices("lstsq", A)
    if A.dtype is not B.dtype:
        fail("linalg.lstsq", "the operands have different dtypes", [A.dtype, B.dtype], "one dtype",
             kind=DTypeError)
    vector = A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1])
    b = unsqueeze(B, -1) if vector else B
    if A.shape[-2] != b.shape[-2]:
        fail("linalg.lstsq", "A and B have different numbers of rows", [tuple(A.shape), tuple(B.shape)],
             kind=ShapeError)
    solution = matmul(pinv(A, rcond), b)
    m, n = A.shape[-2:]
    rank = matrix_rank(A) if driver != "gels" else A.new_empty((0,), dtype=int64)
    values = dense._linalg_svd_reduced(A.detach())[1] if driver in ("gelsd", "gelss") \
        else A.new_empty((0,), dtype=dense.real_of(A.dtype))
    rest = matmul(A, solution) - b
    residuals = total(parts(rest * conjugate(rest))[0] if rest.dtype.kind == "c" else rest ** 2, -2)
    full = driver == "gels" or bool((rank == n).all())
    if m <= n or driver in (None, "gelsy") or not full:
        residuals = narrow(reshape(residuals, (-1,)), 0, 0, 0)
    return Lstsq(squeeze(solution, -1) if vector else solution, residuals, rank, values)


# ------------------------------------------------------------------------------ decompositions
@public(method=True)
@with_out
@visible
def cholesky(input, upper=False):
    """Lower triangular L with input = L L^T, or with `upper` its transpose."""
    return dense._linalg_cholesky(input, bool(upper))


@with_out
def cholesky_ex(A, *, upper=False, check_errors=False):
    """(L, info); info is 0 for each matrix that is positive definite."""
    return CholeskyEx(cholesky(A, upper), no_info(A))


def _factored(L, upper):
    """A from its Cholesky factor, of which one triangle is read; the gradient goes to all of L."""
    triangle = (_upper_triangle if upper else _lower_triangle)(L.detach())
    factor = L + (triangle - L.detach()) if L.requires_grad else triangle
    return matmul(mh(factor), factor) if upper else matmul(factor, mh(factor))


@public(method=True)
@with_out
@visible
def cholesky_solve(B, L, upper=False):
    """X with A X = B, where A = L L^T (or L^T L for `upper`)."""
    dense.matrices("cholesky_solve", L, B, square=True)
    return solve(_factored(L, upper), B)


@public(method=True)
@with_out
@visible
def cholesky_inverse(L, upper=False):
    """The inverse of A = L L^T (or L^T L for `upper`)."""
    dense.matrices("cholesky_inverse", L, square=True)
    return dense._linalg_inv(_factored(L, upper))


@with_out
@visible
def qr_decomposition(A, mode="reduced"):
    """(Q, R) with A = Q R; mode 'complete' makes Q square, 'r' leaves it out."""
    if mode not in ("reduced", "complete", "r"):
        fail("linalg.qr", "unknown mode", mode, "'reduced', 'complete' or 'r'")
    dense.matrices("qr", A)
    m, n = A.shape[-2:]
    if mode == "complete" and m > n:
        return _complete_qr(A)
    q, r = dense._linalg_qr_reduced(A)
    return Qr(A.new_empty((0,)) if mode == "r" else q, r)


def _complete_qr(A):
    """Q and R of A with columns added that make it square and regular."""
    return Qr(*elimination._linalg_complete_qr(A))


@public(method=True)
@with_out
@visible
def qr(input, some=True):
    """(Q, R) with input = Q R; Q is square unless `some`."""
    return qr_decomposition(input, "reduced" if some else "complete")


@with_out
@visible
def svd_decomposition(A, full_matrices=True, *, driver=None):
    """(U, S, Vh) with A = U diag(S) Vh."""
    dense.matrices("svd", A)
    u, s, vh = dense._linalg_svd_reduced(A)
    if full_matrices and A.shape[-1] != A.shape[-2]:
        u, vh = _completed(u), mh(_completed(mh(vh)))
    return Svd(u, s, vh)


def _completed(q):
    """Orthonormal columns, and constant further ones that make the matrix square."""
    from flambeau.ops.join import cat
    m, k = q.shape[-2:]
    if m == k:
        return q
    full = elimination._linalg_complete_qr(q.detach())[0]
    return cat((q, narrow(full, -1, k, m - k)), -1)


@public(method=True)
@with_out
@visible
def svd(input, some=True, compute_uv=True):
    """(U, S, V) with input = U diag(S) V^H."""
    u, s, vh = svd_decomposition(input, not some)
    return OldSvd(u, s, mh(vh))


@with_out
@visible
def svdvals(A, *, driver=None):
    """The singular values in descending order."""
    return dense._linalg_svd_reduced(A)[1]


@with_out
@visible
def eigh(A, UPLO="L"):
    """(eigenvalues, eigenvectors) of symmetric matrices; only one triangle is read."""
    return dense._linalg_eigh(A, UPLO)


@with_out
@visible
def eigvalsh(A, UPLO="L"):
    """The eigenvalues of symmetric matrices, ascending."""
    return dense._linalg_eigh(A, UPLO)[0]


@with_out
@visible
def eig(A):
    """(eigenvalues, eigenvectors), both complex, of square matrices."""
    return dense._linalg_eig(A)


@with_out
@visible
def eigvals(A):
    """The complex eigenvalues of square matrices."""
    return dense._linalg_eig(A)[0]


@with_out
def lu_factor(A, *, pivot=True):
    """(LU, pivots): both triangles in one matrix, and the 1-based row exchanges."""
    return LuFactor(*elimination._linalg_lu_factor(A)[:2])


@with_out
def lu_factor_ex(A, *, pivot=True, check_errors=False):
    """(LU, pivots, info)."""
    return elimination._linalg_lu_factor(A)


@public(method=False)
@with_out
def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """(P, L, U) from a packed decomposition."""
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    empty = LU_data.new_empty((0,))
    p = zero_one_permutation(LU_pivots, m, LU_data.dtype) if unpack_pivots else empty
    if not unpack_data:
        return Lu(p, empty, empty)
    low, up = narrow(LU_data, -1, 0, k), narrow(LU_data, -2, 0, k)
    return Lu(p, _lower_triangle(low, -1) + _eye_like(low), _upper_triangle(up, 0))


@with_out
def lu_decomposition(A, *, pivot=True):
    """(P, L, U) with A = P L U."""
    return lu_unpack(*elimination._linalg_lu_factor(A)[:2])


@with_out
def lu_solve_factored(LU, pivots, B, *, left=True, adjoint=False):
    """X with A X = B (left=False: X A = B; adjoint: A^H in place of A), from A's decomposition."""
    if not left:
        return mh(lu_solve_factored(LU, pivots, mh(B), adjoint=not adjoint))
    p, low, up = lu_unpack(LU, pivots)
    if adjoint:
        y = solve_triangular(mh(up), B, upper=False)
        return matmul(p, solve_triangular(mh(low), y, upper=True, unitriangular=True))
    y = solve_triangular(low, matmul(mt(p), B), upper=False, unitriangular=True)
    return solve_triangular(up, y, upper=True)


@public(method=True)
@with_out
def lu(A, pivot=True, get_infos=False):
    """(LU, pivots), with `get_infos` also 0 for each matrix that has a decomposition."""
    packed = elimination._linalg_lu_factor(A)
    return packed if get_infos else LuFactor(*packed[:2])


@public(method=True)
@with_out
@visible
def lu_solve(b, LU_data, LU_pivots):
    """X with A X = b from A's decomposition."""
    return lu_solve_factored(LU_data, LU_pivots, b)


# ------------------------------------------------------------------------------ powers, products
@public(method=True)
@with_out
def matrix_power(input, n):
    """The matrix product of n copies; the inverse for negative n."""
    dense.matrices("matrix_power", input, square=True)
    if n < 0:
        input, n = dense._linalg_inv(input), -n
    if n == 0:
        return expand(_eye_like(input), tuple(input.shape)) + input * 0
    result = None
    while n:
        if n & 1:
            result = input if result is None else matmul(result, input)
        n >>= 1
        if n:
            input = matmul(input, input)
    return result


@public(method=True)
def matrix_exp(A):
    """The matrix exponential."""
    return elimination._matrix_exp(A)


@with_out
def multi_dot(tensors):
    """The product of matrices (the first and last may be vectors) in the order that needs the fewest
    multiplications.
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        fail("linalg.multi_dot", "expected at least 2 tensors", len(tensors))
    first, last = tensors[0], tensors[-1]
    if first.ndim == 1:
        tensors[0] = unsqueeze(first, 0)
    if last.ndim == 1:
        tensors[-1] = unsqueeze(last, 1)
    sizes = [t.shape[0] for t in tensors] + [tensors[-1].shape[1]]
    result = _product(tensors, _best_split(sizes), 0, len(tensors) - 1)
    if first.ndim == 1:
        result = squeeze(result, 0)
    return squeeze(result, -1) if last.ndim == 1 else result


def _best_split(sizes):
    """(first, last) -> where to split that part of the chain: the classic table."""
    count = len(sizes) - 1
    cost, split = {(i, i): 0 for i in range(count)}, {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [(cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                       for k in range(i, j)]
            cost[i, j], split[i, j] = min(options)
    return split


def _product(tensors, split, i, j):
    if i == j:
        return tensors[i]
    k = split[i, j]
    return matmul(_product(tensors, split, i, k), _product(tensors, split, k + 1, j))


@public(method=False)
@with_out
def chain_matmul(*matrices):
    """The product of matrices."""
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


# ------------------------------------------------------------------------------ rank, condition
@with_out
@visible
def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """The number of singular values above max(atol, rtol * largest)."""
    dense.matrices("matrix_rank", A)
    s = dense._linalg_svd_reduced(A.detach())[1]
    if tol is not None:
        atol, rtol = tol, 0.0
    if rtol is None:
        rtol = 0.0 if atol is not None and not isinstance(atol, Tensor) and atol > 0 \
            else max(A.shape[-2:]) * FINFO_EPS[dense.real_of(A.dtype).name]
    if s.numel() == 0:
        return s.new_zeros(tuple(A.shape[:-2]), dtype=int64)
    limit = amax(s, -1) * rtol
    if atol is not None:
        limit = where(limit < atol, cast(atol, s.dtype) if isinstance(atol, Tensor) else atol, limit)
    return total(cast(s > unsqueeze(limit, -1), int64), -1)


@with_out
@visible
def cond(A, p=None):
    """The condition number of each matrix in the norm p (None: 2)."""
    from flambeau.ops.norms import matrix_norm
    if p in (None, 2, -2):
        s = svdvals(A)
        large, small = (narrow(s, -1, i, 1) for i in (0, s.shape[-1] - 1))
        return squeeze(small / large if p == -2 else large / small, -1)
    return matrix_norm(A, p) * matrix_norm(dense._linalg_inv(A), p)


@with_out
def tensorinv(A, ind=2):
    """The inverse of a tensor as a map of its last axes to its first `ind` axes."""
    size = 1
    for s in A.shape[:ind]:
        size = size * s
    return reshape(inv(reshape(A, (size, -1))), (*A.shape[ind:], *A.shape[:ind]))


@with_out
@visible
def tensorsolve(A, B, dims=None):
    """X with tensordot(A, X, X.ndim) = B."""
    if dims is not None:
        from flambeau.ops.view import permute
        dims = [d % A.ndim for d in dims]
        A = permute(A, [i for i in range(A.ndim) if i not in dims] + dims)
    shape = tuple(A.shape[B.ndim:])
    return reshape(solve(reshape(A, (B.numel(), -1)), reshape(B, (-1,))), shape)


@public(method=False)
def vander(x, N=None, *, increasing=False):
    """Powers of x as columns: x^(N-1), ..., x, 1."""
    x = unsqueeze(x, 0) if x.ndim == 0 else x
    n = x.shape[-1] if N is None else N
    powers = iota((n,), 0)
    return unsqueeze(x, -1) ** (powers if increasing else n - 1 - powers)


def linalg_vander(x, *, N=None):
    """Powers of x as columns: 1, x, ..., x^(N-1)."""
    return vander(x, N, increasing=True)


@with_out
@visible
def vecdot(x, y, *, dim=-1):
    """The sum of products along one axis, of the conjugates of x."""
    return total(conjugate(x) * y, dim)


@with_out
@visible
def householder_product(A, tau):
    """The first columns of the product of Householder reflections (I - tau v v^H)."""
    m, n = A.shape[-2:]
    vectors = _lower_triangle(A, -1) + _eye_like(A)
    q = expand(narrow(_eye_like(matmul(A, mt(A))), -1, 0, n), tuple(A.shape)) + A * 0
    for i in range(tau.shape[-1] - 1, -1, -1):
        v = narrow(vectors, -1, i, 1)
        q = q - matmul(v, matmul(mh(v), q)) * unsqueeze(narrow(tau, -1, i, 1), -1)
    return q


public(method=True, aliases=("orgqr",))(householder_product)


@public(method=True)
@with_out
@visible
def geqrf(input):
    """(a, tau): R above the diagonal, and below it the vectors of the reflections that make up Q."""
    dense.matrices("geqrf", input)
    return Geqrf(*elimination._linalg_reflections(input))


@public(method=True)
@with_out
def ormqr(input, tau, other, left=True, transpose=False):
    """Q @ other (left=False: other @ Q; transpose: Q^H) for the Q of `geqrf`."""
    from flambeau.ops.join import cat
    m, k = input.shape[-2], tau.shape[-1]
    columns = narrow(input, -1, 0, k)
    if m > k:
        columns = cat((columns, columns.new_zeros((*columns.shape[:-1], m - k))), -1)
        tau = cat((tau, tau.new_zeros((*tau.shape[:-1], m - k))), -1)
    q = householder_product(columns, tau)
    q = mh(q) if transpose else q
    return matmul(q, other) if left else matmul(other, q)


@public(method=False)
def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of the q largest singular values of A - M."""
    u, s, vh = dense._linalg_svd_reduced(A if M is None else A - M)
    k = min(q, s.shape[-1])
    return narrow(u, -1, 0, k), narrow(s, -1, 0, k), narrow(mh(vh), -1, 0, k)


@public(method=False)
def pca_lowrank(A, q=None, center=True, niter=2):
    """(U, S, V) of the q (6) largest singular values of A, its columns centred first."""
    q = min(6, *A.shape[-2:]) if q is None else q
    return svd_lowrank(A - total(A, -2, True) / A.shape[-2] if center else A, q)
