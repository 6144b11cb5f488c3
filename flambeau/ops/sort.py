"""Order: sorting and what is chosen by rank, places in sorted sequences, distinct elements.

Sorting is a kernel of its own (compiler.order); values are elements of the input, so their gradient goes
back to where they stood. NaN counts as larger than every number, and equal elements keep their order.
"""

import math
from flambeau.base.errors import ArgumentError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.chosen import true_places
from flambeau.ops.create import full, iota
from flambeau.ops.elementwise import EVERY, full_like, where
from flambeau.ops.extreme import argmax
from flambeau.ops.host import array_of, tensor_of
from flambeau.ops.index import gather, gather_sum, index_select
from flambeau.ops.join import cat
from flambeau.ops.kinds import Composite, Template
from flambeau.ops.out import with_out
from flambeau.ops.reduce import sum
from flambeau.ops.results import result_tuple
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.scan import cummax, cumsum
from flambeau.ops.scatter import scatter_elements
from flambeau.ops.spec import as_int, op, public
from flambeau.ops.view import clone, narrow, reshape, squeeze
from flambeau.ops.write import number_in_memory
from flambeau.runtime._core import Tensor
from flambeau.types.dim import Dim
from flambeau.types.dtype import bool_, int32, int64
from flambeau.types.shape import normalize_axis, show_shape

numpy = LazyModule("numpy")


# ------------------------------------------------------------------------------ sorting
def line_axis(name, x, dim, empty_error=False):
    """`dim` counted from the front (None: the last axis)."""
    if not isinstance(x, Tensor):
        fail(name, "argument 'input' must be a Tensor", type(x).__name__, kind=ArgumentError)
    dim = normalize_axis(-1 if dim is None else dim, x.ndim, name)
    if empty_error and x.ndim and x.shape[dim] == 0:
        fail(name, "cannot choose from no elements", show_shape(x.shape),
             f"reduction dim {dim} of non-zero size", kind=IndexError)
    return dim


class Ordered(Template):
    """(values, indices) of elements of each line along `dim`."""

    kind = "sort"
    outputs = ("values", "indices")
    dtypes = EVERY
    samples = unary_samples()
    tolerance = ulps(0)

    def prepare(self, values):
        return values | {"dim": line_axis(self.name, values["input"], values["dim"])}

    def derivative(grads, out, x, *, dim):
        return gather_sum(grads[0], dim, out[1], x.shape[dim]) if x.ndim else grads[0]


@op
class Sort(Ordered):
    """(values, indices): the elements along `dim` in ascending or descending order; always stable."""

    signature = "input, dim=-1, descending=False, *, stable=False"
    looks_at_sizes = False
    cases = ({"dim": -1}, {"dim": 0, "descending": True})

    def prepare(self, values):
        return Ordered.prepare(self, values) | {"descending": bool(values["descending"]), "stable": True}

    def infer_shape(x, **attributes):
        return x, x

    def infer_dtype(x, **attributes):
        return x, int64

    def lower(planner, inputs, outputs, *, dim, descending, stable):
        planner.templates.order.launch_sort(planner, inputs[0], outputs, dim, descending)

    def reference(input, dim=-1, descending=False, stable=False):
        key = -input.astype("float64") if descending else input
        places = numpy.argsort(key, axis=dim, kind="stable")
        return numpy.take_along_axis(input, places, dim), places


@op
class Topk(Ordered):
    """(values, indices) of the `k` largest (or smallest) elements along `dim`, the most extreme first."""

    signature = "input, k, dim=-1, largest=True, sorted=True"
    cases = ({"k": 1, "dim": -1}, {"k": 1, "dim": 0, "largest": False})
    shapes = ((7,), (5, 7), (2, 3, 33))

    def prepare(self, values):
        values = Ordered.prepare(self, values)
        check_rank("topk", values["input"], values["k"], values["dim"], 0)
        return values | {"largest": bool(values["largest"]), "sorted": True}

    def infer_shape(x, *, k, dim, **attributes):
        shape = (*x[:dim], k, *x[dim + 1:]) if x else x
        return shape, shape

    def infer_dtype(x, **attributes):
        return x, int64

    def lower(planner, inputs, outputs, *, k, dim, largest, sorted):
        planner.templates.order_best.launch_best(planner, inputs[0], outputs, dim, k, largest)

    def reference(input, k, dim=-1, largest=True, sorted=True):
        places = (numpy.argmax if largest else numpy.argmin)(input, axis=dim, keepdims=True)
        return numpy.take_along_axis(input, places, dim), places


@op
class AtRank(Ordered):
    """(values, indices) of the element of each line along `dim` that has the rank, counted from 0, in the
    order of sort(); `rank` has size 1 along `dim`."""

    internal = True
    signature = "input, rank, dim"
    operands = ("input", "rank")
    cases = ({"dim": -1},)
    shapes = ((7,), (5, 7), (2, 3, 80))

    def samples(rng, shape):
        lead = shape[:-1]
        return [rng.uniform(-3, 3, shape), rng.integers(0, max(shape[-1], 1), (*lead, 1)) if shape else 0]

    def infer_shape(x, rank, *, dim):
        shape = (*x[:dim], 1, *x[dim + 1:]) if x else x
        return shape, shape

    def infer_dtype(x, rank, *, dim):
        return x, int64

    def lower(planner, inputs, outputs, *, dim):
        planner.templates.order_select.launch_at_rank(planner, *inputs, outputs, dim)

    def reference(input, rank, dim):
        places = numpy.take_along_axis(numpy.argsort(input, axis=dim, kind="stable"), rank, dim)
        return numpy.take_along_axis(input, places, dim), places

    def derivative(grads, out, x, rank, *, dim):
        return (gather_sum(grads[0], dim, out[1], x.shape[dim]) if x.ndim else grads[0]), None


def check_rank(name, x, k, dim, least):
    """`k` elements must be there along `dim`."""
    size = x.shape[dim] if x.ndim else 1
    if k < least or (not isinstance(size, Dim) and k > size):
        fail(name, "selected number k out of range", k, f"{least} to {size}", kind=RuntimeError)


@public()
@with_out
def argsort(input, dim=-1, descending=False, *, stable=False):
    """The indices that sort the elements along `dim`.

    >>> argsort(tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return sort(input, dim, descending, stable=stable)[1]       # noqa: F821


@public()
@with_out
def msort(input):
    """The elements sorted along the first axis."""
    return sort(input, 0)[0]            # noqa: F821


# ------------------------------------------------------------------------------ chosen by rank
Kthvalue = result_tuple("kthvalue", ("values", "indices"))
Median = result_tuple("median", ("values", "indices"))
Nanmedian = result_tuple("nanmedian", ("values", "indices"))


@public()
@with_out
def kthvalue(input, k, dim=-1, keepdim=False):
    """(values, indices) of the k-th smallest element along `dim`, counted from 1."""
    dim, k = line_axis("kthvalue", input, dim), as_int(k)
    check_rank("kthvalue", input, k, dim, 1)
    return Kthvalue(*_at_rank(input, k - 1, dim, keepdim))


@public()
@with_out
def median(input, dim=None, keepdim=False):
    """The median of all elements, or (values, indices) along `dim`: the lower of two, NaN if there is one."""
    return _median("median", input, dim, keepdim, False, Median)


@public()
@with_out
def nanmedian(input, dim=None, keepdim=False):
    """As `median`, of the elements that are not NaN; NaN if there is none."""
    return _median("nanmedian", input, dim, keepdim, True, Nanmedian)


def _median(name, input, dim, keepdim, ignore_nan, result):
    if dim is None:
        if input.numel() == 0:
            return full_like(sum(input), float("nan"))
        return _median(name, reshape(input, (-1,)), 0, False, ignore_nan, result)[0]
    dim = line_axis(name, input, dim, True)
    size = input.shape[dim] if input.ndim else 1
    rank = (size - 1) // 2
    if input.dtype.kind == "f":
        count = sum(input == input, dim, True)                  # NaN stand behind them
        rank = where(count > 0, count - 1, 0) // 2 if ignore_nan else where(count < size, count, rank)
    return result(*_at_rank(input, rank, dim, keepdim))


def _at_rank(input, rank, dim, keepdim):
    """(values, indices) of the elements that stand at a rank, a number or one of each line, once sorted."""
    if not isinstance(rank, Tensor):
        rank = full((*input.shape[:dim], 1, *input.shape[dim + 1:]) if input.ndim else (), rank, int64)
    found = at_rank(input, rank.detach(), dim)                  # noqa: F821
    return found if keepdim or not input.ndim else [squeeze(f, dim) for f in found]


@op
class Mode(Composite):
    """(values, indices) of the most frequent element along `dim`: the smallest of several, its last place."""

    signature = "input, dim=-1, keepdim=False"
    outputs = ("values", "indices")
    dtypes = EVERY
    samples = unary_samples()
    tolerance = ulps(0)
    cases = ({"dim": -1}, {"dim": 0, "keepdim": True})
    empty_error = True

    def prepare(self, values):
        return values | {"dim": line_axis("mode", values["input"], values["dim"], True)}

    def compute(input, dim=-1, keepdim=False):
        if not input.ndim:
            return clone(input), full((), 0, int64)
        size, shape = input.shape[dim], tuple(input.shape)
        values, places = sort(input, dim)                       # noqa: F821
        first = full((*shape[:dim], 1, *shape[dim + 1:]), True, bool_)
        fresh = cat((first, narrow(values, dim, 1, size - 1) != narrow(values, dim, 0, size - 1)), dim)
        at = iota(tuple(size if axis == dim else 1 for axis in range(len(shape))), dim)
        start = cummax(where(fresh, at, 0), dim)[0]
        longest = argmax(at - start, dim, True)         # the element with the most equal ones in front
        found = [gather(f, dim, longest) for f in (values, places)]
        return tuple(found if keepdim else [squeeze(f, dim) for f in found])

    def reference(input, dim=-1, keepdim=False):
        def line_mode(line):
            values, counts = numpy.unique(line, return_counts=True)
            return numpy.flatnonzero(line == values[counts.argmax()])[-1:]
        places = numpy.apply_along_axis(line_mode, dim, input)
        values = numpy.take_along_axis(input, places, dim)
        return tuple(r if keepdim else r.squeeze(dim) for r in (values, places))

    def derivative(grads, out, x, *, dim):
        if x.ndim == 0:
            return grads[0]
        shape = (*x.shape[:dim], 1, *x.shape[dim + 1:])
        places = out[1] if getattr(type(out[1]), "is_traced", False) else out[1].detach()
        return gather_sum(reshape(grads[0], shape), dim, reshape(places, shape), x.shape[dim])


# ------------------------------------------------------------------------------ places in sorted sequences
@op
class SortedPlaces(Template):
    """Where each value goes in the sorted lines of `sequence`: in front of equal elements or behind them."""

    kind = "sort"
    internal = True
    signature = "sequence, values, right=False, out_int32=False"
    operands = ("sequence", "values")
    dtypes = EVERY
    tolerance = ulps(0)
    differentiable = False

    def samples(rng, shape):
        return [numpy.sort(rng.uniform(0, 6, (7,))), rng.uniform(0, 6, shape)]

    def infer_shape(sequence, values, **attributes):
        return values

    def infer_dtype(sequence, values, *, right, out_int32):
        return int32 if out_int32 else int64

    def lower(planner, inputs, outputs, *, right, out_int32):
        planner.templates.search.launch_search(planner, *inputs, outputs[0], right)

    def reference(sequence, values, right=False, out_int32=False):
        return numpy.searchsorted(sequence, values, "right" if right else "left")


@public(method=False)
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
    return sorted_places(sorted_sequence.detach(), values.detach(), behind, bool(out_int32))   # noqa: F821


def _as_values(value, sequence):
    """A number as a 0-d tensor of the sequence's dtype."""
    if isinstance(value, Tensor):
        return value
    return number_in_memory(value, sequence.dtype)


@public(method=False)
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
def _results(values, inverse, counts, return_inverse, return_counts):
    """What unique() returns: the distinct elements, then what was asked for."""
    found = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return tuple(found) if len(found) > 1 else found[0]


def _runs(flat, return_inverse, return_counts):
    """(first elements, run number of each element, lengths) of the runs of equal elements of a 1-d tensor."""
    size = flat.numel()
    if size == 0:
        return flat, full((0,), 0, int64), full((0,), 0, int64)
    differs = narrow(flat, 0, 1, size - 1) != narrow(flat, 0, 0, size - 1)
    new = cat((full((1,), True, bool_), differs))
    starts = true_places(new)
    inverse, counts = cumsum(new, 0) - 1 if return_inverse else None, None
    if return_counts:
        counts = cat((narrow(starts, 0, 1, starts.numel() - 1), full((1,), size, int64))) - starts
    return index_select(flat, 0, starts), inverse, counts


@public()
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, ascending; with `dim` the distinct slices along it.

    Returns:
        the elements, or a tuple of them and, as asked for, the place of each input element among them and
        how often each occurs.

    >>> unique(tensor([1, 3, 2, 3]))
    tensor([1, 2, 3])
    """
    if dim is None and input.dtype.kind != "c":
        values, places = sort(reshape(input.detach(), (-1,)), 0)            # noqa: F821
        values, inverse, counts = _runs(values, return_inverse, return_counts)
        if return_inverse:
            inverse = reshape(scatter_elements(places, 0, places, inverse, "set"), tuple(input.shape))
        return _results(values, inverse, counts, return_inverse, return_counts)
    dim = None if dim is None else normalize_axis(dim, input.ndim, "unique")
    array = array_of(input.detach())
    values, inverse, counts = numpy.unique(array, return_inverse=True, return_counts=True, axis=dim,
                                           equal_nan=False)
    inverse = inverse.reshape(array.shape if dim is None else (-1,))
    return _results(tensor_of(values, input.dtype), tensor_of(inverse, int64), tensor_of(counts, int64),
                    return_inverse, return_counts)


@public()
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (slices along `dim`) without those that equal the one before them.

    >>> unique_consecutive(tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    if dim is None:
        values, inverse, counts = _runs(reshape(input.detach(), (-1,)), return_inverse, return_counts)
        inverse = reshape(inverse, tuple(input.shape)) if return_inverse else None
        return _results(values, inverse, counts, return_inverse, return_counts)
    array = array_of(input.detach())
    lines = numpy.moveaxis(array, dim, 0)
    flat = lines.reshape(len(lines), math.prod(lines.shape[1:]))
    new = numpy.ones(len(flat), bool)
    new[1:] = (flat[1:] != flat[:-1]).any(-1)
    starts = numpy.flatnonzero(new)
    counts = numpy.diff(numpy.append(starts, len(flat)))
    inverse = numpy.cumsum(new) - 1
    values = tensor_of(numpy.moveaxis(lines[starts], 0, dim), input.dtype)
    return _results(values, tensor_of(inverse, int64), tensor_of(counts, int64), return_inverse,
                    return_counts)
