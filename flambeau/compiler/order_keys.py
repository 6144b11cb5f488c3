"""What sorting is made of: integer keys, numbers that hold a key and a place, and digits.

An element becomes an unsigned integer whose order is the wanted one (`key`): NaN largest, -0 equal to 0, all
bits turned where descending. A key of up to 32 bits and the element's place make one 64-bit number, so that
numbers differ and compare in the order of (key, place); keys of 64 bits have their places beside them.
Tensors are contiguous, (lines, size), with lines on the last axis. A line has at most 2**32 elements.
"""

from flambeau.compiler import index_math as I
from flambeau.ir import loops as L
from flambeau.types.dtype import int64, uint8, uint16, uint32, uint64

DIGIT = 8                       # bits that one pass of a radix sort looks at
DIGITS = 1 << DIGIT
_LOW = (1 << 32) - 1
_UNSIGNED = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF << 52}


def is_packed(dtype):
    """True where key and place fit into one number."""
    return dtype.itemsize <= 4


def key_bits(dtype):
    """How many bits of a key may differ."""
    return 8 * dtype.itemsize


def passes(dtype):
    """How many digits a key has."""
    return key_bits(dtype) // DIGIT


def key(b, x, descending):
    """The unsigned integer, uint32 or uint64, that orders `x`; only the low `key_bits` can be set."""
    bits = key_bits(x.dtype)
    whole = uint64 if bits == 64 else uint32
    sign, ones = b.const(1 << (bits - 1), whole), b.const((1 << bits) - 1, whole)
    if x.dtype.kind == "f":
        raw = b.cast(b.call("bitcast", x, dtype=_UNSIGNED[x.dtype.itemsize]), whole)
        size = b.and_(raw, b.const((1 << (bits - 1)) - 1, whole))
        below_zero = b.sub(b.const(0, whole), b.shr(raw, b.const(bits - 1, whole)))        # all bits, or none
        turned = b.xor(raw, b.or_(b.and_(below_zero, ones), sign))                          # without a branch
        turned = b.select(b.eq(size, b.const(0, whole)), sign, turned)
        found = b.select(b.gt(size, b.const(_INFINITY[x.dtype.name], whole)), ones, turned)
    elif x.dtype.kind == "i":
        found = b.xor(b.cast(b.call("bitcast", x, dtype=_UNSIGNED[x.dtype.itemsize]), whole), sign)
    else:
        found = b.cast(x, whole)
    return b.xor(found, ones) if descending else found


def is_rebased(dtype):
    """True where keys count from the least of a line, so that small numbers of both signs have few digits."""
    return dtype.kind == "i" and dtype.itemsize >= 4


class Numbers:
    """Keys with their places, in `scratch_buffers`."""

    def __init__(self, b, dtype, descending):
        self.b, self.dtype, self.descending = b, dtype, descending
        self.packed, self.lowest = is_packed(dtype), lowest_bit(dtype)
        self.buffers = scratch_buffers(dtype)

    def key(self, at, lanes=1):
        """The key of an element of x, or of a vector of them."""
        b = self.b
        return key(b, b.load("x", b.let(at), self.dtype, lanes), self.descending)

    def of_element(self, base, t, origin=None):
        """The number of element `t` of the line that starts at `base`: a list of one or two values.

        Keys count from `origin`, if there is one.
        """
        b, found = self.b, self.key(I.add(base, t))
        found = found if origin is None else b.sub(found, origin)
        if not self.packed:
            return [found, b.cast(b.let(t), uint32)]
        return [b.or_(b.shl(b.cast(found, uint64), b.const(32, uint64)), b.cast(b.let(t), uint64))]

    def load(self, at):
        at = self.b.let(at)
        return [self.b.load(buffer.name, at, buffer.dtype) for buffer in self.buffers]

    def store(self, at, numbers):
        at = self.b.let(at)
        for buffer, number in zip(self.buffers, numbers):
            self.b.store(buffer.name, at, number)

    def place(self, numbers):
        """The place that a number holds, int64."""
        b = self.b
        place = numbers[1] if len(numbers) == 2 else b.and_(numbers[0], b.const(_LOW, uint64))
        return b.cast(place, int64)

    def digit(self, numbers, shift):
        """The digit above bit `shift` (an int or an index) of the number, int64."""
        b = self.b
        shift = b.const(shift, uint64) if isinstance(shift, int) else b.cast(shift, uint64)
        return b.cast(b.and_(b.shr(numbers[0], shift), b.const(DIGITS - 1, uint64)), int64)

    def write(self, base, target, t, place):
        """Result `t` of a line is its element at `place`."""
        b = self.b
        value = b.load("x", b.let(I.add(base, place)), self.dtype)
        at = b.let(I.add(target, t))
        b.store("values", at, value)
        b.store("indices", at, place)


def lowest_bit(dtype):
    """The first bit of the key in a number."""
    return 32 if is_packed(dtype) else 0


def scratch_buffers(dtype):
    """Memory for numbers: one buffer, or two for dtypes of 64 bits."""
    if is_packed(dtype):
        return (L.Buffer("packed", uint64, "rw"),)
    return L.Buffer("keys", uint64, "rw"), L.Buffer("places", uint32, "rw")


def outer_buffers(dtype):
    """What a sort reads and what it makes."""
    return (L.Buffer("x", dtype, "r"), L.Buffer("values", dtype, "w"), L.Buffer("indices", int64, "w"))


def extreme_keys(b, numbers, low, high):
    """(least, largest) key of the elements from `low` to `high` of x."""
    whole = uint64 if key_bits(numbers.dtype) == 64 else uint32
    lanes = 64 // whole.itemsize
    ones, zero = b.const((1 << 8 * whole.itemsize) - 1, whole), b.const(0, whole)
    least, most = b.declare(L.splat(ones, lanes)), b.declare(L.splat(zero, lanes))
    full = b.let(I.add(low, L.apply("and", I.sub(high, low), L.as_index(-lanes))))
    with b.loop("wide_t", low, full, lanes) as t:
        found = numbers.key(t, lanes)
        b.assign(least, b.min(least, found))
        b.assign(most, b.max(most, found))
    least, most = b.declare(b.call("reduce_min", least)), b.declare(b.call("reduce_max", most))
    with b.loop("narrow_t", full, high) as t:
        found = numbers.key(t)
        b.assign(least, b.min(least, found))
        b.assign(most, b.max(most, found))
    return least, most


def count_up(b, counts, at):
    """counts[at] += 1; returns what it was."""
    at = b.let(at)
    before = b.load(counts, at, int64)
    b.store(counts, at, b.add(before, b.const(1, int64)))
    return before


def sort_numbers(b, numbers, here, count, room, digits, prepare=None):
    """Sort `count` numbers at `here` of scratch memory by `digits` passes, least digit first, back and forth
    between there and `room` elements further on; returns the offset, 0 or room, where they end.

    Local memory `counts` has a row of DIGITS for each pass, filled already unless `prepare` does it.
    """
    source = b.declare(b.const(0, int64), b.fresh("source"))
    with b.loop(b.fresh("turn"), 0, digits) as turn:
        row = b.let(I.mul(turn, DIGITS))
        shift = b.let(I.add(I.mul(turn, DIGIT), numbers.lowest))
        first = numbers.digit(numbers.load(I.add(here, source)), shift)
        same = b.load("counts", b.let(I.add(row, first)), int64)
        with b.branch(b.lt(same, count)):
            running = b.declare(b.const(0, int64), b.fresh("running"))
            with b.loop(b.fresh("digit"), 0, DIGITS) as d:
                at = b.let(I.add(row, d))
                here_count = b.load("counts", at, int64)
                b.store("counts", at, running)
                b.assign(running, b.add(running, here_count))
            start, goal = b.let(I.add(here, source)), b.let(I.add(here, I.sub(room, source)))
            with b.loop(b.fresh("t"), 0, count) as t:
                mine = numbers.load(I.add(start, t))
                place = count_up(b, "counts", I.add(row, numbers.digit(mine, shift)))
                numbers.store(I.add(goal, place), mine)
            b.assign(source, I.sub(room, source))
    return source
