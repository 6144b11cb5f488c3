"""What distributions share: broadcast parameters, probabilities and logits, properties made once."""

from numbers import Number

from flambeau.base.errors import fail
from flambeau.ops.normalize import softmax
from flambeau.ops.reduce import sum as total
from flambeau.ops.activation import sigmoid
from flambeau.ops.shape import broadcast_tensors
from flambeau.runtime._core import Tensor
from flambeau.tensor.autograd import enable_grad
from flambeau.tensor.create import arange, randn, tensor, zeros
from flambeau.types.dtype import get_default_dtype
from flambeau.types.info import finfo


def broadcast_all(*values):
    """Numbers and tensors as tensors of one shape; numbers take the dtype of the first tensor, or the default
    dtype.

    >>> broadcast_all(tensor([1.0, 2.0]), 3)
    (tensor([1., 2.]), tensor([3., 3.]))
    """
    for value in values:
        if not isinstance(value, (Tensor, Number)):
            fail("broadcast_all", "input arguments must be numbers or tensors", type(value).__name__,
                 kind=ValueError)
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = get_default_dtype() if like is None or not like.is_floating_point() else like.dtype
    return tuple(broadcast_tensors(*[v if isinstance(v, Tensor) else tensor(v, dtype=dtype) for v in values]))


def as_parameter(value, dtype=None):
    """A tensor from a tensor or a number."""
    return value if isinstance(value, Tensor) else tensor(value, dtype=dtype or get_default_dtype())


def logits_to_probs(logits, is_binary=False):
    """Probabilities from log-odds (binary), or from logarithms along the last axis."""
    return sigmoid(logits) if is_binary else softmax(logits, -1)


def clamp_probs(probs):
    """Probabilities kept off 0 and 1 by one unit in the last place of 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs, is_binary=False):
    """Log-odds (binary) or logarithms of probabilities, finite also at 0 and 1."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def standard_normal(shape, dtype):
    """Standard normal draws."""
    return randn(tuple(shape), dtype=dtype)


def sum_rightmost(value, count):
    """The sum over the last `count` axes."""
    return value if count == 0 else total(value, tuple(range(-count, 0)))


def tril_matrix_to_vec(mat, diag=0):
    """The entries on and below a diagonal, row by row: (..., n, n) to (..., entries).

    >>> tril_matrix_to_vec(tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        fail("tril_matrix_to_vec", f"diag ({diag}) provided is outside [{-n}, {n - 1}]", kind=ValueError)
    places = arange(n)
    below = (places.view(1, n) < places.view(n, 1) + (diag + 1)).reshape(-1).nonzero().reshape(-1)
    return mat.reshape(*mat.shape[:-2], n * n).index_select(-1, below)


def vec_to_tril_matrix(vec, diag=0):
    """The inverse of tril_matrix_to_vec; zeros above the diagonal.

    >>> vec_to_tril_matrix(tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    # n rows hold n (n + 1 + 2 diag) / 2 - diag (diag + 1) / 2 entries for diag >= 0, and less for diag < 0
    entries = vec.shape[-1]
    n = next((n for n in range(1, entries + abs(diag) + 2) if _entries_below(n, diag) >= entries), 0)
    if n == 0 or _entries_below(n, diag) != entries:
        fail("vec_to_tril_matrix", "the size of last dimension is not the number of entries of a triangle",
             entries,
             kind=ValueError)
    places = arange(n)
    below = (places.view(1, n) < places.view(n, 1) + (diag + 1)).reshape(-1).nonzero().reshape(-1)
    empty = zeros(*vec.shape[:-1], n * n, dtype=vec.dtype)
    return empty.index_copy(-1, below, vec).reshape(*vec.shape[:-1], n, n)


def _entries_below(n, diag):
    return sum(max(0, min(n, row + 1 + diag)) for row in range(n))


class lazy_property:        # noqa: N801 - PyTorch's name
    """A property that is computed at its first use, with gradients, and then kept."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.name] = value
        return value
