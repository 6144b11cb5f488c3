"""The gradient of a convolution's weight against plain NumPy in float64."""

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import conv_weight, jit, llvm
from flambeau.compiler import target as targets
from flambeau.compiler.conv import Convolution
from flambeau.ir import loops_interpret
from flambeau.ir.loops_verify import verify
from flambeau.types.dtype import bfloat16, float16, float32, float64
from tests.compiler.kernels import runnable_targets
from tests.compiler.native import assert_round_trip, run_both, run_native
from tests.compiler.test_conv import make, reference

SMALL = [(Convolution((3, 3), (1, 1), (1, 1)), (1, 2, 4, 5), 3),
         (Convolution((1, 1)), (2, 3, 4, 4), 17),
         (Convolution((2, 3), (2, 1), (1, 0), (1, 2), 2), (1, 4, 5, 7), 2),
         (Convolution((1, 3), (1, 2), (0, 1)), (1, 2, 1, 9), 2)]
LARGE = [(Convolution((3, 3), (1, 1), (1, 1)), (2, 20, 14, 14), 24),
         (Convolution((5, 5), (1, 1), (2, 2)), (1, 1, 28, 28), 40),
         (Convolution((5, 5)), (3, 3, 12, 12), 6),
         (Convolution((3, 3), (2, 2), (1, 1)), (3, 16, 15, 17), 33),
         (Convolution((7, 7), (2, 2), (3, 3)), (1, 3, 40, 150), 16),
         (Convolution((1, 13), (1, 1), (0, 3)), (2, 3, 1, 300), 5),
         (Convolution((1, 3), (1, 1), (0, 1)), (1, 2, 1, 4500), 3),
         (Convolution((3, 2), (3, 2), (2, 1), (2, 3), 4), (2, 8, 19, 23), 12),
         (Convolution((3, 3), (1, 1), (2, 2), (2, 2)), (2, 40, 7, 7), 9),
         (Convolution((4, 4), (2, 2), (5, 5)), (1, 3, 6, 6), 4),      # windows that see nothing but padding
         (Convolution((1, 1), (2, 2)), (2, 70, 10, 10), 140),
         (Convolution((3, 3), (1, 1), (1, 1)), (17, 130, 4, 4), 65),
         (Convolution((16, 16), (16, 16)), (2, 3, 64, 150), 20),
         (Convolution((3, 3), (1, 1), (1, 1), dtype=float64), (2, 5, 17, 63), 9)]


def weight_gradient(spec, arrays, params, run=run_native, target=None):
    sizes = dict(params, **conv_weight.plan_sizes(spec, params, target))
    size = conv_weight.partial_size(spec, params, sizes, target)
    arrays = dict(arrays, partial=numpy.full(size, numpy.nan, spec.accumulator.numpy))
    arrays = run(conv_weight.weight_gradient_sums(spec, target=target), arrays, sizes)
    return run(conv_weight.weight_gradient_fold(spec, target=target), arrays, sizes)["grad_weight"]


def check(run, spec, shape, outputs, tolerance):
    arrays, params = make(spec, shape, outputs)
    want = reference(spec, arrays, None)["grad_weight"]
    got = weight_gradient(spec, arrays, params, run)
    numpy.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("spec, shape, outputs", SMALL, ids=str)
def test_native_is_interpreted(spec, shape, outputs):
    check(run_both, spec, shape, outputs, 1e-4)


@pytest.mark.parametrize("spec, shape, outputs", LARGE, ids=str)
def test_against_numpy(spec, shape, outputs):
    check(run_native, spec, shape, outputs, 2e-4 if spec.dtype is float32 else 1e-11)


def test_half_precision_accumulates_in_float32():
    check(run_native, Convolution((3, 3), padding=(1, 1), dtype=float16), (1, 8, 6, 6), 5, 2e-2)


def test_long_sums_stay_accurate():
    """Sums of many positive numbers: an error far below that of adding one after the other."""
    spec = Convolution((1, 1))
    arrays, params = make(spec, (8, 1, 64, 64), 1)
    arrays["input"], arrays["grad_output"] = (numpy.abs(arrays[n]) + 1 for n in ("input", "grad_output"))
    want = reference(spec, arrays, None)["grad_weight"]
    numpy.testing.assert_allclose(weight_gradient(spec, arrays, params), want, rtol=1e-6)


@pytest.mark.parametrize("spec, shape, outputs", [LARGE[0], LARGE[3], LARGE[-1]], ids=str)
def test_same_bits_on_every_processor_and_in_any_pieces(spec, shape, outputs):
    arrays, params = make(spec, shape, outputs)
    results = [weight_gradient(spec, arrays, params, target=target, run=lambda kernel, given, sizes:
                               run_on(target, kernel, given, sizes)) for target in runnable_targets()]
    results.append(weight_gradient(spec, arrays, params))
    assert len({result.tobytes() for result in results}) == 1


def run_on(target, kernel, arrays, params):
    """One step of the extent after the other, the last first, with code for `target`."""
    call = jit.callable_kernel(verify(kernel), target)
    addresses = [arrays[b.name].ctypes.data for b in kernel.buffers]
    for step in reversed(range(loops_interpret.extent(kernel, params))):
        call(addresses, [params[p] for p in kernel.params], step, step + 1)
    return arrays


def test_infinity_stays_with_its_channel():
    spec, shape, outputs = LARGE[0]
    arrays, params = make(spec, shape, outputs)
    clean = weight_gradient(spec, arrays, params)
    arrays["input"][0, 3, 5, 5], arrays["grad_output"][1, 2] = numpy.inf, numpy.nan
    got = weight_gradient(spec, arrays, params)
    assert not numpy.isfinite(got[:, 3]).any() and numpy.isnan(got[2]).all()
    kept = [[k, c] for k in range(outputs) for c in range(shape[1]) if k != 2 and c != 3]
    assert all((got[k, c] == clean[k, c]).all() for k, c in kept)


def test_nothing_outside_is_read():
    spec, shape, outputs = LARGE[3]
    arrays, params = make(spec, shape, outputs)
    want = weight_gradient(spec, arrays, params)
    for name in ("input", "grad_output"):
        around = numpy.full(arrays[name].size + 2000, numpy.nan, "f4")
        around[1000:-1000] = arrays[name].ravel()
        arrays[name] = around[1000:-1000].reshape(arrays[name].shape)
    assert (weight_gradient(spec, arrays, params) == want).all()


def test_empty_batch_gives_a_zero_gradient():
    spec = Convolution((3, 3))
    arrays, params = make(spec, (0, 2, 5, 5), 4)
    assert (weight_gradient(spec, arrays, params) == 0).all()


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_one_plan_serves_all_sizes(kernel):
    """Programs, in memory that held something before; an empty batch too."""
    for shape, outputs in (((2, 4, 20, 20), 3), ((0, 4, 20, 20), 3), ((5, 130, 7, 9), 70), ((1, 1, 5, 5), 1)):
        spec = Convolution((kernel, kernel))
        arrays, _ = make(spec, shape, outputs)
        fl.full((outputs, shape[1], kernel, kernel), 7.0)      # leaves its memory to the gradient
        x, w, g = (fl.tensor(arrays[n]) for n in ("input", "weight", "grad_output"))
        w.requires_grad_()
        fl.nn.functional.conv2d(x, w).backward(g)
        want = reference(spec, arrays, None)["grad_weight"]
        numpy.testing.assert_allclose(w.grad.numpy(), want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_text_compiles(name):
    target = targets.by_name(name)
    spec = Convolution((3, 3), (1, 1), (1, 1), dtype=bfloat16)
    for make_kernel in (conv_weight.weight_gradient_sums, conv_weight.weight_gradient_fold):
        kernel = make_kernel(spec, target=target)
        assert jit.compile_text(llvm.emit(verify(kernel), target), target)
        assert_round_trip(kernel)
