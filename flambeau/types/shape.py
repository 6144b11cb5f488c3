"""Shapes: axes, broadcasting, reshape inference, and the axis strings of contractions.

A shape is a tuple of sizes, each an int or a `Dim`. Functions that may have to equate two sizes which are
not known yet take `unify(a, b)`: called where at least one is a Dim, it records the condition (or refuses)
and returns the size to go on with. Without it such sizes are an error.
"""

import operator
from dataclasses import dataclass

from flambeau.base.errors import AxisError, ShapeError, fail
from flambeau.types.dim import Dim, symbols


def show_shape(shape):
    """(2, s0): like a tuple of ints."""
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


# ---------------------------------------------------------------------------------- axes
def normalize_axis(axis, ndim, op="axis"):
    """`axis` counted from the front, 0 <= result < ndim. A 0-d tensor takes 0 and -1, both 0.

    AxisError (an IndexError) if it is out of range; TypeError if it is no integer.
    """
    try:
        position = operator.index(axis)
    except TypeError:
        fail(op, "an axis is an integer", got=repr(axis), kind=TypeError)
    count = ndim or 1
    if not -count <= position < count:
        fail(op, "dimension out of range", got=position, want=f"{-count} to {count - 1}", kind=AxisError,
             hint=f"the tensor has {ndim} dimension{'' if ndim == 1 else 's'}")
    return position + count if position < 0 else position


def normalize_axes(axes, ndim, op="axis"):
    """A tuple of different axes counted from the front, in the order given; None means all, an int one.

    An empty sequence stays empty (reductions read it as all). For a 0-d tensor the result is ().
    """
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, (tuple, list)):
        axes = (axes,)
    result = tuple(normalize_axis(axis, ndim, op) for axis in axes)
    if len(set(result)) != len(result):
        twice = next(axis for axis in result if result.count(axis) > 1)
        fail(op, f"dimension {twice} appears more than once", got=tuple(axes), want="different dimensions")
    return result if ndim else ()


# ---------------------------------------------------------------------------------- broadcasting
def broadcast_shapes(*shapes, op="broadcast", unify=None):
    """The shape that all `shapes` broadcast to: aligned at the right, size 1 stretches.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)

    ShapeError names the sizes that differ.
    """
    if not shapes:
        return ()
    result = tuple(shapes[0])
    for shape in shapes[1:]:
        if shape != result:
            result = _broadcast_pair(result, tuple(shape), shapes, op, unify)
    return result


def _broadcast_pair(a, b, shapes, op, unify):
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    start = len(longer) - len(shorter)
    result = list(longer)
    for axis, size in enumerate(shorter, start):
        other = result[axis]
        if other == size or size == 1:
            continue
        if other == 1:
            result[axis] = size
        else:
            common = _same_size(other, size, unify)
            if common is None:
                _fail_broadcast(shapes, axis - len(longer), a, b, op)
            result[axis] = common
    return tuple(result)


def _same_size(a, b, unify):
    """The common value of two different sizes if one is a Dim and `unify` agrees; otherwise None."""
    if unify is not None and (isinstance(a, Dim) or isinstance(b, Dim)):
        return unify(a, b)
    return None


def _fail_broadcast(shapes, axis, a, b, op):
    fail(op, f"sizes differ at dimension {axis} and neither is 1 ({a[axis]} and {b[axis]})",
         got=" and ".join(map(show_shape, shapes)), hint=_broadcast_hint(a, b), kind=ShapeError)


def _broadcast_hint(a, b):
    """A change of one operand that makes the two broadcast, or None."""
    names = ("the first operand", "the second operand")
    for name, mine, other in ((names[1], b, a), (names[0], a, b)):
        missing = len(other) - len(mine)
        for axis in range(-1, -len(mine) - 1, -1) if missing > 0 else ():
            split = len(mine) + 1 + axis
            longer = mine[:split] + (1,) + mine[split:]
            if _broadcasts(longer, other):
                return f"unsqueeze({axis}) makes {name} {show_shape(longer)}, which broadcasts"
        if missing >= 0 and len(mine) == 2 and _broadcasts(mine[::-1], other):
            return f".T makes {name} {show_shape(mine[::-1])}, which broadcasts"
    return None


def _broadcasts(a, b):
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b)))


# ---------------------------------------------------------------------------------- sizes
def numel(shape):
    """The number of elements: the product of the sizes."""
    count = 1
    for size in shape:
        count = count * size
    return count


def infer_reshape(shape, new, op="reshape", unify=None):
    """`new` with its -1, if it has one, replaced by what keeps the number of elements of `shape`.

    >>> infer_reshape((4, 6), (-1, 8))
    (3, 8)

    ShapeError if the counts differ; `unify` is asked where Dims leave that open.
    """
    new = tuple(new)
    total = numel(shape)
    holes = [axis for axis, size in enumerate(new) if size == -1]
    for size in new:
        if not isinstance(size, Dim) and size < -1:
            fail(op, "a size is negative", got=show_shape(new), want="sizes of 0 or more, or one -1")
    if len(holes) > 1:
        fail(op, "only one size can be left open", got=show_shape(new), want="one -1 at most")
    if holes:
        known = numel(size for size in new if not (isinstance(size, int) and size == -1))
        if known == 0:
            fail(op, "the size left open can be any number, since another size is 0", got=show_shape(new),
                 want="no -1 beside a 0")
        new = tuple(total // known if axis == holes[0] else size for axis, size in enumerate(new))
    count = numel(new)
    if count != total and _same_size(total, count, unify) is None:
        asked = "(" + ", ".join("-1" if axis in holes else str(size) for axis, size in enumerate(new)) + ")"
        fail(op, f"shape {show_shape(shape)} does not fit into {asked}", kind=ShapeError,
             got=f"{total} elements", want=f"a multiple of {known}" if holes else f"{count}",
             hint="leave one size open with -1" if not holes else None)
    return new


# ---------------------------------------------------------------------------------- axis strings
ELLIPSIS = "..."


@dataclass(frozen=True)
class Axes:
    """A parsed axis string: names of each input's axes, of the output's; '...' stands for batch axes."""

    inputs: tuple       # of tuples of names
    output: tuple       # of names

    @property
    def contracted(self):
        """The names summed over: in an input but not in the output, in order of appearance."""
        return tuple(dict.fromkeys(name for axes in self.inputs for name in axes if name not in self.output))

    def __str__(self):
        return ", ".join(map(" ".join, self.inputs)) + " -> " + " ".join(self.output)

    def bind(self, *shapes, op="contraction", unify=None, hint=True):
        """({name: size}, batch shape) of the inputs' shapes. Batch axes broadcast; named sizes must agree.

        hint: look for a transposed operand that would fit, where they do not.
        """
        if len(shapes) != len(self.inputs):
            fail(op, "wrong number of operands", got=len(shapes), want=len(self.inputs), kind=TypeError)
        sizes, batches = {}, []
        for names, shape in zip(self.inputs, shapes):
            before, after, batch = _split_shape(names, shape, op)
            if batch is not None:
                batches.append(batch)
            for name, size in before + after:
                known = sizes.setdefault(name, size)
                if known != size:
                    sizes[name] = _same_size(known, size, unify)
                    if sizes[name] is None:
                        self._fail(name, known, size, shapes, op, hint)
        return sizes, broadcast_shapes(*batches, op=op, unify=unify)

    def output_shape(self, *shapes, op="contraction", unify=None):
        """The output's shape for the inputs' shapes.

        >>> parse_axes("... m k, ... k n -> ... m n").output_shape((5, 2, 3), (3, 4))
        (5, 2, 4)
        """
        sizes, batch = self.bind(*shapes, op=op, unify=unify)
        result = ()
        for name in self.output:
            result += batch if name == ELLIPSIS else (sizes[name],)
        return result

    def _fail(self, name, a, b, shapes, op, hint):
        side = "inner" if name in self.contracted else "shared"
        mark = " @ " if len(shapes) == 2 and side == "inner" else ", "
        fail(op, f"{side} sizes differ ({name}: {a} and {b})", got=mark.join(map(show_shape, shapes)),
             hint=self._hint(shapes) if hint else None, kind=ShapeError)

    def _hint(self, shapes):
        """A transposed operand that makes the sizes agree, or None."""
        for position in reversed(range(len(shapes))):
            shape = shapes[position]
            if len(shape) < 2 or any(isinstance(size, Dim) for size in shape):
                continue
            turned = shape[:-2] + (shape[-1], shape[-2])
            trial = shapes[:position] + (turned,) + shapes[position + 1:]
            if self._agrees(trial):
                return f"operand {position + 1}'s .mT has shape {show_shape(turned)}, which fits"
        return None

    def _agrees(self, shapes):
        try:
            self.bind(*shapes, hint=False)
        except RuntimeError:
            return False
        return True


def _split_shape(names, shape, op):
    """Pairs (name, size) before and after the ellipsis, and the batch shape (None without an ellipsis)."""
    fixed = len(names) - (ELLIPSIS in names)
    if len(shape) < fixed or (ELLIPSIS not in names and len(shape) != fixed):
        fail(op, f"wrong number of dimensions for '{' '.join(names)}'", got=show_shape(shape),
             want=f"{fixed}{' or more' if ELLIPSIS in names else ''}", kind=ShapeError)
    if ELLIPSIS not in names:
        return list(zip(names, shape)), [], None
    position = names.index(ELLIPSIS)
    end = len(shape) - (fixed - position)
    return (list(zip(names[:position], shape)), list(zip(names[position + 1:], shape[end:])),
            tuple(shape[position:end]))


def parse_axes(text):
    """Axes of a string like "... m k, ... k n -> ... m n": one group of names an input, then the output.

    ValueError if a name is no identifier, occurs twice in a group, or stands in the output only.
    """
    left, arrow, right = text.partition("->")
    if not arrow:
        fail("axes", "no '->'", got=repr(text), want="'inputs -> output'", kind=ValueError)
    groups = [tuple(group.split()) for group in left.split(",")] + [tuple(right.split())]
    for group in groups:
        for name in group:
            if name != ELLIPSIS and not name.isidentifier():
                fail("axes", "an axis name is an identifier or '...'", got=repr(name), kind=ValueError)
        if len(set(group)) != len(group):
            fail("axes", "a name occurs twice in one group", got=" ".join(group), kind=ValueError)
    inputs, output = tuple(groups[:-1]), groups[-1]
    unknown = set(output).difference(*inputs)
    if unknown:
        fail("axes", "an output axis is in no input", got=", ".join(sorted(unknown)), kind=ValueError)
    if ELLIPSIS not in output and any(ELLIPSIS in group for group in inputs):
        fail("axes", "'...' is in an input but not in the output", got=repr(text), kind=ValueError)
    return Axes(inputs, output)


def shape_symbols(shape):
    """The names of the symbols in the sizes of `shape`."""
    return set().union(*map(symbols, shape))
