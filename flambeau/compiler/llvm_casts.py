"""Floating to integer in vectors: toward zero, saturating, NaN gives 0, without a branch a lane.

LLVM's own saturating conversion of a vector goes lane by lane, so what fits is converted and the rest is chosen.
"""

from flambeau.compiler.llvm_values import constant, integer_splat, mangle, register_type, vector


def to_integer(writer, source, result, lanes, x):
    """Operand x of float32 or float64 in an integer dtype."""
    before, after, flags = register_type(source, lanes), register_type(result, lanes), vector("i1", lanes)
    bits, signed = 8 * result.itemsize, result.kind == "i"
    if lanes == 1:
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{after}.{mangle(before)}"
        return writer.call(name, after, (before, x))
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    first, behind = (constant(float(limit), source, lanes) for limit in (low, high))
    above, below = (writer.line(f"fcmp {test} {before} {x}, {limit}") for test, limit in (("oge", first), ("olt", behind)))
    inside = writer.line(f"and {flags} {above}, {below}")
    safe = writer.line(f"select {flags} {inside}, {before} {x}, {before} {constant(0.0, source, lanes)}")
    small = bits < 32
    wide = vector("i32", lanes) if small else after
    value = writer.line(f"fpto{'s' if signed or small else 'u'}i {before} {safe} to {wide}")
    value = writer.line(f"trunc {wide} {value} to {after}") if small else value
    limits = (("oge", behind, high - 1), ("olt", first, low)) if signed else (("oge", behind, high - 1),)
    for test, limit, extreme in limits:
        outside = writer.line(f"fcmp {test} {before} {x}, {limit}")
        value = writer.line(f"select {flags} {outside}, {after} {integer_splat(extreme, bits, lanes)}, {after} {value}")
    return value
