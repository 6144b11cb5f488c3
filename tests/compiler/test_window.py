"""Pooling against plain NumPy loops over windows."""

import numpy
import pytest

from flambeau.compiler import jit, llvm
from flambeau.compiler import target as targets
from flambeau.compiler.window import (PARAMS, Pooling, avg_pool2d, avg_pool2d_backward, is_large,
                                      max_pool2d, max_pool2d_backward, max_pool2d_values)
from flambeau.ir.loops_verify import verify
from flambeau.types.dtype import bfloat16, float16, float64, int64, uint8
from tests.compiler.kernels import runnable_targets
from tests.compiler.native import assert_round_trip, run_both, run_native
from tests.compiler.test_conv_weight import run_on

POOLINGS = [(Pooling((2, 2), (2, 2)), (6, 8), False), (Pooling((3, 3), (2, 2), (1, 1)), (7, 40), False),
            (Pooling((3, 2), (1, 1), (1, 0)), (5, 21), False),
            (Pooling((2, 3), (2, 3), (0, 1)), (5, 7), True),
            (Pooling((3, 3), (3, 2), (1, 1)), (6, 20), True), (Pooling((4, 5), (4, 5)), (4, 5), False),
            (Pooling((1, 3), (1, 2)), (1, 50), False), (Pooling((2, 2), (3, 4)), (9, 150), False)]
LARGE = [(Pooling((6, 7), (3, 2), (3, 3)), (9, 40), False), (Pooling((2, 2), (31, 40)), (70, 130), False),
         (Pooling((2, 2), (300, 400)), (301, 402), False),
         (Pooling((2, 2), (1, 1), (0, 0), (60, 2)), (70, 9), False)]
DILATED = [(Pooling((2, 3), (1, 2), (1, 1), (2, 2)), (7, 19), False),
           (Pooling((2, 2), (2, 1), (0, 0), (3, 1)), (9, 9), True)]
CASES = pytest.mark.parametrize("spec, size, ceil_mode", POOLINGS, ids=str)
ALL_CASES = pytest.mark.parametrize("spec, size, ceil_mode", POOLINGS + DILATED + LARGE, ids=str)


def sizes(spec, size, ceil_mode, planes=3):
    out_size = spec.output_size(*size, ceil_mode)
    return dict(zip(PARAMS, (planes, *size, *out_size))), (planes, *size), (planes, *out_size)


def window(spec, size, row, column):
    """The rows and columns of the input that an output's window holds."""
    places = []
    for axis, place in enumerate((row, column)):
        start = place * spec.stride[axis] - spec.padding[axis]
        taps = [start + t * spec.dilation[axis] for t in range(spec.kernel[axis])]
        places.append([t for t in taps if 0 <= t < size[axis]])
    return places


def divisor(spec, size, row, column):
    if spec.divisor_override is not None:
        return spec.divisor_override
    result = 1
    for axis, place in enumerate((row, column)):
        start = place * spec.stride[axis] - spec.padding[axis]
        stop = min(start + spec.kernel[axis], size[axis] + spec.padding[axis])
        if not spec.count_include_pad:
            start, stop = max(start, 0), min(stop, size[axis])
        result *= stop - start
    return result


def naive_maximum(spec, x, out_shape):
    values, indices = numpy.zeros(out_shape, x.dtype), numpy.zeros(out_shape, numpy.int64)
    for plane, row, column in numpy.ndindex(out_shape):
        rows, columns = window(spec, x.shape[1:], row, column)
        place = None
        for r in rows:
            for c in columns:
                value = x[plane, r, c]
                if place is None or value > values[plane, row, column] or value != value:
                    place, values[plane, row, column] = r * x.shape[2] + c, value
        indices[plane, row, column] = place
    return values, indices


@ALL_CASES
def test_max_pool2d(spec, size, ceil_mode):
    params, shape, out_shape = sizes(spec, size, ceil_mode)
    random = numpy.random.default_rng(0)
    x = random.integers(-4, 4, shape).astype("f4")          # many equal values
    x[random.random(shape) < 0.1] = numpy.nan
    x[random.random(shape) < 0.3] = -numpy.inf
    arrays = {"input": x, "output": numpy.zeros(out_shape, "f4"), "indices": numpy.zeros(out_shape, "i8")}
    got = run_both(max_pool2d(spec), arrays, params)
    values, indices = naive_maximum(spec, x, out_shape)
    numpy.testing.assert_array_equal(got["output"], values)
    numpy.testing.assert_array_equal(got["indices"], indices)
    del arrays["indices"]
    if not is_large(spec):
        numpy.testing.assert_array_equal(run_both(max_pool2d_values(spec), arrays, params)["output"], values)


@pytest.mark.parametrize("dtype", [float16, float64, uint8, int64], ids=lambda d: d.short)
def test_max_pool2d_dtypes(dtype):
    spec = Pooling((3, 3), (2, 2), (1, 1), dtype=dtype)
    params, shape, out_shape = sizes(spec, (6, 35), False)
    x = numpy.random.default_rng(0).integers(0, 100, shape).astype(dtype.numpy)
    if dtype is int64:
        x -= 200
    arrays = {"input": x, "output": numpy.zeros(out_shape, dtype.numpy),
              "indices": numpy.zeros(out_shape, "i8")}
    got = run_both(max_pool2d(spec), arrays, params)
    values, indices = naive_maximum(spec, x, out_shape)
    numpy.testing.assert_array_equal(got["output"], values)
    numpy.testing.assert_array_equal(got["indices"], indices)


@ALL_CASES
def test_max_pool2d_backward(spec, size, ceil_mode):
    params, shape, out_shape = sizes(spec, size, ceil_mode)
    random = numpy.random.default_rng(1)
    indices = naive_maximum(spec, random.normal(size=shape), out_shape)[1]
    grad = random.normal(size=out_shape).astype("f4")
    arrays = {"grad_output": grad, "indices": indices, "grad_input": numpy.full(shape, numpy.nan, "f4")}
    got = run_both(max_pool2d_backward(spec), arrays, params)["grad_input"]
    expected = numpy.zeros((shape[0], shape[1] * shape[2]), "f4")
    planes = numpy.arange(shape[0]).repeat(grad[0].size)
    for plane, place, value in zip(planes, indices.ravel(), grad.ravel()):
        expected[plane, place] += value
    numpy.testing.assert_array_equal(got.reshape(expected.shape), expected)


def average_variants(spec):
    plain = {"kernel": spec.kernel, "stride": spec.stride, "padding": spec.padding}
    return [Pooling(**plain), Pooling(**plain, count_include_pad=False), Pooling(**plain, divisor_override=3)]


@CASES
def test_avg_pool2d_and_its_derivative(spec, size, ceil_mode):
    for spec in average_variants(spec):
        params, shape, out_shape = sizes(spec, size, ceil_mode)
        random = numpy.random.default_rng(2)
        x, grad = random.normal(size=shape).astype("f4"), random.normal(size=out_shape).astype("f4")
        expected, grad_expected = numpy.zeros(out_shape, "f4"), numpy.zeros(shape, "f4")
        for row, column in numpy.ndindex(out_shape[1:]):
            rows, columns = window(spec, size, row, column)
            count = numpy.float32(divisor(spec, size, row, column))
            total = numpy.zeros(shape[0], "f4")
            for r in rows:
                for c in columns:
                    total += x[:, r, c]
                    grad_expected[:, r, c] += grad[:, row, column] / count
            expected[:, row, column] = total / count
        arrays = {"input": x, "output": numpy.zeros(out_shape, "f4")}
        got = run_both(avg_pool2d(spec), arrays, params)["output"]
        numpy.testing.assert_array_equal(got, expected)
        arrays = {"grad_output": grad, "grad_input": numpy.full(shape, numpy.nan, "f4")}
        got = run_both(avg_pool2d_backward(spec), arrays, params)["grad_input"]
        numpy.testing.assert_array_equal(got, grad_expected)


def test_half_precision_averages_in_float32():
    spec = Pooling((2, 2), (2, 2), dtype=bfloat16)
    params, shape, out_shape = sizes(spec, (8, 40), False)
    x = (numpy.random.default_rng(3).normal(size=shape).astype("f4").view("u4") >> 16).astype("u2")
    got = run_both(avg_pool2d(spec), {"input": x, "output": numpy.zeros(out_shape, "u2")}, params)["output"]
    wide = (x.astype("u4") << 16).view("f4").reshape(shape[0], 4, 2, 20, 2)
    got = (got.astype("u4") << 16).view("f4")
    numpy.testing.assert_allclose(got, wide.mean((2, 4)), rtol=2 ** -8, atol=1e-3)


def test_large_planes_in_chunks():
    spec = Pooling((3, 3), (2, 2), (1, 1))
    params, shape, out_shape = sizes(spec, (64, 65), False, planes=8)
    x = numpy.random.default_rng(4).normal(size=shape).astype("f4")
    arrays = {"input": x, "output": numpy.zeros(out_shape, "f4"), "indices": numpy.zeros(out_shape, "i8")}
    got = run_native(max_pool2d(spec), arrays, params, grain=5)
    numpy.testing.assert_array_equal(got["output"], numpy.take_along_axis(
        x.reshape(8, -1), got["indices"].reshape(8, -1), 1).reshape(out_shape))
    padded = numpy.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-numpy.inf)
    views = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    numpy.testing.assert_array_equal(got["output"], views.max((3, 4)))


def test_output_size_as_pytorch():
    spec = Pooling((3, 3), (2, 2), (1, 1))
    assert spec.output_size(7, 8) == (4, 4) and spec.output_size(7, 8, ceil_mode=True) == (4, 5)
    assert Pooling((2, 2), (3, 3)).output_size(4, 6, ceil_mode=True) == (2, 2)
    assert Pooling((1, 1), (3, 3)).output_size(3, 3, ceil_mode=True) == (1, 1)      # no window outside


KERNELS = max_pool2d, max_pool2d_values, max_pool2d_backward, avg_pool2d, avg_pool2d_backward


def test_text():
    for make in KERNELS:
        assert_round_trip(make(Pooling((3, 3), (2, 2), (1, 1))))


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_text_compiles(name):
    target = targets.by_name(name)
    for make in KERNELS:
        kernel = make(Pooling((3, 3), (2, 2), (1, 1), dtype=bfloat16), target=target)
        assert jit.compile_text(llvm.emit(verify(kernel), target), target)


def test_same_bits_on_every_processor():
    spec = Pooling((3, 3), (2, 2), (1, 1), count_include_pad=False)
    params, shape, out_shape = sizes(spec, (19, 37), False)
    random = numpy.random.default_rng(5)
    x, grad = random.normal(size=shape).astype("f4"), random.normal(size=out_shape).astype("f4")
    indices = naive_maximum(spec, x, out_shape)[1]
    for make in KERNELS:
        results = set()
        for target in runnable_targets():
            arrays = {"input": x, "grad_output": grad, "output": numpy.zeros(out_shape, "f4"),
                      "indices": indices.copy(), "grad_input": numpy.zeros(shape, "f4")}
            run_on(target, make(spec, target=target), arrays, params)
            results.add(b"".join(arrays[name].tobytes() for name in ("output", "indices", "grad_input")))
        assert len(results) == 1, make.__name__
