"""Measures the largest error of every mathematical function, compiled, and prints docs/accuracy.md.

float32: every 257th bit pattern of all 2^32 (16.7 million) against float64 arithmetic; functions of two
arguments: 4 million pairs. float64: random bit patterns and dense samples against 80-bit long double; erf and
erfc against mpmath. An error is in units in the last place of the exact result. About half a minute.

    python benchmarks/measure_accuracy.py [name ...] > docs/accuracy.md
"""

import ctypes
import sys

import numpy

from flambeau.compiler import expand, jit, llvm, vectorize
from flambeau.compiler.scalar_math import MATH
from flambeau.ir import loops as L
from flambeau.types.dtype import float32, float64, int64

DTYPES = {numpy.float32: float32, numpy.float64: float64}
TWO_ARGUMENTS = ("pow", "atan2")
CHUNK = 1 << 20


def compile_function(name, kind):
    """The function on arrays of `kind` (numpy.float32 or float64)."""
    count, dtype = 2 if name in TWO_ARGUMENTS else 1, DTYPES[kind]
    b = L.Builder()
    with b.loop("i", L.BEGIN, L.END, kind="vector") as i:
        b.store("out", i, b.call(name, *(b.load(f"x{k}", i, dtype) for k in range(count))))
    buffers = tuple(L.Buffer(f"x{k}", dtype, "r") for k in range(count)) + (L.Buffer("out", dtype, "w"),)
    kernel = L.Kernel(name, buffers, ("n",), L.Var(int64, 1, "n"), b.body())
    text = llvm.emit(expand.expand_math(vectorize.vectorize(kernel)))
    address = jit.load_with_llvm(jit.compile_text(text), [name])[name]
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)

    def call(*arrays):
        out = numpy.empty_like(arrays[0])
        addresses = [a.ctypes.data for a in arrays] + [out.ctypes.data, len(out)]
        native((ctypes.c_int64 * len(addresses))(*addresses), 0, len(out))
        return out
    return call


def reference(name, arrays):
    """The exact values, nearly, in the wider type of `arrays`."""
    if name in ("erf", "erfc"):
        import scipy.special
        return getattr(scipy.special, name)(*arrays)
    special = {"asin": numpy.arcsin, "acos": numpy.arccos, "atan": numpy.arctan, "asinh": numpy.arcsinh,
               "acosh": numpy.arccosh, "atanh": numpy.arctanh, "atan2": numpy.arctan2, "pow": numpy.power,
               "sigmoid": lambda x: 1 / (1 + numpy.exp(-x)), "rsqrt": lambda x: 1 / numpy.sqrt(x)}
    return (special.get(name) or getattr(numpy, name))(*arrays)


def largest_error(got, exact):
    """In units in the last place of `exact`; infinite where NaN or infinity stands in the wrong place."""
    info = numpy.finfo(got.dtype)
    near = exact.astype(got.dtype)
    magnitude = numpy.maximum(abs(exact), exact.dtype.type(info.smallest_normal))
    unit = numpy.ldexp(exact.dtype.type(1), numpy.frexp(magnitude)[1] - 1 - info.nmant)
    error = abs(got.astype(exact.dtype) - exact) / unit
    same = (numpy.isnan(got) & numpy.isnan(near)) | (got == near)
    boundary = (abs(got) == info.max) & numpy.isinf(near) | (abs(near) == info.max) & numpy.isinf(got)
    finite = numpy.isfinite(near) & numpy.isfinite(got)
    error = numpy.where(finite, error, numpy.where(same, 0, numpy.where(boundary, 1, numpy.inf)))
    worst = int(error.argmax())
    return float(error[worst]), worst


def samples(name, kind):
    """Yields tuples of argument arrays."""
    rng = numpy.random.default_rng(1)
    if name in TWO_ARGUMENTS:
        for _ in range(4):
            yield pairs(name, kind, rng)
    elif kind is numpy.float32:
        for start in range(0, 1 << 32, 257 * CHUNK):
            bits = numpy.arange(start, min(start + 257 * CHUNK, 1 << 32), 257, dtype=numpy.uint64)
            yield (bits.astype(numpy.uint32).view(numpy.float32),)
    else:
        yield (random_bits(kind, rng),)
        for width in (1.0, 12.0, 750.0):
            yield (rng.uniform(-width, width, CHUNK),)


def random_bits(kind, rng):
    return rng.integers(0, 1 << 64, CHUNK, dtype=numpy.uint64).view(kind)[:CHUNK]


def pairs(name, kind, rng):
    x, y = random_bits(kind, rng), random_bits(kind, rng)
    if name == "atan2":
        x[::2] = y[::2] * rng.uniform(-4, 4, len(x[::2])).astype(kind)
        return x, y
    x = abs(x)
    x[::2] = 1 + rng.normal(0, 0.2, len(x[::2]))
    info = numpy.finfo(kind)
    exponent = rng.uniform(info.minexp - info.nmant - 2, info.maxexp + 1, len(x))
    return x, (exponent / numpy.log2(abs(x.astype(numpy.float64)))).astype(kind)


def measure(name, kind):
    """(largest error, its arguments, number of samples)."""
    if kind is numpy.float64 and name in ("erf", "erfc"):
        return measure_by_mpmath(name)
    function = compile_function(name, kind)
    wide = numpy.float64 if kind is numpy.float32 else numpy.longdouble
    best, where, count = 0.0, (), 0
    for arrays in samples(name, kind):
        error, place = largest_error(function(*arrays), reference(name, [a.astype(wide) for a in arrays]))
        count += len(arrays[0])
        if error > best:
            best, where = error, tuple(float(a[place]) for a in arrays)
    return best, where, count


def measure_by_mpmath(name):
    import mpmath
    rng = numpy.random.default_rng(1)
    x = numpy.concatenate([rng.uniform(-6.5, 6.5, 9000), 10 ** rng.uniform(-300, 1, 1000),
                           rng.uniform(-2, 27.3, 20000)])
    got, best, where = compile_function(name, numpy.float64)(x), 0.0, ()
    with mpmath.workprec(140):
        for argument, value in zip(x.tolist(), got.tolist()):
            exact = getattr(mpmath, name)(mpmath.mpf(argument))
            exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))), -1022) - 52
            error = float(mpmath.ldexp(abs(mpmath.mpf(value) - exact), -exponent))
            if error > best:
                best, where = error, (argument,)
    return best, where, len(x)


def main():
    print("# Accuracy of the mathematical functions\n")
    print("The largest error found by `benchmarks/measure_accuracy.py`, which says what the samples are, in")
    print("units in the last place of the exact result. Promised over the whole range: 2 for float32, 4 for")
    print("float64. The coefficients of all polynomials are fitted by `benchmarks/fit_math.py`.\n")
    print("| function | dtype | largest error | at | samples |\n|---|---|---|---|---|")
    with numpy.errstate(all="ignore"):
        for name in sys.argv[1:] or MATH:
            for kind in DTYPES:
                error, where, count = measure(name, kind)
                at = ", ".join(f"{v:.9g}" for v in where)
                print(f"| {name} | {kind.__name__} | {error:.3f} | {at} | {count:,} |", flush=True)


if __name__ == "__main__":
    main()
