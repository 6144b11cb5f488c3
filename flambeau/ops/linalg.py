"""Dense linear algebra on the host (LAPACK through NumPy), with derivatives in ops.

Every op takes matrices in the last two axes and batches of them in the axes before; operands of one op have
the same batch axes (the functions of `linalg_functions` broadcast). Gradients of complex matrices are
conjugate Wirtinger derivatives: a function that is holomorphic has the derivative of real matrices between
two conjugations (`holomorphic`), in the others `mh` stands where real matrices have a transpose.
"""

import functools

from flambeau.base.errors import ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.complex_kernels import conjugate, parts
from flambeau.ops.elementwise import cast
from flambeau.ops.host import require_floating
from flambeau.ops.join import cat
from flambeau.ops.kinds import Opaque
from flambeau.ops.matmul import matmul
from flambeau.ops.reduce import sum as total
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op
from flambeau.ops.triangles import _diagonal_matrix, _eye_like, _lower_triangle, _upper_triangle
from flambeau.ops.view import narrow, transpose, unsqueeze
from flambeau.types.dtype import complex64, complex128, float32, float64

numpy = LazyModule("numpy")


class LinAlgError(RuntimeError):
    """A matrix for which the decomposition does not exist, such as a singular one."""


def checked(name, function, *arrays, **how):
    """Call a function of numpy.linalg; its LinAlgError becomes ours."""
    try:
        return function(*arrays, **how)
    except numpy.linalg.LinAlgError as error:
        fail(f"linalg.{name}", str(error),
             hint="the input is singular or not of the kind this function needs",
             kind=LinAlgError)


def mt(x):
    """The transpose of each matrix."""
    return transpose(x, -1, -2)


def mh(x):
    """The conjugate transpose of each matrix."""
    return conjugate(transpose(x, -1, -2))


def holomorphic(derivative):
    """Decorator: the derivative of real matrices, made that of complex ones too."""
    @functools.wraps(derivative)
    def both(grad, *operands, **attributes):
        grad = tuple(map(conjugate, grad)) if isinstance(grad, tuple | list) else conjugate(grad)
        got = derivative(grad, *operands, **attributes)
        return tuple(map(conjugate, got)) if isinstance(got, tuple) else conjugate(got)
    return both


def like(x, other):
    """x in the dtype of `other`."""
    return x if x.dtype is other.dtype else cast(x, other.dtype)


def imaginary_part(x):
    """i Im(x), complex; 0 for real x."""
    return (x - conjugate(x)) * 0.5


def matrices(name, *operands, square=False, half=False):
    """Check that the operands are floating or complex matrices, square ones where asked."""
    if any(x.dtype.kind != "c" or x.dtype is not operands[0].dtype for x in operands):
        require_floating(f"linalg.{name}", *operands, half=half)
    for i, x in enumerate(operands):
        if len(x.shape) < 2:
            fail(f"linalg.{name}", "the input must have at least 2 dimensions", tuple(x.shape),
                 kind=ShapeError)
        rows, columns = x.shape[-2:]
        if i == 0 and square and rows != columns and isinstance(rows, int) and isinstance(columns, int):
            fail(f"linalg.{name}", "the matrices must be square", tuple(x.shape), "(..., n, n)",
                 kind=ShapeError)


def real_of(dtype):
    """The dtype of the magnitudes of elements."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


class Dense(Opaque):
    """What the ops here share: float32 and float64 matrices."""

    signature = "A"
    operands = ("A",)
    dtypes = (float32, float64)
    tolerance = ulps(4096)
    shapes = ((3, 3), (2, 4, 4))

    def samples(rng, shape):
        return [well_conditioned(rng, shape)]


def well_conditioned(rng, shape):
    """Random matrices with a dominant diagonal."""
    return rng.uniform(-1, 1, shape) + 3 * numpy.eye(*shape[-2:])


def symmetric_samples(rng, shape):
    """Random positive definite matrices with distinct eigenvalues."""
    x = rng.uniform(-0.3, 0.3, shape)
    return [x + numpy.swapaxes(x, -1, -2) + numpy.diag(numpy.arange(2.0, 2.0 + shape[-1]))]


# ------------------------------------------------------------------------------ determinants, inverse
@op
class LinalgDet(Dense):
    """The determinant of each matrix."""

    name = "_linalg_det"

    def infer(self, inputs, attrs):
        matrices("det", *inputs, square=True)
        return [(inputs[0].dtype, tuple(inputs[0].shape[:-2]))]

    def host(A):
        return numpy.linalg.det(A)

    reference = host

    def derivative(grad, A):
        return unsqueeze(unsqueeze(grad, -1), -1) * conjugate(_linalg_cofactor(A))           # noqa: F821


@op
class LinalgCofactor(Dense):
    """det(A) inv(A)^T, defined for singular matrices too: the derivative of the determinant."""

    name = "_linalg_cofactor"

    def infer(self, inputs, attrs):
        return [(inputs[0].dtype, tuple(inputs[0].shape))]

    def host(A):
        u, s, vh = numpy.linalg.svd(A)
        n = s.shape[-1]
        others = numpy.where(numpy.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
        sign = numpy.linalg.det(u) * numpy.linalg.det(vh)
        return (u.conj() * (others * sign[..., None])[..., None, :]) @ vh.conj()

    def reference(A):
        return numpy.linalg.det(A)[..., None, None] * numpy.swapaxes(numpy.linalg.inv(A), -1, -2)

    @holomorphic
    def derivative(grad, out, A):
        inverse = mt(_linalg_inv(A))          # noqa: F821
        share = total(total(grad * out, -1, True), -2, True)
        return inverse * share - matmul(matmul(out, mt(grad)), inverse)


@op
class LinalgSlogdet(Dense):
    """Sign and logarithm of the absolute value of the determinant."""

    name = "_linalg_slogdet"
    outputs = ("sign", "logabsdet")

    def infer(self, inputs, attrs):
        matrices("slogdet", *inputs, square=True)
        dtype, batch = inputs[0].dtype, tuple(inputs[0].shape[:-2])
        return [(dtype, batch), (real_of(dtype), batch)]

    def host(A):
        return tuple(numpy.linalg.slogdet(A))

    reference = host

    def derivative(grad, out, A):
        into_sign, growth = grad
        if into_sign is not None and into_sign.dtype.kind == "c":   # it turns with the imaginary part
            turn = imaginary_part(into_sign * conjugate(out[0]))
            growth = turn if growth is None else turn + growth
        if growth is None:
            return None
        return unsqueeze(unsqueeze(growth, -1), -1) * mh(_linalg_inv(A))         # noqa: F821


@op
class LinalgInv(Dense):
    """The inverse of each matrix."""

    name = "_linalg_inv"

    def infer(self, inputs, attrs):
        matrices("inv", *inputs, square=True)
        return [(inputs[0].dtype, tuple(inputs[0].shape))]

    def host(A):
        return checked("inv", numpy.linalg.inv, A)

    reference = host

    @holomorphic
    def derivative(grad, out, A):
        inverse = mt(out)
        return -matmul(matmul(inverse, grad), inverse)


@op
class LinalgPinv(Dense):
    """The pseudo-inverse of each matrix; singular values up to max(atol, rtol * largest) count as zero."""

    name = "_linalg_pinv"
    signature = "A, rcond, hermitian=False"
    shapes = ((3, 3), (2, 4, 3), (3, 4))
    cases = [{"rcond": 1e-6}]       # of a Hermitian matrix the lower triangle is read

    def infer(self, inputs, attrs):
        matrices("pinv", *inputs)
        *batch, m, n = inputs[0].shape
        return [(inputs[0].dtype, (*batch, n, m))]

    def host(A, rcond, hermitian=False):
        return checked("pinv", numpy.linalg.pinv, A, rcond, hermitian=hermitian)

    reference = host

    def derivative(grad, out, A):
        g, across = mh(grad), mh(out)
        if A.shape[-2] <= A.shape[-1]:
            k = matmul(g, out)
            spread = matmul(k, across)
            return -mh(matmul(out, k)) + spread - matmul(matmul(A, out), spread) \
                + matmul(matmul(across, out), g - matmul(k, A))
        k = matmul(out, g)
        spread = matmul(across, k)
        return -mh(matmul(k, out)) + matmul(matmul(g - matmul(A, k), out), across) + spread \
            - matmul(matmul(spread, out), A)


# ------------------------------------------------------------------------------ systems of equations
class System(Dense):
    """A X = B for matrices B."""

    signature = "A, B"
    operands = ("A", "B")

    def samples(rng, shape):
        return [well_conditioned(rng, shape), rng.uniform(-1, 1, (*shape[:-1], 2))]

    def infer(self, inputs, attrs):
        matrices("solve", *inputs, square=True)
        return [(inputs[0].dtype, tuple(inputs[1].shape))]


@op
class LinalgSolve(System):
    """X with A X = B."""

    name = "_linalg_solve"

    def host(A, B):
        return checked("solve", numpy.linalg.solve, A, B)

    reference = host

    @holomorphic
    def derivative(grad, out, A, B):
        into_b = _linalg_solve(mt(A), grad)          # noqa: F821
        return -matmul(into_b, mt(out)), into_b


@op
class LinalgSolveTriangular(System):
    """X with A X = B for triangular A; the other triangle, and with `unitriangular` the diagonal, are not
    read.
    """

    name = "_linalg_solve_triangular"
    signature = "A, B, *, upper, unitriangular=False"
    cases = [{"upper": True}, {"upper": False}, {"upper": True, "unitriangular": True}]

    def host(A, B, upper, unitriangular):
        n, x = A.shape[-1], numpy.array(B)
        with numpy.errstate(all="ignore"):
            for i in (range(n - 1, -1, -1) if upper else range(n)):
                known = slice(i + 1, n) if upper else slice(0, i)
                row = x[..., i, :] - (A[..., i:i + 1, known] @ x[..., known, :])[..., 0, :]
                x[..., i, :] = row if unitriangular else row / A[..., i, i][..., None]
        return x

    def reference(A, B, upper, unitriangular=False):
        A = numpy.triu(A) if upper else numpy.tril(A)
        if unitriangular:
            A = A - A * numpy.eye(A.shape[-1]) + numpy.eye(A.shape[-1])
        return numpy.linalg.solve(A, B)

    @holomorphic
    def derivative(grad, out, A, B, *, upper, unitriangular):
        into_b = _linalg_solve_triangular(mt(A), grad, upper=not upper,  # noqa: F821
                                          unitriangular=unitriangular)  # noqa: F821
        into_a = -matmul(into_b, mt(out))
        strict = int(unitriangular)
        return _upper_triangle(into_a, strict) if upper else _lower_triangle(into_a, -strict), into_b


# ------------------------------------------------------------------------------ decompositions
@op
class LinalgCholesky(Dense):
    """Lower triangular L with A = L L^H, or with `upper` L^H; only that triangle of A is read."""

    name = "_linalg_cholesky"
    signature = "A, upper=False"
    cases = [{}, {"upper": True}]
    samples = symmetric_samples

    def infer(self, inputs, attrs):
        matrices("cholesky", *inputs, square=True)
        return [(inputs[0].dtype, tuple(inputs[0].shape))]

    def host(A, upper):
        A = numpy.conj(numpy.swapaxes(A, -1, -2)) if upper else A
        factor = checked("cholesky", numpy.linalg.cholesky, A)
        return numpy.conj(numpy.swapaxes(factor, -1, -2)) if upper else factor

    def reference(A, upper=False):
        return numpy.swapaxes(numpy.linalg.cholesky(A), -1, -2) if upper else numpy.linalg.cholesky(A)

    def derivative(grad, out, A, *, upper):
        if upper:
            grad, out = mh(grad), mh(out)
        product = _lower_triangle(matmul(mh(out), grad), 0)
        both = (product + mh(_lower_triangle(product, -1))) * 0.5
        solved = _linalg_solve_triangular(mh(out), both, upper=True)           # noqa: F821
        return mh(_linalg_solve_triangular(mh(out), mh(solved), upper=True))    # noqa: F821


@op
class LinalgQrReduced(Dense):
    """Q with orthonormal columns and upper triangular R with A = Q R."""

    name = "_linalg_qr_reduced"
    outputs = ("Q", "R")
    shapes = ((3, 3), (2, 4, 3), (3, 4))

    def infer(self, inputs, attrs):
        matrices("qr", *inputs)
        *batch, m, n = inputs[0].shape
        k = _smaller(m, n)
        return [(inputs[0].dtype, (*batch, m, k)), (inputs[0].dtype, (*batch, k, n))]

    def host(A):
        return tuple(checked("qr", numpy.linalg.qr, A))

    reference = host

    def derivative(grad, out, A):
        (into_q, into_r), (q, r) = grad, out
        m, n = A.shape[-2:]
        if isinstance(m, int) and isinstance(n, int) and m < n:
            rest = None
            if into_r is not None:
                behind = narrow(into_r, -1, m, n - m)
                rest = matmul(q, behind)
                extra = matmul(narrow(A, -1, m, n - m), mh(behind))
                into_q = extra if into_q is None else into_q + extra
                into_r = narrow(into_r, -1, 0, m)
            first = _qr_square(into_q, into_r, q, narrow(r, -1, 0, m))
            return cat((first, first.new_zeros((*A.shape[:-1], n - m)) if rest is None else rest), -1)
        return _qr_square(into_q, into_r, q, r)


def _qr_square(into_q, into_r, q, r):
    """The gradient of A = q r with square r."""
    middle = None if into_r is None else matmul(r, mh(into_r))
    if into_q is not None:
        part = matmul(mh(into_q), q)
        middle = -part if middle is None else middle - part
    both, diagonal = _lower_triangle(middle, -1), _diagonal_matrix(middle)
    if middle.dtype.kind == "c":
        diagonal = diagonal - imaginary_part(diagonal)
    middle = matmul(q, both + mh(both) + diagonal)
    if into_q is not None:
        middle = middle + into_q
    return mh(_linalg_solve_triangular(r, mh(middle), upper=True))       # noqa: F821


def _smaller(m, n):
    from flambeau.types.dim import minimum
    return min(m, n) if isinstance(m, int) and isinstance(n, int) else minimum(m, n)


@op
class LinalgEigh(Dense):
    """Eigenvalues in ascending order and orthonormal eigenvectors of symmetric matrices."""

    name = "_linalg_eigh"
    signature = "A, UPLO='L'"
    outputs = ("eigenvalues", "eigenvectors")
    samples = symmetric_samples

    def infer(self, inputs, attrs):
        matrices("eigh", *inputs, square=True)
        dtype, shape = inputs[0].dtype, tuple(inputs[0].shape)
        return [(real_of(dtype), shape[:-1]), (dtype, shape)]

    def host(A, UPLO):
        return tuple(checked("eigh", numpy.linalg.eigh, A, UPLO))

    def reference(A, UPLO="L"):
        return tuple(numpy.linalg.eigh(A, UPLO))

    def derivative(grad, out, A):
        (into_values, into_vectors), (values, vectors) = grad, out
        middle = None if into_values is None else _eye_like(A) * unsqueeze(into_values, -1)
        if into_vectors is not None:
            gap = unsqueeze(values, -2) - unsqueeze(values, -1)
            gap = gap + _eye_like(gap)
            turned = matmul(mh(vectors), into_vectors) / gap
            turned = turned - _diagonal_matrix(turned)
            middle = turned if middle is None else middle + turned
        middle = like(middle, vectors)
        result = matmul(matmul(vectors, middle), mh(vectors))
        return (result + mh(result)) * 0.5


@op
class LinalgEig(Dense):
    """Complex eigenvalues and eigenvectors of square matrices."""

    name = "_linalg_eig"
    outputs = ("eigenvalues", "eigenvectors")

    def infer(self, inputs, attrs):
        matrices("eig", *inputs, square=True)
        kind = complex64 if real_of(inputs[0].dtype) is float32 else complex128
        return [(kind, tuple(inputs[0].shape[:-1])), (kind, tuple(inputs[0].shape))]

    def host(A):
        return tuple(checked("eig", numpy.linalg.eig, A))

    reference = host

    def derivative(grad, out, A):
        (into_values, into_vectors), (values, vectors) = grad, out
        middle = None if into_values is None else _eye_like(vectors) * unsqueeze(into_values, -1)
        if into_vectors is not None:
            inner = matmul(mh(vectors), into_vectors)
            diagonal = _diagonal_matrix(inner)          # of a vector's length nothing depends
            inner = inner - matmul(matmul(mh(vectors), vectors), diagonal - imaginary_part(diagonal))
            gap = unsqueeze(values, -2) - unsqueeze(values, -1)
            turned = inner / conjugate(gap + _eye_like(gap))
            turned = turned - _diagonal_matrix(turned)
            middle = turned if middle is None else middle + turned
        result = _linalg_solve(mh(vectors), matmul(middle, mh(vectors)))        # noqa: F821
        return result if A.dtype.kind == "c" else parts(result)[0]


@op
class LinalgSvdReduced(Dense):
    """A = U diag(S) Vh with singular values in descending order."""

    name = "_linalg_svd_reduced"
    outputs = ("U", "S", "Vh")
    shapes = ((3, 3), (2, 4, 3), (3, 4))

    def samples(rng, shape):
        return [rng.uniform(-0.4, 0.4, shape) + numpy.arange(1, 1 + shape[-1]) * numpy.eye(*shape[-2:])]

    def infer(self, inputs, attrs):
        matrices("svd", *inputs)
        *batch, m, n = inputs[0].shape
        k, dtype = _smaller(m, n), inputs[0].dtype
        return [(dtype, (*batch, m, k)), (real_of(dtype), (*batch, k)), (dtype, (*batch, k, n))]

    def host(A):
        return tuple(checked("svd", numpy.linalg.svd, A, full_matrices=False))

    reference = host

    def derivative(grad, out, A):
        (into_u, into_s, into_vh), (u, s, vh) = grad, out
        m, n = A.shape[-2:]
        row, column = unsqueeze(s, -2), unsqueeze(s, -1)
        gap = (row - column) * (row + column)
        eye = _eye_like(gap)
        gap = gap + eye
        middle = eye * column * 0 if into_s is None else eye * unsqueeze(into_s, -1)
        if into_u is not None:
            inner = matmul(mh(u), into_u)
            skew = inner - mh(inner)
            middle = middle + (skew * (1 - eye)) / gap * row
            if skew.dtype.kind == "c":          # a phase common to both vectors is free
                middle = middle + _diagonal_matrix(skew) * 0.5 / row
        if into_vh is not None:
            inner = matmul(vh, mh(into_vh))
            middle = middle + column * ((inner - mh(inner)) * (1 - eye) / gap)
        result = matmul(matmul(u, like(middle, u)), vh)
        if into_u is not None and m != s.shape[-1]:
            rest = into_u / row
            result = result + matmul(rest - matmul(u, matmul(mh(u), rest)), vh)
        if into_vh is not None and n != s.shape[-1]:
            rest = into_vh / column
            result = result + matmul(u, rest - matmul(matmul(rest, mh(vh)), vh))
        return result
