"""Sorts, selections and searches: compiled and interpreted, against NumPy."""

import numpy
import pytest

from flambeau.compiler import jit, llvm, order, order_best, order_keys, order_select, search, target
from flambeau.compiler.vectorize import vectorize
from flambeau.ir import loops as L
from flambeau.types.dtype import (bfloat16, bool_, float16, float32, float64, int8, int32, int64, uint8,
                                  uint16, uint32)
from tests.compiler.native import assert_round_trip, run_both

DTYPES = [float32, float64, float16, int8, int32, int64, uint8, bool_]
SPECIAL = [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e-40, -1e-40, 1.0, -1.0]


def values(shape, dtype, seed=0):
    """With equal elements and, for floating point, NaN, infinities and both zeros."""
    random = numpy.random.default_rng(seed)
    x = numpy.round(random.normal(size=shape) * 20)
    if dtype.kind == "f":
        x = numpy.where(random.random(shape) < 0.2, random.choice(SPECIAL, shape), x)
    with numpy.errstate(invalid="ignore"):
        return x.astype(dtype.numpy)


def order_of(x, descending=False):
    """The stable order along the last axis, NaN as the largest."""
    if not descending:
        return numpy.argsort(x, axis=-1, kind="stable")
    back = numpy.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    return x.shape[-1] - 1 - back


def scratch(dtype, count):
    return {b.name: numpy.zeros(count, b.dtype.numpy) for b in order_keys.scratch_buffers(dtype)}


def results(x, kept):
    shape = (*x.shape[:-1], kept)
    return {"x": x, "values": numpy.zeros(shape, x.dtype), "indices": numpy.zeros(shape, "int64")}


def check(got, x, places):
    numpy.testing.assert_array_equal(got["indices"], places)
    numpy.testing.assert_array_equal(got["values"], numpy.take_along_axis(x, places, -1))


@pytest.mark.parametrize("dtype", [*DTYPES, bfloat16, uint16, uint32], ids=lambda d: d.short)
@pytest.mark.parametrize("descending", [False, True])
def test_keys_order_as_elements_do(dtype, descending):
    x = values(60, float32).astype("float32")
    x = (x.view("uint32") >> 16).astype("uint16") if dtype is bfloat16 else values(60, dtype)
    b, i = L.Builder(), L.Var(int64, 1, "i")
    with b.loop("i", L.BEGIN, L.END):
        found = order_keys.key(b, b.load("x", i, dtype), descending)
        b.store("out", i, found)
    buffers = L.Buffer("x", dtype, "r"), L.Buffer("out", found.dtype, "w")
    kernel = L.Kernel("keys", buffers, ("n",), L.Var(int64, 1, "n"), b.body())
    got = run_both(kernel, {"x": x, "out": numpy.zeros(60, found.dtype.numpy)}, {"n": 60})["out"]
    real = (x.astype("uint32") << 16).view("float32") if dtype is bfloat16 else x
    numpy.testing.assert_array_equal(numpy.argsort(got, kind="stable"), order_of(real, descending))
    zeros = got[real == 0]
    assert len(set(zeros.tolist())) == 1 and int(got.max()) < 1 << order_keys.key_bits(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.short)
@pytest.mark.parametrize("shape", [(3, 1), (2, 7), (5, 64), (3, 65), (2, 300), (0, 3), (2, 0)], ids=str)
def test_sort(shape, dtype):
    (lines, size), descending = shape, dtype in (float32, int64)
    x = values(shape, dtype)
    given = results(x, size) | scratch(dtype, 2 * lines * size)
    sizes = {"lines": lines, "size": size, "kept": size, "share": 2, "short": 1}
    got = run_both(order.sort_kernel(dtype, descending), given, sizes)
    check(got, x, order_of(x, descending))


@pytest.mark.parametrize("dtype", [float32, int64, float16], ids=lambda d: d.short)
@pytest.mark.parametrize("kind", ["mixed", "equal", "small"])
def test_long_lines_in_blocks(dtype, kind):
    lines, size, steps = 2, 601, 3
    x = values((lines, size), dtype)
    x = x[:, :1].repeat(size, 1) if kind == "equal" else numpy.sign(x) if kind == "small" else x
    blocks = steps * order.chains_of(dtype)
    arrays = results(x, size) | scratch(dtype, 2 * lines * size)
    arrays |= {"counts": numpy.zeros(lines * order_keys.DIGITS * blocks, "int64"),
               "state": numpy.zeros(lines * 2, "int64"), "varying": numpy.zeros(lines * steps, "uint64"),
               "least": numpy.zeros(lines * steps, "uint64")}
    sizes = {"lines": lines, "size": size, "kept": size, "steps": steps}

    def run(kernel, shift):
        names = [b.name for b in kernel.buffers]
        arrays.update(run_both(kernel, {n: arrays[n] for n in names}, sizes | {"shift": shift}))

    first = order_keys.lowest_bit(dtype)
    if order_keys.is_rebased(dtype):
        run(order.long_least(dtype, False), first)
    for shift in range(first, first + order_keys.key_bits(dtype), order_keys.DIGIT):
        run(order.long_look(dtype, False) if shift == first else order.long_count(dtype), shift)
        run(order.long_starts(dtype), shift)
        run(order.long_take(dtype, False) if shift == first else order.long_move(dtype), shift)
    run(order.long_finish(dtype), first)
    check(arrays, x, order_of(x))


@pytest.mark.parametrize("dtype", [float32, float16, uint8], ids=lambda d: d.short)
@pytest.mark.parametrize("kept", [1, 5, 64])
@pytest.mark.parametrize("largest", [False, True])
def test_the_best_few(dtype, kept, largest):
    x = values((3, 300), dtype)
    sizes = {"lines": 3, "size": 300, "kept": kept}
    got = run_both(order_best.best_kernel(dtype, largest), results(x, kept), sizes)
    check(got, x, order_of(x, largest)[:, :kept])


@pytest.mark.parametrize("dtype", [float32, int64, float64, uint8], ids=lambda d: d.short)
@pytest.mark.parametrize("size", [40, 500])
def test_selection(dtype, size):
    x = values((3, size), dtype)
    places, sizes = order_of(x), {"lines": 3, "size": size, "share": 2, "short": 1}
    for kept in (1, size // 2):
        given = results(x, kept) | scratch(dtype, 4 * size)
        got = run_both(order_select.select_kernel(dtype, False, False), given, sizes | {"kept": kept})
        check(got, x, places[:, :kept])
    wanted = numpy.array([0, size // 2, size - 1])
    given = results(x, 1) | scratch(dtype, 4 * size) | {"wanted": wanted}
    got = run_both(order_select.select_kernel(dtype, False, True), given, sizes | {"kept": 1})
    check(got, x, numpy.take_along_axis(places, wanted[:, None], -1))


@pytest.mark.parametrize("dtype", [float32, int64], ids=lambda d: d.short)
@pytest.mark.parametrize("size", [0, 1, 2, 7, 130])
@pytest.mark.parametrize("right", [False, True])
def test_search(dtype, size, right):
    sequence = numpy.sort(values((3, size), dtype), axis=-1)
    wanted = values((3, 200), dtype, 1)
    given = {"sequence": sequence, "values": wanted, "out": numpy.zeros((3, 200), "int32")}
    sizes = {"lines": 3, "size": size, "count": 200, "shared": 0}
    got = run_both(search.search_kernel(dtype, int32, right), given, sizes)["out"]
    side = "right" if right else "left"
    numpy.testing.assert_array_equal(got, [numpy.searchsorted(s, w, side) for s, w in zip(sequence, wanted)])


def test_printed_forms_parse_back():
    for kernel in (order.sort_kernel(int64, True), order.long_take(float32, True), order.long_starts(float32),
                   order_best.best_kernel(float32, True), order_select.select_kernel(float64, True, False),
                   search.search_kernel(float32, int64, True)):
        assert_round_trip(kernel)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_compiles_for_every_processor(name):
    chosen = target.by_name(name)
    for kernel in (order.sort_kernel(int64, True), order_best.best_kernel(float32, True),
                   search.search_kernel(float32, int64, True)):
        assert kernel.name in jit.assembly(llvm.emit(vectorize(kernel), chosen), chosen)
