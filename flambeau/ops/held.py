"""Which numbers a tensor can hold: one that does not fit is refused, not wrapped."""

import math

from flambeau.base.errors import fail
from flambeau.types.info import finfo, iinfo

_RANGES = {}        # dtype -> (lowest, highest) number


def _range(dtype):
    if dtype not in _RANGES:
        limits = iinfo(dtype) if dtype.is_integer else finfo(dtype)
        _RANGES[dtype] = (limits.min, limits.max)
    return _RANGES[dtype]


def holds(dtype, value):
    """Whether a number survives in a dtype, apart from rounding. Unsigned dtypes take negative ints of their size, as C
    does; infinities and NaN are floating point numbers.

    >>> from flambeau.types.dtype import int8, uint8
    >>> holds(int8, 127), holds(int8, 128), holds(uint8, -1), holds(uint8, -1.5), holds(int8, math.nan)
    (True, False, True, False, False)
    """
    if type(value).__module__ == "numpy":
        value = value.item()
    if dtype.kind == "b" or isinstance(value, bool) or not isinstance(value, (int, float, complex)):
        return True
    if isinstance(value, complex):
        if dtype.kind == "c":
            return holds(dtype, value.real) and holds(dtype, value.imag)
        return value.imag == 0 and holds(dtype, value.real)
    if isinstance(value, float) and not math.isfinite(value):
        return dtype.kind in "fc"
    low, high = _range(dtype)
    if dtype.kind == "u" and isinstance(value, int):
        low = -high
    return low <= value <= high


def check_held(name, value, dtype, halves=True):
    """The number, a real one where `dtype` is real; raises where a tensor of `dtype` cannot hold it. Without `halves`
    16-bit floats round it to infinity."""
    if not halves and dtype.kind == "f" and dtype.itemsize == 2 and not isinstance(value, complex):
        return value
    if not holds(dtype, value):
        low, high = _range(dtype)
        fail(name, f"value cannot be converted to type {dtype.name} without overflow", value,
             f"a number from {low} to {high}", hint="convert the tensor to a wider dtype first: x.to(...)")
    return value.real if isinstance(value, complex) and dtype.kind != "c" else value
