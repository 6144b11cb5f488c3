"""Matrix products: against NumPy, against the stated order of additions bit for bit, and filled in several
ways."""

import numpy
import pytest

from flambeau.compiler import gemm
from flambeau.compiler import index_math as I
from flambeau.compiler import jit, llvm
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.ir import loops_arithmetic, loops_interpret, splice
from flambeau.ir.loops_verify import verify
from flambeau.types.dtype import bfloat16, float16, float32, float64, int64
from tests.compiler import kernels as K
from tests.compiler.native import assert_round_trip, run_both, run_interpreted, run_native

N, DEPTH = I.index("N"), I.index("K")


def problem(dtype, batch, m, n, k, transpose_a=False, transpose_b=False, seed=0):
    """(arrays, params, A, B): A and B are views of the arrays, as matrices."""
    random = numpy.random.default_rng(seed)

    def make(rows, columns, transposed):
        shape = (batch, columns, rows) if transposed else (batch, rows, columns)
        stored = random.integers(-99, 99, shape) if dtype is int64 else random.normal(size=shape)
        stored = stored.astype(dtype.numpy)
        return stored, stored.swapaxes(1, 2) if transposed else stored

    a, b = make(m, k, transpose_a), make(k, n, transpose_b)
    c = numpy.full((batch, m, n), -77, dtype.numpy)
    params = dict(zip(gemm.MATMUL_PARAMS, (batch, m, n, k, m * k, a[0].shape[2], k * n, b[0].shape[2])))
    return {"A": a[0], "B": b[0], "C": c}, params, a[1], b[1]


def stated_order(a, b, dtype):
    """One fma after another within a block, blocks added in order."""
    fma = getattr(loops_arithmetic, f"fma_{dtype.short}")
    total = numpy.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype.numpy)
    for k0 in range(0, a.shape[2], gemm.DEPTH):
        part = numpy.zeros_like(total)
        for k in range(k0, min(k0 + gemm.DEPTH, a.shape[2])):
            left, right = numpy.broadcast_arrays(a[:, :, k, None], b[:, k, None, :])
            part = fma(left.ravel(), right.ravel(), part.ravel()).reshape(part.shape)
        total = total + part
    return total


@pytest.mark.parametrize("vector", ["masked", True, False])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_native_is_interpreted_is_the_stated_order(transpose_a, transpose_b, vector):
    kernel = gemm.matmul_kernel(float32, "matmul", transpose_a, transpose_b, vector=vector)
    for sizes in ((1, 11, 35, 9), (2, 3, 7, 19)):
        arrays, params, a, b = problem(float32, *sizes, transpose_a, transpose_b)
        numpy.testing.assert_array_equal(run_both(kernel, arrays, params)["C"], stated_order(a, b, float32))


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.short)
@pytest.mark.parametrize("sizes", [(1, 1, 100, 300), (1, 3, 1, 257), (1, 40, 33, 600), (3, 5, 6, 0),
                                   (0, 4, 4, 4), (2, 0, 5, 3), (2, 5, 0, 3)], ids=str)
def test_order_of_additions(sizes, dtype):
    arrays, params, a, b = problem(dtype, *sizes)
    got = run_native(gemm.matmul_kernel(dtype), arrays, params)["C"]
    numpy.testing.assert_array_equal(got, stated_order(a, b, dtype))


@pytest.mark.parametrize("dtype, bound", [(float32, 1e-3), (float64, 1e-11)], ids=str)
def test_against_numpy(dtype, bound):
    for transpose_a, transpose_b in ((False, False), (False, True), (True, False), (True, True)):
        kernel = gemm.matmul_kernel(dtype, "matmul", transpose_a, transpose_b)
        for sizes in ((1, 130, 300, 270), (5, 64, 33, 17), (1, 257, 129, 64), (1, 2, 500, 513)):
            arrays, params, a, b = problem(dtype, *sizes, transpose_a, transpose_b)
            got = run_native(kernel, arrays, params)["C"]
            numpy.testing.assert_allclose(got, a.astype("f8") @ b.astype("f8"), rtol=bound, atol=bound)


def test_integers_wrap():
    arrays, params, a, b = problem(int64, 2, 9, 20, 300)
    a *= 1 << 58
    got = run_native(gemm.matmul_kernel(int64), arrays, params)["C"]
    numpy.testing.assert_array_equal(got, numpy.matmul(a, b))


@pytest.mark.parametrize("target", [t for t in K.runnable_targets() if t.has("fma")], ids=lambda t: t.name)
def test_targets_and_chunks_give_the_same_bits(target):
    kernel = gemm.matmul_kernel(float32, target=target)
    arrays, params, a, b = problem(float32, 2, 70, 150, 300)
    copies = {name: array.copy() for name, array in arrays.items()}
    expected = run_native(gemm.matmul_kernel(float32), copies, params, grain=3)["C"]
    run = jit.callable_kernel(kernel, target)
    extent = loops_interpret.extent(kernel, params)
    assert extent == gemm.gemm_extent(2, 70, 150, 300, float32, target)
    for begin in reversed(range(extent)):
        run([arrays[b.name] for b in kernel.buffers], params.values(), begin, begin + 1)
    numpy.testing.assert_array_equal(arrays["C"], expected)


def test_epilogue_and_half_precision():
    """bfloat16 in and out, accumulated in float32, with bias and ReLU: all in the splices."""
    buffers = tuple(L.Buffer(n, d, "w" if n == "C" else "r") for n, d in
                    (("A", bfloat16), ("B", bfloat16), ("bias", float32), ("C", bfloat16)))

    def load(buffer, row_stride):
        return lambda b, batch, row, column, lanes: b.cast(
            b.load(buffer, I.add(I.mul(row, row_stride), column), bfloat16, lanes), float32)

    def store(b, batch, m, n, value, lanes, mask):
        other = None if mask is None else b.const(0.0, float32, lanes)
        total = b.add(value, b.load("bias", n, float32, lanes, mask, other))
        result = b.cast(b.max(total, b.const(0.0, float32, lanes)), bfloat16)
        b.store("C", I.add(I.mul(m, N), n), result, mask)

    kernel = gemm.gemm_kernel("linear", buffers, gemm.SIZES, load("A", DEPTH), load("B", N), store,
                              vector_a=True, vector_b=True)
    random = numpy.random.default_rng(0)
    m, n, k = 7, 41, 20
    widen = lambda x: (x.astype("u4") << 16).view("f4")       # noqa: E731
    a, b = ((random.normal(size=s).astype("f4").view("u4") >> 16).astype("u2") for s in ((m, k), (k, n)))
    arrays = {"A": a, "B": b, "bias": random.normal(size=n).astype("f4"), "C": numpy.zeros((m, n), "u2")}
    got = run_both(kernel, arrays, {"batch": 1, "M": m, "N": n, "K": k})["C"]
    expected = numpy.maximum(widen(a) @ widen(b) + arrays["bias"], 0)
    numpy.testing.assert_allclose(widen(got), expected, rtol=2 ** -8, atol=1e-6)


@pytest.mark.parametrize("dtype", [float16, float32], ids=lambda d: d.short)
def test_strided_and_broadcast_matrices(dtype):
    """Views: rows with a gap between them, one B for all of the batch, and a bias."""
    random = numpy.random.default_rng(0)
    a, b, bias = (random.normal(size=s).astype(dtype.numpy) for s in ((3, 10, 30), (20, 50), (50,)))
    arrays = {"A": a, "B": b, "bias": bias, "C": numpy.zeros((3, 10, 45), dtype.numpy)}
    params = dict(zip(gemm.MATMUL_PARAMS, (3, 10, 45, 20, 300, 30, 0, 50)))
    got = run_both(gemm.matmul_kernel(dtype, bias=True), arrays, params)["C"]
    expected = a[:, :, :20].astype("f8") @ b[:, :45].astype("f8") + bias[:45]
    bound = 2e-3 if dtype is float16 else 1e-5
    numpy.testing.assert_allclose(got, expected, rtol=bound, atol=bound)


def test_prepare_fills_a_table_once_a_panel():
    """B's columns are permuted by a table that `prepare_b` copies into a Local."""
    names = {}

    def prepare(b, batch, n, columns):
        names["table"] = b.local("table", int64, columns)
        with b.loop("entry", 0, columns) as entry:
            inside = L.apply("lt", I.add(n, entry), N)
            column = b.load("order", I.add(n, entry), int64, mask=inside, other=L.as_index(0))
            b.store(names["table"], entry, column)

    def load_b(b, batch, k, n, lanes, column):
        columns = b.load(names["table"], column, int64, lanes)
        return b.load("B", L.apply("add", columns, I.mul(k, N)), float32, lanes)

    def store(b, batch, m, n, value, lanes, mask):
        b.store("C", I.add(I.mul(m, N), n), value, mask)

    a = L.Buffer("A", float32, "r")
    buffers = a, L.Buffer("B", float32, "r"), L.Buffer("order", int64, "r"), L.Buffer("C", float32, "w")
    load_a = gemm.matrix_load(a, 0, (DEPTH, 1))
    kernel = gemm.gemm_kernel("permuted", buffers, gemm.SIZES, load_a, load_b, store,
                              vector_b="masked", prepare_b=prepare)
    arrays, params, left, right = problem(float32, 1, 10, 45, 12)
    arrays["order"] = numpy.random.default_rng(0).permutation(45)
    got = run_both(kernel, arrays, params)["C"]
    numpy.testing.assert_allclose(got, (left @ right)[:, :, arrays["order"]], rtol=1e-4, atol=1e-5)


def test_the_template_is_printable():
    template = gemm.gemm_template(float32)
    verify(template, allow_splices=True)
    assert_round_trip(template)
    assert splice.splices(template) == ({"A", "B"}, {"C"})
    assert splice.splices(gemm.gemm_template(float32, prepare=True))[1] == {"C", "prepare"}
    with pytest.raises(ValueError, match="splice"):
        verify(template)


def test_generic_vector_code_compiles_everywhere():
    for name in ("generic", "avx2", "avx512"):
        target = targets.by_name(name)
        assert jit.compile_text(llvm.emit(gemm.matmul_kernel(float32, target=target), target), target)


def test_work_grows_with_the_inner_size():
    assert gemm.gemm_work(1, 64, 64, 200) == pytest.approx(2 * gemm.gemm_work(1, 64, 64, 100), rel=0.01)
    assert gemm.gemm_work(0, 64, 64, 200) == 0


def test_interpreted_in_pieces():
    arrays, params, a, b = problem(float64, 2, 33, 20, 5)
    got = run_interpreted(gemm.matmul_kernel(float64), arrays, params, pieces=4)["C"]
    numpy.testing.assert_allclose(got, a @ b, rtol=1e-12, atol=1e-12)
