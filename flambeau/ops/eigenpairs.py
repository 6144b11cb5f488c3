"""The largest or smallest eigenpairs of a symmetric pencil, under the name of the iterative method that
others use."""

from flambeau.base.errors import ShapeError, fail
from flambeau.ops.linalg_functions import cholesky, eigh, solve_triangular
from flambeau.ops.results import result_tuple
from flambeau.ops.spec import public
from flambeau.ops.structure import flip
from flambeau.ops.view import narrow, transpose
from flambeau.types.shape import show_shape

Eigenpairs = result_tuple("lobpcg", ("eigenvalues", "eigenvectors"))


@public(method=False)
def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None,  # noqa: N803
           tracker=None, ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """(eigenvalues (..., k), eigenvectors (..., m, k)) of A x = lambda B x, the k largest first or the
    smallest first.

    The pencil is solved whole, to full accuracy: what steers an iteration (X but for its width, iK, niter,
    tol, method, the trackers) has no effect. At least 3 k rows are asked for, as others do.

    Args:
        A: symmetric (..., m, m). B: symmetric and positive definite, by default the identity.
        k: how many, by default the columns of X, or 1. largest: False for the smallest.

    >>> lobpcg(tensor([[2., 0., 0.], [0., 5., 0.], [0., 0., 3.]])).eigenvalues
    tensor([5.])
    """
    A, B = (x if x is None else x.to_dense() for x in (A, B))  # noqa: N806
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        fail("lobpcg", "A must be square", show_shape(A.shape), "(..., m, m)", kind=ShapeError)
    if method not in (None, "basic", "ortho"):
        fail("lobpcg", "method must be 'basic' or 'ortho'", repr(method), kind=ValueError)
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    width = max(k, n or 0) if X is None else X.shape[-1]
    if m < 3 * width:
        fail(
            "lobpcg",
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the "
            f"number of requested eigenpairs (={width})",
            kind=ValueError,
        )
    A = (A + transpose(A, -1, -2)) / 2 if A.requires_grad else A  # noqa: N806 - a symmetric gradient
    lower = None
    if B is not None:
        lower = cholesky(B)
        A = solve_triangular(lower, A, upper=False)  # noqa: N806 - L^-1 A L^-T
        A = solve_triangular(transpose(lower, -1, -2), A, upper=True, left=False)  # noqa: N806
    values, vectors = eigh(A)
    if largest is False:
        values, vectors = narrow(values, -1, 0, k), narrow(vectors, -1, 0, k)
    else:
        values, vectors = (
            flip(narrow(values, -1, m - k, k), (-1,)),
            flip(narrow(vectors, -1, m - k, k), (-1,)),
        )
    if lower is not None:
        vectors = solve_triangular(transpose(lower, -1, -2), vectors, upper=True)
    return Eigenpairs(values, vectors)
