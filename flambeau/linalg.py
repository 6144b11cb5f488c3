"""Linear algebra: norms, decompositions, systems of equations (the names of torch.linalg)."""

from flambeau.ops.linalg import LinAlgError
from flambeau.ops.linalg_functions import (
    cholesky, cholesky_ex, cond, det, diagonal, eig, eigh, eigvals, eigvalsh, householder_product, inv,
    inv_ex, linalg_vander as vander, lstsq,
    lu_decomposition as lu, lu_factor, lu_factor_ex, lu_solve_factored as lu_solve, matrix_exp, matrix_power,
    matrix_rank,
    multi_dot, pinv, qr_decomposition as qr, slogdet, solve, solve_ex, solve_triangular, svd_decomposition as
    svd, svdvals,
    tensorinv, tensorsolve, vecdot)
from flambeau.ops.linalg_symmetric import ldl_factor, ldl_factor_ex, ldl_solve
from flambeau.ops.matmul import matmul
from flambeau.ops.norms import linalg_norm as norm, matrix_norm, vector_norm
from flambeau.ops.products import linalg_cross as cross

__all__ = ["LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
           "eigvals", "eigvalsh",
           "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve",
           "matmul", "matrix_exp",
           "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet",
           "solve", "solve_ex",
           "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot",
           "vector_norm"]
