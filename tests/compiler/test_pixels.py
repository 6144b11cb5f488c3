"""Channels as pixels and back, against NumPy."""

import numpy
import pytest

from flambeau.compiler import jit, llvm
from flambeau.compiler import target as targets
from flambeau.compiler.pixels import PARAMS, pixel_rows
from flambeau.ir.loops_verify import verify
from flambeau.types.dtype import bool_, float16, float32, int64
from tests.compiler.native import assert_round_trip, run_both


@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("size", [(3, 5), (1, 1), (2, 33), (5, 64)], ids=str)
@pytest.mark.parametrize("dtype", [bool_, float16, float32, int64], ids=lambda d: d.short)
def test_there_and_back(dtype, size, factor):
    shape = (2, factor, factor, *size)
    x = (numpy.random.default_rng(0).normal(size=shape) * 9).astype(dtype.numpy)
    want = x.transpose(0, 3, 1, 4, 2).reshape(2, size[0] * factor, size[1] * factor)
    params = dict(zip(PARAMS, (2, *size)))
    arrays = {"input": x, "output": numpy.zeros_like(want)}
    got = run_both(pixel_rows(dtype, factor), arrays, params)["output"]
    numpy.testing.assert_array_equal(got, want)
    arrays = {"input": got, "output": numpy.zeros_like(x)}
    got = run_both(pixel_rows(dtype, factor, back=True), arrays, params)["output"]
    numpy.testing.assert_array_equal(got, x)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_text_compiles(name):
    target = targets.by_name(name)
    for back in (False, True):
        kernel = pixel_rows(float32, 2, back, target=target)
        assert jit.compile_text(llvm.emit(verify(kernel), target), target)
        assert_round_trip(kernel)
