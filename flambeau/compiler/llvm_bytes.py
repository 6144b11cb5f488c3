"""dot_bytes as LLVM text: one instruction where the processor has it, else sums of products of 16 bits."""

from flambeau.compiler.llvm_values import integer_splat, vector

_SUFFIX = {4: "128", 8: "256", 16: "512"}
_PAIRS = {4: ("sse2.pmadd.wd", "generic"), 8: ("avx2.pmadd.wd", "avx2"), 16: ("avx512.pmaddw.d.512", "avx512bw")}


def dot_bytes(writer, lanes, x, y, total):
    """`total` plus the bytes of `x`, unsigned, times those of `y`, signed: operands of int32 vectors."""
    kind = vector("i32", lanes)
    if _has_instruction(writer.target, lanes):
        name = f"llvm.x86.avx512.vpdpbusd.{_SUFFIX[lanes]}"
        return writer.call(name, kind, (kind, total), (kind, x), (kind, y))
    if _has_pairs(writer.target, lanes):
        products = _pairs(writer, lanes, x, y)
    else:
        products = [_product(writer, kind, lanes, x, y, position) for position in range(4)]
    for product in products:
        total = writer.line(f"add {kind} {total}, {product}")
    return total


def _has_instruction(target, lanes):
    if lanes not in _SUFFIX or not target.is_x86:
        return False
    return target.has("avx512_vnni") and target.has("avx512vl") or target.has("avx_vnni") and lanes <= 8


def _has_pairs(target, lanes):
    if lanes not in _PAIRS or not target.is_x86:
        return False
    feature = _PAIRS[lanes][1]
    return feature == "generic" or target.has(feature)


def _pairs(writer, lanes, x, y):
    """Bytes 0 and 2, then 1 and 3, as numbers of 16 bits, whose products an instruction adds."""
    wide, narrow = vector("i32", lanes), vector("i16", 2 * lanes)
    name = "llvm.x86." + _PAIRS[lanes][0]

    def shift(op, value, count):
        return writer.line(f"{op} {narrow} {value}, {integer_splat(count, 16, 2 * lanes)}")

    x, y = (writer.line(f"bitcast {wide} {value} to {narrow}") for value in (x, y))
    even = writer.line(f"and {narrow} {x}, {integer_splat(255, 16, 2 * lanes)}"), shift("ashr", shift("shl", y, 8), 8)
    odd = shift("lshr", x, 8), shift("ashr", y, 8)
    return [writer.call(name, wide, (narrow, left), (narrow, right)) for left, right in (even, odd)]


def _product(writer, kind, lanes, x, y, position):
    def shift(op, value, count):
        return writer.line(f"{op} {kind} {value}, {integer_splat(count, 32, lanes)}") if count else value

    left = writer.line(f"and {kind} {shift('lshr', x, 8 * position)}, {integer_splat(255, 32, lanes)}")
    right = shift("ashr", shift("shl", y, 24 - 8 * position), 24)
    return writer.line(f"mul {kind} {left}, {right}")
