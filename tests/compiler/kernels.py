"""Small kernels and values for the tests of code generation."""

import numpy

from flambeau.compiler import jit
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.ir import loops_interpret
from flambeau.types import dtype as D

REAL = (D.bool_, D.uint8, D.int8, D.int16, D.int32, D.int64, D.uint16, D.uint32, D.uint64,
        D.float16, D.bfloat16, D.float32, D.float64)
COMPUTED = tuple(d for d in REAL if d.kind != "f" or d.itemsize > 2)

_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.7, -0.3, 1e-3, 255.0, 256.5, 300.0, -129.0, 65504.0,
           65520.0, 70000.0, 2.0 ** 31, -(2.0 ** 31), 2.0 ** 63, -(2.0 ** 63) - 4096, 2.0 ** 64, 1e10, -1e30,
           6e-8, 3e-8, 5.96e-8, 6.1e-5, 1e-40, 8388607.5, 4194304.5, 16777217.0,
           1 + 2.0 ** -11 + 2.0 ** -40, 1 + 2.0 ** -8 + 2.0 ** -40, float("inf"), -float("inf"), float("nan"))


def runnable_targets():
    """Targets whose code this machine can execute."""
    native = targets.by_name("native")
    if not native.is_x86:
        return [native]
    named = [targets.by_name(name) for name in ("generic", "avx2", "avx512")]
    return [native, *(t for t in named if t.features <= native.features)]


def values_of(dtype, count, seed=0):
    """`count` values of `dtype` as stored: first the awkward ones, then random bits and moderate numbers."""
    random = numpy.random.default_rng(seed)
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        info = numpy.iinfo(dtype.numpy)
        awkward = [0, 1, 2, 3, 7, 8, 15, 31, 63, 64, 100, info.max, info.max - 1, info.min, info.min + 1]
        awkward += [-1, -2, -7] if dtype.kind == "i" else []
        bits = random.integers(info.min, info.max, count, endpoint=True, dtype=dtype.numpy)
        result = numpy.concatenate([numpy.array(awkward, dtype.numpy), bits])
    else:
        with numpy.errstate(all="ignore"):
            result = _float_values(dtype, count, random)
    order = random.permutation(len(result))[:count]
    return result[order]


def _float_values(dtype, count, random):
    bits = random.integers(0, 256, count * dtype.itemsize, dtype=numpy.uint8).view(dtype.numpy)[:count // 2]
    numbers = numpy.concatenate([_FLOATS, random.normal(size=count) * 10])
    if dtype is not D.bfloat16:
        return numpy.concatenate([numbers.astype(dtype.numpy), bits])
    return numpy.concatenate([(numbers.astype("f4").view("u4") >> 16).astype("u2"), bits])


def make(name, inputs, outputs, body, params=()):
    """A kernel over named (name, dtype) inputs and outputs; `body(builder)` writes its statements."""
    builder = L.Builder()
    body(builder)
    buffers = [L.Buffer(n, d, "r") for n, d in inputs] + [L.Buffer(n, d, "rw") for n, d in outputs]
    return L.Kernel(name, tuple(buffers), tuple(params), L.as_index(1), builder.body())


def run_both(kernel, arrays, params=None, begin=0, end=1, target=None, oracle=None):
    """(arrays after native code, arrays after interpreting `kernel`, or `oracle` in its place)."""
    params = params or {}
    native = {name: array.copy() for name, array in arrays.items()}
    expected = {name: array.copy() for name, array in arrays.items()}
    run = jit.callable_kernel(kernel, target)
    run([native[b.name] for b in kernel.buffers], [params[p] for p in kernel.params], begin, end)
    loops_interpret.run(oracle or kernel, expected, params, begin, end)
    return native, expected


def assert_same(native, expected, dtype, what="", zero_signs=True):
    """Equal bits, but for which NaN it is (and, on request, the sign of zero)."""
    bytes_of = [a.view(numpy.uint8).reshape(len(a), -1) for a in (native, expected)]
    differ = (bytes_of[0] != bytes_of[1]).any(axis=1)
    if dtype is D.bfloat16:
        native, expected = ((a.astype("u4") << 16).view("f4") for a in (native, expected))
    if dtype.kind == "f":
        differ &= ~(numpy.isnan(native) & numpy.isnan(expected))
        if not zero_signs:
            differ &= ~((native == 0) & (expected == 0))
    where = differ.nonzero()[0][:5]
    assert not len(where), f"{what}: got {native[where]}, wanted {expected[where]} at {where}"
