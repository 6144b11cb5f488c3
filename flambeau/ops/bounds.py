"""Elements limited to a range."""

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import NUMBERS, Binary, where
from flambeau.ops.kinds import Elementwise
from flambeau.ops.out import with_out
from flambeau.ops.samples import ulps
from flambeau.ops.spec import REGISTRY, WRITERS, op, public

numpy = LazyModule("numpy")


@op
class ClampMin(Binary):
    """The larger of input and min."""

    signature = "input, min"
    tensor_first = True
    numbers_fit = True
    operands = ("input", "min")

    def reference(input, min):
        return numpy.maximum(input, min)

    def scalar(b, x, low):
        return b.max(x, low)

    def derivative(grad, x, low):
        return grad * where(x >= low, 1.0, 0.0), grad * where(x < low, 1.0, 0.0)


@op
class ClampMax(Binary):
    """The smaller of input and max."""

    signature = "input, max"
    tensor_first = True
    numbers_fit = True
    operands = ("input", "max")

    def reference(input, max):
        return numpy.minimum(input, max)

    def scalar(b, x, high):
        return b.min(x, high)

    def derivative(grad, x, high):
        return grad * where(x <= high, 1.0, 0.0), grad * where(x > high, 1.0, 0.0)


@op
class ClampBoth(Elementwise):
    """input limited to [min, max]; max where min exceeds it."""

    name = "_clamp_both"
    signature = "input, min, max"
    operands = ("input", "min", "max")
    numbers_fit = True
    dtypes = NUMBERS
    tolerance = ulps(0)

    def samples(rng, shape):
        return [rng.uniform(-3, 3, shape), rng.uniform(-2, 0, shape), rng.uniform(0, 2, shape)]

    def reference(input, min, max):
        return numpy.minimum(numpy.maximum(input, min), max)

    def scalar(b, x, low, high):
        return b.min(b.max(x, low), high)

    def derivative(grad, x, low, high):
        inside = where((x >= low) & (x <= high), 1.0, 0.0)
        return grad * inside, grad * where((low < high) & (x < low), 1.0, 0.0), \
            grad * where((x > high) | (high < low), 1.0, 0.0)


@public(method=True, aliases=("clip",))
@with_out
def clamp(input, min=None, max=None):
    """Limit to [min, max], numbers or tensors; a bound that is None does not limit."""
    name, args = _limit(input, min, max)
    return REGISTRY[name].function(*args)


def _limit(input, min, max):
    """(name of the op, its arguments) of a clamp."""
    if min is None and max is None:
        fail("clamp", "at least one of 'min' or 'max' must not be None", kind=RuntimeError)
    if max is None:
        return "clamp_min", (input, min)
    return ("clamp_max", (input, max)) if min is None else ("_clamp_both", (input, min, max))


def _clamp_into(input, min=None, max=None):
    """In-place form of clamp."""
    from flambeau.ops.write import inplace
    name, args = _limit(input, min, max)
    return inplace(REGISTRY[name], args, name="clamp_")


WRITERS["clamp_"] = WRITERS["clip_"] = _clamp_into
