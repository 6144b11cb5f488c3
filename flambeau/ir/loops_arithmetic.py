"""What the operations of Loops do to NumPy values: the helpers that interpreted kernels call.

Every function takes NumPy scalars as well as arrays (the `_lanes` and `_wide` ones may assume arrays) and
returns the exact result in the same dtype. bfloat16 values are uint16 bits. `prepare` must be called first:
it imports NumPy and finds libm, once.
"""

import ctypes
import ctypes.util

from flambeau.base.errors import message

numpy = SIGN16 = MAGNITUDE16 = _fmaf = _fma = None      # bound by `prepare`


def prepare():
    """Bind NumPy, the masks of bfloat16's sign and magnitude, and libm's fused multiply-adds."""
    global numpy, SIGN16, MAGNITUDE16, _fmaf, _fma
    if numpy is None:
        import numpy
        SIGN16, MAGNITUDE16 = numpy.uint16(0x8000), numpy.uint16(0x7FFF)
        _fmaf, _fma = _libm("fmaf", ctypes.c_float), _libm("fma", ctypes.c_double)


def constant(value, dtype):
    """A Python number as a NumPy scalar of `dtype` (integers wrap)."""
    if dtype.kind == "b":
        return numpy.bool_(value)
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        value = int(value) % (1 << bits)
        return dtype.numpy.type(value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value)
    with numpy.errstate(all="ignore"):
        if dtype.itemsize == 2:
            single = numpy.float32(value)
            return narrow(single) if dtype.name == "bfloat16" else numpy.float16(single)
        return dtype.numpy.type(value)


def lane_numbers(lanes, dtype):
    """0, 1, 2, ... in `dtype`."""
    if dtype.name == "bfloat16":
        return narrow(numpy.arange(lanes, dtype=numpy.float32))
    return numpy.arange(lanes).astype(dtype.numpy)


# ------------------------------------------------------------------------------------------------ memory
def poisoned(size, dtype):
    """Scratch whose content is not zero, so that reading before writing shows (floats: NaN)."""
    array = numpy.full(size * dtype.itemsize, 0xFF, numpy.uint8)
    return array.view(dtype.numpy) if dtype.kind != "b" else array.astype(numpy.bool_)


def out_of_bounds(site, low, high, size):
    kernel, buffer, source = site
    got = f"element {low}" if low == high else f"elements {low} to {high}"
    raise IndexError(message("interpret", f"kernel {kernel} goes outside of buffer {buffer}", got=got,
                             want=f"0 to {size - 1}", source=source))


def load(buffer, index, site):
    try:
        if index >= 0:
            return buffer[index]
    except IndexError:
        pass
    out_of_bounds(site, index, index, len(buffer))


def load_lanes(buffer, index, lanes, site):
    part = buffer[index:index + lanes]
    if index < 0 or len(part) != lanes:
        out_of_bounds(site, index, index + lanes - 1, len(buffer))
    return part.copy()


def gather(buffer, index, site):
    _check(buffer, index, site)
    return buffer[index]


def load_wide(buffer, index, site):
    return gather(buffer, index, site) if numpy.ndim(index) else load(buffer, index, site)


def load_masked(buffer, index, lanes, mask, other, site):
    """Elements at `index` (lanes > 1: consecutive ones from there) where `mask`, else `other`."""
    if lanes > 1:
        index = index + numpy.arange(lanes)
    index, mask, other = numpy.broadcast_arrays(index, mask, other)
    result, index = other.copy(), index[mask]
    _check(buffer, index, site)
    result[mask] = buffer[index]
    return result[()]


def store(buffer, index, value, site):
    try:
        if index >= 0:
            buffer[index] = value
            return
    except IndexError:
        pass
    out_of_bounds(site, index, index, len(buffer))


def store_lanes(buffer, index, value, mask, site):
    """Consecutive elements from the scalar `index` on."""
    if mask is None:
        if index < 0 or index + len(value) > len(buffer):
            out_of_bounds(site, index, index + len(value) - 1, len(buffer))
        buffer[index:index + len(value)] = value
    else:
        scatter(buffer, index + numpy.arange(len(value)), value, mask, site)


def scatter(buffer, index, value, mask, site):
    """One element a lane, in the order of lanes (the last one wins)."""
    if mask is not None:
        index, value = index[mask], value[mask]
    _check(buffer, index, site)
    buffer[index] = value


def store_wide(buffer, index, value, mask, wide, site):
    """The stores of all `wide` iterations of a vector loop."""
    index, value = numpy.broadcast_to(index, wide), numpy.broadcast_to(value, wide)
    scatter(buffer, index, value, None if mask is None else numpy.broadcast_to(mask, wide), site)


def _check(buffer, index, site):
    if index.size and (index.min() < 0 or index.max() >= len(buffer)):
        bad = index[(index < 0) | (index >= len(buffer))]
        out_of_bounds(site, bad.min(), bad.max(), len(buffer))


# ----------------------------------------------------------------------------------------- small operations
def choose(condition, a, b):
    return a if condition else b


def choose_lanes(condition, a, b):
    return numpy.where(condition, a, b)[()]


def minimum(a, b):
    """Of floating values; NaN if either is NaN, the first of equal ones (so the zeros keep their order)."""
    return b if b < a or b != b else a


def maximum(a, b):
    return b if b > a or b != b else a


def minimum_lanes(a, b):
    return numpy.where((b < a) | (b != b), b, a)[()]


def maximum_lanes(a, b):
    return numpy.where((b > a) | (b != b), b, a)[()]


def zip_low(a, b):
    half = len(a) // 2
    return numpy.stack((a[:half], b[:half]), 1).reshape(-1)


def zip_high(a, b):
    half = len(a) // 2
    return numpy.stack((a[half:], b[half:]), 1).reshape(-1)


def even(a, b):
    return numpy.concatenate((a[::2], b[::2]))


def odd(a, b):
    return numpy.concatenate((a[1::2], b[1::2]))


def halve(values, combine):
    """v[:n/2] op v[n/2:] until one lane is left."""
    while len(values) > 1:
        half = len(values) // 2
        values = combine(values[:half], values[half:])
    return values[0]


def idiv(a, b):
    divisor = int(b)
    if divisor == 0:
        return type(a)(0)
    if divisor == -1:
        return -a
    dividend = int(a)
    quotient = abs(dividend) // abs(divisor)
    return type(a)(quotient if (dividend < 0) == (divisor < 0) else -quotient)


def irem(a, b):
    divisor = abs(int(b))
    if divisor <= 1:
        return type(a)(0)
    dividend = int(a)
    return type(a)(dividend % divisor if dividend >= 0 else -(-dividend % divisor))


def _harmless(b):
    """The divisors with 0 and -1, which trap, replaced by 1; and where they are -1."""
    minus = b == b.dtype.type(-1) if b.dtype.kind == "i" else numpy.bool_(False)
    return numpy.where((b == 0) | minus, b.dtype.type(1), b)[()], minus


def idiv_lanes(a, b):
    divisor, minus = _harmless(b)
    quotient = (a - numpy.fmod(a, divisor)) // divisor
    return numpy.where(minus, -a, numpy.where(b == 0, b.dtype.type(0), quotient))[()]


def irem_lanes(a, b):
    return numpy.fmod(a, _harmless(b)[0])       # x % 1 is 0, as the table asks for divisors 0 and -1


def saturate(x, kind):
    """Floating to integer type `kind`: toward zero, saturating, NaN to 0."""
    if x.dtype == numpy.float16:
        x = x.astype(numpy.float32)
    info = numpy.iinfo(kind)
    low, high = x.dtype.type(info.min), x.dtype.type(float(info.max + 1))
    inside = numpy.where((x > low) & (x < high), x, x.dtype.type(0)).astype(kind)
    return numpy.where(x >= high, kind(info.max), numpy.where(x <= low, kind(info.min), inside))[()]


def dot_bytes(x, y, total):
    """The bytes of `x`, unsigned, times those of `y`, signed, added to `total`; all int32."""
    byte, top = numpy.int32(255), numpy.int32(24)
    for position in (0, 8, 16, 24):
        shift, back = numpy.int32(position), numpy.int32(24 - position)
        total = total + ((x >> shift) & byte) * ((y << back) >> top)
    return total


# ------------------------------------------------------------------------------------------------ bfloat16
def widen(bits):
    """bfloat16 bits to float32."""
    return (bits.astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)


def narrow(x):
    """float32 to bfloat16 bits, to nearest even; NaN becomes 0x7fc0."""
    bits = x.view(numpy.uint32)
    odd = (bits >> numpy.uint32(16)) & numpy.uint32(1)
    rounded = ((bits + numpy.uint32(0x7FFF) + odd) >> numpy.uint32(16)).astype(numpy.uint16)
    return numpy.where(numpy.isnan(x), numpy.uint16(0x7FC0), rounded)[()]


# ------------------------------------------------------------------------ fused multiply-add, one rounding
def _libm(name, kind):
    library = ctypes.CDLL(None)
    if not hasattr(library, name):
        library = ctypes.CDLL(ctypes.util.find_library("m"))
    function = getattr(library, name)
    function.argtypes, function.restype = [kind] * 3, kind
    return function


_MANY = 32          # from here on, whole arrays in NumPy beat one call of libm a lane


def fma_integer(a, b, c):
    return a * b + c


def fma_f32(a, b, c):
    if numpy.size(a) >= _MANY or numpy.size(b) >= _MANY or numpy.size(c) >= _MANY:
        return _odd_sum(a.astype(numpy.float64) * b, c.astype(numpy.float64)).astype(numpy.float32)
    return _each(_fmaf, a, b, c, numpy.float32)


def fma_f64(a, b, c):
    if numpy.size(a) >= _MANY or numpy.size(b) >= _MANY or numpy.size(c) >= _MANY:
        return _fma_split(a, b, c)
    return _each(_fma, a, b, c, numpy.float64)


def fma_f16(a, b, c):
    return _odd_sum(a.astype(numpy.float64) * b, c.astype(numpy.float64)).astype(numpy.float16)


def fma_bf16(a, b, c):
    a, b, c = (widen(v).astype(numpy.float64) for v in (a, b, c))
    total = _odd_sum(a * b, c)
    single = total.astype(numpy.float32)
    return narrow(_make_odd(single, total - single))


def _each(function, a, b, c, kind):
    if numpy.ndim(a) == numpy.ndim(b) == numpy.ndim(c) == 0:
        return kind(function(a, b, c))
    lanes = zip(*(v.tolist() for v in numpy.broadcast_arrays(a, b, c)))
    return numpy.array([function(x, y, z) for x, y, z in lanes], kind)


def _make_odd(rounded, error):
    """`rounded` + `error`, the exact sum, rounded to odd, so that rounding again to fewer bits is exact."""
    integer = numpy.int64 if rounded.dtype == numpy.float64 else numpy.int32
    bits = rounded.view(integer)
    away = (error > 0) == (rounded > 0)         # the exact value has the larger magnitude
    inexact = (error != 0) & (bits & integer(1) == 0) & numpy.isfinite(rounded) & (rounded != 0)
    step = numpy.where(away, integer(1), integer(-1))
    return numpy.where(inexact, bits + step, bits).astype(integer)[()].view(rounded.dtype)


def _two_sum(a, b):
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _odd_sum(a, b):
    """a + b rounded to odd in float64."""
    return _make_odd(*_two_sum(a, b))


_SPLIT, _LOW, _HIGH = 134217729.0, 2.0 ** -400, 2.0 ** 400


def _two_product(a, b):
    """a * b as its rounded value and the exact error (Dekker); magnitudes must be moderate."""
    def halves(v):
        scaled = v * _SPLIT
        high = scaled - (scaled - v)
        return high, v - high
    product, (a1, a2), (b1, b2) = a * b, halves(a), halves(b)
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


def _fma_split(a, b, c):
    """Boldo and Melquiond's exact sum of a product and a number; lanes of extreme magnitude go to libm."""
    a, b, c = numpy.broadcast_arrays(a, b, c)
    product, error = _two_product(a, b)
    high, low = _two_sum(c, error)
    top, rest = _two_sum(product, high)
    result = top + _odd_sum(rest, low)
    moderate = numpy.ones(a.shape, bool)
    for v in (a, b, c):
        moderate &= (abs(v) > _LOW) & (abs(v) < _HIGH)
    extreme = ~moderate
    result[extreme] = _each(_fma, a[extreme], b[extreme], c[extreme], numpy.float64)
    return result
