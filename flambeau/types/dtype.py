"""Element types: one frozen object per dtype, known everywhere by its code.

The code is the index into `ALL` and the number that the native runtime stores in a tensor record.
"""

from dataclasses import dataclass

_PREFIX = "flambeau"


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. Compared by identity; `code` is its number in the runtime."""

    name: str       # as in `flambeau.float32`
    short: str      # as in printed IR: f32, i64, bool
    code: int
    itemsize: int   # bytes
    kind: str       # 'b' bool, 'u' unsigned, 'i' signed, 'f' floating, 'c' complex

    @property
    def is_floating_point(self):
        return self.kind == "f"

    @property
    def is_complex(self):
        return self.kind == "c"

    @property
    def is_signed(self):
        return self.kind in "ifc"

    @property
    def is_integer(self):
        """True for signed and unsigned integers, false for bool."""
        return self.kind in "iu"

    @property
    def numpy(self):
        """The NumPy dtype of the same layout; bfloat16, which NumPy lacks, is stored as uint16."""
        import numpy
        return numpy.dtype("uint16" if self.name == "bfloat16" else self.name)

    def __repr__(self):
        return f"{_PREFIX}.{self.name}"

    def __reduce__(self):
        return by_name, (self.name,)


def set_repr_prefix(prefix):
    """Choose the package name that `repr` shows ('flambeau', or 'torch' under the facade)."""
    global _PREFIX
    _PREFIX = prefix


def repr_prefix():
    """The package name that `repr` shows."""
    return _PREFIX


_ROWS = (
    ("bool", "bool", 1, "b"), ("uint8", "u8", 1, "u"), ("int8", "i8", 1, "i"), ("int16", "i16", 2, "i"),
    ("int32", "i32", 4, "i"), ("int64", "i64", 8, "i"), ("float16", "f16", 2, "f"), ("bfloat16", "bf16", 2, "f"),
    ("float32", "f32", 4, "f"), ("float64", "f64", 8, "f"), ("complex64", "c64", 8, "c"), ("complex128", "c128", 16, "c"),
    ("uint16", "u16", 2, "u"), ("uint32", "u32", 4, "u"), ("uint64", "u64", 8, "u"),
)
ALL = tuple(DType(name, short, code, size, kind) for code, (name, short, size, kind) in enumerate(_ROWS))
(bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128,
 uint16, uint32, uint64) = ALL
FLOATING = (float16, bfloat16, float32, float64)
INTEGERS = (uint8, int8, int16, int32, int64)
_BY_NAME = {d.name: d for d in ALL} | {d.short: d for d in ALL} | {
    "float": float32, "double": float64, "half": float16, "long": int64, "int": int32, "short": int16,
    "cfloat": complex64, "cdouble": complex128}


def by_name(name):
    """The dtype of a long, short or alias name; KeyError if there is none."""
    return _BY_NAME[name]


_OF_NUMPY = {}          # NumPy's dtype -> DType, as far as they were asked for


def from_numpy(dtype):
    """The dtype with NumPy dtype `dtype`'s layout; TypeError where there is none."""
    try:
        return _OF_NUMPY[dtype]
    except (KeyError, TypeError):
        import numpy
    name = numpy.dtype(dtype).name
    if name not in _BY_NAME:
        raise TypeError(f"no Flambeau dtype corresponds to numpy.{name}")
    if isinstance(dtype, numpy.dtype) and dtype.isnative:
        _OF_NUMPY[dtype] = _BY_NAME[name]
    return _BY_NAME[name]


# ---------------------------------------------------------------------------------- promotion
_ORDER = (uint8, int8, int16, int32, int64)


def promote(a, b):
    """The dtype of a result whose operands have dtypes `a` and `b` (torch.promote_types)."""
    if a is b:
        return a
    if a.kind == "b" or b.kind == "b":
        return b if a.kind == "b" else a
    if a.kind == "c" or b.kind == "c":
        wide = complex128 in (a, b) or float64 in (a, b)
        return complex128 if wide else complex64
    if a.kind == "f" or b.kind == "f":
        if a.kind != "f" or b.kind != "f":
            return a if a.kind == "f" else b
        if a.itemsize == b.itemsize:            # float16 with bfloat16
            return float32
        return a if a.itemsize > b.itemsize else b
    return _promote_integers(a, b)


def _promote_integers(a, b):
    if a.kind == b.kind:
        return a if a.itemsize > b.itemsize else b
    unsigned, signed = (a, b) if a.kind == "u" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned.itemsize > 1:
        raise TypeError(f"no signed dtype holds both {a!r} and {b!r}; cast one of them first")
    return int16


_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def category(dtype):
    """0 bool, 1 integer, 2 floating, 3 complex: scalars promote a tensor only across categories."""
    return _CATEGORY[dtype.kind]


_DEFAULT = [float32]


def get_default_dtype():
    return _DEFAULT[0]


def set_default_dtype(dtype):
    """Set the dtype of Python floats and of new tensors (float16, bfloat16, float32 or float64)."""
    if dtype not in FLOATING:
        raise TypeError(f"the default dtype must be floating point, got {dtype!r}")
    changed = _DEFAULT[0] is not dtype
    _DEFAULT[0] = dtype
    if changed:
        for listener in _LISTENERS:
            listener()


_LISTENERS = []


def on_default_change(listener):
    """Call `listener()` whenever the default dtype changes: what was derived from the old one is void."""
    _LISTENERS.append(listener)


def scalar_dtype(value):
    """The dtype that a Python scalar has on its own."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    if isinstance(value, float):
        return get_default_dtype()
    if isinstance(value, complex):
        return complex128 if get_default_dtype() is float64 else complex64
    raise TypeError(f"not a number: {value!r}")


def result_type(dtypes, scalars=(), zero_dim=()):
    """Promote dimensioned tensors, then 0-d tensors, then Python scalars, as torch.result_type does.

    A lower rank of operand takes part only if its category is higher than what is there already.
    """
    result = None
    for rank in (dtypes, zero_dim, tuple(scalar_dtype(s) for s in scalars)):
        inner = None
        for d in rank:
            inner = d if inner is None else promote(inner, d)
        if inner is None:
            continue
        if result is None:
            result = inner
        elif category(inner) > category(result):
            result = _raise_category(result, inner, rank)
    return result


def _raise_category(result, inner, rank):
    """A Python scalar of a higher category brings the default dtype of that category."""
    if inner.kind == "c" and result.kind == "f":
        return complex128 if result is float64 else complex64
    return inner
