"""Facts about dtypes (`finfo`, `iinfo`) and the names of layouts and memory formats."""

from flambeau.types import dtype as dtypes

#                 digits after the point, exponent of the largest, mantissa bits
_FLOATS = {"float16": (3, 16, 10), "bfloat16": (2, 128, 7), "float32": (6, 128, 23),
           "float64": (15, 1024, 52)}
_PARTS = {"complex64": dtypes.float32, "complex128": dtypes.float64}


class finfo:        # noqa: N801 - PyTorch's name
    """Limits of a floating point dtype, by default of the default one.

    >>> finfo(dtypes.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type=None):
        chosen = dtypes.get_default_dtype() if type is None else type
        chosen = _PARTS.get(getattr(chosen, "name", None), chosen)
        if getattr(chosen, "kind", None) != "f":
            raise TypeError("finfo() requires a floating point input type. Use iinfo to handle integer types")
        digits, top, bits = _FLOATS[chosen.name]
        self.dtype, self.bits = chosen.name, 8 * chosen.itemsize
        self.eps = 2.0 ** -bits
        self.max = (2.0 - 2.0 ** -bits) * 2.0 ** (top - 1)
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (2 - top)
        self.resolution = float(f"1e-{digits}")

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})")

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


class iinfo:        # noqa: N801 - PyTorch's name
    """Limits of an integer dtype.

    >>> iinfo(dtypes.int8)
    iinfo(min=-128, max=127, dtype=int8)
    """

    def __init__(self, type):
        if not getattr(type, "is_integer", False):
            raise TypeError(f"iinfo() requires an integer input type, got {type}. Use finfo to handle floating point types")
        self.dtype, self.bits = type.name, 8 * type.itemsize
        self.min = -(1 << self.bits - 1) if type.kind == "i" else 0
        self.max = (1 << self.bits - (type.kind == "i")) - 1

    def __repr__(self):
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


class _Named:
    """A constant that is shown by its name."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"{dtypes.repr_prefix()}.{self.name}"

    def __reduce__(self):
        return _constant, (self.name,)


class Layout(_Named):
    """How the elements of a tensor are kept: strided, or one of the sparse forms."""


class MemoryFormat(_Named):
    """The order of a tensor's dimensions in memory."""


LAYOUTS = {name: Layout(name) for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr",
                                           "sparse_bsc",
                                           "jagged")}
MEMORY_FORMATS = {name: MemoryFormat(name) for name in ("contiguous_format", "preserve_format",
                                                        "channels_last",
                                                        "channels_last_3d")}


def _constant(name):
    """The inverse of pickling a constant."""
    return LAYOUTS.get(name) or MEMORY_FORMATS[name]


def can_cast(from_, to):
    """Whether the rules of promotion let a value of one dtype be written into another.

    >>> can_cast(dtypes.float32, dtypes.int64), can_cast(dtypes.int64, dtypes.float16)
    (False, True)
    """
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and not (to.is_floating_point or to.is_complex):
        return False
    return from_.kind == "b" or to.kind != "b"
