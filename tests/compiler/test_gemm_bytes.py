"""Products of int8 matrices: dot_bytes in every form, and its products against NumPy, the interpreter and
each other on every target."""

import itertools

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import gemm, gemm_bytes, jit, llvm
from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.ir import loops_text
from flambeau.ir.loops_verify import verify
from flambeau.types.dtype import int8, int32
from tests.compiler.native import assert_round_trip, assert_threads_leave_bits, run_both, run_interpreted

M, N, K = map(I.index, gemm.SIZES[1:])


def draws(seed, *shape):
    """Bytes, the extreme ones among them."""
    random = numpy.random.default_rng(seed)
    values = random.integers(-128, 128, shape, dtype="i1")
    return numpy.where(random.random(shape) < 0.1, numpy.int8(-128), values)


def exact(a, b):
    return a.astype("i4") @ b.astype("i4")


# --------------------------------------------------------------------------------------------- the operation
def dot_kernel(lanes, dtype=int32):
    b = L.Builder()
    with b.loop("number", L.BEGIN, L.END) as number:
        i = b.let(I.mul(number, lanes))
        x, y, z = (b.load(name, i, dtype, lanes) for name in "xyz")
        b.store("out", i, b.dot_bytes(x, y, z))
    buffers = *(L.Buffer(name, dtype, "r") for name in "xyz"), L.Buffer("out", dtype, "w")
    return L.Kernel("dots", buffers, ("n",), I.div(I.index("n"), lanes), b.body())


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_dot_bytes_on_every_target(lanes):
    x, y = (draws(seed, 64 * 4).view("i4") for seed in (1, 2))
    z = numpy.random.default_rng(3).integers(-2 ** 31, 2 ** 31, 64, dtype="i4")
    x[:4], y[:4], z[0] = -1, -2139062144, -2 ** 31            # 255 * -128 four times, and a sum that wraps
    want = (x.view("u1").astype("i8") * y.view("i1")).reshape(-1, 4).sum(1) + z
    kernel = dot_kernel(lanes)
    assert_round_trip(verify(kernel))
    arrays = {"x": x, "y": y, "z": z, "out": numpy.zeros(64, "i4")}
    numpy.testing.assert_array_equal(run_both(kernel, arrays, {"n": 64})["out"], want.astype("i4"))
    for name in ("generic", "avx2", "avx512"):
        if name == "generic" or targets.current().has(name + "f" * (name == "avx512")):
            out = numpy.zeros(64, "i4")
            jit.callable_kernel(kernel, targets.by_name(name))([x, y, z, out], [64], 0, 64 // lanes)
            numpy.testing.assert_array_equal(out, want.astype("i4"))
    assert jit.compile_text(llvm.emit(kernel, targets.by_name("aarch64")), targets.by_name("aarch64"))


def test_one_instruction_where_the_processor_has_it():
    if targets.current().has("avx512_vnni"):
        assert "vpdpbusd" in jit.assembly(llvm.emit(dot_kernel(16)))
    plain = targets.by_name("avx512")
    assert "vpmaddwd" in jit.assembly(llvm.emit(dot_kernel(16), plain), plain)


def test_dot_bytes_is_of_int32():
    with pytest.raises(ValueError, match="dot_bytes takes packed bytes"):
        verify(dot_kernel(4, L.int64))


def test_a_vector_is_read_as_wider_lanes():
    text = """kernel k(x: r i8*, out: w i32*; n: i64) extent n {
  for i in begin..end step 1 {
    v: i8x64 = x[mul(i, 64:i64): i64]: i8x64
    w: i32x16 = bitcast(v): i32x16
    out[mul(i, 16:i64): i64] <- w
  }
}"""
    kernel = verify(loops_text.parse(text))
    x = draws(0, 128)
    arrays = {"x": x, "out": numpy.zeros(32, "i4")}
    numpy.testing.assert_array_equal(run_both(kernel, arrays, {"n": 2})["out"], x.view("<i4"))
    with pytest.raises(ValueError, match="bitcast keeps the size"):
        verify(loops_text.parse(text.replace("i32x16", "i32x8")))


# ------------------------------------------------------------------------------------------------ products
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (1, 33, 70), (2, 64, 64), (2, 9, 130), (1, 5, 0), (7, 5, 0), (5, 3, 7),
                                     (17, 65, 33), (20, 2, 2500), (4, 64, 512), (9, 130, 1030), (64, 64, 64),
                                     (3, 200, 513), (300, 140, 600), (31, 1, 90)])
def test_products_in_every_layout(m, n, k):
    a, b = draws(1, m, k), draws(2, k, n)
    for x, y in itertools.product(*((v, numpy.ascontiguousarray(v.T).T) for v in (a, b))):
        numpy.testing.assert_array_equal(fl._int_mm(fl.from_numpy(x), fl.from_numpy(y)).numpy(), exact(a, b))


def test_the_largest_sums():
    for low, high in itertools.product((-128, 127), repeat=2):
        a, b = numpy.full((6, 1100), low, "i1"), numpy.full((1100, 70), high, "i1")
        numpy.testing.assert_array_equal(fl._int_mm(fl.from_numpy(a), fl.from_numpy(b)).numpy(), exact(a, b))


def test_rows_with_gaps():
    a, b = draws(1, 20, 100), draws(2, 100, 160)
    got = fl._int_mm(fl.from_numpy(a)[3:, 5:77], fl.from_numpy(b)[9:81, 7:150]).numpy()
    numpy.testing.assert_array_equal(got, exact(a[3:, 5:77], b[9:81, 7:150]))


def test_threads_do_not_change_results():
    a, b = (fl.from_numpy(v) for v in (draws(1, 70, 700), draws(2, 700, 500)))
    assert_threads_leave_bits(lambda: fl._int_mm(a, b))


def product_kernel(unit_b, target=None):
    buffers = L.Buffer("x", int8, "r"), L.Buffer("y", int8, "r"), L.Buffer("out", int32, "rw")

    def loads(buffer, strides, guard):
        return [gemm.matrix_load(buffer, 0, strides, g) for g in (None, guard)]
    loads_a = loads(buffers[0], (K, 1), ("column", K))
    loads_b = loads(buffers[1], *(((1, K), ("row", K)) if unit_b == "k" else ((N, 1), ("column", N))))
    return gemm_bytes.bytes_kernel("bytes", buffers, gemm.SIZES, loads_a, loads_b,
                                   lambda m, n: I.add(I.mul(m, N), n), sizes=map(I.index, gemm.SIZES),
                                   unit_b=unit_b, target=target)


@pytest.mark.parametrize("unit_b", ["n", "k"])
@pytest.mark.parametrize("sizes", [(5, 70, 13), (2, 6, 71), (3, 17, 530)], ids=str)
def test_native_is_interpreted(sizes, unit_b):
    m, n, k = sizes
    a, b = draws(1, m, k), draws(2, k, n)
    kernel = product_kernel(unit_b)
    assert_round_trip(verify(kernel))
    arrays = {"x": a, "y": numpy.ascontiguousarray(b.T if unit_b == "k" else b), "out": numpy.zeros((m, n), "i4")}
    numpy.testing.assert_array_equal(
        run_both(kernel, arrays, {"batch": 1, "M": m, "N": n, "K": k})["out"], exact(a, b))


@pytest.mark.parametrize("unit_b", ["n", "k"])
@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_every_target_compiles_and_is_interpreted(name, unit_b):
    target = targets.by_name(name)
    kernel = verify(product_kernel(unit_b, target))
    assert jit.compile_text(llvm.emit(kernel, target), target)
    m, n, k = 3, 19, 37
    a, b = draws(1, m, k), draws(2, k, n)
    arrays = {"x": a, "y": numpy.ascontiguousarray(b.T if unit_b == "k" else b), "out": numpy.zeros((m, n), "i4")}
    run_interpreted(kernel, arrays, {"batch": 1, "M": m, "N": n, "K": k})
    numpy.testing.assert_array_equal(arrays["out"], exact(a, b))
