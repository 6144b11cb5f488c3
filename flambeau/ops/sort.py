"""Order: sorting and what is chosen by rank, places in sorted sequences, distinct elements.

The order of a line is found by a host function on NumPy arrays; values are then elements of the input, so
their gradient goes back to where they stood. NaN counts as larger than every number, and equal elements keep
their order.
"""

import math
from collections import namedtuple

from flambeau.base.errors import ArgumentError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.elementwise import EVERY, full_like
from flambeau.ops.host import array_of, run_host, tensor_of
from flambeau.ops.index import gather, gather_sum
from flambeau.ops.kinds import Opaque
from flambeau.ops.out import with_out
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import op, public
from flambeau.ops.view import reshape
from flambeau.runtime import _core
from flambeau.runtime._core import Tensor
from flambeau.types.dim import Dim
from flambeau.types.dtype import int32, int64
from flambeau.types.shape import normalize_axis, show_shape

numpy = LazyModule("numpy")


# ------------------------------------------------------------------------------ on arrays
def order(lines, descending=False):
    """Where the elements of each line (the last axis) go when sorted: stable, NaN as the largest."""
    lines = lines.view("uint8") if lines.dtype == bool else lines
    if not descending:
        return numpy.argsort(lines, axis=-1, kind="stable")
    backward = numpy.argsort(lines[..., ::-1], axis=-1, kind="stable")
    return lines.shape[-1] - 1 - backward[..., ::-1]


def top(lines, k, largest):
    """Places of the k largest or smallest elements of each line, the most extreme first."""
    size = lines.shape[-1]
    if size < 1024 or 4 * k > size or lines.dtype == bool:
        return order(lines, largest)[..., :k]
    some = numpy.argpartition(lines, size - k if largest else k - 1, axis=-1)
    some = numpy.sort(some[..., -k:] if largest else some[..., :k], axis=-1)
    return numpy.take_along_axis(some, order(numpy.take_along_axis(lines, some, -1), largest), -1)


def middle(lines, ignore_nan):
    """The place of the median of each line, the lower of two; of a NaN if one is there and not ignored."""
    missing = lines != lines
    count = (~missing).sum(-1) if ignore_nan else numpy.full(lines.shape[:-1], lines.shape[-1])
    places = order(lines)
    chosen = numpy.take_along_axis(places, numpy.maximum(count - 1, 0)[..., None] // 2, -1)
    if not ignore_nan:
        chosen = numpy.where(missing.any(-1, keepdims=True), missing.argmax(-1)[..., None], chosen)
    return chosen


def most_frequent(lines):
    """The place of the most frequent element of each line, the smallest of several: where it stands last."""
    found = numpy.empty((*lines.shape[:-1], 1), "int64")
    for where in numpy.ndindex(lines.shape[:-1]):
        values, counts = numpy.unique(lines[where], return_counts=True)
        hits = numpy.flatnonzero(lines[where] == values[counts.argmax()])
        found[where] = hits[-1] if len(hits) else lines.shape[-1] - 1
    return found


# ------------------------------------------------------------------------------ chosen by rank
class Ranked(Opaque):
    """(values, indices) of elements of each line along `dim`, by what `choose(lines, **attributes)` says."""

    differentiable = True
    outputs = ("values", "indices")
    dtypes = EVERY
    samples = unary_samples()
    tolerance = ulps(0)
    cases = ({"dim": -1}, {"dim": 0})
    count = None            # how many elements of a line stay: an attribute's name, 1, or None for all
    empty_error = False
    said = property(lambda self: self.name.strip("_").removesuffix("_along"))       # the public name

    def prepare(self, values):
        x = values["input"]
        if not isinstance(x, Tensor):
            fail(self.name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
        dim = -1 if values["dim"] is None else values["dim"]
        values["dim"] = dim = normalize_axis(dim, x.ndim, self.said)
        if self.empty_error and x.ndim and x.shape[dim] == 0:
            fail(self.said, "cannot choose from no elements", show_shape(x.shape),
                 f"reduction dim {dim} of non-zero size", kind=IndexError)
        return values

    def infer(self, inputs, attrs):
        shape, dim = tuple(inputs[0].shape), attrs["dim"]
        if shape and self.count is not None:
            size = attrs["k"] if self.count == "k" else 1
            shape = (*shape[:dim], size, *shape[dim + 1:])
            if self.count == 1 and not attrs["keepdim"]:
                shape = (*shape[:dim], *shape[dim + 1:])
        return [(inputs[0].dtype, shape), (int64, shape)]

    def eager(self, values):
        x = values["input"]
        result = run_host(self, values | {"input": x.detach()})
        if x.requires_grad and _core.grad_mode():
            rule = _core.BackwardRule(0, 1, True, [], [], None)     # the places, and of the input its shape
            _core.record(self.native, rule, (x,), tuple(result), {"dim": values["dim"]}, True)
        return result

    def derivative(grads, out, x, *, dim):
        return spread_back(grads[0], out[1], x, dim)


def spread_back(grad, indices, x, dim):
    """The gradient of values that were read at `indices` along `dim`."""
    indices = indices if getattr(type(indices), "is_traced", False) else indices.detach()
    if x.ndim == 0:
        return grad
    if indices.ndim < x.ndim:
        shape = (*x.shape[:dim], 1, *x.shape[dim + 1:])
        grad, indices = reshape(grad, shape), reshape(indices, shape)
    return gather_sum(grad, dim, indices, x.shape[dim])


def picked(x, dim, choose, keepdim=True):
    """(values, indices) of an array at the places that `choose` finds in each line along `dim`."""
    if x.ndim == 0:
        return x, numpy.zeros((), "int64")
    lines = numpy.moveaxis(x, dim, -1)
    places = choose(lines)
    results = numpy.take_along_axis(lines, places, -1), places
    if not keepdim:
        return tuple(r[..., 0] for r in results)
    return tuple(numpy.moveaxis(r, -1, dim) for r in results)


@op
class Sort(Ranked):
    """(values, indices): the elements along `dim` in ascending or descending order; always stable."""

    signature = "input, dim=-1, descending=False, *, stable=False"
    cases = ({"dim": -1}, {"dim": 0, "descending": True})

    def host(x, *, dim, descending, stable):
        return picked(x, dim, lambda lines: order(lines, descending))

    def reference(input, dim=-1, descending=False, stable=False):
        key = -input.astype("float64") if descending else input
        places = numpy.argsort(key, axis=dim, kind="stable")
        return numpy.take_along_axis(input, places, dim), places


@op
class Topk(Ranked):
    """(values, indices) of the `k` largest (or smallest) elements along `dim`, the most extreme first."""

    signature = "input, k, dim=-1, largest=True, sorted=True"
    cases = ({"k": 1, "dim": -1}, {"k": 1, "dim": 0, "largest": False})
    shapes = ((7,), (5, 7), (2, 3, 33))
    count = "k"

    def prepare(self, values):
        values = Ranked.prepare(self, values)
        x, k = values["input"], values["k"]
        size = x.shape[values["dim"]] if x.ndim else 1
        if k < 0 or (not isinstance(size, Dim) and k > size):
            fail("topk", "selected index k out of range", k, f"0 to {size}", kind=RuntimeError)
        return values

    def host(x, *, k, dim, largest, sorted):
        return picked(x, dim, lambda lines: top(lines, k, largest))

    def reference(input, k, dim=-1, largest=True, sorted=True):
        places = (numpy.argmax if largest else numpy.argmin)(input, axis=dim, keepdims=True)
        return numpy.take_along_axis(input, places, dim), places


@op
class Kthvalue(Ranked):
    """(values, indices) of the k-th smallest element along `dim`, counted from 1."""

    signature = "input, k, dim=-1, keepdim=False"
    cases = ({"k": 1, "dim": -1}, {"k": 1, "dim": 0, "keepdim": True})
    shapes = ((7,), (5, 7), (2, 3, 33))
    count = 1

    def prepare(self, values):
        values = Ranked.prepare(self, values)
        x, k = values["input"], values["k"]
        size = x.shape[values["dim"]] if x.ndim else 1
        if k < 1 or (not isinstance(size, Dim) and k > size):
            fail("kthvalue", "selected number k out of range for the dimension", k, f"1 to {size}",
                 kind=RuntimeError)
        return values

    def host(x, *, k, dim, keepdim):
        return picked(x, dim, lambda lines: order(lines)[..., k - 1:k], keepdim)

    def reference(input, k, dim=-1, keepdim=False):
        places = numpy.argmin(input, axis=dim, keepdims=True)
        values = numpy.take_along_axis(input, places, dim)
        return tuple(r if keepdim else r.squeeze(dim) for r in (values, places))


class Central(Ranked):
    """One element of each line, along one axis."""

    signature = "input, dim=-1, keepdim=False"
    count, empty_error = 1, True
    cases = ({"dim": -1}, {"dim": 0, "keepdim": True})


def _reference_middle(input, dim=-1, keepdim=False):
    places = numpy.argsort(input, axis=dim, kind="stable").take([(input.shape[dim] - 1) // 2], dim)
    values = numpy.take_along_axis(input, places, dim)
    return tuple(r if keepdim else r.squeeze(dim) for r in (values, places))


@op
class MedianAlong(Central):
    """(values, indices) of the median along `dim`: the lower of two, NaN if there is one."""

    name = "_median_along"
    reference = _reference_middle

    def host(x, *, dim, keepdim):
        return picked(x, dim, lambda lines: middle(lines, False), keepdim)


@op
class NanmedianAlong(Central):
    """(values, indices) of the median of the elements along `dim` that are not NaN."""

    name = "_nanmedian_along"
    reference = _reference_middle

    def host(x, *, dim, keepdim):
        return picked(x, dim, lambda lines: middle(lines, True), keepdim)


@op
class Mode(Central):
    """(values, indices) of the most frequent element along `dim`: the smallest of several, its last place."""

    def host(x, *, dim, keepdim):
        return picked(x, dim, most_frequent, keepdim)

    def reference(input, dim=-1, keepdim=False):
        places = most_frequent(numpy.moveaxis(input, dim, -1))
        values = numpy.take_along_axis(input, numpy.moveaxis(places, -1, dim), dim)
        places = numpy.moveaxis(places, -1, dim)
        return tuple(r if keepdim else r.squeeze(dim) for r in (values, places))


Median = namedtuple("median", ("values", "indices"))
Nanmedian = namedtuple("nanmedian", ("values", "indices"))


@public()
@with_out
def median(input, dim=None, keepdim=False):
    """The median of all elements, or (values, indices) along `dim`: the lower of two, NaN if there is one."""
    return _median(input, dim, keepdim, _median_along, Median)           # noqa: F821


@public()
@with_out
def nanmedian(input, dim=None, keepdim=False):
    """As `median`, of the elements that are not NaN; NaN if there is none."""
    return _median(input, dim, keepdim, _nanmedian_along, Nanmedian)     # noqa: F821


def _median(input, dim, keepdim, along, result):
    if dim is not None:
        return result(*along(input, dim, keepdim))
    flat = reshape(input, (-1,))
    return full_like(input.sum(), float("nan")) if flat.shape[0] == 0 else along(flat, 0)[0]


@public()
@with_out
def argsort(input, dim=-1, descending=False, *, stable=False):
    """The indices that sort the elements along `dim`.

    >>> argsort(tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return sort(input.detach(), dim, descending, stable=stable)[1]      # noqa: F821


@public()
@with_out
def msort(input):
    """The elements sorted along the first axis."""
    return sort(input, 0)[0]            # noqa: F821


# ------------------------------------------------------------------------------ places in sorted sequences
@op
class SortedPlaces(Opaque):
    """Where each value goes in the sorted lines of `sequence`: in front of equal elements or behind them."""

    name = "_sorted_places"
    signature = "sequence, values, right=False, out_int32=False"
    operands = ("sequence", "values")
    dtypes = EVERY
    tolerance = ulps(0)

    def samples(rng, shape):
        return [numpy.sort(rng.uniform(-3, 3, (7,))), rng.uniform(-3, 3, shape)]

    def infer(self, inputs, attrs):
        return [(int32 if attrs["out_int32"] else int64, tuple(inputs[1].shape))]

    def host(sequence, values, *, right, out_int32):
        side = "right" if right else "left"
        if sequence.ndim == 1:
            return numpy.searchsorted(sequence, values, side)
        places = numpy.empty(values.shape, "int64")
        for where in numpy.ndindex(values.shape[:-1]):
            places[where] = numpy.searchsorted(sequence[where], values[where], side)
        return places

    def reference(sequence, values, right=False, out_int32=False):
        return numpy.searchsorted(sequence, values, "right" if right else "left")


@public()
@with_out
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """Where the values of `input` go in `sorted_sequence`, whose lines along the last axis ascend.

    Args:
        sorted_sequence: (size,), or (..., size) with the leading axes of `input`.
        right: behind equal elements rather than in front; `side` 'left' or 'right' says the same.
        sorter: the indices that sort the lines, if they are not sorted.

    >>> searchsorted(tensor([1, 3, 5]), tensor([3, 6]))
    tensor([1, 3])
    """
    if side not in (None, "left", "right"):
        fail("searchsorted", "side can only be 'left' or 'right'", side)
    if side == "left" and right:
        fail("searchsorted", "side and right can't be set to opposites", "side='left' with right=True")
    if sorter is not None:
        if tuple(sorter.shape) != tuple(sorted_sequence.shape):
            fail("searchsorted", "sorter has another shape than the sequence", tuple(sorter.shape),
                 tuple(sorted_sequence.shape))
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    values = _as_values(input, sorted_sequence)
    if sorted_sequence.ndim != 1 and tuple(sorted_sequence.shape[:-1]) != tuple(values.shape[:-1]):
        fail("searchsorted", "the leading axes of sequence and values differ", show_shape(values.shape),
             show_shape(sorted_sequence.shape))
    if sorted_sequence.dtype is not values.dtype:
        fail("searchsorted", "sequence and values must have the same dtype", values.dtype,
             sorted_sequence.dtype)
    behind = bool(right or side == "right")
    return _sorted_places(sorted_sequence.detach(), values.detach(), behind, bool(out_int32))       # noqa: F821


def _as_values(value, sequence):
    """A number as a 0-d tensor of the sequence's dtype."""
    if isinstance(value, Tensor):
        return value
    return full_like(_core.empty_strided((), None, sequence.dtype), value)


@public()
@with_out
def bucketize(input, boundaries, *, out_int32=False, right=False):
    """The number of the bucket between sorted 1-d `boundaries` that each value falls into.

    >>> bucketize(tensor([3, 6, 9]), tensor([1, 3, 5, 7]))
    tensor([1, 3, 4])
    """
    if boundaries.ndim != 1:
        fail("bucketize", "boundaries has one axis", show_shape(boundaries.shape), "(size,)")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# ------------------------------------------------------------------------------ distinct elements
def _results(input, values, inverse, counts, return_inverse, return_counts):
    """What unique() returns: the distinct elements, then what was asked for."""
    found = [tensor_of(values, input.dtype)]
    if return_inverse:
        found.append(tensor_of(inverse, int64))
    if return_counts:
        found.append(tensor_of(counts, int64))
    return tuple(found) if len(found) > 1 else found[0]


@public()
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, ascending; with `dim` the distinct slices along it.

    Returns:
        the elements, or a tuple of them and, as asked for, the place of each input element among them and
        how often each occurs.

    >>> unique(tensor([1, 3, 2, 3]))
    tensor([1, 2, 3])
    """
    if dim is not None:
        dim = normalize_axis(dim, input.ndim, "unique")
    array = array_of(input.detach())
    values, inverse, counts = numpy.unique(array, return_inverse=True, return_counts=True, axis=dim,
                                           equal_nan=False)
    inverse = inverse.reshape(array.shape if dim is None else (-1,))
    return _results(input, values, inverse, counts, return_inverse, return_counts)


@public()
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (slices along `dim`) without those that equal the one before them.

    >>> unique_consecutive(tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    array = array_of(input.detach())
    lines = array.reshape(-1) if dim is None else numpy.moveaxis(array, dim, 0)
    flat = lines.reshape(len(lines), math.prod(lines.shape[1:]))
    new = numpy.ones(len(flat), bool)
    new[1:] = (flat[1:] != flat[:-1]).any(-1)
    starts = numpy.flatnonzero(new)
    counts = numpy.diff(numpy.append(starts, len(flat)))
    inverse = numpy.cumsum(new) - 1
    values = lines[starts] if dim is None else numpy.moveaxis(lines[starts], 0, dim)
    inverse = inverse.reshape(array.shape) if dim is None else inverse
    return _results(input, values, inverse, counts, return_inverse, return_counts)
