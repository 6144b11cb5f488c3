"""Records in a file: length, bytes, and a checksum of each, so that a file cut off in the middle is read up
to there.

A record is `length` (8 bytes), the checksum of these, the data, the checksum of the data (4 bytes each,
little-endian). The checksum is CRC-32C (Castagnoli; RFC 3720, appendix B.4), rotated and shifted by a
constant, since data that holds checksums of itself would otherwise weaken it.
"""

import struct

from flambeau.base.lazy import LazyModule

__all__ = ["crc32c", "read_records", "record"]

numpy = LazyModule("numpy")

_POLYNOMIAL = 0x82F63B78
_LONG = 8192  # from here on lanes of NumPy pay


def _make_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _make_table()


def crc32c(data):
    """The CRC-32C of bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    state = 0xFFFFFFFF
    if len(data) >= _LONG:
        whole = len(data) - len(data) % 256
        state = _in_lanes(data[:whole], state)
        data = data[whole:]
    table = _TABLE
    for byte in data:
        state = table[(state ^ byte) & 255] ^ state >> 8
    return state ^ 0xFFFFFFFF


def _in_lanes(data, state):
    """The state after `data`: 256 pieces side by side, then joined.

    The checksum is linear over bits: the state after two pieces is that of the second, begun at 0, xor that
        of
    the first moved on over as many zero bytes as the second has.
    """
    table = numpy.array(_TABLE, numpy.uint32)
    pieces = numpy.frombuffer(data, numpy.uint8).reshape(256, -1)
    states = numpy.zeros(256, numpy.uint32)
    states[0] = state
    for column in pieces.T:
        states = table[(states ^ column) & 255] ^ states >> 8
    bits = numpy.uint32(1) << numpy.arange(32, dtype=numpy.uint32)  # where each bit of a state goes
    for _ in range(pieces.shape[1]):
        bits = table[bits & 255] ^ bits >> 8
    moved = [int(bit) for bit in bits]
    total = 0
    for each in states:
        total = _combine(total, moved) ^ int(each)
    return total


def _combine(state, moved):
    result, place = 0, 0
    while state:
        if state & 1:
            result ^= moved[place]
        state >>= 1
        place += 1
    return result


def masked(data):
    """The checksum as it stands in the file."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    """`data` as one record."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, struct.pack("<I", masked(length)), data, struct.pack("<I", masked(data))))


def read_records(path):
    """The data of each record of a file; it ends before the first one that is cut off.

    Raises ValueError at a checksum that does not fit.
    """
    with open(path, "rb") as file:
        while len(head := file.read(12)) == 12:
            length, check = struct.unpack("<QI", head)
            if masked(head[:8]) != check:
                raise ValueError(f"[read_records] {path}: the checksum of a record's length does not fit")
            data, tail = file.read(length), file.read(4)
            if len(data) < length or len(tail) < 4:
                return
            if masked(data) != struct.unpack("<I", tail)[0]:
                raise ValueError(f"[read_records] {path}: the checksum of a record does not fit")
            yield data
