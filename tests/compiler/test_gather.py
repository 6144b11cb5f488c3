"""Gathers and scatter-adds against NumPy; sums in the order of the index."""

import numpy
import pytest

from flambeau.compiler import gather
from flambeau.types.dtype import bfloat16, float32, float64, int32, int64, uint8
from tests.compiler.native import assert_round_trip, run_both, run_native

SHAPES = [(2, 5, 7, 3), (1, 9, 20, 1), (3, 4, 5, 1), (1, 6, 4, 130), (0, 3, 2, 4), (2, 3, 0, 4)]


def problem(shape, dtype, index_shape, index_dtype, seed=0):
    outer, size, count, inner = shape
    random = numpy.random.default_rng(seed)
    values = {"params": dict(zip(gather.PARAMS, shape)),
              "x": (random.normal(size=(outer, size, inner)) * 10).astype(dtype.numpy),
              "index": random.integers(0, size, index_shape).astype(index_dtype.numpy),
              "source": (random.normal(size=(outer, count, inner)) * 10).astype(dtype.numpy)}
    return values


@pytest.mark.parametrize("dtype, index_dtype",
                         [(float32, int64), (float64, int32), (uint8, int64), (bfloat16, int32)],
                         ids=lambda d: d.short)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gather_rows(shape, dtype, index_dtype):
    p = problem(shape, dtype, (shape[2],), index_dtype)
    out = numpy.zeros_like(p["source"])
    kernel = gather.gather_rows(dtype, index_dtype)
    got = run_both(kernel, {"x": p["x"], "index": p["index"], "out": out}, p["params"])["out"]
    numpy.testing.assert_array_equal(got, p["x"][:, p["index"]])


@pytest.mark.parametrize("index_dtype", [int32, int64], ids=lambda d: d.short)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gather_elements(shape, index_dtype):
    p = problem(shape, float32, (shape[0], *shape[2:]), index_dtype)
    out = numpy.zeros_like(p["source"])
    kernel = gather.gather_elements(float32, index_dtype)
    got = run_both(kernel, {"x": p["x"], "index": p["index"], "out": out}, p["params"])["out"]
    numpy.testing.assert_array_equal(got, numpy.take_along_axis(p["x"], p["index"].astype(numpy.int64), 1))


@pytest.mark.parametrize("dtype", [float32, float64, int64], ids=lambda d: d.short)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scatter_add(shape, dtype):
    outer, size, count, inner = shape
    for make, index_shape in ((gather.scatter_add_rows, (count,)),
                              (gather.scatter_add_elements, (outer, count, inner))):
        p = problem(shape, dtype, index_shape, int64)
        expected = p["x"].copy()
        index = p["index"][:, None] if len(index_shape) == 1 else p["index"]
        index = numpy.broadcast_to(index, p["source"].shape)
        for c in range(count):
            for o in range(outer):
                expected[o, index[o, c], numpy.arange(inner)] += p["source"][o, c]
        arrays = {"out": p["x"], "index": p["index"], "source": p["source"]}
        numpy.testing.assert_array_equal(run_both(make(dtype), arrays, p["params"])["out"], expected)


def test_scatter_add_does_not_depend_on_chunks():
    shape = (3, 4, 300, 200)
    p = problem(shape, float32, (3, 300, 200), int64)
    kernel = gather.scatter_add_elements(float32)
    results = []
    for grain in (1, 100):
        arrays = {"out": p["x"].copy(), "index": p["index"], "source": p["source"]}
        results.append(run_native(kernel, arrays, p["params"], grain)["out"])
    numpy.testing.assert_array_equal(*results)


def test_work_and_text():
    assert gather.gather_work(1, 10, 10, 50) > gather.gather_work(1, 10, 10, 5)
    assert gather.scatter_add_work(1, 10, 100, 5) > gather.scatter_add_work(1, 10, 10, 5)
    for make in (gather.gather_rows, gather.gather_elements, gather.scatter_add_rows,
                 gather.scatter_add_elements):
        assert_round_trip(make(float32))
