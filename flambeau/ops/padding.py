"""Padding: an axis made longer by constants or by its own elements, read by index. Negative sizes cut.

`pad` lists (before, after) of the last axis, then of the one before it, and so on.
"""

from flambeau.base.errors import ArgumentError, ShapeError, fail
from flambeau.base.lazy import LazyModule
from flambeau.ops import plans
from flambeau.ops.create import full, iota
from flambeau.ops.elementwise import EVERY
from flambeau.ops.held import check_held
from flambeau.ops.index import index_select
from flambeau.ops.interpose import visible
from flambeau.ops.join import cat
from flambeau.ops.kinds import Composite
from flambeau.ops.samples import ulps, unary_samples
from flambeau.ops.spec import REGISTRY, as_int, op, public
from flambeau.ops.structure import LARGE, flip
from flambeau.ops.view import narrow
from flambeau.ops.write import write
from flambeau.runtime import _core
from flambeau.types.dtype import int64
from flambeau.types.shape import show_shape

numpy = LazyModule("numpy")

MODES = ("constant", "reflect", "replicate", "circular")


def pad(input, pad, mode="constant", value=None):
    """Surround the last axes.

    Args:
        pad: (before, after) of the last axis, then of the one before it, ...; negative numbers cut.
        mode: 'constant' (`value`, default 0), 'reflect' (mirrored at the border element), 'replicate' (the
            border element again), 'circular' (the other end).
    """
    pad = tuple(map(as_int, pad))
    if len(pad) % 2:
        fail("pad", "Padding length must be divisible by 2", pad, kind=RuntimeError)
    if len(pad) // 2 > input.ndim:
        fail("pad", "Padding length should be less than or equal to two times the input dimension", pad,
             f"at most {input.ndim} pairs", kind=RuntimeError)
    if mode not in MODES:
        fail("pad", "unrecognised padding mode", repr(mode), " or ".join(map(repr, MODES)),
             kind=NotImplementedError)
    if mode != "constant":
        check_pad(input, pad, mode, value)
    value = 0 if value is None else check_held("pad", value, input.dtype)
    if mode == "constant" and input.dtype.kind != "c" and min(pad, default=0) >= 0:
        if _core.takes_native((input,)) and input.numel() >= LARGE and not input.is_shape_only:
            return padded_in_memory(input, pad, value)
        return _constant_pad(input, pad, value)         # noqa: F821
    return padded(input, pad, mode, value)


def sides(input, pad):
    """(axis, before, after) of each pair."""
    return [(input.ndim - 1 - i // 2, pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]


def padded_in_memory(input, pad, value):
    """A large real tensor copied into the middle of constants."""
    shape, place = list(input.shape), [0] * input.ndim
    for axis, before, after in sides(input, pad):
        shape[axis], place[axis] = before + shape[axis] + after, before
    made = full(tuple(shape), value, input.dtype)
    strides = made.stride()
    first = sum(at * step for at, step in zip(place, strides))
    write(_core.view_of(made, tuple(input.shape), strides, first), input.detach())
    made._reset_version()
    if input.requires_grad and _core.grad_mode():
        plans.record_python(REGISTRY["_constant_pad"], (input,), made, {"pad": pad, "value": value})
    return made


def padded(input, pad, mode, value):
    """`pad` after its checks."""
    out = input
    for axis, before, after in sides(input, pad):
        if mode == "constant":
            out = cut(out, axis, before, after)
        elif mode == "circular":
            out = cut(out, axis, before, after)
            out = padded_by_index(out, axis, max(before, 0), max(after, 0), mode)
        else:
            out = padded_by_border(out, axis, before, after, mode)
    if mode == "constant":
        for axis, before, after in sides(input, pad):
            out = surround(out, axis, max(before, 0), max(after, 0), value)
    if out is input:
        from flambeau.ops.elementwise import copy
        return copy(input)
    return out


@op
class ConstantPad(Composite):
    """`pad` with a constant, by numbers that are not negative."""

    name = "_constant_pad"
    internal = True
    numbers = False
    signature = "input, pad, value=0"
    operands = ("input",)
    dtypes = EVERY
    tolerance = ulps(0)
    samples = unary_samples()
    shapes = ((5,), (4, 5), (2, 3, 33))
    cases = [{"pad": (1, 2)}, {"pad": (0, 2), "value": 1}]

    def compute(input, pad, value=0):
        return padded(input, pad, "constant", value)

    def reference(input, pad, value=0):
        return numpy.pad(input, [(0, 0)] * (input.ndim - 1) + [pad], constant_values=value)

    def derivative(grad, input, *, pad):
        for axis, before, _ in sides(input, pad):
            grad = narrow(grad, axis, before, input.shape[axis])
        return grad


@public(method=False)
def constant_pad_nd(input, pad, value=0):
    """`pad` with a constant."""
    return pad_function(input, pad, "constant", value)


def check_pad(input, pad, mode, value):
    """What the modes other than 'constant' ask for."""
    if value is not None and value != 0:
        fail("pad", f"Padding mode '{mode}' doesn't take in value argument", value, kind=ArgumentError)
    count = len(pad) // 2
    if not 1 <= count <= 3 or input.ndim not in (count + 1, count + 2):
        fail("pad",
             f"mode {mode!r} pads the last 1, 2 or 3 axes of (batch, channels, ...) or (channels, ...)",
             f"pad {pad} of {show_shape(input.shape)}", kind=NotImplementedError)
    for i in range(0, len(pad), 2):
        size = input.shape[input.ndim - 1 - i // 2]
        longest = {"reflect": size - 1, "circular": size}.get(mode)
        if longest is not None and max(pad[i], pad[i + 1]) > longest:
            fail("pad", f"mode {mode!r} can pad by at most {longest} here", pad[i:i + 2],
                 f"at most {longest} beside an axis of size {size}", kind=ShapeError)
        if size + pad[i] + pad[i + 1] <= 0 or (size == 0 and mode != "circular"):
            fail("pad", "the result would be empty", f"{pad} of {show_shape(input.shape)}", kind=ShapeError)


def cut(x, axis, before, after):
    """x without what negative numbers take off an axis."""
    start, stop = max(-before, 0), x.shape[axis] - max(-after, 0)
    if x.shape[axis] + before + after < 0 or stop < 0:
        fail("pad", "the result would have a negative size", f"{(before, after)} of {show_shape(x.shape)}",
             kind=RuntimeError)
    if start == 0 and stop == x.shape[axis]:
        return x
    return narrow(x, axis, start, max(stop - start, 0))


def surround(x, axis, before, after, value):
    """x between constants along an axis."""
    if not before and not after:
        return x

    def part(count):
        shape = tuple(count if a == axis else s for a, s in enumerate(x.shape))
        return (full(shape, value, x.dtype),) if count else ()
    return cat((*part(before), x, *part(after)), axis)


def padded_by_index(x, axis, before, after, mode):
    """An axis read at the places that the mode gives."""
    from flambeau.ops.elementwise import maximum, minimum, remainder
    if not before and not after:
        return x
    size = x.shape[axis]
    if mode == "reflect" and min(before, after) >= 0 and _core.writes_directly((x,)) and size >= LARGE:  # a long signal
        ends = (narrow(x, axis, 1, before), narrow(x, axis, size - 1 - after, after))
        first, last = (flip(end, axis) for end in ends)
        return cat((first, x, last), axis)
    place = iota((size + before + after,), 0, int64) - before
    if mode == "reflect":
        place = (size - 1) - abs((size - 1) - abs(place))
    elif mode == "replicate":
        place = minimum(maximum(place, 0), size - 1)
    else:
        place = remainder(place, size)
    return index_select(x, axis, place)


@visible
def padded_by_border(x, axis, before, after, mode):
    """`padded_by_index` for the modes 'reflect' and 'replicate'."""
    return padded_by_index(x, axis, before, after, mode)


pad_function = pad          # for functions that have an argument of that name
