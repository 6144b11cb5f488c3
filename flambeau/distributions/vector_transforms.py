"""Transforms onto simplices, triangular and positive definite matrices."""

from flambeau.distributions import constraints
from flambeau.distributions.transform import Transform
from flambeau.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from flambeau.ops.activation import log_sigmoid, sigmoid, softplus
from flambeau.ops.join import cat
from flambeau.ops.linalg_functions import cholesky
from flambeau.ops.matmul import matmul
from flambeau.runtime._core import Size
from flambeau.tensor.create import arange, eye, ones_like
from flambeau.types.info import finfo


def clipped_sigmoid(x):
    """The logistic function kept inside (0, 1)."""
    limits = finfo(x.dtype)
    return sigmoid(x).clamp(limits.tiny, 1 - limits.eps)


class OfVectors(Transform):
    """A transform that two objects of one class have in common."""

    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = object.__hash__


class SoftmaxTransform(OfVectors):
    """y = softmax(x), from vectors to the simplex. Not bijective: the inverse is x = log(y).

    >>> SoftmaxTransform()(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y):
        return y.log()

    def forward_shape(self, shape):
        return need_axes(self, shape, 1)

    inverse_shape = forward_shape


def need_axes(transform, shape, count):
    """The shape, if it has the axes of an event; ValueError otherwise."""
    if len(shape) < count:
        raise ValueError(f"[{type(transform).__name__}] Too few dimensions on input: {tuple(shape)}")
    return shape


class StickBreakingTransform(OfVectors):
    """From vectors of size n to the simplex of n + 1: each number says which part of the rest of a stick is
    broken off.

    Number k (of 0 ... n - 1) breaks off the share sigmoid(x_k - log(n - k)), so that zeros give equal parts.
    Source: Carpenter et al., "Stan: a probabilistic programming language", Journal of Statistical Software
    76, 2017.

    >>> StickBreakingTransform()(tensor([0.0, 0.0]))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    @staticmethod
    def _offsets(x):
        n = x.shape[-1]
        return (n - arange(n, dtype=x.dtype)).log()

    def _call(self, x):
        share = clipped_sigmoid(x - self._offsets(x))
        rest = (1 - share).cumprod(-1)
        first = ones_like(rest.narrow(-1, 0, 1))
        return cat([share, first], -1) * cat([first, rest], -1)

    def _inverse(self, y):
        parts = y.narrow(-1, 0, y.shape[-1] - 1)
        # what is left after each part: the sum of the parts that follow, which loses no digits
        rest = y.flip(-1).cumsum(-1).flip(-1).narrow(-1, 1, y.shape[-1] - 1)
        rest = rest.clamp(min=finfo(y.dtype).tiny)
        return parts.log() - rest.log() + self._offsets(parts)

    def log_abs_det_jacobian(self, x, y):
        # dy_k/dx_k = y_k (1 - share_k)
        moved = x - self._offsets(x)
        return (log_sigmoid(-moved) + y.narrow(-1, 0, y.shape[-1] - 1).log()).sum(-1)

    def forward_shape(self, shape):
        need_axes(self, shape, 1)
        return Size(shape)[:-1] + Size((shape[-1] + 1,))

    def inverse_shape(self, shape):
        need_axes(self, shape, 1)
        return Size(shape)[:-1] + Size((shape[-1] - 1,))


class LowerCholeskyTransform(OfVectors):
    """From square matrices to lower triangular ones with positive diagonal: the exponential on the diagonal.

    >>> LowerCholeskyTransform()(tensor([[0.0, 5.0], [1.0, 0.0]]))
    tensor([[1., 0.],
            [1., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(OfVectors):
    """From square matrices to positive definite ones: L L^T of what LowerCholeskyTransform gives.

    >>> PositiveDefiniteTransform()(tensor([[0.0, 5.0], [1.0, 0.0]]))
    tensor([[1., 1.],
            [1., 2.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return matmul(factor, factor.mT)

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(OfVectors):
    """From vectors of n (n - 1) / 2 numbers to Cholesky factors of correlation matrices (n, n).

    tanh takes the numbers to partial correlations z below the diagonal, row by row; the entry (i, j) is z_ij
    times what the entries before it left of the row's length 1, and the diagonal takes the rest. Source:
    Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and extended onion
    method", Journal of Multivariate Analysis 100, 2009.

    >>> CorrCholeskyTransform()(tensor([0.0, 0.5, 0.0]))
    tensor([[1.0000, 0.0000, 0.0000],
            [0.0000, 1.0000, 0.0000],
            [0.4621, 0.0000, 0.8868]])
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x):
        eps = finfo(x.dtype).eps
        z = vec_to_tril_matrix(x.tanh().clamp(-1 + eps, 1 - eps), -1)
        left = (1 - z * z).sqrt().cumprod(-1)       # 1 on and above the diagonal: the product of those before
        before = cat([ones_like(left.narrow(-1, 0, 1)), left.narrow(-1, 0, left.shape[-1] - 1)], -1)
        return (z + eye(z.shape[-1], dtype=z.dtype)) * before

    def _inverse(self, y):
        # what the entries up to (i, j) left of the row's square length
        left = 1 - (y * y).cumsum(-1)
        before = cat([ones_like(left.narrow(-1, 0, 1)), left.narrow(-1, 0, left.shape[-1] - 1)], -1)
        entries = tril_matrix_to_vec(y, -1)
        z = entries / tril_matrix_to_vec(before, -1).clamp(min=finfo(y.dtype).tiny).sqrt()
        return z.atanh()

    def log_abs_det_jacobian(self, x, y):
        left = 1 - (y * y).cumsum(-1)
        # tanh has the slope 1 - z^2; an entry's slope in z is the root of what is left before it
        entries = tril_matrix_to_vec(left, -2).clamp(min=finfo(y.dtype).tiny)
        slope_of_tanh = -2 * (x + softplus(-2 * x) - 0.6931471805599453)
        return 0.5 * entries.log().sum(-1) + slope_of_tanh.sum(-1)

    def forward_shape(self, shape):
        need_axes(self, shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(f"[CorrCholeskyTransform] no diagonal has {shape[-1]} entries below it")
        return Size(shape)[:-1] + Size((n, n))

    def inverse_shape(self, shape):
        need_axes(self, shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"[CorrCholeskyTransform] the matrices are not square: {tuple(shape)}")
        return Size(shape)[:-2] + Size((shape[-1] * (shape[-1] - 1) // 2,))
