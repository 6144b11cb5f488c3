"""Scans and extremes along an axis: compiled and interpreted, against NumPy."""

import numpy
import pytest

from flambeau.compiler import extreme, scan
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
