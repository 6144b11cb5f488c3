"""Distributions of matrices: Wishart, and Cholesky factors of correlation matrices (LKJ)."""

import math
import warnings

from flambeau.base.errors import fail
from flambeau.distributions import constraints, draws
from flambeau.distributions.beta import Beta
from flambeau.distributions.distribution import Distribution, ExponentialFamily
from flambeau.distributions.multivariate_normal import FromMatrix, log_diagonal
from flambeau.distributions.utils import as_parameter, standard_normal
from flambeau.ops.join import cat
from flambeau.ops.linalg_functions import cholesky, solve_triangular
from flambeau.ops.matmul import matmul
from flambeau.ops.special import mvlgamma
from flambeau.tensor.create import arange, zeros
from flambeau.types.dtype import get_default_dtype
from flambeau.types.info import finfo


def multivariate_digamma(x, size):
    """The derivative of mvlgamma(x, size)."""
    return (x.unsqueeze(-1) - arange(size, dtype=x.dtype) / 2).digamma().sum(-1)


class Wishart(FromMatrix, ExponentialFamily):
    """The distribution of X X^T, where the df columns of X are normal vectors of this covariance.

    Draws are L A A^T L^T with A lower triangular: normal numbers below the diagonal, roots of chi-square
    numbers of df, df - 1, ... on it (Bartlett, "On the theory of statistical regression", 1933).

    Args:
        df: degrees of freedom, > n - 1.
        covariance_matrix, precision_matrix, scale_tril: one of them, as for MultivariateNormal;
            shape (..., n, n).

    >>> Wishart(tensor(3.0), covariance_matrix=tensor([[1.0, 0.0], [0.0, 2.0]])).mean
    tensor([[3., 0.],
            [0., 6.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _parameters = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2,
                   "_unbroadcasted_scale_tril": None}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None,
                 validate_args=None):
        given = next((m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None), None)
        df = as_parameter(df, None if given is None else given.dtype)
        batch_shape = self._take_matrix((covariance_matrix, precision_matrix, scale_tril), df.shape)
        n = given.shape[-1]
        self.df = df.expand(batch_shape)
        if not bool((self.df > n - 1).all()):
            fail("Wishart", "df must exceed the size of the matrices - 1", self.df, f"> {n - 1}",
                 kind=ValueError)
        super().__init__(batch_shape, given.shape[-2:], validate_args)
        self._unbroadcasted_scale_tril = self._factor()
        if bool((self.df < n).any()):
            warnings.warn(f"[Wishart] with df below the size {n} draws are often nearly singular",
                          stacklevel=2)

    @property
    def arg_constraints(self):
        size = self._event_shape[0] if "_event_shape" in self.__dict__ else 0
        return {"covariance_matrix": constraints.positive_definite,
                "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(size - 1)}

    @property
    def mean(self):
        return self.df.view(*self._batch_shape, 1, 1) * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self._event_shape[0] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor.view(*self._batch_shape, 1, 1) * self.covariance_matrix

    @property
    def variance(self):
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(0, -2, -1)
        square = covariance * covariance + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view(*self._batch_shape, 1, 1) * square

    def rsample(self, sample_shape=(), max_try_correction=None):
        """Draws; `max_try_correction` changes nothing: the gamma draws here never underflow to 0."""
        shape, n = self._extended_shape(sample_shape), self._event_shape[0]
        dtype = self.df.dtype
        halves = (self.df.unsqueeze(-1) - arange(n, dtype=dtype)) / 2
        roots = (0.5 * (draws.log_gamma(halves, shape[:-1]) + math.log(2))).exp().clamp(min=finfo(dtype).tiny)
        triangle = standard_normal(shape, dtype).tril(-1) + roots.diag_embed()
        factor = matmul(self._unbroadcasted_scale_tril, triangle)
        return matmul(factor, factor.mT)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        df, n = self.df, self._event_shape[0]
        factor = cholesky(value)
        solved = solve_triangular(self._unbroadcasted_scale_tril, factor, upper=False)
        trace = (solved * solved).sum((-2, -1))
        return ((df - n - 1) * log_diagonal(factor) - 0.5 * trace - df * self._log_scale()
                - mvlgamma(df / 2, n))

    def _log_scale(self):
        """Half of log det(2 covariance)."""
        return self._event_shape[0] * math.log(2) / 2 + log_diagonal(self._unbroadcasted_scale_tril)

    def entropy(self):
        df, n = self.df, self._event_shape[0]
        return ((n + 1) * self._log_scale() + mvlgamma(df / 2, n) + n * df / 2
                - (df - n - 1) / 2 * multivariate_digamma(df / 2, n))


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, whose density is proportional to det^(concentration - 1).

    Draws by the onion method: row i is a uniform direction times a length whose square has a beta
    distribution.
    Source: Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and
    extended onion method", Journal of Multivariate Analysis 100, 2009.

    Args:
        dim: size of the matrices, >= 2.
        concentration: 1 gives all correlation matrices the same density, more favours the identity.

    >>> LKJCholesky(3, 0.5).sample().shape
    flambeau.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters = {"concentration": 0, "dim": None}

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            fail("LKJCholesky", "Expected dim to be an integer greater than or equal to 2", dim,
                 kind=ValueError)
        self.dim = dim
        self.concentration = as_parameter(concentration, get_default_dtype())
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape=()):
        shape, dtype = self._extended_shape(sample_shape), self.concentration.dtype
        rows = arange(1, self.dim, dtype=dtype)
        lengths = Beta(rows / 2, self.concentration.unsqueeze(-1) + (self.dim - 1 - rows) / 2,
                       validate_args=False)
        squares = lengths.sample(sample_shape).detach()             # (..., dim - 1)
        noise = standard_normal(shape, dtype).tril(-1).narrow(-2, 1, self.dim - 1)
        directions = noise / (noise * noise).sum(-1, True).sqrt()
        below = directions * squares.sqrt().unsqueeze(-1)
        factor = cat([zeros(*shape[:-2], 1, self.dim, dtype=dtype), below], -2)
        rest = (1 - (factor * factor).sum(-1)).clamp(min=finfo(dtype).tiny).sqrt()
        return factor + rest.diag_embed()

    def log_prob(self, value):
        """Powers of the diagonal: the determinant gives each 2 (concentration - 1), the Jacobian the rest."""
        if self._validate_args:
            self._validate_sample(value)
        n, c = self.dim, self.concentration
        powers = 2 * (c.unsqueeze(-1) - 1) + n - arange(2, n + 1, dtype=c.dtype)
        diagonal = value.diagonal(0, -2, -1).narrow(-1, 1, n - 1)
        alpha = c + 0.5 * (n - 1)
        normalizer = (0.5 * (n - 1) * math.log(math.pi) + mvlgamma(alpha - 0.5, n - 1)
                      - alpha.lgamma() * (n - 1))
        return (powers * diagonal.log()).sum(-1) - normalizer
