"""Sums along one axis and maxima of even windows, against NumPy."""

import struct

import numpy
import pytest

from flambeau.compiler import jit, llvm
from flambeau.compiler import target as targets
from flambeau.compiler.adaptive import PARAMS, adaptive_max_pool2d
from flambeau.compiler.band import Band, band_sums, band_tables, most_users, transposed_tables
from flambeau.ir.loops_verify import verify
from flambeau.types.dtype import float16, float32, float64
from tests.compiler.kernels import runnable_targets
from tests.compiler.native import assert_round_trip, run_both
from tests.compiler.test_conv_weight import run_on

# (band, size, count, its other numbers)
BANDS = [(Band("nearest", float64), 7, 20, {}), (Band("nearest-exact", float64), 9, 4, {}),
         (Band("linear", float64), 7, 19, {}), (Band("linear", float64), 33, 5, {}),
         (Band("linear", float64, align_corners=True), 5, 17, {}), (Band("linear", float64), 1, 9, {}),
         (Band("linear", float64, given=True), 6, 10, {"factor": 1.7}),
         (Band("cubic", float64), 3, 11, {}), (Band("cubic", float64), 31, 8, {}),
         (Band("cubic", float64), 1, 3, {}), (Band("even", float64), 13, 6, {}),
         (Band("even", float64), 5, 12, {}), (Band("even", float64), 17, 1, {}),
         (Band("windows", float64), 17, 8, {"window": 5, "stride": 2, "padding": 2}),
         (Band("windows", float64, include_pad=False), 17, 8, {"window": 5, "stride": 2, "padding": 2}),
         (Band("sums", float64), 10, 4, {"window": 3, "stride": 3, "padding": 1}),
         # two and four neighbours each, in turn: of the outputs, or of the inputs in the transpose
         (Band("nearest", float64), 11, 22, {}), (Band("nearest", float64), 9, 36, {}), (Band("even", float64), 40, 10, {}),
         (Band("windows", float64), 27, 13, {"window": 2, "stride": 2})]
CASES = pytest.mark.parametrize("band, size, count, numbers", BANDS, ids=str)


def place(band, size, count, factor, i):
    if band.align_corners:
        return i * (size - 1) / (count - 1) if count > 1 else 0.0
    return (i + 0.5) * (1 / factor if band.given else size / count) - 0.5


def matrix(band, size, count, factor=0.0, window=1, stride=1, padding=0):
    """(count, size): what each output takes of each input."""
    result, step = numpy.zeros((count, size)), size / count
    for i in range(count):
        if band.mode.startswith("nearest"):
            result[i, min(int((i + 0.5 * (band.mode != "nearest")) * step), size - 1)] = 1
        elif band.mode == "linear":
            at = max(place(band, size, count, factor, i), 0)
            low = min(int(at), size - 1)
            result[i, low] += 1 - (at - low)
            result[i, min(low + 1, size - 1)] += at - low
        elif band.mode == "cubic":
            at = place(band, size, count, factor, i)
            for tap in range(-1, 3):
                d = abs(at - numpy.floor(at) - tap)
                far = -0.75 * (d ** 3 - 5 * d ** 2 + 8 * d - 4)
                weight = 1.25 * d ** 3 - 2.25 * d ** 2 + 1 if d < 1 else far
                result[i, int(min(max(numpy.floor(at) + tap, 0), size - 1))] += weight
        elif band.mode == "even":
            start, stop = i * size // count, -(-(i + 1) * size // count)
            result[i, start:stop] = 1 / (stop - start)
        else:
            start, stop = i * stride - padding, min(i * stride - padding + window, size + padding)
            inside = slice(max(start, 0), min(stop, size))
            whole = stop - start if band.include_pad else inside.stop - inside.start
            result[i, inside] = 1 / whole if band.mode == "windows" else 1
    return result


def tables(band, size, count, numbers, run=run_both):
    """What the kernels put into the tables of outputs and of inputs."""
    given = {"factor": 0.0, "window": 1, "stride": 1, "padding": 0, **numbers}
    reach = most_users(band, size, count, given)
    params = {"size": size, "count": count, **given}
    params["factor"] = struct.unpack("q", struct.pack("d", given["factor"]))[0]
    arrays = {"first": numpy.zeros(count, "i8"), "number": numpy.zeros(count, "i8"),
              "weight": numpy.zeros((band.taps, count), band.accumulator.numpy)}
    arrays = run(band_tables(band), arrays, params)
    arrays |= {"first_t": numpy.zeros(size, "i8"), "number_t": numpy.zeros(size, "i8"),
               "weight_t": numpy.zeros((reach, size), band.accumulator.numpy)}
    arrays = run(transposed_tables(band), arrays, params)
    forward = {name: arrays[name] for name in ("first", "number", "weight")}
    return forward, {name: arrays[name + "_t"] for name in ("first", "number", "weight")}


def sums(band, table, x, count, last, transposed=False, run=run_both, target=None):
    outer, size, inner = x.shape
    arrays = {"input": x, **table, "output": numpy.full((outer, count, inner), numpy.nan, x.dtype)}
    params = {"outer": outer, "size": size, "count": count, "inner": inner}
    kernel = band_sums(band.dtype, band.uniform and not transposed, last, target=target)
    return run(kernel, arrays, params)["output"]


@CASES
def test_against_a_matrix(band, size, count, numbers):
    random, weights = numpy.random.default_rng(size), matrix(band, size, count, **numbers)
    forward, backward = tables(band, size, count, numbers)
    for outer, inner in ((19, 1), (2, 37), (3, 1)):
        x, grad = random.normal(size=(outer, size, inner)), random.normal(size=(outer, count, inner))
        got = sums(band, forward, x, count, inner == 1)
        numpy.testing.assert_allclose(got, numpy.einsum("is,osn->oin", weights, x), rtol=1e-11, atol=1e-12)
        got = sums(band, backward, grad, size, inner == 1, transposed=True)
        numpy.testing.assert_allclose(got, numpy.einsum("is,oin->osn", weights, grad), rtol=1e-11, atol=1e-12)


def test_half_precision_sums_in_float32():
    band = Band("even", float16)
    x = numpy.random.default_rng(0).normal(size=(3, 100, 5)).astype("f2")
    got = sums(band, tables(band, 100, 3, {})[0], x, 3, False)
    want = numpy.einsum("is,osn->oin", matrix(band, 100, 3), x.astype("f8"))
    numpy.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("last", [True, False])
def test_same_bits_on_every_processor(last):
    band = Band("linear", float32)
    x = numpy.random.default_rng(1).normal(size=(5, 29, 1 if last else 21)).astype("f4")
    table = tables(band, 29, 47, {})[0]
    results = [sums(band, table, x, 47, last, target=target, run=lambda kernel, arrays, params:
                    run_on(target, kernel, arrays, params)) for target in runnable_targets()]
    assert len({result.tobytes() for result in results}) == 1


def test_infinity_stays_where_it_is():
    band = Band("linear", float32)
    x = numpy.zeros((1, 20, 1), "f4")
    x[0, 7] = numpy.inf
    got = sums(band, tables(band, 20, 40, {})[0], x, 40, True)[0, :, 0]
    assert numpy.isfinite(numpy.delete(got, range(13, 17))).all() and not numpy.isfinite(got[14:16]).any()


@pytest.mark.parametrize("size, out", [((13, 17), (6, 4)), ((7, 5), (1, 1)), ((3, 4), (9, 10)),
                                       ((1, 33), (1, 31))])
def test_adaptive_maximum(size, out):
    random = numpy.random.default_rng(2)
    x = random.integers(-4, 4, (3, *size)).astype("f4")         # many equal values
    x[random.random(x.shape) < 0.05] = numpy.nan
    x[random.random(x.shape) < 0.3] = -numpy.inf
    arrays = {"input": x, "output": numpy.zeros((3, *out), "f4"), "indices": numpy.zeros((3, *out), "i8")}
    got = run_both(adaptive_max_pool2d(float32), arrays, dict(zip(PARAMS, (3, *size, *out))))
    for plane, row, column in numpy.ndindex(3, *out):
        (top, bottom), (left, right) = ((i * s // n, -(-(i + 1) * s // n)) for i, s, n in
                                        zip((row, column), size, out))
        best, at = None, None
        for r in range(top, bottom):
            for c in range(left, right):
                if at is None or x[plane, r, c] > best or numpy.isnan(x[plane, r, c]):
                    best, at = x[plane, r, c], r * size[1] + c
        numpy.testing.assert_equal(got["output"][plane, row, column], best)
        assert got["indices"][plane, row, column] == at


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_text_compiles(name):
    target = targets.by_name(name)
    kernels = [band_tables(Band("cubic")), transposed_tables(Band("cubic")), adaptive_max_pool2d(float16),
               band_sums(float16, last=True, target=target), band_sums(float32, True, target=target)]
    for kernel in kernels:
        assert jit.compile_text(llvm.emit(verify(kernel), target), target)
        assert_round_trip(kernel)
