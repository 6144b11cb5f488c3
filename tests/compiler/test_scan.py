"""Scans and extremes along an axis: compiled and interpreted, against NumPy."""

import numpy
import pytest

from flambeau.compiler import extreme, scan
from flambeau.compiler.expand import expand_math
from flambeau.types.dtype import bool_, float32, float64, int32, int64, uint8
from tests.compiler.native import assert_round_trip, run_both

SHAPES = [(2, 5, 3), (3, 9, 1), (1, 20, 70), (2, 1, 1), (0, 3, 2), (2, 0, 3), (1, 17, 1)]


def values(shape, dtype, seed=0):
    return (numpy.random.default_rng(seed).normal(size=shape) * 10).astype(dtype.numpy)


def params(shape, reverse=False):
    outer, size, inner = shape
    return {"outer": outer, "size": size, "inner": inner, "first": size - 1 if reverse else 0,
            "step": -1 if reverse else 1, "active": 1}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_run_both_ways(shape, reverse):
    x = values(shape, int32)
    kernel = scan.scan_kernel(scan.fold_scan("add", int32, int64))
    given = {"x0": x, "out0": numpy.zeros(shape, "int64")}
    got = run_both(kernel, given, params(shape, reverse))["out0"]
    lines = x[:, ::-1] if reverse else x
    want = numpy.cumsum(lines, 1, dtype="int64")
    numpy.testing.assert_array_equal(got, want[:, ::-1] if reverse else want)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_recurrence_skips_the_first_factor(shape):
    x, factor = values(shape, float64), values(shape, float64, 1)
    if shape[1]:
        factor[:, 0] = numpy.inf
    kernel = scan.scan_kernel(scan.linear_scan(float64, False))
    given = {"x0": x, "x1": factor, "out0": numpy.zeros_like(x)}
    got, want = run_both(kernel, given, params(shape))["out0"], x.copy()
    for t in range(1, shape[1]):
        want[:, t] = x[:, t] + want[:, t - 1] * factor[:, t]
    numpy.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[1]], ids=str)
@pytest.mark.parametrize("dtype", [float32, uint8, bool_], ids=lambda d: d.short)
def test_extremes(shape, dtype):
    x = values(shape, dtype)
    if dtype is float32 and shape[1] > 8:
        x[:, 3::4] = numpy.nan
    start = {float32: float("-inf"), uint8: 0, bool_: 0}[dtype]
    flat = (shape[0], shape[2])
    given = {"x": x, "values": numpy.zeros(flat, x.dtype), "indices": numpy.zeros(flat, "int64")}
    got = run_both(extreme.extreme_kernel("gt", dtype, start), given, dict(zip(extreme.PARAMS, shape)))
    numpy.testing.assert_array_equal(got["indices"], x.argmax(1))
    numpy.testing.assert_array_equal(got["values"], x.max(1))


def test_printed_forms_parse_back():
    for kernel in (scan.scan_kernel(scan.log_sum_scan(float32)), extreme.extreme_kernel("lt", float32, 0.0),
                   scan.parts_kernel(scan.log_sum_scan(float32), True)):
        assert_round_trip(kernel)


def scan_long(made, x, reverse):
    """A line of x through the kernels for long lines."""
    size = x.shape[1]
    parts, sizes = -(-size // scan.PART), params((x.shape[0], size, 1), reverse)
    arrays = {"x0": x} | {f"out{n}": numpy.zeros(x.shape, d.numpy) for n, d in enumerate(made.outputs)}
    arrays |= {p.name: numpy.zeros((x.shape[0], parts), p.dtype.numpy) for p in made.parts()}
    for kernel in (scan.parts_kernel(made, True), scan.starts_kernel(made), scan.parts_kernel(made, False)):
        kernel = expand_math(kernel)
        arrays.update(run_both(kernel, {b.name: arrays[b.name] for b in kernel.buffers}, sizes))
    return arrays


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [5 * scan.PART + 17, 4 * scan.PART, 3])
def test_sums_of_long_lines(size, reverse):
    x = values((2, size), int32)
    got = scan_long(scan.fold_scan("add", int32, int64), x, reverse)["out0"]
    want = numpy.cumsum(x[:, ::-1] if reverse else x, 1, dtype="int64")
    numpy.testing.assert_array_equal(got, want[:, ::-1] if reverse else want)


def test_extremes_of_long_lines():
    x = values((2, 3 * scan.PART + 9), float32)
    x[0, 5000:5003] = numpy.nan
    got = scan_long(scan.extreme_scan("ge", float32, float("-inf")), x, False)
    numpy.testing.assert_array_equal(got["out0"], numpy.maximum.accumulate(x, 1))
    numpy.testing.assert_array_equal(numpy.take_along_axis(x, got["out1"], 1), got["out0"])
    later = numpy.diff(got["out1"], axis=1) != 0                     # the last place of equal ones
    numpy.testing.assert_array_equal(later[1], (x[1, 1:] >= got["out0"][1, :-1]))


def test_costly_scans_are_vectors():
    x = values((3, 2 * scan.PART + 70), float64) / 10
    made = scan.log_sum_scan(float64)
    got = scan_long(made, x, False)["out0"]
    want = numpy.logaddexp.accumulate(x, 1)
    numpy.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    given = {"x0": x[:, :50].copy(), "out0": numpy.zeros((3, 50))}
    got = run_both(expand_math(scan.costly_kernel(made)), given, params((3, 50, 1)))["out0"]
    numpy.testing.assert_allclose(got, want[:, :50], rtol=1e-12, atol=1e-12)
