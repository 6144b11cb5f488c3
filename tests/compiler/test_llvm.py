"""Generated code against the interpreter, bit for bit: every operation, dtype and runnable target."""

import numpy
import pytest

from flambeau.compiler import jit, llvm
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.types import dtype as D
from tests.compiler import kernels as K

COUNT = 256
UNARY_FLOAT = ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "round")
BINARY_FLOAT = ("add", "sub", "mul", "div", "min", "max", "copysign")
UNARY_INTEGER = ("neg", "abs", "not")
BINARY_INTEGER = ("add", "sub", "mul", "idiv", "irem", "min", "max", "and", "or", "xor", "shl", "shr")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def operations(dtype):
    """(unary, binary) operations of a dtype."""
    if dtype.kind == "b":
        return ("not",), ("and", "or", "xor")
    if dtype.kind == "f":
        return UNARY_FLOAT, BINARY_FLOAT
    return UNARY_INTEGER, BINARY_INTEGER


def arithmetic_kernel(dtype, lanes):
    """All operations of `dtype`: number k writes out[k * COUNT ...], comparisons write flags[...]."""
    unary, binary = operations(dtype)

    def body(b):
        with b.loop("i", 0, COUNT, lanes) as i:
            x, y, z = (b.load(name, i, dtype, lanes) for name in "xyz")
            results = [b.call(op, x) for op in unary] + [b.call(op, x, y) for op in binary]
            results.append(b.select(b.lt(y, z), x, z))
            if dtype.kind != "b":
                results.append(b.fma(x, y, z))
            for k, result in enumerate(results):
                b.store("out", L.add(i, k * COUNT), result)
            for k, op in enumerate(COMPARISONS):
                b.store("flags", L.add(i, k * COUNT), b.call(op, x, y))

    return K.make("arithmetic", [(n, dtype) for n in "xyz"], [("out", dtype), ("flags", D.bool_)], body)


@pytest.mark.parametrize("target", K.runnable_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", K.COMPUTED, ids=lambda d: d.short)
def test_every_operation(dtype, target):
    unary, binary = operations(dtype)
    names = [*unary, *binary, "select", "fma"]
    arrays = {n: K.values_of(dtype, COUNT, seed) for seed, n in enumerate("xyz")}
    arrays["out"] = numpy.zeros(len(names) * COUNT, dtype.numpy)
    arrays["flags"] = numpy.zeros(len(COMPARISONS) * COUNT, bool)
    for lanes in (1, 8) if target.name == "native" else (8,):
        native, expected = K.run_both(arithmetic_kernel(dtype, lanes), arrays, target=target)
        for k, op in enumerate(names):
            part = slice(k * COUNT, (k + 1) * COUNT)
            signs = op not in ("min", "max")
            K.assert_same(native["out"][part], expected["out"][part], dtype, f"{op} x{lanes}", signs)
        for k, op in enumerate(COMPARISONS):
            part = slice(k * COUNT, (k + 1) * COUNT)
            K.assert_same(native["flags"][part], expected["flags"][part], D.bool_, f"{op} x{lanes}")


@pytest.mark.parametrize("target", K.runnable_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("source", K.REAL, ids=lambda d: d.short)
def test_every_cast(source, target):
    def body(b):
        with b.loop("i", 0, COUNT, 8) as i:
            x = b.load("x", i, source, 8)
            for result in K.REAL:
                b.store(f"to_{result.short}", i, b.cast(x, result))

    kernel = K.make("casts", [("x", source)], [(f"to_{d.short}", d) for d in K.REAL], body)
    arrays = {f"to_{d.short}": numpy.zeros(COUNT, d.numpy) for d in K.REAL}
    arrays["x"] = K.values_of(source, COUNT)
    native, expected = K.run_both(kernel, arrays, target=target)
    for d in K.REAL:
        name = f"to_{d.short}"
        K.assert_same(native[name], expected[name], d, f"{source.short} {name}")


def test_half_precision_conversions_are_exhaustive():
    """All 65,536 float16 and bfloat16 values, and float32 values halfway between two of them."""
    def body(b):
        with b.loop("i", L.BEGIN, L.END, 16) as i:
            for d in (D.float16, D.bfloat16):
                wide = b.cast(b.bitcast(b.load("bits", i, D.int16, 16), dtype=d), D.float32)
                b.store(f"wide_{d.short}", i, wide)
                b.store(f"back_{d.short}", i, b.cast(wide, d))
                middle = b.mul(wide, b.const(1.0 + 2.0 ** -11, D.float32, 16))
                b.store(f"middle_{d.short}", i, b.cast(middle, d))

    halves = (D.float16, D.bfloat16)
    outputs = [(f"wide_{d.short}", D.float32) for d in halves]
    outputs += [(f"{stem}_{d.short}", d) for stem in ("back", "middle") for d in halves]
    kernel = K.make("halves", [("bits", D.int16)], outputs, body)
    arrays = {"bits": numpy.arange(1 << 16, dtype="u2").view("i2")}
    arrays |= {name: numpy.zeros(1 << 16, d.numpy) for name, d in outputs}
    for target in K.runnable_targets():
        native, expected = K.run_both(kernel, arrays, end=1 << 16, target=target)
        for name, d in outputs:
            K.assert_same(native[name], expected[name], d, f"{name} on {target.name}")


@pytest.mark.parametrize("target", K.runnable_targets(), ids=lambda t: t.name)
def test_fma_rounds_once(target):
    """Random bits, sums that nearly cancel, and products that end halfway between two numbers."""
    def body(b):
        with b.loop("i", L.BEGIN, L.END, 16) as i:
            b.store("out", i, b.fma(*(b.load(name, i, D.float32, 16) for name in "xyz")))

    kernel = K.make("fma", [(n, D.float32) for n in "xyz"], [("out", D.float32)], body)
    random, count = numpy.random.default_rng(7), 1 << 14
    x, y, z = (random.integers(0, 1 << 32, count, dtype="u4").view("f4") for _ in range(3))
    near, half = slice(count // 4, count // 2), slice(count // 2, count)
    x[near], y[near] = random.normal(size=(2, count // 4))
    z[near] = -(x[near] * y[near]) * (1 + random.integers(-1, 2, count // 4) * 2.0 ** -23)
    x[half] = 1 + random.integers(0, 1 << 12, count // 2) * 2.0 ** -12
    y[half] = 1 + random.integers(0, 1 << 12, count // 2) * 2.0 ** -12
    z[half] = random.choice([2.0 ** -60, -(2.0 ** -60), 0.0, 2.0 ** -126], count // 2)
    arrays = {"x": x, "y": y, "z": z, "out": numpy.zeros(count, "f")}
    native, expected = K.run_both(kernel, arrays, end=count, target=target)
    K.assert_same(native["out"], expected["out"], D.float32)


@pytest.mark.parametrize("dtype", K.REAL, ids=lambda d: d.short)
def test_lanes_are_mixed(dtype):
    """The interpreter's reading against NumPy's, and native code against the interpreter."""
    ops = ("zip_low", "zip_high", "even", "odd")

    def body(b):
        x, y = (b.load(name, L.as_index(0), dtype, 16) for name in "xy")
        for k, op in enumerate(ops):
            b.store("out", L.as_index(16 * k), b.call(op, x, y))

    kernel = K.make("mix", [("x", dtype), ("y", dtype)], [("out", dtype)], body)
    x, y = K.values_of(dtype, 16, 1), K.values_of(dtype, 16, 2)
    zipped, both = numpy.stack((x, y), 1).reshape(-1), numpy.concatenate((x, y))
    want = numpy.concatenate((zipped, both[::2], both[1::2]))
    for target in K.runnable_targets():
        arrays = {"x": x, "y": y, "out": numpy.zeros(64, x.dtype)}
        native, expected = K.run_both(kernel, arrays, target=target)
        K.assert_same(native["out"], expected["out"], dtype, target.name)
        assert expected["out"].tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", K.COMPUTED, ids=lambda d: d.short)
def test_reductions_halve(dtype):
    ops = ("and", "or", "xor") if dtype.kind == "b" else ("add", "mul", "min", "max")

    def body(b):
        x = b.load("x", L.as_index(0), dtype, 32)
        for k, op in enumerate(ops):
            b.store("out", L.as_index(k), b.call("reduce_" + op, x))

    kernel = K.make("reduce", [("x", dtype)], [("out", dtype)], body)
    x = numpy.random.default_rng(3).normal(size=32) * 3
    x = (x > 0) if dtype.kind == "b" else abs(x).astype(dtype.numpy)
    arrays = {"x": x, "out": numpy.zeros(len(ops), dtype.numpy)}
    native, expected = K.run_both(kernel, arrays)
    K.assert_same(native["out"], expected["out"], dtype)


@pytest.mark.parametrize("target", K.runnable_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", K.REAL, ids=lambda d: d.short)
def test_masks_gathers_and_scatters(dtype, target):
    """Lanes masked off touch no memory: the arrays end at the last element that is used."""
    def body(b):
        mask = b.gt(b.load("chosen", L.as_index(0), D.uint8, 16), b.const(0, D.uint8, 16))
        index = b.load("index", L.as_index(0), D.int64, 16)
        other = b.load("other", L.as_index(0), dtype, 16)
        near = b.load("x", L.as_index(0), dtype, 16, mask, other)
        far = b.load("x", index, dtype, 16, mask, other)
        safe = b.select(mask, index, b.const(0, D.int64, 16))
        b.store("out", L.as_index(0), near)
        b.store("out", L.as_index(16), far)
        b.store("out", L.as_index(32), b.load("x", safe, dtype, 16))
        b.store("out", L.as_index(48), near, mask)
        b.store("out", L.add(index, 64), far, mask)
        b.store("out", L.apply("add", L.apply("lane", dtype=D.int64, lanes=16), L.as_index(80)), far)

    inputs = [("x", dtype), ("other", dtype), ("chosen", D.uint8), ("index", D.int64)]
    kernel = K.make("masks", inputs, [("out", dtype)], body)
    chosen = numpy.array([1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0], "u1")
    index = numpy.where(chosen, numpy.arange(16)[::-1] % 10, 1 << 50)
    arrays = {"x": K.values_of(dtype, 10), "other": K.values_of(dtype, 16, 1), "chosen": chosen,
              "index": index, "out": numpy.zeros(96, dtype.numpy)}
    native, expected = K.run_both(kernel, arrays, target=target)
    K.assert_same(native["out"], expected["out"], dtype)


def test_control_flow_and_locals():
    def body(b):
        b.local("scratch", D.float32, 8)
        total = b.declare(b.const(0.0, D.float32))
        with b.loop("r", L.BEGIN, L.END) as r:
            with b.loop("i", 0, 8, 1, "unroll") as i:
                b.store("scratch", i, b.load("x", L.add(L.mul(r, 8), i), D.float32))
            with b.loop("j", 0, L.Var(D.int64, 1, "n"), 2) as j:
                with b.branch(b.call("gt", b.load("scratch", j, D.float32), b.const(0.0, D.float32))):
                    b.assign(total, b.add(total, b.load("scratch", j, D.float32)))
            b.store("out", r, total)
        b.store("out", L.END, b.load("x", L.as_index(0), D.float32), L.apply("gt", L.END, L.as_index(100)))

    kernel = K.make("flow", [("x", D.float32)], [("out", D.float32)], body, params=("n",))
    arrays = {"x": numpy.random.default_rng(0).normal(size=40).astype("f"), "out": numpy.zeros(5, "f")}
    for n in (0, 1, 7, 8):
        native, expected = K.run_both(kernel, arrays, {"n": n}, 0, 5)
        K.assert_same(native["out"], expected["out"], D.float32, f"n={n}")


def test_scalar_masked_load_and_if_else():
    def body(b):
        far, never, seven = L.as_index(1 << 40), b.const(False, D.bool_), b.const(7, D.int32)
        b.store("out", L.as_index(0), b.load("x", far, D.int32, 1, never, seven))
        one, two = (L.Store("out", L.as_index(1), L.Const(D.int32, 1, n)) for n in (1, 2))
        b.emit(L.If(L.apply("lt", L.BEGIN, L.END), (one,), (two,)))

    kernel = K.make("scalar", [("x", D.int32)], [("out", D.int32)], body)
    arrays = {"x": numpy.zeros(1, "i4"), "out": numpy.zeros(2, "i4")}
    for begin, end in ((0, 1), (1, 1)):
        native, expected = K.run_both(kernel, arrays, begin=begin, end=end)
        assert native["out"].tolist() == expected["out"].tolist() == [7, 1 if begin < end else 2]


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_every_target_compiles(name):
    target = targets.by_name(name)
    for dtype in (D.float32, D.int32):
        data = jit.compile_text(llvm.emit(arithmetic_kernel(dtype, 16), target), target)
        assert data[18:20] == (b"\xb7\x00" if name == "aarch64" else b"\x3e\x00")       # ELF machine number


def test_no_library_calls_but_fma():
    """Rounding, half precision and casts never leave the kernel, not even on a processor of 2003."""
    import re
    target = targets.by_name("generic")

    def body(b):
        x = b.load("x", L.as_index(0), D.float64, 8)
        for k, op in enumerate(("floor", "ceil", "trunc", "round", "sqrt")):
            b.store("x", L.as_index(8 * k), b.call(op, x))
        for d in (D.float16, D.bfloat16):
            half = b.cast(x, d)
            b.store("x", L.as_index(48), b.cast(half, D.float64))

    text = llvm.emit(K.make("pure", [], [("x", D.float64)], body), target)
    assert not re.findall(r"call\w*\s+(\w+)", jit.assembly(text, target))


def test_min_and_max_are_three_instructions():
    def body(b):
        x, y = b.load("x", L.as_index(0), D.float32, 8), b.load("x", L.as_index(8), D.float32, 8)
        b.store("x", L.as_index(0), b.max(b.add(x, y), b.mul(x, y)))

    target = targets.by_name("avx2")
    text = jit.assembly(llvm.emit(K.make("extreme", [], [("x", D.float32)], body), target), target)
    assert text.count("vmaxps") == text.count("vcmpunordps") == text.count("vblendvps") == 1


@pytest.mark.parametrize("statement, error, message", [
    (L.Let("v", L.apply("add", *[L.Load(D.bfloat16, 1, "x", L.as_index(0))] * 2)), TypeError,
     "add on flambeau.bfloat16: compute in float32"),
    (L.Let("v", L.Apply(D.float32, 1, "tanh", (L.Const(D.float32, 1, 1.0),))), ValueError, "run expand_math"),
    (L.For("i", L.BEGIN, L.END, 1, "vector", ()), ValueError, "never vectorised"),
    (L.SpliceStore("tile", ()), ValueError, "SpliceStore was never filled"),
    (L.For("i", L.as_index(0), L.as_index(9999), 1, "unroll", ()), ValueError, "use a serial loop"),
])
def test_what_is_not_lowered_is_refused(statement, error, message):
    kernel = L.Kernel("k", (L.Buffer("x", D.bfloat16, "r"),), (), L.as_index(1), (statement,))
    with pytest.raises(error, match=message):
        llvm.emit(kernel)


def test_a_name_may_come_again_in_another_block():
    """A variable of one block, a value (or a variable of another dtype) of the same name in the next."""
    def body(b):
        i = L.as_index(0)
        with b.branch(L.apply("lt", i, L.as_index(1))):
            first = b.declare(b.load("x", i, D.float32), "name")
            b.assign(first, L.apply("add", first, first))
            b.store("out", i, first)
        with b.branch(L.apply("lt", i, L.as_index(1))):
            product = L.apply("mul", b.load("x", i, D.float32), b.const(5.0, D.float32))
            b.store("out", L.as_index(1), b.let(product, "name"))
        with b.branch(L.apply("lt", i, L.as_index(1))):
            wide = b.declare(b.const(7.0, D.float32, 4), "name")
            b.store("out", L.as_index(2), b.call("reduce_add", wide))

    kernel = K.make("again", [("x", D.float32)], [("out", D.float32)], body)
    native, expected = K.run_both(kernel, {"x": numpy.float32([3]), "out": numpy.zeros(3, "f4")})
    assert native["out"].tolist() == expected["out"].tolist() == [6.0, 15.0, 28.0]
