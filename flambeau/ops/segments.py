"""Reductions of a further kind: over segments of an axis, and by exclusive or of the bits."""

import math

from flambeau.base.errors import fail
from flambeau.base.lazy import LazyModule
from flambeau.ops.create import full, iota
from flambeau.ops.elementwise import cast, maximum, where
from flambeau.ops.host import array_of, tensor_of
from flambeau.ops.index import index_sum
from flambeau.ops.out import with_out
from flambeau.ops.reduce import sum
from flambeau.ops.scatter import index_reduce
from flambeau.ops.spec import public
from flambeau.ops.structure import repeat_interleave
from flambeau.ops.view import reshape
from flambeau.types.dtype import int32, int64, uint64
from flambeau.types.shape import normalize_axes, show_shape

numpy = LazyModule("numpy")

SEGMENT = {
    "sum": 0.0,
    "mean": 0.0,
    "prod": 1.0,
    "max": -float("inf"),
    "min": float("inf"),
    "amax": -float("inf"),
    "amin": float("inf"),
}  # reduction -> what it gives for no elements


@public(method=False)
@with_out
def segment_reduce(
    data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None
):
    """Reduce consecutive segments of an axis: (*lead, n, *rest) -> (*lead, segments, *rest).

    Args:
        reduce: 'sum', 'mean', 'prod', 'max' or 'min'.
        lengths: (*lead, segments), the length of each segment; they add up to n. Or
        offsets: (*lead, segments + 1), where each starts, and where the last one ends.
        axis: how many leading axes there are.
        initial: a further element of each segment; of empty ones the result (by default 0, NaN for 'mean', 1,
        -inf, inf).

    >>> segment_reduce(tensor([1., 2., 3., 4.]), "sum", lengths=tensor([1, 0, 3]))
    tensor([1., 0., 9.])
    """
    if reduce not in SEGMENT:
        fail("segment_reduce", "reduce argument must be either sum, prod, mean, max or min", reduce)
    if indices is not None:
        fail("segment_reduce", "indices based reduction is not supported", hint="use index_reduce")
    if lengths is None and offsets is None:
        fail("segment_reduce", "Either lengths or offsets must be defined.")
    axis = axis + data.ndim if axis < 0 else axis
    lengths = _lengths(lengths, offsets)
    lead, n, rest = tuple(data.shape[:axis]), data.shape[axis], tuple(data.shape[axis + 1 :])
    _check_lengths(data, lengths, lead, n, unsafe)
    count = lengths.numel()
    flat = reshape(data, (math.prod(lead) * n, *rest))
    place = repeat_interleave(iota((count,), 0, int64), cast(reshape(lengths, (-1,)), int64))
    if flat.shape[0] != place.shape[0]:
        fail("segment_reduce", "segments of different totals need unsafe=False", show_shape(data.shape))
    result = _reduced(flat, place, count, reduce, initial, lengths)
    return reshape(result, (*lengths.shape, *rest))


def _lengths(lengths, offsets):
    if lengths is None:
        lengths = offsets[..., 1:] - offsets[..., :-1]
    if lengths.dtype not in (int32, int64):
        fail(
            "segment_reduce",
            "lengths must be integers",
            lengths.dtype,
            "int32 or int64",
            kind=NotImplementedError,
        )
    return lengths.detach()


def _check_lengths(data, lengths, lead, n, unsafe):
    if tuple(lengths.shape[:-1]) != lead:
        fail(
            "segment_reduce",
            "lengths need the leading axes of data",
            show_shape(lengths.shape),
            f"{lead} and the segments",
        )
    if unsafe or not lengths.numel():
        return
    if (lengths < 0).any().item():
        fail("segment_reduce", "lengths contains negative value!")
    if (sum(lengths, -1) != n).any().item():
        fail(
            "segment_reduce",
            "Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
        )


def _reduced(flat, place, count, reduce, initial, lengths):
    """The segments of rows (total, *rest) whose numbers are `place`."""
    start = SEGMENT[reduce] if initial is None else initial
    if reduce in ("sum", "mean"):
        total = index_sum(flat, 0, place, count)
        total = total + start if start else total
        if reduce == "sum":
            return total
        sizes = cast(reshape(lengths, (count, *(1,) * (flat.ndim - 1))), flat.dtype)
        return (
            total / sizes if initial is None else where(sizes == 0, float(initial), total / maximum(sizes, 1))
        )
    table = full((count, *flat.shape[1:]), start, flat.dtype)
    name = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    return index_reduce(table, 0, place, flat, name) if place.numel() else table


@public()
@with_out
def hash_tensor(input, dim=(), *, keepdim=False, mode=0):
    """The exclusive or of the elements' bits along `dim` (none: all), uint64: whether two tensors hold the
    same values.

    Floating point elements are taken in float64, integers in int64. `mode` is 0.

    >>> hash_tensor(tensor([[1, 2], [3, 5]]), 1)
    tensor([3, 6], dtype=flambeau.uint64)
    """
    if mode != 0:
        fail("hash_tensor", f"Unknown hash_tensor mode: {mode}")
    if input.dtype.kind == "c":
        fail("hash_tensor", "complex elements have no such bits", input.dtype, kind=NotImplementedError)
    axes = normalize_axes(dim, input.ndim, "hash_tensor") if dim != () else tuple(range(input.ndim))
    if any(input.shape[a] == 0 for a in axes) and (dim == () or input.numel() == 0):
        fail(
            "hash_tensor",
            "Expected reduction dim to have non-zero size",
            show_shape(input.shape),
            kind=IndexError if dim != () else RuntimeError,
        )
    array = array_of(input.detach())
    bits = (
        array.astype("float64").view("uint64")
        if input.dtype.kind == "f"
        else array.astype("int64").view("uint64")
    )
    folded = numpy.bitwise_xor.reduce(bits, axis=tuple(axes), keepdims=keepdim) if input.ndim else bits
    return tensor_of(numpy.asarray(folded, "uint64"), uint64)
