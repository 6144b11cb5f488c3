"""The largest and smallest element along one axis and where it stands: max, min, argmax, argmin."""

from flambeau.base.errors import ArgumentError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import EVERY, maximum, minimum
from flambeau.ops.index import gather_sum
from flambeau.ops.kinds import Template
from flambeau.ops.out import with_out
from flambeau.ops.reduce import amax, amin, highest, lowest
from flambeau.ops.results import result_tuple
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import op, public
from flambeau.ops.view import reshape
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import int64
from flambeau.types.shape import normalize_axis, show_shape

numpy = LazyModule("numpy")


class ExtremeAlong(Template):
    """(values, indices) along `dim`: the first extreme; NaN is one."""

    kind = "scan"
    signature = "input, dim, keepdim=False"
    outputs = ("values", "indices")
    dtypes = EVERY
    samples = unary_samples()
    tolerance = ulps(0)
    empty_error = True
    cases = ({"dim": -1}, {"dim": 0, "keepdim": True})
    said = property(lambda self: self.name.removesuffix("_along"))       # the public name

    def prepare(self, values):
        x = values["input"]
        if not isinstance(x, Tensor):
            fail(self.said, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        dim = normalize_axis(values["dim"], x.ndim, self.said)
        if x.ndim and x.shape[dim] == 0:
            fail(self.said, "cannot choose from no elements", show_shape(x.shape),
                 f"reduction dim {dim} of non-zero size", kind=IndexError)
        return values | {"dim": dim, "keepdim": bool(values["keepdim"])}

    def infer_shape(x, *, dim, keepdim):
        shape = x if not x else (*x[:dim], *((1,) if keepdim else ()), *x[dim + 1:])
        return shape, shape

    def infer_dtype(x, *, dim, keepdim):
        return x, int64

    def derivative(grads, out, x, *, dim, keepdim):
        if x.ndim == 0:
            return grads[0]
        shape = (*x.shape[:dim], 1, *x.shape[dim + 1:])
        return gather_sum(reshape(grads[0], shape), dim, reshape(out[1], shape), x.shape[dim])


def _lower(compare, start):
    def lower(planner, inputs, outputs, *, dim, keepdim):
        number = start(inputs[0].dtype)
        planner.templates.extreme.launch_extreme(planner, compare, number, inputs[0], outputs, dim)
    return lower


def _reference(which):
    def reference(input, dim, keepdim=False):
        places = getattr(numpy, which)(input, axis=dim, keepdims=True)
        values = numpy.take_along_axis(input, places, dim)
        return tuple(r if keepdim else r.squeeze(dim) for r in (values, places))
    return reference


@op
class MaxAlong(ExtremeAlong):
    """(values, indices) of the largest element along `dim`."""

    internal = True
    lower = _lower("gt", lowest)
    reference = _reference("argmax")


@op
class MinAlong(ExtremeAlong):
    """(values, indices) of the smallest element along `dim`."""

    internal = True
    lower = _lower("lt", highest)
    reference = _reference("argmin")


Max = result_tuple("max", ("values", "indices"))
Min = result_tuple("min", ("values", "indices"))


@public()
@with_out
def max(input, dim=None, keepdim=False, *, other=None):
    """The largest of all elements; (values, indices) along `dim`; or the larger elements of two tensors.

    >>> max(tensor([[1, 5], [7, 3]]), 1).indices
    tensor([1, 0])
    """
    return _extreme(input, dim, keepdim, other, amax, maximum, max_along, Max)         # noqa: F821


@public()
@with_out
def min(input, dim=None, keepdim=False, *, other=None):
    """The smallest of all elements; (values, indices) along `dim`; or the smaller elements of two tensors."""
    return _extreme(input, dim, keepdim, other, amin, minimum, min_along, Min)         # noqa: F821


def _extreme(input, dim, keepdim, other, of_all, of_two, along, result):
    if isinstance(dim, Tensor) or other is not None:
        return of_two(input, dim if other is None else other)
    return of_all(input) if dim is None else result(*along(input, dim, keepdim))


@public()
@with_out
def argmax(input, dim=None, keepdim=False):
    """The place of the largest element, the first of equal ones: among all elements in a row, or along `dim`.

    >>> argmax(tensor([[1, 5], [7, 3]]))
    tensor(2)
    """
    return _place("argmax", input, dim, keepdim, max_along)        # noqa: F821


@public()
@with_out
def argmin(input, dim=None, keepdim=False):
    """The place of the smallest element, the first of equal ones: see `argmax`."""
    return _place("argmin", input, dim, keepdim, min_along)        # noqa: F821


def _place(name, input, dim, keepdim, along):
    if dim is not None:
        return along(input, dim, keepdim)[1]
    if input.numel() == 0:
        fail(name, "cannot choose from no elements", show_shape(input.shape), hint="specify dim",
             kind=IndexError)
    found = along(reshape(input, (-1,)), 0)[1]
    return reshape(found, (1,) * input.ndim) if keepdim else found
