"""Distances and angles between vectors."""

from flambeau import ops
from flambeau.base.errors import fail
from flambeau.types.shape import broadcast_shapes


def cosine_of(x1, x2, dim, eps_of_squares):
    """The cosine with `eps` added to both squares, as the cosine embedding loss has it."""
    product = (x1 * x2).sum(dim)
    squares = ((x1 * x1).sum(dim) + eps_of_squares) * ((x2 * x2).sum(dim) + eps_of_squares)
    return product / ops.sqrt(squares)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along `dim`; norms count as `eps` at least."""
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":
        fail("cosine_similarity", "expected common dtype to be floating point", [x1.dtype, x2.dtype],
             kind=RuntimeError)
    shape = broadcast_shapes(tuple(x1.shape), tuple(x2.shape), op="cosine_similarity")
    x1, x2 = x1.expand(shape), x2.expand(shape)
    first = x1 / ops.maximum(ops.norm(x1, 2.0, dim, True), eps)
    second = x2 / ops.maximum(ops.norm(x2, 2.0, dim, True), eps)
    return (first * second).sum(dim)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of `x1 - x2 + eps` along the last axis."""
    return ops.norm(x1 - x2 + eps, float(p), -1, keepdim)


def pdist(input, p=2.0):
    """The p-norm distances of all pairs of rows: (n, m) -> (n * (n - 1) / 2)."""
    from flambeau.tensor import tensor
    if input.dim() != 2:
        fail("pdist", "pdist only supports 2D tensors", tuple(input.shape), kind=RuntimeError)
    if p < 0:
        fail("pdist", "pdist only supports non-negative p values", p, kind=RuntimeError)
    count = input.shape[0]
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    if not pairs:
        return input.new_empty((0,))
    first, second = (tensor(each) for each in zip(*pairs))
    return ops.norm(input[first] - input[second], float(p), 1, False)
