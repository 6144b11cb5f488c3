"""Short tiles: products whose k's fit one block, against float64, the stated order of additions, the packed
tiles bit for bit, and the interpreter."""

import itertools

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import gemm, gemm_short, jit, llvm, pipeline
from flambeau.compiler import target as targets
from flambeau.ir import loops as L
from flambeau.ir import loops_arithmetic, loops_interpret
from flambeau.ir.loops_verify import verify
from flambeau.ops.spec import REGISTRY
from flambeau.testing import oracle
from flambeau.types.dtype import float32
from tests.compiler.native import assert_round_trip, assert_threads_leave_bits, run_both
from tests.compiler.test_gemm import stated_order


def made(call, op="mm"):
    """The product's kernel of a first call, before and after its loops are lowered."""
    seen = {}
    REGISTRY[op].native.plans.clear()

    def note(stage, form):
        if stage in ("loops", "kernel") and form.name == "matmul":
            seen[stage] = form
    with pipeline.watch(note):
        call()
    return seen["loops"], seen["kernel"]


def is_short(sizes, unit_b="n", name="avx512"):
    target = targets.by_name(name)
    condition = gemm_short.is_short(tuple(map(L.as_index, sizes)), unit_b, gemm.blocking(float32, target), target)
    return condition.value


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("m, n, k", [(8, 8, 8), (13, 16, 3), (21, 33, 17), (30, 30, 30), (64, 64, 32), (70, 100, 256),
                                     (5, 47, 1), (9, 1, 40), (12, 131, 0)])
def test_batches_of_every_layout_against_float64(m, n, k, dtype):
    random = numpy.random.default_rng(0)
    a = (random.normal(size=(3, m, k)) * 9).astype(dtype)
    b = (random.normal(size=(3, k, n)) * 9).astype(dtype)
    exact = a.astype("f8") @ b.astype("f8")
    results = set()
    for x, y in itertools.product(*((v, numpy.ascontiguousarray(v.swapaxes(1, 2)).swapaxes(1, 2)) for v in (a, b))):
        got = fl.bmm(fl.from_numpy(x), fl.from_numpy(y)).numpy()
        numpy.testing.assert_allclose(got, exact, rtol=0, atol=1e-6 * (abs(a).max(initial=0) ** 2 * k + 1))
        results.add(got.tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("k", [255, 256, 257])
def test_the_order_of_additions_is_that_of_all_products(k):
    loops_arithmetic.prepare()
    random = numpy.random.default_rng(0)
    a, b = random.normal(size=(1, 14, k)).astype("f4"), random.normal(size=(1, k, 35)).astype("f4")
    want = stated_order(a, b, float32)[0]
    for y in (b[0], numpy.ascontiguousarray(b[0].T).T):
        numpy.testing.assert_array_equal(fl.mm(fl.from_numpy(a[0]), fl.from_numpy(y)).numpy(), want)
    rows = fl.mm(fl.from_numpy(a[0, :1]), fl.from_numpy(b[0])).numpy()           # compiler.gemm_rows
    numpy.testing.assert_array_equal(rows, want[:1])


@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize("sizes", [(2, 11, 35, 9), (1, 4, 16, 5), (1, 19, 64, 3), (1, 3, 50, 2)], ids=str)
def test_native_is_interpreted(sizes, turn):
    random = numpy.random.default_rng(0)
    batch, m, n, k = sizes
    a, b = (random.normal(size=s).astype("f4") for s in ((batch, m, k), (batch, k, n)))
    stored = numpy.ascontiguousarray(b.swapaxes(1, 2)) if turn else b
    _, kernel = made(lambda: fl.bmm(fl.from_numpy(a), fl.from_numpy(stored).mT if turn else fl.from_numpy(b)))
    arrays = {"x": a, "y": stored, "out": numpy.zeros((batch, m, n), "f4"), "parts": numpy.zeros(1, "f4")}
    steps = {"x_batch": m * k, "x_row": k, "y_batch": k * n, "y_row": n, "y_column": k}
    params = dict(zip(gemm.SIZES, sizes)) | steps
    params = {name: params[name] for name in kernel.params}
    numpy.testing.assert_array_equal(run_both(kernel, arrays, params)["out"], stated_order(a, b, float32))


@pytest.mark.parametrize("m, n, k", [(21, 35, 40), (4, 70, 9), (9, 96, 256)])
def test_a_fused_epilogue_goes_through_the_tile(m, n, k):
    """It may read what it overwrites, so it runs once for each element."""
    random = numpy.random.default_rng(0)
    tensors = [fl.from_numpy(random.normal(size=s).astype("f4")) for s in ((m, k), (n, k), (n,), (m, n))]

    def layer(x, w, b, r):
        return fl.nn.functional.relu(REGISTRY["linear_rows"].function(x, w, b) + r)
    fused = oracle.compile_function(layer, tensors)[1](*tensors)[0]
    assert fl.equal(fused, layer(*tensors))


@pytest.mark.parametrize("sizes, unit_b, name, want", [
    ((1, 64, 64, 256), "n", "avx512", 1), ((1, 64, 64, 257), "n", "avx512", 0), ((1, 64, 64, 257), "k", "avx2", 0),
    ((1, 64, 65, 32), "n", "generic", 0), ((1, 64, 64, 32), "n", "generic", 1), ((1, 64, 65, 32), "k", "generic", 1),
    ((1, 500, 4096, 256), "n", "avx2", 0), ((1, 40, 4096, 256), "n", "avx512", 1),
    ((1, 40, 4096, 256), "n", "avx2", 0), ((1, 12, 4096, 256), "n", "avx2", 1), ((1, 64, 256, 64), "n", "avx2", 0),
    ((1, 64, 250, 64), "n", "avx2", 1), ((48, 64, 64, 32), "n", "avx2", 1), ((9, 2, 3, 4), "n", "avx2", 1)])
def test_which_products_have_short_tiles(sizes, unit_b, name, want):
    assert is_short(sizes, unit_b, name) == want


def test_short_tiles_are_shared_out_further():
    """(32, 64) @ (64, 64): half the columns each where B is turned, else half the rows."""
    for turn in (False, True):
        weight = fl.ones(64, 64).t() if turn else fl.ones(64, 64)
        loops, _ = made(lambda: fl.mm(fl.ones(32, 64), weight))
        steps = {"x_row": 64, "y_row": 64, "y_column": 64}
        params = {"batch": 1, "M": 32, "N": 64, "K": 64} | steps
        assert loops_interpret.extent(loops, {p: params[p] for p in loops.params}) == 2


@pytest.mark.parametrize("sizes", [(64, 64, 64), (33, 200, 100), (300, 40, 256)], ids=str)
def test_threads_do_not_change_bits(sizes):
    m, n, k = sizes
    random = numpy.random.default_rng(0)
    a, b = (fl.from_numpy(random.normal(size=s).astype("f4")) for s in ((m, k), (k, n)))
    assert_threads_leave_bits(lambda: fl.mm(a, b))


@pytest.mark.parametrize("turn", [False, True])
def test_kernels_are_verified_printable_and_compile_for_every_target(turn):
    loops, kernel = made(lambda: fl.mm(fl.ones(30, 4), fl.ones(5, 4).t() if turn else fl.ones(4, 5)))
    assert_round_trip(verify(loops))
    for name in ("generic", "avx2", "aarch64"):
        target = targets.by_name(name)
        assert jit.compile_text(llvm.emit(kernel, target), target)
