"""Sizes that a caller gives as one int for all axes or as a sequence."""

from flambeau.ops.spec import as_int


def tuple_of(value, count):
    """`value` repeated, or a sequence of that many; integer tensors of one element are sizes, too."""
    value = as_int(value)
    value = (value,) * count if isinstance(value, int) else tuple(value)
    if len(value) == 1 and count > 1:
        value *= count
    if len(value) != count:
        raise ValueError(f"expected one size or {count}, got {value}")
    return value


def single(value):
    """An int or a sequence of one as a tuple of one."""
    return tuple_of(value, 1)


def pair(value):
    """An int or a sequence of two (height, width) as a tuple of two."""
    return tuple_of(value, 2)


def triple(value):
    """An int or a sequence of three (depth, height, width) as a tuple of three."""
    return tuple_of(value, 3)
