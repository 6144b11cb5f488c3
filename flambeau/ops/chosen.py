"""What is found by looking at every element: the places of true elements, and how often numbers occur.

The size of such a result depends on the data, so there are two steps: one counts, the other is given an empty
tensor of the size that was found and fills in.
"""

from flambeau.ops.create import full
from flambeau.ops.elementwise import cast
from flambeau.ops.kinds import Composite, Indexed
from flambeau.ops.reduce import sum
from flambeau.ops.spec import op
from flambeau.ops.view import narrow, reshape, unsqueeze
from flambeau.runtime import _core
from flambeau.types.dim import maximum, minimum
from flambeau.types.dtype import bool_, int64
from flambeau.types.shape import numel

BLOCK = 2048            # elements of a mask that are counted together
MOST_TABLES = 32        # tables of counts that are filled at the same time


def blocks_of(size):
    """How many blocks a mask of `size` elements has."""
    return (size + BLOCK - 1) // BLOCK


def tables_of(size, bins):
    """How many tables of counts are worth their memory."""
    return maximum(1, minimum(MOST_TABLES, size // maximum(8 * bins, BLOCK)))


@op
class TrueStarts(Indexed):
    """How many true elements come before each block of a mask, and at last the number of all."""

    name = "_true_starts"
    signature = "mask"
    operands = ("mask",)
    differentiable = False

    def infer_shape(mask):
        return (blocks_of(numel(mask)) + 1,)

    def infer_dtype(mask):
        return int64

    def lower(planner, inputs, outputs):
        planner.templates.compact.launch_starts(planner, inputs[0], outputs[0])


@op
class TruePlaces(Indexed):
    """The places of the true elements, in order: row-major numbers, or `coordinates` (count, rank).

    `starts` is of `_true_starts`, `found` an empty tensor with as many elements as are true.
    """

    name = "_true_places"
    signature = "mask, starts, found, coordinates"
    operands = ("mask", "starts", "found")
    differentiable = False

    def infer_shape(mask, starts, found, *, coordinates):
        return (*found, len(mask)) if coordinates else found

    def infer_dtype(mask, starts, found, *, coordinates):
        return int64

    def lower(planner, inputs, outputs, *, coordinates):
        mask, starts, _ = inputs
        rank = len(mask.shape) if coordinates else 0
        planner.templates.compact.launch_places(planner, mask, starts, outputs[0], rank)


@op
class Tally(Indexed):
    """How often each of 0 .. bins - 1 occurs in a 1-d tensor of such numbers: tables (rows, bins).

    Their rows are to be summed. `like` is an empty tensor (bins,).
    """

    name = "_tally"
    signature = "input, like"
    operands = ("input", "like")
    differentiable = False

    def infer_shape(x, like):
        return (tables_of(x[0], like[0]), like[0])

    def infer_dtype(x, like):
        return int64

    def lower(planner, inputs, outputs):
        planner.templates.compact.launch_tally(planner, inputs[0], outputs[0])


@op
class ClassRows(Composite):
    """1 where a number (...) equals one of `classes` (count,), else 0: (..., count), int64."""

    name = "_class_rows"
    signature = "numbers, classes"
    operands = ("numbers", "classes")
    differentiable = False

    def compute(numbers, classes):
        return cast(unsqueeze(numbers, numbers.ndim) == classes, int64)


# ---------------------------------------------------------------------------------- functions over them
def _blank(*shape):
    return _core.empty_strided(shape, None, int64)


def as_mask(input):
    """True where an element differs from zero."""
    return input if input.dtype is bool_ else input != 0


def true_places(mask, coordinates=False):
    """The places where a bool tensor is true: row-major numbers (count,), or coordinates (count, rank)."""
    found = _core.few_true_places(mask, coordinates)
    if found is not NotImplemented:
        return found
    mask = mask.detach()
    if mask.numel() == 0:
        return _blank(0, mask.ndim) if coordinates else _blank(0)
    if mask.ndim == 0:
        places = true_places(reshape(mask, (1,)))
        return _blank(places.numel(), 0) if coordinates else places
    starts = _true_starts(mask)                         # noqa: F821
    count = narrow(starts, 0, starts.numel() - 1, 1).item()
    return _true_places(mask, starts, _blank(count), coordinates)       # noqa: F821


def counts_of(numbers, bins):
    """How often each of 0 .. bins - 1 is in a real 1-d int tensor of such numbers: (bins,) int64."""
    if numbers.numel() == 0 or bins == 0:
        return full((bins,), 0, int64)
    return sum(_tally(numbers.detach(), _blank(bins)), 0)               # noqa: F821
