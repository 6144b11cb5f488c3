"""Fused multiply-add for processors without the instruction, as functions beside the kernel.

float32: the product is exact in float64; its sum with the addend is rounded to odd there (to nearest, then,
if inexact and even, one step towards the exact sum), so that only the final rounding to float32 counts.
float64: the C library's `fma`, lane by lane. One function a module keeps kernels of many multiply-adds small.
"""

from flambeau.compiler.llvm_values import constant, integer_splat, mangle, register_type, vector
from flambeau.types.dtype import by_name


def call_fma(writer, dtype, lanes, x, y, z):
    """Call the module's function for x * y + z, which is written at the first call."""
    kind = register_type(dtype, lanes)
    name = f"fma.{mangle(register_type(dtype), lanes)}"
    if dtype.name == "float32":
        writer.helper(name, _exact_float32(name, lanes))
    else:
        writer.helper(name, _by_intrinsic(writer, name, kind, mangle(register_type(dtype), lanes)))
    return writer.line(f"call {kind} @{name}({kind} {x}, {kind} {y}, {kind} {z})")


def _by_intrinsic(writer, name, kind, suffix):
    writer.declare(f"llvm.fma.{suffix}", f"{kind} @llvm.fma.{suffix}({kind}, {kind}, {kind})")
    return f"""\
define internal {kind} @{name}({kind} %x, {kind} %y, {kind} %z) noinline nounwind {{
  %r = call {kind} @llvm.fma.{suffix}({kind} %x, {kind} %y, {kind} %z)
  ret {kind} %r
}}
"""


def _exact_float32(name, lanes):
    narrow, wide = vector("float", lanes), vector("double", lanes)
    bits, flags = vector("i64", lanes), vector("i1", lanes)
    zero = constant(0.0, by_name("float64"), lanes)
    one, none, minus = (integer_splat(n, 64, lanes) for n in (1, 0, -1))
    return f"""\
define internal {narrow} @{name}({narrow} %x, {narrow} %y, {narrow} %z) noinline nounwind {{
  %wx = fpext {narrow} %x to {wide}
  %wy = fpext {narrow} %y to {wide}
  %wz = fpext {narrow} %z to {wide}
  %product = fmul {wide} %wx, %wy
  %sum = fadd {wide} %product, %wz
  %back = fsub {wide} %sum, %product
  %kept = fsub {wide} %sum, %back
  %lost1 = fsub {wide} %product, %kept
  %lost2 = fsub {wide} %wz, %back
  %error = fadd {wide} %lost1, %lost2
  %inexact = fcmp one {wide} %error, {zero}
  %error.up = fcmp ogt {wide} %error, {zero}
  %sum.up = fcmp ogt {wide} %sum, {zero}
  %inward = xor {flags} %error.up, %sum.up
  %step = select {flags} %inward, {bits} {minus}, {bits} {one}
  %bits = bitcast {wide} %sum to {bits}
  %last = and {bits} %bits, {one}
  %even = icmp eq {bits} %last, {none}
  %adjust = and {flags} %inexact, %even
  %stepped = add {bits} %bits, %step
  %odd = select {flags} %adjust, {bits} %stepped, {bits} %bits
  %rounded = bitcast {bits} %odd to {wide}
  %r = fptrunc {wide} %rounded to {narrow}
  ret {narrow} %r
}}
"""
