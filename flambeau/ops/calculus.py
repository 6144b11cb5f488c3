"""Numerical calculus on samples: differences, derivatives by differences, integrals by trapezoids."""

from flambeau.base.errors import fail
from flambeau.ops.compare import logical_xor
from flambeau.ops.join import cat
from flambeau.ops.out import with_out
from flambeau.ops.scan import cumsum
from flambeau.ops.shape import select
from flambeau.ops.spec import public
from flambeau.ops.view import clone, narrow, reshape
from flambeau.runtime._core import Tensor
from flambeau.types.dtype import bool_
from flambeau.types.shape import normalize_axes, normalize_axis

def _line_of(name, extra, input, dim):
    """`prepend` or `append` of diff: checked for its rank."""
    if extra.ndim != input.ndim:
        fail(name, "prepend and append have as many axes as the input", extra.ndim, input.ndim)
    return extra


@public()
@with_out
def diff(input, n=1, dim=-1, prepend=None, append=None):
    """The `n`-th difference of neighbours along `dim`, after `prepend` and `append` are joined to the input.

    >>> diff(tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if input.ndim == 0:
        fail("diff", "the input has no axis", "a 0-d tensor", "at least one dimension")
    if n < 0:
        fail("diff", "the order is negative", n, "n >= 0")
    if n == 0:
        return clone(input)
    dim = normalize_axis(dim, input.ndim, "diff")
    extra = [None if e is None else _line_of("diff", e, input, dim) for e in (prepend, append)]
    if any(e is not None for e in extra):
        input = cat(tuple(t for t in (extra[0], input, extra[1]) if t is not None), dim)
    for _ in range(min(n, input.shape[dim])):
        size = input.shape[dim]
        later, sooner = narrow(input, dim, 1, max(size - 1, 0)), narrow(input, dim, 0, max(size - 1, 0))
        input = logical_xor(later, sooner) if input.dtype is bool_ else later - sooner
    return input


def _panels(y, x, dx, dim, name):
    """(areas, factor, axis): areas * factor are those between neighbouring samples of y."""
    dim = normalize_axis(dim, y.ndim, name)
    size = y.shape[dim]
    if size == 0:
        return narrow(y, dim, 0, 0), 0.5, dim
    both = narrow(y, dim, 1, size - 1) + narrow(y, dim, 0, size - 1)
    if x is None:
        return both, dx / 2, dim
    if x.ndim == 1 and y.ndim > 1:
        if x.shape[0] != size:
            fail(name, "there must be one `x` value for each sample point", x.shape[0], size)
        x = reshape(x, tuple(size if a == dim else 1 for a in range(y.ndim)))
        at = dim
    else:
        at = dim - y.ndim + x.ndim
    if x.shape[at] != size:
        fail(name, "there must be one `x` value for each sample point", x.shape[at], size)
    return both * (narrow(x, at, 1, size - 1) - narrow(x, at, 0, size - 1)), 0.5, dim


@public(method=False, aliases=("trapz",))
def trapezoid(y, x=None, *, dx=1, dim=-1):
    """The integral of samples `y` along `dim` by the trapezoidal rule, at places `x` or `dx` apart.

    >>> trapezoid(tensor([1., 5., 10.]))
    tensor(10.5000)
    """
    if isinstance(x, (int, float)):
        x, dx = None, x
    if x is None and y.ndim:
        dim = normalize_axis(dim, y.ndim, "trapezoid")
        if y.shape[dim]:                # every sample counts whole, but the first and the last
            return (y.sum(dim) - (select(y, dim, 0) + select(y, dim, -1)) * 0.5) * dx
    areas, factor, dim = _panels(y, x, dx, dim, "trapezoid")
    return areas.sum(dim) * factor


@public(method=False)
def cumulative_trapezoid(y, x=None, *, dx=1, dim=-1):
    """The running integral of samples `y` along `dim` by the trapezoidal rule: one element fewer than y.

    >>> cumulative_trapezoid(tensor([1., 5., 10.]))
    tensor([ 3.0000, 10.5000])
    """
    areas, factor, dim = _panels(y, x, dx, dim, "cumulative_trapezoid")
    return cumsum(areas, dim) * factor


# ------------------------------------------------------------------------------ derivatives
@public(method=False)
def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """The derivative of samples along each axis of `dim` (None: all), as a tuple.

    By central differences, one-sided at the ends.

    Args:
        spacing: how far samples are apart: a number, one for each axis, or for each axis a 1-d tensor of
            places.
        edge_order: 1 or 2, the order of the differences at the ends.

    >>> gradient(tensor([1., 4., 9., 16.]))
    (tensor([3., 4., 6., 7.]),)
    """
    if edge_order not in (1, 2):
        fail("gradient", "edge_order is 1 or 2", edge_order)
    axes = normalize_axes(dim, input.ndim, "gradient")
    if spacing is None or isinstance(spacing, (int, float)):
        spacing = (1 if spacing is None else spacing,) * len(axes)
    spacing = (spacing,) if isinstance(spacing, Tensor) else tuple(spacing)
    if len(spacing) != len(axes):
        fail("gradient", "there must be one spacing for each axis", len(spacing), len(axes))
    for axis in axes:
        if input.shape[axis] < edge_order + 1:
            fail("gradient", "each dimension size must be at least edge_order+1", input.shape[axis],
                 edge_order + 1)
    return tuple(_derivative(input, axis, step, edge_order) for axis, step in zip(axes, spacing))


def _derivative(f, axis, step, edge_order):
    """The derivative along one axis."""
    size = f.shape[axis]
    if isinstance(step, Tensor):
        if step.ndim != 1 or step.shape[0] != size:
            fail("gradient", "places do not have one element a sample", tuple(step.shape), (size,))
        steps = reshape(diff(step), tuple(size - 1 if a == axis else 1 for a in range(f.ndim)))

        def gap(first, count):
            return narrow(steps, axis, first, count)
    else:
        def gap(first, count):
            return step

    def at(first, count=1):
        return narrow(f, axis, first, count)

    wide = edge_order == 2
    parts = [_end(at(0), at(1), at(2) if wide else None, gap(0, 1), gap(1, 1) if wide else None)]
    if size > 2:
        parts.append(_inside(*(at(i, size - 2) for i in range(3)), gap(0, size - 2), gap(1, size - 2)))
    last = (at(size - 1), at(size - 2), at(size - 3) if wide else None)
    parts.append(-_end(*last, gap(size - 2, 1), gap(size - 3, 1) if wide else None))
    return cat(tuple(parts), axis)


def _inside(before, here, after, left, right):
    """The derivative between two neighbours."""
    if not isinstance(left, Tensor):
        return (after - before) / (2 * left)
    return (before * (-right / (left * (left + right))) + here * ((right - left) / (left * right))
            + after * (left / (right * (left + right))))


def _end(here, next_one, third, gap, next_gap):
    """The derivative at an end, looking inwards."""
    if third is None:
        return (next_one - here) / gap
    both = gap + next_gap
    return (here * (-(gap + both) / (gap * both)) + next_one * (both / (gap * next_gap))
            + third * (-gap / (next_gap * both)))
