"""Normal vectors, with a full covariance matrix or one of low rank beside its diagonal."""

import math

from flambeau.base.errors import fail
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import lazy_property, standard_normal
from flambeau.ops.linalg_functions import cholesky, solve_triangular
from flambeau.ops.matmul import matmul
from flambeau.runtime._core import Size
from flambeau.tensor.create import eye
from flambeau.types.shape import broadcast_shapes

LOG_TAU = math.log(2 * math.pi)


def apply_matrix(matrix, vector):
    """matrix @ vector over batches of both: (..., m, n), (..., n) -> (..., m)."""
    return matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def square_distance(tril, difference):
    """|L^-1 d|^2 for lower triangular L (..., n, n) and d (..., n), over batches of both."""
    if tril.ndim > 2:
        solved = solve_triangular(tril, difference.unsqueeze(-1), upper=False).squeeze(-1)
        return (solved * solved).sum(-1)
    columns = difference.reshape(-1, difference.shape[-1]).t()
    solved = solve_triangular(tril, columns, upper=False)
    return (solved * solved).sum(0).reshape(difference.shape[:-1])


def log_diagonal(tril):
    """The sum of the logarithms of the diagonal: half of log det of L L^T."""
    return tril.diagonal(0, -2, -1).log().sum(-1)


def precision_to_scale_tril(precision):
    """The Cholesky factor of the inverse: with J the reversal of order, J P J = C C^T, so P = U U^T for the
    upper triangular U = J C J, and P^-1 = L L^T for L = U^-T.
    """
    upper_transposed = cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
    return solve_triangular(upper_transposed, eye(precision.shape[-1], dtype=precision.dtype), upper=False)


def tril_to_precision(tril):
    """(L L^T)^-1."""
    inverse = solve_triangular(tril, eye(tril.shape[-1], dtype=tril.dtype), upper=False)
    return matmul(inverse.mT, inverse)


class FromMatrix(Distribution):
    """What distributions share that take one of a covariance matrix, its inverse and its Cholesky factor.

    `_unbroadcasted_scale_tril` is the factor with no more batch axes than the matrix had.
    """

    MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")

    def _take_matrix(self, matrices, batch_shape):
        """Set the one that is given, with the batch axes of both; returns these."""
        given = [name for name, matrix in zip(self.MATRICES, matrices) if matrix is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix, precision_matrix and scale_tril is needed.")
        name, = given
        matrix = next(m for m in matrices if m is not None)
        if matrix.ndim < 2:
            fail(type(self).__name__, f"{name} must be at least two-dimensional",
                 tuple(matrix.shape), kind=ValueError)
        batch_shape = Size(broadcast_shapes(tuple(batch_shape), tuple(matrix.shape[:-2])))
        self.__dict__[name] = matrix.expand(batch_shape + matrix.shape[-2:])
        self._given_matrix = matrix
        return batch_shape

    def _factor(self):
        """The Cholesky factor; made after the matrix has been checked."""
        if "scale_tril" in self.__dict__:
            return self._given_matrix
        if "covariance_matrix" in self.__dict__:
            return cholesky(self._given_matrix)
        return precision_to_scale_tril(self._given_matrix)

    def _of_batch(self, matrix):
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self):
        """The lower triangular L with covariance L L^T."""
        return self._of_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance matrix."""
        return self._of_batch(matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance matrix."""
        return self._of_batch(tril_to_precision(self._unbroadcasted_scale_tril))


class MultivariateNormal(FromMatrix):
    """The normal distribution of vectors.

    Args:
        loc: the mean, shape (..., n).
        covariance_matrix: (..., n, n), positive definite; or
        precision_matrix: its inverse; or
        scale_tril: its lower triangular Cholesky factor, the quickest.

    >>> MultivariateNormal(tensor([0.0, 0.0]), scale_tril=tensor([[1.0, 0.0], [1.0, 1.0]])).variance
    tensor([1., 2.])
    """

    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite,
                       "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2,
                   "_unbroadcasted_scale_tril": None}

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None,
                 validate_args=None):
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        batch_shape = self._take_matrix((covariance_matrix, precision_matrix, scale_tril), loc.shape[:-1])
        self.loc = loc.expand(batch_shape + loc.shape[-1:])
        super().__init__(batch_shape, loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = self._factor()

    @property
    def mean(self):
        return self.loc

    mode = mean

    @property
    def variance(self):
        factor = self._unbroadcasted_scale_tril
        return (factor * factor).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=()):
        noise = standard_normal(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + apply_matrix(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        distance = square_distance(factor, value - self.loc)
        return -0.5 * (distance + self._event_shape[0] * LOG_TAU) - log_diagonal(factor)

    def entropy(self):
        result = log_diagonal(self._unbroadcasted_scale_tril) + 0.5 * self._event_shape[0] * (1 + LOG_TAU)
        return result.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with covariance W W^T + diag(d).

    With the capacitance C = 1 + W^T d^-1 W (a small matrix) the inverse is d^-1 - d^-1 W C^-1 W^T d^-1
    (Woodbury's formula) and the determinant det(C) prod(d), so no (n, n) matrix is factored.

    Args:
        loc: the mean, shape (..., n).
        cov_factor: W, shape (..., n, rank).
        cov_diag: d, shape (..., n), > 0.

    >>> two = LowRankMultivariateNormal(tensor([0.0, 0.0]), tensor([[1.0], [0.0]]), tensor([1.0, 1.0]))
    >>> two.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints = {"loc": constraints.real_vector,
                       "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "cov_factor": 2, "cov_diag": 1, "scale_tril": 2, "covariance_matrix": 2,
                   "precision_matrix": 2, "_unbroadcasted_cov_factor": None, "_unbroadcasted_cov_diag": None,
                   "_capacitance_tril": None}

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != n:
            fail("LowRankMultivariateNormal", "cov_factor must be a batch of matrices with shape n x rank",
                 tuple(cov_factor.shape), f"(..., {n}, rank)", kind=ValueError)
        if cov_diag.ndim < 1 or cov_diag.shape[-1] != n:
            fail("LowRankMultivariateNormal", "cov_diag must be a batch of vectors of size n",
                 tuple(cov_diag.shape),
                 f"(..., {n})", kind=ValueError)
        try:
            batch_shape = Size(broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]),
                                                tuple(cov_diag.shape[:-1])))
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: loc {tuple(loc.shape)}, cov_factor "
                             f"{tuple(cov_factor.shape)}, cov_diag {tuple(cov_diag.shape)}") from error
        self.loc, self.cov_diag = (v.expand(batch_shape + v.shape[-1:]) for v in (loc, cov_diag))
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        super().__init__(batch_shape, loc.shape[-1:], validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)             # W^T d^-1
        capacitance = matmul(scaled, cov_factor) + eye(cov_factor.shape[-1], dtype=loc.dtype)
        self._capacitance_tril = cholesky(capacitance)

    @property
    def mean(self):
        return self.loc

    mode = mean

    @property
    def variance(self):
        factor = self._unbroadcasted_cov_factor
        return ((factor * factor).sum(-1) + self._unbroadcasted_cov_diag).expand(self._batch_shape
                                                                                 + self._event_shape)

    def _of_batch(self, matrix):
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    @lazy_property
    def scale_tril(self):
        """The lower triangular L with covariance L L^T."""
        return self._of_batch(cholesky(self._covariance()))

    @lazy_property
    def covariance_matrix(self):
        """The covariance matrix."""
        return self._of_batch(self._covariance())

    def _covariance(self):
        factor = self._unbroadcasted_cov_factor
        return matmul(factor, factor.mT) + self._unbroadcasted_cov_diag.diag_embed()

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance matrix."""
        diagonal = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        half = solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._of_batch(diagonal.reciprocal().diag_embed() - matmul(half.mT, half))

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        small = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype)
        wide = standard_normal(shape, self.loc.dtype)
        return (self.loc + apply_matrix(self._unbroadcasted_cov_factor, small)
                + self._unbroadcasted_cov_diag.sqrt() * wide)

    def _log_det(self):
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def square_distance(self, difference):
        """d^T (covariance)^-1 d."""
        scaled = difference / self._unbroadcasted_cov_diag
        seen = apply_matrix(self._unbroadcasted_cov_factor.mT, scaled)
        return (difference * scaled).sum(-1) - square_distance(self._capacitance_tril, seen)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = self.square_distance(value - self.loc)
        return -0.5 * (distance + self._event_shape[0] * LOG_TAU + self._log_det())

    def entropy(self):
        result = 0.5 * (self._event_shape[0] * (1 + LOG_TAU) + self._log_det())
        return result.expand(self._batch_shape)
