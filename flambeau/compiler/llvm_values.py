"""LLVM's spelling of our types and constants.

In registers: bool is i1, integers are iN, float32 is float, float64 is double, and float16 and bfloat16 are
their bits in an i16 (only moved, selected and cast there). In memory bool is one byte, 0 or 1.
"""

import math
import struct

_REGISTER = {"bool": "i1", "float32": "float", "float64": "double"}


def register_type(dtype, lanes=1):
    """The LLVM type of a value: 'float', '<16 x float>', 'i1'. TypeError for complex: it stays in memory."""
    if dtype.kind == "c":
        raise TypeError(f"[llvm] {dtype!r} has no registers: load its two halves as floating point numbers")
    name = _REGISTER.get(dtype.name) or f"i{8 * dtype.itemsize}"
    return vector(name, lanes)


def memory_type(dtype, lanes=1):
    """The LLVM type of the value in memory: as in registers, but a bool is a byte."""
    return vector("i8", lanes) if dtype.kind == "b" else register_type(dtype, lanes)


def vector(scalar, lanes):
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def mangle(scalar_type, lanes=1):
    """The suffix of an overloaded intrinsic: f32, v16f32, i64."""
    short = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(scalar_type, scalar_type)
    return short if lanes == 1 else f"v{lanes}{short}"


def constant(value, dtype, lanes=1):
    """The constant `value` of `dtype`: '3', '0x3FF0000000000000', 'splat (float 0x...)'."""
    scalar = _scalar_constant(value, dtype)
    return scalar if lanes == 1 else f"splat ({register_type(dtype)} {scalar})"


def _scalar_constant(value, dtype):
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        wrapped = int(value) & ((1 << bits) - 1)
        return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
    if dtype.name == "float16":
        return str(half_bits(float(value)))
    if dtype.name == "bfloat16":
        return str(brain_bits(float(value)))
    number = round_to_float32(float(value)) if dtype.name == "float32" else float(value)
    return "0x%016X" % struct.unpack("<Q", struct.pack("<d", number))[0]


def integer_splat(value, bits, lanes):
    """A constant of iN, or of a vector of them."""
    return str(value) if lanes == 1 else f"splat (i{bits} {value})"


def round_to_float32(number):
    """`number` rounded to the nearest float32, infinite when too large."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def half_bits(number):
    """The bits of `number` rounded to float16."""
    try:
        return struct.unpack("<H", struct.pack("<e", number))[0]
    except OverflowError:
        return 0xFC00 if number < 0 else 0x7C00


def brain_bits(number):
    """The bits of `number` rounded to bfloat16, by way of float32."""
    bits = struct.unpack("<I", struct.pack("<f", round_to_float32(number)))[0]
    if math.isnan(number):
        return 0x7FC0
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
