"""float16 and bfloat16 as LLVM text: their bits in an i16, to and from float32.

bfloat16 is always converted by integer arithmetic; float16 by the processor's instructions, or by integer
arithmetic where there are none (LLVM would call a library function that need not exist). Conversions from
float32 round half to even; NaN stays NaN (in bfloat16 always the one with the bits 0x7fc0).
"""

from flambeau.compiler.llvm_values import constant, integer_splat, vector
from flambeau.types.dtype import by_name

FLOAT32 = by_name("float32")


def half_to_float(writer, dtype, lanes, bits):
    """The float32 operand of the float16 or bfloat16 whose bits are `bits`."""
    if dtype.name == "float16" and writer.target.has("f16c"):
        half = writer.line(f"bitcast {vector('i16', lanes)} {bits} to {vector('half', lanes)}")
        return writer.line(f"fpext {vector('half', lanes)} {half} to {vector('float', lanes)}")
    work = _Integers(writer, lanes)
    wide = work.line(f"zext {vector('i16', lanes)} {bits} to {work.kind}")
    if dtype.name == "bfloat16":
        return work.as_float(work.binary("shl", wide, 16))
    return _half_bits_to_float(work, wide)


def float_to_half(writer, source, dtype, lanes, x):
    """The bits of `x` rounded to float16 or bfloat16: by way of float32, as PyTorch does."""
    if source.name == "float64":
        x = writer.line(f"fptrunc {vector('double', lanes)} {x} to {vector('float', lanes)}")
    if dtype.name == "float16" and writer.target.has("f16c"):
        half = writer.line(f"fptrunc {vector('float', lanes)} {x} to {vector('half', lanes)}")
        return writer.line(f"bitcast {vector('half', lanes)} {half} to {vector('i16', lanes)}")
    work = _Integers(writer, lanes)
    bits = work.as_bits(x)
    rounded = _round_to_brain(work, bits, x) if dtype.name == "bfloat16" else _round_to_half(work, bits)
    return work.line(f"trunc {work.kind} {rounded} to {vector('i16', lanes)}")


class _Integers:
    """i32 arithmetic with literals at `lanes` lanes."""

    def __init__(self, writer, lanes):
        self.line, self.lanes, self.kind = writer.line, lanes, vector("i32", lanes)

    def _operand(self, x):
        return integer_splat(x, 32, self.lanes) if isinstance(x, int) else x

    def binary(self, op, x, y):
        return self.line(f"{op} {self.kind} {self._operand(x)}, {self._operand(y)}")

    def select(self, condition, x, y):
        return self.line(f"select {vector('i1', self.lanes)} {condition}, {self.kind} {self._operand(x)}, "
                         f"{self.kind} {self._operand(y)}")

    def as_float(self, bits):
        return self.line(f"bitcast {self.kind} {bits} to {vector('float', self.lanes)}")

    def as_bits(self, x):
        return self.line(f"bitcast {vector('float', self.lanes)} {x} to {self.kind}")


def _round_to_brain(work, bits, x):
    last = work.binary("and", work.binary("lshr", bits, 16), 1)
    rounded = work.binary("lshr", work.binary("add", work.binary("add", bits, last), 0x7FFF), 16)
    kind = vector("float", work.lanes)
    return work.select(work.line(f"fcmp uno {kind} {x}, {x}"), 0x7FC0, rounded)


def _round_to_half(work, bits):
    """Normal numbers shift and rebias, subnormal ones align by adding 0.5, the rest is infinite or NaN."""
    sign = work.binary("and", work.binary("lshr", bits, 16), 0x8000)
    size = work.binary("and", bits, 0x7FFFFFFF)
    odd = work.binary("and", work.binary("lshr", size, 13), 1)
    rebiased = work.binary("add", work.binary("add", size, ((15 - 127) << 23) + 0xFFF), odd)
    result = work.binary("lshr", rebiased, 13)
    kind = vector("float", work.lanes)
    aligned = work.line(f"fadd {kind} {work.as_float(size)}, {constant(0.5, FLOAT32, work.lanes)}")
    subnormal = work.binary("sub", work.as_bits(aligned), 126 << 23)
    result = work.select(work.binary("icmp ult", size, 113 << 23), subnormal, result)
    result = work.select(work.binary("icmp uge", size, 143 << 23), 0x7C00, result)
    nan = work.binary("or", work.binary("lshr", bits, 13), 0x7E00)
    nan = work.binary("and", nan, 0x7FFF)
    result = work.select(work.binary("icmp ugt", size, 0x7F800000), nan, result)
    return work.binary("or", result, sign)


def _half_bits_to_float(work, wide):
    sign = work.binary("shl", work.binary("and", wide, 0x8000), 16)
    size = work.binary("shl", work.binary("and", wide, 0x7FFF), 13)
    normal = work.binary("add", size, (127 - 15) << 23)
    kind = vector("float", work.lanes)
    raised = work.as_float(work.binary("add", size, (127 - 14) << 23))
    smallest = constant(2.0 ** -14, FLOAT32, work.lanes)
    subnormal = work.as_bits(work.line(f"fsub {kind} {raised}, {smallest}"))
    result = work.select(work.binary("icmp ult", size, 0x400 << 13), subnormal, normal)
    special = work.binary("or", size, 0x7F800000)
    result = work.select(work.binary("icmp uge", size, 0x7C00 << 13), special, result)
    quieted = work.binary("or", result, 0x400000)
    result = work.select(work.binary("icmp ugt", size, 0x7C00 << 13), quieted, result)
    return work.as_float(work.binary("or", result, sign))
