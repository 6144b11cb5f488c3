"""Angles between vectors. Distances stand in `norms`."""

from flambeau.base.errors import fail
from flambeau.ops.elementwise import maximum
from flambeau.ops.normalize import norm
from flambeau.ops.reduce import sum as total
from flambeau.ops.spec import public
from flambeau.ops.view import expand
from flambeau.types.shape import broadcast_shapes


@public(method=False)
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along `dim`; norms count as `eps` at least."""
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":
        fail("cosine_similarity", "expected common dtype to be floating point", [x1.dtype, x2.dtype],
             kind=RuntimeError)
    shape = broadcast_shapes(tuple(x1.shape), tuple(x2.shape), op="cosine_similarity")
    x1, x2 = expand(x1, shape), expand(x2, shape)
    first = x1 / maximum(norm(x1, 2.0, dim, True), eps)
    second = x2 / maximum(norm(x2, 2.0, dim, True), eps)
    return total(first * second, dim)
