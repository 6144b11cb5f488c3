"""Depthwise convolution and its two gradients against plain NumPy in float64."""

import numpy
import pytest

from flambeau.compiler import depthwise, jit, llvm
from flambeau.compiler import target as targets
from flambeau.compiler.conv import Convolution
from flambeau.ir.loops_verify import verify
from flambeau.types.dtype import bfloat16, float16, float32, float64
from tests.compiler.kernels import runnable_targets
from tests.compiler.native import assert_round_trip, run_both, run_native
from tests.compiler.test_conv import make, reference
from tests.compiler.test_conv_weight import run_on

SMALL = [(Convolution((3, 3), (1, 1), (1, 1), groups=3, bias=True), (2, 3, 5, 6), 3),
         (Convolution((2, 3), (2, 2), (1, 0), (1, 2), groups=2), (1, 2, 7, 9), 4),
         (Convolution((3, 2), (1, 3), (0, 2), groups=2), (1, 2, 4, 21), 2)]
LARGE = [(Convolution((3, 3), (1, 1), (1, 1), groups=3, bias=True), (2, 3, 17, 33), 3),
         (Convolution((3, 3), (2, 2), (1, 1), groups=3, bias=True), (2, 3, 31, 63), 6),
         (Convolution((3, 3), (1, 1), (1, 1), groups=5), (2, 5, 1, 1), 5),
         (Convolution((3, 3), (1, 1), (1, 1), (2, 2), groups=4), (1, 4, 19, 40), 4),
         (Convolution((5, 5), (2, 1), (2, 2), groups=2), (1, 2, 20, 21), 6),
         (Convolution((2, 3), (3, 3), (0, 2), (1, 2), groups=2), (1, 2, 17, 43), 6),
         (Convolution((7, 7), (1, 1), (3, 3), groups=2), (1, 2, 127, 65), 2),
         (Convolution((1, 9), (1, 2), (0, 4), groups=2), (1, 2, 1, 900), 2),
         (Convolution((1, 3), (1, 1), (0, 1), groups=2), (1, 2, 1, 17000), 2),
         (Convolution((4, 4), (2, 2), (5, 5), groups=2), (1, 2, 6, 6), 2),  # windows that see only padding
         (Convolution((1, 1), (2, 2), groups=3), (1, 3, 6, 7), 3),              # places that no window sees
         (Convolution((1, 3), (1, 4), groups=3), (1, 3, 1, 70), 3),
         (Convolution((3, 3), (2, 2), (1, 1), groups=3, bias=True, dtype=float64), (2, 3, 7, 257), 3)]

RESULTS = "output", "grad_input", "grad_weight"


def products(spec, arrays, params, run=run_native, target=None):
    """output, grad_input and grad_weight."""
    arrays = {name: array.copy() if name in RESULTS else array for name, array in arrays.items()}
    arrays["partial"] = numpy.full((params["N"], *arrays["weight"].shape), numpy.nan, spec.accumulator.numpy)
    for kernel in (depthwise.depthwise_forward(spec, target=target),
                   depthwise.depthwise_backward_data(spec, target=target),
                   depthwise.depthwise_weight_sums(spec, target=target),
                   depthwise.depthwise_weight_fold(spec)):
        arrays = run(kernel, arrays, params)
    return {name: arrays[name] for name in RESULTS}


def check(run, spec, shape, outputs, tolerance):
    arrays, params = make(spec, shape, outputs)
    want = reference(spec, arrays, None)
    for name, got in products(spec, arrays, params, run).items():
        large = 30 if name == "grad_weight" else 1
        numpy.testing.assert_allclose(got, want[name], rtol=tolerance, atol=large * tolerance, err_msg=name)


@pytest.mark.parametrize("spec, shape, outputs", SMALL, ids=str)
def test_native_is_interpreted(spec, shape, outputs):
    check(run_both, spec, shape, outputs, 1e-4)


@pytest.mark.parametrize("spec, shape, outputs", LARGE, ids=str)
def test_against_numpy(spec, shape, outputs):
    check(run_native, spec, shape, outputs, 1e-4 if spec.dtype is float32 else 1e-12)


def test_half_precision_accumulates_in_float32():
    spec = Convolution((3, 3), (1, 1), (1, 1), groups=4, bias=True, dtype=float16)
    check(run_native, spec, (2, 4, 9, 19), 8, 1e-2)


@pytest.mark.parametrize("spec, shape, outputs", [LARGE[0], LARGE[1], LARGE[-1]], ids=str)
def test_same_bits_on_every_processor_and_in_any_pieces(spec, shape, outputs):
    arrays, params = make(spec, shape, outputs)
    results = [products(spec, arrays, params, target=target, run=lambda kernel, given, sizes:
                        run_on(target, kernel, given, sizes)) for target in runnable_targets()]
    results.append(products(spec, arrays, params))
    for name in results[0]:
        assert len({result[name].tobytes() for result in results}) == 1, name


def test_infinity_stays_in_its_windows():
    """Also at the end of a row, where vectors reach beyond it."""
    spec, shape, outputs = LARGE[0]
    arrays, params = make(spec, shape, outputs)
    arrays["input"][0, 1, 8, 32] = numpy.inf
    arrays["grad_output"][1, 2, 8, 32] = numpy.inf
    want = reference(spec, arrays, None)
    for name, got in products(spec, arrays, params).items():
        inside = numpy.isfinite(want[name]) if name != "grad_weight" else numpy.ones_like(got, bool)
        if name == "grad_weight":           # the last column meets no gradient through the left taps
            inside[1, :, 1:, :], inside[1, :, 0, 1:] = False, False
            inside[1, :, :, 0], inside[2] = True, False
        assert numpy.isfinite(got[inside]).all(), name
        assert not numpy.isfinite(got[~inside]).all(), name


def test_nothing_outside_is_read():
    spec, shape, outputs = LARGE[1]
    arrays, params = make(spec, shape, outputs)
    want = products(spec, arrays, params)
    for name in ("input", "grad_output", "weight"):
        around = numpy.full(arrays[name].size + 2000, numpy.nan, "f4")
        around[1000:-1000] = arrays[name].ravel()
        arrays[name] = around[1000:-1000].reshape(arrays[name].shape)
    got = products(spec, arrays, params)
    assert all((got[name] == want[name]).all() for name in want)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_text_compiles(name):
    target = targets.by_name(name)
    spec = Convolution((3, 3), (2, 2), (1, 1), groups=4, bias=True, dtype=bfloat16)
    for make_kernel in (depthwise.depthwise_forward, depthwise.depthwise_backward_data,
                        depthwise.depthwise_weight_sums):
        kernel = make_kernel(spec, target=target)
        assert jit.compile_text(llvm.emit(verify(kernel), target), target)
        assert_round_trip(kernel)
