"""Vectors of every second element: two consecutive reads and a shuffle, or two masked writes; no gather.

The parts of complex elements lie so. Between the first and the last element that is asked for nothing lies
outside, so that reading what is skipped is safe; it is never written.
"""

from flambeau.compiler.index_math import first_of
from flambeau.compiler.llvm_values import mangle, memory_type, vector


def base_of(index):
    """The scalar index of the first element if the lanes of `index` are 2 apart, else None."""
    return None if index.lanes < 4 else first_of(index, 2)


def _second_half(writer, pointer, scalar, lanes):
    """Where the vector that ends with the last element begins."""
    return writer.line(f"getelementptr {scalar}, ptr {pointer}, i64 {lanes - 1}")


def load(writer, dtype, lanes, pointer):
    """Elements 0, 2, 4, ... from `pointer` on."""
    kind, scalar = memory_type(dtype, lanes), memory_type(dtype)
    behind = _second_half(writer, pointer, scalar, lanes)
    low = writer.line(f"load {kind}, ptr {pointer}, align {dtype.itemsize}")
    high = writer.line(f"load {kind}, ptr {behind}, align {dtype.itemsize}")
    places = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
    return _shuffle(writer, kind, low, high, places)


def store(writer, dtype, lanes, pointer, value):
    """Write elements 0, 2, 4, ... from `pointer` on; the target has masked stores."""
    kind, scalar = memory_type(dtype, lanes), memory_type(dtype)
    suffix, half = mangle(scalar, lanes), lanes // 2
    for begin, odd in ((0, 0), (half, 1)):
        places = [begin + lane // 2 if lane % 2 == odd else None for lane in range(lanes)]
        spread = _shuffle(writer, kind, value, "poison", places)
        target = _second_half(writer, pointer, scalar, lanes) if odd else pointer
        mask = ", ".join(f"i1 {'true' if lane % 2 == odd else 'false'}" for lane in range(lanes))
        writer.call(f"llvm.masked.store.{suffix}.p0", "void", (kind, spread), ("ptr", target),
                    ("i32", str(dtype.itemsize)), (vector("i1", lanes), f"<{mask}>"))


def _shuffle(writer, kind, a, b, places):
    mask = ", ".join("i32 poison" if p is None else f"i32 {p}" for p in places)
    return writer.line(f"shufflevector {kind} {a}, {kind} {b}, <{len(places)} x i32> <{mask}>")
