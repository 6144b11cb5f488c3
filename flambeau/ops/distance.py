"""Angles between vectors. Distances stand in `norms`."""

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import maximum
from flambeau.ops.kinds import Composite, promoted_dtype
from flambeau.ops.normalize import narrow, norm, widen
from flambeau.ops.reduce import sum as total
from flambeau.ops.samples import ulps
from flambeau.ops.spec import op, public
from flambeau.ops.view import expand
from flambeau.types.dtype import FLOATING
from flambeau.types.shape import broadcast_shapes, normalize_axis

numpy = LazyModule("numpy")


@op
class CosineAlong(Composite):
    """The cosine of the angle between vectors of one shape along `dim`; norms count as `eps` at least."""

    internal = True
    signature = "x1, x2, dim, eps"
    operands = ("x1", "x2")
    dtypes = FLOATING
    tolerance = ulps(64)
    shapes = ((3, 5), (2, 3, 33))
    cases = [{"dim": 1, "eps": 1e-8}, {"dim": 0, "eps": 0.5}]

    def samples(rng, shape):
        return [rng.uniform(-2, 2, shape), rng.uniform(-2, 2, shape)]

    def compute(x1, x2, dim, eps):
        dtype = promoted_dtype([x1, x2])
        wide = (widen(narrow(x, dtype)) for x in (x1, x2))
        first, second = (x / maximum(norm(x, 2.0, dim, True), eps) for x in wide)
        return narrow(total(first * second, dim), dtype)

    def reference(x1, x2, dim, eps):
        first, second = (x / numpy.maximum(numpy.sqrt((x * x).sum(dim, keepdims=True)), eps) for x in (x1, x2))
        return (first * second).sum(dim)


@public(method=False)
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along `dim`; norms count as `eps` at least."""
    if x1.dtype.kind != "f" and x2.dtype.kind != "f":
        fail("cosine_similarity", "expected common dtype to be floating point", [x1.dtype, x2.dtype],
             kind=RuntimeError)
    shape = broadcast_shapes(tuple(x1.shape), tuple(x2.shape), op="cosine_similarity")
    dim = normalize_axis(dim, len(shape), "cosine_similarity")
    return cosine_along(expand(x1, shape), expand(x2, shape), dim, float(eps))         # noqa: F821
