"""Products of matrices in memory as launches: every layout and size against float64 and against each other
bit for bit, few rows, one column, parts of long sums, int8, threads, targets, and the interpreter."""

import itertools

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import gemm, gemm_product, gemm_rows, jit, llvm, pipeline
from flambeau.compiler import index_math as I
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.ir import loops_interpret
from flambeau.ir.loops_verify import verify
from flambeau.ops.spec import REGISTRY
from flambeau.types.dtype import float32, float64, int32
from tests.compiler.native import assert_round_trip, assert_threads_leave_bits, run_both

ODD = (1, 2, 3, 5, 7, 17, 31, 33, 63, 65, 127, 255, 257)
EPSILON = {"float32": 2.0 ** -24, "float64": 2.0 ** -53}


def layouts(array):
    """The same matrix row-major, column-major, and with strides and an offset of its own."""
    gaps = numpy.full((3 * array.shape[0] + 1, 2 * array.shape[1] + 3), numpy.nan, array.dtype)
    part = gaps[1::3, 3::2]
    part[...] = array
    return *both(array), part


def both(array):
    """Row-major and column-major."""
    return array, numpy.ascontiguousarray(array.T).T


def check(a, b):
    """All layouts of a @ b: equal bits, and errors small beside the sum of |a| |b|. Returns the product."""
    exact, size = a.astype("f8") @ b.astype("f8"), abs(a).astype("f8") @ abs(b).astype("f8")
    first = None
    for x, y in itertools.product(layouts(a), layouts(b)):
        got = fl.mm(fl.from_numpy(x), fl.from_numpy(y)).numpy()
        if first is None:
            first = got
            bound = 2 * (min(a.shape[1], gemm.DEPTH) + a.shape[1] / gemm.DEPTH + 1) * EPSILON[a.dtype.name]
            assert (abs(got - exact) <= bound * size + 1e-300).all(), abs(got - exact).max()
        numpy.testing.assert_array_equal(got, first)
    return first


def mixed(random, shape, dtype):
    """Normal values of magnitudes from 1e-6 to 1e6."""
    return (random.normal(size=shape) * 10.0 ** random.integers(-6, 7, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", ODD)
def test_odd_sizes_in_each_dimension(size, dtype):
    random = numpy.random.default_rng(size)
    for m, n, k in ((size, 19, 23), (14, size, 23), (14, 19, size), (size, 1, 37), (1, size, 37),
                    (size, size, 5)):
        check(mixed(random, (m, k), dtype), mixed(random, (k, n), dtype))


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (13, 40, 0), (0, 0, 0)], ids=str)
def test_empty(sizes):
    m, n, k = sizes
    assert not check(numpy.ones((m, k), "f4"), numpy.ones((k, n), "f4")).any()


def test_non_finite_values_stay_where_they_belong():
    random = numpy.random.default_rng(0)
    for m in (3, 40):
        a, b = random.normal(size=(m, 70)).astype("f4"), random.normal(size=(70, 45)).astype("f4")
        a[1, 69], b[5, 44] = numpy.nan, numpy.inf
        with numpy.errstate(invalid="ignore"):
            want = a @ b
        for x, y in itertools.product(layouts(a), layouts(b)):
            got = fl.mm(fl.from_numpy(x), fl.from_numpy(y)).numpy()
            numpy.testing.assert_array_equal(numpy.isnan(got), numpy.isnan(want))
            numpy.testing.assert_array_equal(numpy.isinf(got), numpy.isinf(want))


def parts(m, n, k):
    number, length = gemm_product.parts_of(tuple(map(L.as_index, (1, m, n, k))))
    return number.value, length.value


def test_parts_are_few_long_and_of_whole_blocks():
    assert parts(64, 64, 50176) == (16, 3328)
    assert parts(512, 64, 50176)[0] == 2 and parts(768, 3072, 2048)[0] == 1 and parts(4, 4, 2047)[0] == 1
    for k in (1, 255, 2048, 5000, 1 << 20):
        number, length = parts(1, 1, k)
        assert number * length >= k and length % gemm.DEPTH == 0


@pytest.mark.parametrize("m, n", [(1, 3), (5, 33), (20, 17), (20, 1)])
def test_long_sums_add_their_parts_in_order(m, n):
    random = numpy.random.default_rng(0)
    k = 3 * gemm_product.PART + 5
    a, b = random.normal(size=(m, k)).astype("f4"), random.normal(size=(k, n)).astype("f4")
    number, length = parts(m, n, k)
    assert number == 3
    total = sum((fl.mm(fl.from_numpy(a[:, i:i + length].copy()), fl.from_numpy(b[i:i + length])).numpy()
                 for i in range(length, k, length)),
                start=fl.mm(fl.from_numpy(a[:, :length].copy()), fl.from_numpy(b[:length])).numpy())
    numpy.testing.assert_array_equal(check(a, b), total)


def test_few_rows_give_the_bits_of_many():
    random = numpy.random.default_rng(0)
    a = random.normal(size=(gemm_rows.FEW + 9, 300)).astype("f4")
    b = random.normal(size=(300, 150)).astype("f4")
    whole = check(a, b)
    for m in (1, 2, gemm_rows.FEW, gemm_rows.FEW + 1):
        numpy.testing.assert_array_equal(check(a[:m].copy(), b), whole[:m])
    numpy.testing.assert_array_equal(check(a, b[:, :1].copy()), whole[:, :1])


def test_batches_with_strides_of_zero():
    random = numpy.random.default_rng(0)
    a, b = random.normal(size=(3, 14, 30)).astype("f4"), random.normal(size=(30, 21)).astype("f4")
    got = fl.matmul(fl.from_numpy(a), fl.from_numpy(b).expand(3, 30, 21)).numpy()
    for index in range(3):
        numpy.testing.assert_array_equal(got[index], fl.mm(fl.from_numpy(a[index]), fl.from_numpy(b)).numpy())


@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_the_product_with_the_turned_weight(bias):
    random = numpy.random.default_rng(0)
    x, w, b = (random.normal(size=s).astype("f4") for s in ((33, 65), (17, 65), (17,)))
    got = fl.nn.functional.linear(*map(fl.from_numpy, (x, w, b) if bias else (x, w))).numpy()
    numpy.testing.assert_array_equal(got, check(x, w.T) + (b if bias else 0))


def test_int8_sums_in_int32():
    random = numpy.random.default_rng(0)
    for m, n, k in ((1, 1, 1), (5, 3, 7), (17, 65, 33), (20, 2, 2500)):
        a, b = (random.integers(-128, 128, s, dtype="i1") for s in ((m, k), (k, n)))
        want = a.astype("i4") @ b.astype("i4")
        for x, y in itertools.product(both(a), both(b)):
            got = fl._int_mm(fl.from_numpy(x), fl.from_numpy(y))
            assert got.dtype is int32
            numpy.testing.assert_array_equal(got.numpy(), want)
            numpy.testing.assert_array_equal((fl.from_numpy(x) @ fl.from_numpy(y)).numpy(), want.astype("i1"))


@pytest.mark.parametrize("call, words", [
    (lambda: fl._int_mm(fl.ones(2, 2), fl.ones(2, 2)), "int8"),
    (lambda: fl._int_mm(fl.ones(1, 2, 2, dtype=fl.int8), fl.ones(2, 2, dtype=fl.int8)), "matrices"),
    (lambda: fl._int_mm(fl.ones(2, 3, dtype=fl.int8), fl.ones(2, 3, dtype=fl.int8)), "sizes differ"),
    (lambda: fl.nn.functional.linear(fl.ones(2, 3), fl.ones(4, 3), fl.ones(5)), "sizes differ"),
])
def test_errors_teach(call, words):
    for _ in range(2):
        with pytest.raises(RuntimeError, match=words):
            call()


@pytest.mark.parametrize("sizes", [(64, 300, 90), (5, 2000, 700), (30, 20, 4000)], ids=str)
def test_threads_do_not_change_bits(sizes):
    m, n, k = sizes
    random = numpy.random.default_rng(0)
    a, b = (fl.from_numpy(random.normal(size=s).astype("f4")) for s in ((m, k), (k, n)))
    assert_threads_leave_bits(lambda: fl.mm(a, b))


# ------------------------------------------------------------------------------------- kernels by themselves
def kernels_of(call, stage="kernel"):
    """The kernels of products, at a stage, that a first call of `mm` makes."""
    seen = []
    REGISTRY["mm"].native.plans.clear()
    with pipeline.watch(lambda name, form: seen.append(form) if name == stage else None):
        call()
    return [kernel for kernel in seen if kernel.name.startswith("matmul")]


def rows_kernel(dtype, unit_b, target=None):
    m, n, k = map(I.index, gemm.SIZES[1:])
    buffers = L.Buffer("A", dtype, "r"), L.Buffer("B", dtype, "r"), L.Buffer("C", dtype, "w")

    def load_b(guarded):
        guard = (("row", k) if unit_b == "k" else ("column", n)) if guarded else None
        return gemm.matrix_load(buffers[1], 0, (1, k) if unit_b == "k" else (n, 1), guard)

    def store(b, batch, row, column, value, lanes, mask):
        b.store("C", I.add(I.mul(row, n), column), value, mask)

    load_a = gemm.matrix_load(buffers[0], 0, (k, 1))
    return gemm_rows.rows_kernel(
        "rows", buffers, gemm.SIZES, load_a, load_b(False), load_b(True), store, dtype,
        sizes=map(I.index, gemm.SIZES), parts=(1, k), unit_b=unit_b, target=target)


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.short)
@pytest.mark.parametrize("unit_b", ["n", "k"])
def test_rows_native_is_interpreted(unit_b, dtype):
    kernel = rows_kernel(dtype, unit_b)
    assert_round_trip(kernel)
    for m, n, k in ((3, 37, 21), (1, 5, 300), (2, 4, 0)):
        random = numpy.random.default_rng(0)
        a, b = random.normal(size=(m, k)).astype(dtype.numpy), random.normal(size=(k, n)).astype(dtype.numpy)
        arrays = {"A": a, "B": numpy.ascontiguousarray(b.T if unit_b == "k" else b),
                  "C": numpy.zeros((m, n), dtype.numpy)}
        got = run_both(kernel, arrays, {"batch": 1, "M": m, "N": n, "K": k})["C"]
        numpy.testing.assert_allclose(got, a.astype("f8") @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [False, True])
def test_tails_are_interpreted_alike(transposed):
    """Vectors and their rests through the second splice, in both directions of B."""
    kernel = gemm.matmul_kernel(float32, transpose_a=transposed, transpose_b=transposed, vector="tails")
    random = numpy.random.default_rng(0)
    a, b = random.normal(size=(1, 11, 9)).astype("f4"), random.normal(size=(1, 9, 35)).astype("f4")
    arrays = {"A": a, "B": b, "C": numpy.zeros((1, 11, 35), "f4")}
    if transposed:
        arrays["A"], arrays["B"] = (numpy.ascontiguousarray(v.swapaxes(1, 2)) for v in (a, b))
    steps = (11, 9) if transposed else (9, 35)
    params = dict(zip(gemm.MATMUL_PARAMS, (1, 11, 35, 9, 99, steps[0], 315, steps[1])))
    numpy.testing.assert_allclose(run_both(kernel, arrays, params)["C"], a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_every_target_compiles(name):
    target = targets.by_name(name)
    tiles = (gemm.matmul_kernel(float32, transpose_b=turn, vector="tails", target=target)
             for turn in (False, True))
    for kernel in (*tiles, rows_kernel(float32, "n", target), rows_kernel(float32, "k", target)):
        assert jit.compile_text(llvm.emit(pipeline.lower_kernel(kernel), target), target)


def test_a_product_is_two_kernels_of_moderate_length():
    """Tiles or few rows, and the addition of parts: what a first call has to compile."""
    made = kernels_of(lambda: fl.mm(fl.ones(3, 4), fl.ones(4, 5)))
    assert [kernel.name for kernel in made] == ["matmul", "matmul_parts"]
    assert sum(len(llvm.emit(kernel).splitlines()) for kernel in made) < 4500
    one_row = kernels_of(lambda: fl.mm(fl.ones(1, 4), fl.ones(4, 5)))
    assert [kernel.name for kernel in one_row] == ["matmul_rows", "matmul_parts"]


@pytest.mark.parametrize("turn", [False, True])
def test_kernels_are_verified_and_printable(turn):
    b = fl.ones(5, 4).t() if turn else fl.ones(4, 5)
    for kernel in kernels_of(lambda: fl.mm(fl.ones(3, 4), b), "loops"):
        verify(kernel)
        assert_round_trip(kernel)


def test_extent_is_what_it_says():
    kernel = gemm.matmul_kernel(float32)
    for sizes in ((1, 64, 64, 64), (3, 1000, 33, 7), (1, 5000, 4000, 300), (2, 0, 4, 4)):
        params = dict(zip(gemm.MATMUL_PARAMS, (*sizes, 0, 0, 0, 0)))
        assert loops_interpret.extent(kernel, params) == gemm.gemm_extent(*sizes, float32)
