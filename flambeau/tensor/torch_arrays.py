"""NumPy arrays, scalars and dtypes in PyTorch's files, checked before NumPy sees them."""

import re

from flambeau.tensor.pickle_machine import PickleError

_PLAIN = re.compile(
    r"[<>=|]?(?:[?biufcmMSUV]|[biuf][1248]|f16|c(?:8|16|32)|[mM]8|[SUV]\d{1,9})(?:\[\w{1,8}\])?\Z"
)


def _dtype(rules, args, machine):
    """numpy.dtype('f8', False, True)"""
    import numpy

    text = args[0] if args else None
    if text == "O8" and not rules.weights_only:
        return numpy.dtype("O", copy=True)
    if type(text) is not str or not _PLAIN.match(text):
        raise PickleError(f"a NumPy dtype {text!r}; plain numbers, text and times are read")
    return numpy.dtype(text, copy=True)


def _fill_dtype(target, state):
    """(3, byte order, subarray, names, fields, size, alignment, flags[, metadata])"""
    plain = type(state) is tuple and len(state) in (8, 9) and state[2:5] == (None, None, None)
    if not plain or state[1] not in ("<", ">", "|", "="):
        raise PickleError("a NumPy dtype with fields is not read; save its fields as arrays of their own")
    if not all(type(number) is int for number in state[5:8]) or state[5] not in (-1, target.itemsize):
        raise PickleError("a NumPy dtype whose size is not what its name says")
    if len(state) == 9:
        unit = state[8][1] if type(state[8]) is tuple and len(state[8]) == 2 else None
        if (
            target.kind not in "mM"
            or type(unit) is not tuple
            or len(unit) != 4
            or state[8][0] not in (None, {})
        ):
            raise PickleError("a NumPy dtype with metadata is not read")
        if type(unit[0]) not in (str, bytes) or not all(type(number) is int for number in unit[1:]):
            raise PickleError("a NumPy time in a unit that is none")
        state = (*state[:8], ({}, (unit[0] if type(unit[0]) is bytes else unit[0].encode(), *unit[1:])))
    target.__setstate__(
        (
            state[0],
            state[1],
            None,
            None,
            None,
            state[5],
            state[6],
            target.flags if target.kind == "O" else 0,
            *state[8:],
        )
    )


def _checked_dtype(dtype):
    import numpy

    if not isinstance(dtype, numpy.dtype) or dtype.names is not None or dtype.subdtype is not None:
        raise PickleError("an array of what is no dtype")
    return dtype


def _shape(sizes):
    if type(sizes) is int:
        sizes = (sizes,)
    if (
        type(sizes) is not tuple
        or len(sizes) > 64
        or not all(type(n) is int and 0 <= n < 1 << 62 for n in sizes)
    ):
        raise PickleError("the shape of an array is none")
    count = 1
    for number in sizes:
        count *= number
    return sizes, count


def _empty_array(rules, args, machine):
    """numpy._core.multiarray._reconstruct(numpy.ndarray, (0,), b'b'): the state follows."""
    import numpy

    if len(args) != 3 or args[0] is not KINDS["numpy.ndarray"] or args[1] != (0,):
        raise PickleError("an array of a subclass of NumPy's")
    return numpy.empty((0,), "int8")


def _fill_array(target, state):
    """(version, shape, dtype, column-major, bytes)"""
    if type(state) is tuple and len(state) == 4:
        state = (1, *state)
    _, sizes, dtype, columns, data = state
    dtype, (sizes, count) = _checked_dtype(dtype), _shape(sizes)
    if dtype.hasobject:
        if type(data) is not list or len(data) != count:
            raise PickleError("an array of objects without its objects")
    elif type(data) is str:
        data = data.encode("latin1")  # a byte string of Python 2
    if not dtype.hasobject and (
        not isinstance(data, (bytes, bytearray)) or len(data) != count * dtype.itemsize
    ):
        raise PickleError(f"an array of {count} elements of {dtype.itemsize} bytes has {len(data)} bytes")
    target.__setstate__((1, sizes, dtype, bool(columns), data if dtype.hasobject else bytes(data)))


def _scalar(rules, args, machine):
    """numpy._core.multiarray.scalar(dtype, bytes)"""
    import numpy

    dtype, data = args
    dtype = _checked_dtype(dtype)
    if type(data) is str:
        data = data.encode("latin1")
    if dtype.hasobject or not isinstance(data, bytes) or len(data) != dtype.itemsize:
        raise PickleError(f"a NumPy number of {dtype.itemsize} bytes is not there")
    return numpy.frombuffer(data, dtype, 1)[0] if dtype.itemsize else numpy.zeros((), dtype)[()]


def _from_buffer(rules, args, machine):
    """numpy._core.numeric._frombuffer(bytes, dtype, shape, order): how protocol 5 writes an array."""
    import numpy

    data, dtype, sizes, order = args
    dtype, (sizes, count) = _checked_dtype(dtype), _shape(sizes)
    if (
        dtype.hasobject
        or not isinstance(data, (bytes, bytearray))
        or len(data) != count * dtype.itemsize
        or order not in ("C", "F")
    ):
        raise PickleError(f"an array of {count} elements has {len(data)} bytes")
    machine.spend(len(data))
    return numpy.frombuffer(data, dtype).reshape(sizes, order=order).copy(order=order)


class _Kind:
    """A class of NumPy's, as data."""

    def __init__(self, name):
        self.name = name


KINDS = {"numpy.ndarray": _Kind("numpy.ndarray")}
BUILDERS = {"numpy.dtype": _dtype}
for _package in ("numpy.core", "numpy._core"):
    BUILDERS |= {
        f"{_package}.multiarray._reconstruct": _empty_array,
        f"{_package}.multiarray.scalar": _scalar,
        f"{_package}.numeric._frombuffer": _from_buffer,
    }
FILLERS = {"numpy.ndarray": _fill_array, "numpy.dtype": _fill_dtype}
FILLERS |= {
    f"numpy.dtypes.{name}DType": _fill_dtype
    for name in "Bool Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float16 Float32 Float64 LongDouble "
    "Complex64 Complex128 CLongDouble Bytes Str Void DateTime64 TimeDelta64 Object LongLong ULongLong Long "
    "ULong Int UInt Short UShort "
    "Byte UByte".split()
}
