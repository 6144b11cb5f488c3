"""What stands beside the transforms: looking below one, batch norms without running statistics, axes by name."""

import functools
import re

from flambeau.base.errors import fail
from flambeau.ops.join import stack
from flambeau.ops.view import permute, reshape
from flambeau.ops.wrapped import is_wrapped
from flambeau.runtime._core import Tensor

__all__ = ["debug_unwrap", "functionalize", "rearrange"]


def debug_unwrap(tensor, *, recurse=True):
    """The tensor below a value of a transform, to look at; with `recurse` the real one below all transforms.

    Its result takes part in no transform: use it to print, not to compute.
    """
    while is_wrapped(tensor):
        tensor = tensor.inner
        if not recurse:
            break
    return tensor


def functionalize(func, *, remove="mutations"):
    """`func` as a function without writes that its caller could tell apart from one.

    Writes to values of transforms are without memory as they are (`window`), so this is `func` itself.
    """
    if remove not in ("mutations", "mutations_and_views"):
        fail("functionalize", "unknown `remove`", repr(remove), "'mutations' or 'mutations_and_views'")

    @functools.wraps(func)
    def pure(*args, **kwargs):
        return func(*args, **kwargs)
    return pure


# ---------------------------------------------------------------------------------- axes by name
def rearrange(tensor, pattern, **axes_lengths):
    """Permute, split, join, add and drop axes by a pattern that names them, as in einops.

    Args:
        tensor: a tensor, or a sequence of tensors of one shape, which are stacked first.
        pattern: "before -> after", names on both sides; "(a b)" is one axis of two, "1" an axis of size 1, "..." any axes.
        axes_lengths: sizes of names that the shape alone does not give.

    >>> rearrange(fl.zeros(2, 6), "b (h w) -> h b w", h=2).shape
    flambeau.Size([2, 2, 3])
    """
    if not isinstance(tensor, Tensor):
        tensor = stack(list(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        fail("rearrange", "a pattern has one '->'", repr(pattern), "'a b -> b a'", kind=ValueError)
    left, right = (_groups(side, pattern) for side in sides)
    sizes, order = _named_sizes(left, tuple(tensor.shape), axes_lengths, pattern)
    target = _filled(right, order, sizes)
    if sorted(name for group in target for name in group) != sorted(order):
        fail("rearrange", "both sides must have the same axes", repr(pattern), kind=ValueError)
    split = reshape(tensor, tuple(sizes[name] for name in order))
    places = tuple(order.index(name) for group in target for name in group)
    moved = permute(split, places) if places else split
    joined = []
    for group in target:
        size = 1
        for name in group:
            size *= sizes[name]
        joined.append(size)
    return reshape(moved, tuple(joined))


def _groups(side, pattern):
    """["a", "(b c)", "1"] -> [("a",), ("b", "c"), ()]; the axes of "..." are ("...",)."""
    tokens = re.findall(r"\([^()]*\)|\.\.\.|[A-Za-z_]\w*|1", side)
    if "".join(tokens).replace(" ", "") != side.replace(" ", ""):
        fail("rearrange", "the pattern cannot be read", repr(pattern), "names, '(a b)', '1' and '...'", kind=ValueError)
    groups = []
    for token in tokens:
        names = re.findall(r"\.\.\.|[A-Za-z_]\w*", token)
        groups.append(tuple(names))
    every = [name for group in groups for name in group]
    if len(set(every)) != len(every):
        fail("rearrange", "a name stands twice on one side", repr(pattern), kind=ValueError)
    return groups


def _named_sizes(groups, shape, lengths, pattern):
    """(size of each elementary axis, their order), the axes of "..." named "...0", "...1", and so on."""
    free = len(shape) - len([g for g in groups if g != ("...",)])
    groups = [part for g in groups for part in ([(f"...{i}",) for i in range(free)] if g == ("...",) else [g])]
    if len(groups) != len(shape):
        fail("rearrange", "the pattern does not have the axes of the tensor", f"{pattern!r} for shape {shape}", kind=ValueError)
    sizes, order = dict(lengths), []
    for group, size in zip(groups, shape):
        unknown, known = [name for name in group if name not in sizes], 1
        for name in group:
            known *= sizes.get(name, 1)
        if len(unknown) > 1:
            fail("rearrange", "the sizes of these axes are not known", unknown, hint="give all but one as keyword arguments",
                 kind=ValueError)
        if unknown and known and size % known == 0:
            sizes[unknown[0]] = size // known
        elif unknown or known != size:
            fail("rearrange", "an axis cannot be split like this", f"size {size} into {group}", kind=ValueError)
        order.extend(group)
    return sizes, order


def _filled(groups, order, sizes):
    """The right side with the axes that "..." stands for."""
    free = tuple(name for name in order if name.startswith("..."))
    made = []
    for group in groups:
        if group == ("...",):
            made.extend((name,) for name in free)
        else:
            made.append(tuple(part for name in group for part in (free if name == "..." else (name,))))
    return made
