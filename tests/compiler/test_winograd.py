"""Convolutions of 3 x 3 windows by Winograd's algorithm, and their gradients, against plain NumPy in float64."""

import functools

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import conv_winograd, conv_winograd_weight, jit, known_plans, llvm, pipeline
from flambeau.compiler import target as targets
from flambeau.compiler.conv import Convolution, Winograd
from flambeau.ir import loops_interpret
from flambeau.ir.loops_verify import verify
from flambeau.types.dtype import bfloat16, float16, float32, float64
from tests.compiler.kernels import runnable_targets
from tests.compiler.native import assert_round_trip, run_interpreted
from tests.compiler.test_conv import make, reference, run_loaded

PLAIN = Convolution((3, 3), (1, 1), (1, 1), bias=True)
CASES = [(PLAIN, (2, 20, 14, 14), 24),
         (Convolution((3, 3)), (1, 3, 7, 5), 5),
         (PLAIN, (3, 70, 4, 4), 66),                                            # blocks of channels, images in a tile
         (Convolution((3, 3), padding=(2, 2)), (2, 5, 1, 9), 5),
         (PLAIN, (17, 33, 3, 3), 130),
         (Convolution((3, 3), padding=(1, 2), bias=True), (1, 16, 40, 300), 16),        # parts of a row
         (Convolution((3, 3), padding=(1, 1), groups=2), (2, 12, 9, 6), 10),
         (Convolution((3, 3), padding=(4, 0)), (1, 2, 3, 5), 3),                # windows that see nothing but padding
         (PLAIN, (70, 3, 2, 2), 20),
         (Convolution((3, 3), padding=(1, 1), groups=2, dtype=float64), (2, 64, 9, 9), 96)]
RESULTS = ("output", "grad_input", "grad_weight")
winograd_of = functools.cache(lambda spec, backward, target=None: Winograd.make(spec, backward, target=target))


@functools.cache
def weight_of(spec, target=None):
    shape = conv_winograd_weight.weight_shape(spec.accumulator, target)
    return shape, *conv_winograd_weight.weight_kernels(shape, spec)


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Take small sizes too."""
    monkeypatch.setattr(conv_winograd, "worth", lambda *sizes: 1)


def compute(result, spec, arrays, params, run=run_loaded, target=None, **cut):
    """One of RESULTS; `cut` overrides sizes of tiles."""
    like = {"output": "grad_output", "grad_input": "input", "grad_weight": "weight"}[result]
    out = numpy.full_like(arrays[like], 77)
    room = functools.partial(numpy.full, fill_value=numpy.nan, dtype=spec.accumulator.numpy)
    if result == "grad_weight":
        shape, *kernels = weight_of(spec, target)
        sizes = {**params, "C": params["C"] // spec.groups, "K": params["K"] // spec.groups, "D": 1, "OD": 1}
        sizes |= conv_winograd_weight.plan_sizes(shape, spec.groups, *(sizes[n] for n in ("N", "C", "K", "OH", "OW")))
        sizes |= cut
        buffers = {"source": arrays["input"], "gradient": arrays["grad_output"], "result": out,
                   "partial": room(conv_winograd_weight.partial_size(shape, spec.groups, sizes["C"], sizes))}
        for kernel in kernels:
            buffers = run(kernel, buffers, sizes)
        return buffers["result"]
    made = winograd_of(spec, result == "grad_input", target)
    sizes = {**made.params(**params), **cut}
    weights = {"weight": arrays["weight"], "packed": room(made.packed_size(sizes))}
    buffers = {"source": arrays["grad_output" if made.backward else "input"], "weight": arrays["weight"],
               "weights": run(made.pack, weights, sizes)["packed"], "bias": arrays["bias"], "result": out}
    return run(made.kernel, buffers, sizes)["result"]


def check(spec, shape, outputs, tolerance, run=run_loaded):
    arrays, params = make(spec, shape, outputs)
    expected = reference(spec, arrays, None)
    for result in RESULTS:
        got = compute(result, spec, arrays, params, run)
        scale = abs(expected[result]).max()
        numpy.testing.assert_allclose(got, expected[result], tolerance, tolerance * scale, err_msg=result)


@pytest.mark.parametrize("spec, shape, outputs", CASES, ids=str)
def test_against_numpy(spec, shape, outputs):
    check(spec, shape, outputs, 2e-6 if spec.dtype is float32 else 1e-14)


@pytest.mark.parametrize("spec, shape, outputs", [CASES[1], CASES[6]], ids=str)
def test_native_is_interpreted(spec, shape, outputs):
    spec, shape = Convolution(spec.kernel, padding=spec.padding, groups=spec.groups), (1, 2 * spec.groups, 3, 5)
    check(spec, shape, 2 * spec.groups, 1e-5, run_interpreted_too)


def run_interpreted_too(kernel, arrays, sizes):
    """Natively; what the interpreter gives has the same bits, but for the room beside the partial sums."""
    native = run_loaded(kernel, {name: array.copy() for name, array in arrays.items()}, sizes)
    expected = run_interpreted(kernel, {name: array.copy() for name, array in arrays.items()}, sizes, pieces=3)
    for name in {"packed", "result"} & set(arrays):
        numpy.testing.assert_array_equal(native[name], expected[name], err_msg=f"{kernel.name}: {name}")
    return native


def test_every_odd_size():
    """Sizes of each axis in turn, past the borders of lanes, register blocks, blocks of channels and tiles."""
    for odd in (1, 2, 3, 5, 7, 17, 31, 33, 63, 65, 127, 255, 257):
        for shape, outputs in (((1, odd, 3, 4), 5), ((1, 3, 3, 4), odd), ((1, 2, odd, 3), 3),
                               ((1, 2, 3, odd), 17), ((odd, 2, 2, 3), 2)):
            check(PLAIN, shape, outputs, 1e-5)


@pytest.mark.parametrize("spread", [2, 6])
def test_mixed_magnitudes(spread):
    """Errors are small beside the largest result and, unless magnitudes differ wildly, beside the sum of the
    absolute products of each."""
    spec = Convolution((3, 3), padding=(1, 1))
    arrays, params = make(spec, (2, 64, 9, 9), 36)
    random = numpy.random.default_rng(1)
    for name in ("input", "weight", "grad_output"):
        arrays[name] *= 10.0 ** random.uniform(-spread, spread, arrays[name].shape)
    expected = reference(spec, arrays, None)
    around = reference(spec, {name: abs(array) for name, array in arrays.items()}, None)
    for result in RESULTS:
        error = abs(compute(result, spec, arrays, params) - expected[result])
        assert error.max() <= 1e-6 * abs(expected[result]).max(), result
        assert spread > 2 or (error <= 5e-6 * around[result]).all(), (result, (error / around[result]).max())


@pytest.mark.parametrize("dtype, tolerance", [(float16, 2e-3), (bfloat16, 2e-2)], ids=str)
def test_half_precision_accumulates_in_float32(dtype, tolerance):
    wide = Convolution((3, 3), padding=(1, 1))
    arrays, params = make(wide, (2, 40, 6, 5), 20)
    spec = Convolution((3, 3), padding=(1, 1), dtype=dtype)
    if dtype is float16:
        arrays = {name: array.astype("f2") for name, array in arrays.items()}
        exact, value = arrays, lambda array: array
    else:
        arrays = {name: (array.view("u4") >> 16).astype("u2") for name, array in arrays.items()}
        value = lambda array: (array.astype("u4") << 16).view("f4")
        exact = {name: value(array) for name, array in arrays.items()}
    expected = reference(wide, exact, None)
    for result in RESULTS:
        got = value(compute(result, spec, arrays, params))
        numpy.testing.assert_allclose(got, expected[result], tolerance, tolerance * abs(expected[result]).max())


@pytest.mark.parametrize("result", RESULTS)
def test_bits_depend_on_sizes_alone(result):
    """The same bits from every processor's kernel, and however the result is cut into tiles."""
    spec = Convolution((3, 3), padding=(1, 1))
    arrays, params = make(spec, (3, 70, 9, 11), 40)
    expected = compute(result, spec, arrays, params)
    if result != "grad_weight":
        blocks = -(-winograd_of(spec, result == "grad_input").params(**params)["K"] // 32)
        for cut in ({"tile_rows": 1}, {"tile_rows": 2, "tile_blocks": 1, "block_tiles": 2 * blocks},
                    {"tile_columns": 2, "column_tiles": 3, "tile_rows": 1}):
            numpy.testing.assert_array_equal(compute(result, spec, arrays, params, **cut), expected, str(cut))
    for target in runnable_targets()[1:]:
        if target.has("fma"):           # without it the kernels take seconds to compile
            def on_target(kernel, buffers, sizes):
                call, extent = jit.callable_kernel(verify(kernel), target), loops_interpret.extent(kernel, sizes)
                for step in reversed(range(extent)):
                    call([buffers[b.name].ctypes.data for b in kernel.buffers], [sizes[p] for p in kernel.params],
                         step, step + 1)
                return buffers
            got = compute(result, spec, arrays, params, on_target, target)
            numpy.testing.assert_array_equal(got, expected, err_msg=target.name)


@pytest.mark.parametrize("value", [numpy.nan, numpy.inf, -numpy.inf, 5e37])
def test_what_is_not_finite_is_as_in_plain_arithmetic(value):
    """A bad pixel touches only what sees it, and infinity stays infinity."""
    spec, shape, outputs = Convolution((3, 3), padding=(1, 1)), (1, 33, 17, 17), 20
    arrays, params = make(spec, shape, outputs)
    good = {result: compute(result, spec, arrays, params) for result in RESULTS}
    arrays["input"][0, 1, 8, 7] = value
    arrays["grad_output"][0, 1, 4, 3] = value
    with numpy.errstate(all="ignore"):
        expected = {result: array.astype("f4") for result, array in reference(spec, arrays, None).items()}
    touched = numpy.zeros((17, 17), bool)
    touched[7:10, 6:9] = True
    for result, seen in (("output", touched), ("grad_input", numpy.roll(touched, (-4, -4), (0, 1)))):
        got = compute(result, spec, arrays, params)
        assert (got[..., ~seen] == good[result][..., ~seen]).all()
        numpy.testing.assert_allclose(got[..., seen], expected[result][..., seen], rtol=1e-4)
    got = compute("grad_weight", spec, arrays, params)
    apart = numpy.ones((outputs, 33), bool)
    apart[1], apart[:, 1] = False, False
    assert (got[apart] == good["grad_weight"][apart]).all()
    numpy.testing.assert_allclose(got[~apart], expected["grad_weight"][~apart], rtol=1e-4)


def test_nan_weights_make_their_output_nan():
    spec = Convolution((3, 3), padding=(1, 1))
    arrays, params = make(spec, (1, 8, 5, 6), 7)
    good = compute("output", spec, arrays, params)
    arrays["weight"][3, 2, 1, 1] = numpy.nan
    got = compute("output", spec, arrays, params)
    assert numpy.isnan(got[:, 3]).all() and (numpy.delete(got, 3, 1) == numpy.delete(good, 3, 1)).all()


@pytest.mark.parametrize("result", RESULTS)
def test_nothing_outside_is_read(result):
    """NaN around the tensors (the interpreter checks bounds; this checks the native masks' values)."""
    spec = Convolution((3, 3), padding=(1, 1))
    arrays, params = make(spec, (2, 19, 7, 9), 21)
    expected = compute(result, spec, arrays, params)
    for name in ("input", "grad_output", "weight"):
        around = numpy.full(arrays[name].size + 2000, numpy.nan, "f4")
        around[1000:-1000] = arrays[name].ravel()
        arrays[name] = around[1000:-1000].reshape(arrays[name].shape)
    assert (compute(result, spec, arrays, params) == expected).all()


def test_long_sums_of_the_weight_stay_accurate():
    """Sums of many positive numbers: an error far below that of adding one after the other."""
    spec = Convolution((3, 3))
    arrays, params = make(spec, (8, 1, 66, 66), 1)
    arrays["input"], arrays["grad_output"] = (numpy.abs(arrays[n]) + 1 for n in ("input", "grad_output"))
    want = reference(spec, arrays, None)["grad_weight"]
    numpy.testing.assert_allclose(compute("grad_weight", spec, arrays, params), want, rtol=2e-6)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_text_compiles_for(name):
    target = targets.by_name(name)
    made = winograd_of(Convolution((3, 3), padding=(1, 1), bias=True, dtype=bfloat16), name == "avx2", target)
    for kernel in (made.pack, made.kernel, *weight_of(Convolution((3, 3), padding=(1, 1)), target)[1:]):
        assert_round_trip(kernel)
        if name != "generic":
            assert jit.compile_text(llvm.emit(verify(kernel), target), target)


# ---------------------------------------------------------------------------------------------- inside of programs
SIZES = [((8, 64, 16, 16), 64, True), ((1, 3, 64, 64), 64, False), ((1, 64, 5, 5), 64, False), ((64, 64, 7, 7), 48, True),
         ((64, 32, 1, 8), 32, False), ((9, 15, 32, 32), 64, False), ((2, 512, 2, 2), 512, False), ((32, 16, 32, 32), 16, True),
         ((4, 16, 32, 32), 16, False), ((900, 64, 3, 3), 64, False)]


@pytest.mark.parametrize("shape, outputs, taken", SIZES, ids=str)
def test_where_it_is_taken(shape, outputs, taken, monkeypatch):
    monkeypatch.undo()
    n, c, h, w = shape
    params = winograd_of(PLAIN, False).params(n, c, h, w, outputs, h, w)
    assert params["taken"] == taken and params["N"] == n * taken


def test_programs_of_any_size_compute_the_same_as_numpy(monkeypatch):
    """One plan for small sizes, which go directly, and for large ones; with a bias, an activation and gradients."""
    monkeypatch.undo()
    random = numpy.random.default_rng(0)
    for shape, outputs, _ in (*SIZES, *SIZES[:2]):
        x = fl.tensor(random.normal(size=shape).astype("f4"), requires_grad=True)
        layer = fl.nn.Conv2d(shape[1], outputs, 3, padding=1)
        y = layer(x).relu()
        g = fl.tensor(random.normal(size=y.shape).astype("f4"))
        y.backward(g)
        arrays = {"input": x.detach().numpy(), "weight": layer.weight.detach().numpy(),
                  "bias": layer.bias.detach().numpy(), "grad_output": (g * (y > 0)).numpy()}
        expected = reference(PLAIN, arrays, None)
        expected["output"] = numpy.maximum(expected["output"], 0)
        for name, got in (("output", y.detach()), ("grad_input", x.grad), ("grad_weight", layer.weight.grad)):
            scale = abs(expected[name]).max()
            numpy.testing.assert_allclose(got.numpy(), expected[name], 1e-5, 2e-5 * scale, err_msg=f"{name} {shape}")


def test_only_the_kernels_of_one_way_are_built(monkeypatch):
    monkeypatch.undo()
    made, real = [], pipeline.build_kernel
    monkeypatch.setattr(pipeline, "build_kernel", lambda kernel: (made.append(kernel.name), real(kernel))[1])
    monkeypatch.setattr(known_plans, "find", lambda *given: (None, False))
    for channels, wanted in ((2, {"conv_weights", "conv2d"}), (64, {"winograd_weights", "conv2d_winograd"})):
        x, w = fl.zeros(8, channels, 17, 16, dtype=fl.float64), fl.zeros(channels, channels, 3, 3, dtype=fl.float64)
        made.clear()
        fl.nn.functional.conv2d(x, w, padding=(1, 0))
        assert set(made) == wanted
