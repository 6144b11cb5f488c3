"""Convolution and the gradient of its input against plain NumPy."""

import functools

import numpy
import pytest

from flambeau.compiler import jit, llvm, objects
from flambeau.compiler import target as targets
from flambeau.compiler.conv import PARAMS, Convolution, conv2d_backward_data, conv2d_forward
from flambeau.compiler.conv_schedule import backward_axis
from flambeau.ir import loops_interpret
from flambeau.ir.loops_verify import verify
from flambeau.runtime import _core
from flambeau.types.dtype import bfloat16, float16, float32, float64
from tests.compiler.kernels import runnable_targets
from tests.compiler.native import assert_round_trip, run_both

SMALL = [(Convolution((3, 3), (1, 1), (1, 1), bias=True), (1, 2, 4, 5), 3),
         (Convolution((1, 1)), (2, 3, 4, 4), 2),
         (Convolution((2, 3), (2, 1), (1, 0), (1, 2), 2), (1, 4, 5, 7), 2),
         (Convolution((1, 3), (1, 2), (0, 1)), (1, 2, 1, 9), 2)]
LARGE = [(Convolution((3, 3), (1, 1), (1, 1), bias=True), (2, 20, 14, 14), 24),
         (Convolution((5, 5), (1, 1), (2, 2)), (1, 1, 28, 28), 40),
         (Convolution((3, 3), (2, 2), (1, 1), bias=True), (3, 16, 15, 17), 33),
         (Convolution((7, 7), (2, 2), (3, 3)), (1, 3, 40, 40), 16),
         (Convolution((3, 2), (3, 2), (2, 1), (2, 3), 4), (2, 8, 19, 23), 12),
         (Convolution((3, 3), (1, 1), (0, 0), groups=6), (2, 6, 9, 9), 6),
         (Convolution((3, 3), (1, 1), (2, 2), (2, 2)), (2, 40, 7, 7), 9),
         (Convolution((4, 4), (2, 2), (5, 5)), (1, 3, 6, 6), 4),      # windows that see nothing but padding
         (Convolution((1, 1), (2, 2)), (2, 70, 10, 10), 140),
         (Convolution((1, 1), groups=2), (2, 260, 17, 31), 66),       # one long row, blocks of channels
         (Convolution((1, 5), (1, 1), (0, 2)), (1, 7, 1, 1000), 31),          # parts of a row
         (Convolution((3, 3), (3, 4), (2, 1), (2, 1)), (1, 5, 31, 33), 17),   # three and four classes
         (Convolution((3, 3), (1, 1), (4, 4), bias=True), (1, 3, 2, 1), 1),   # more padding than window
         (Convolution((2, 2), (5, 5)), (1, 3, 17, 17), 2),                    # places that no window sees
         (Convolution((9, 9), (1, 1), (16, 16), (4, 4)), (1, 2, 33, 33), 3),
         (Convolution((3, 3), (2, 1), (9, 11), (9, 11)), (1, 5, 31, 33), 18),         # only the rows of taps
         (Convolution((2, 2), (1, 2), (200, 200), (1000, 300)), (1, 2, 700, 35), 3),
         (Convolution((3, 3), (1, 1), (1, 1), bias=True, dtype=float64), (2, 5, 8, 8), 6),
         (Convolution((3, 3), (1, 1), (1, 1)), (5, 260, 3, 5), 270),      # images in a tile, packing inside
         (Convolution((3, 3), (2, 2), (1, 1)), (50, 30, 4, 3), 70)]       # images in several tiles


def make(spec, shape, outputs, seed=0):
    """(arrays of all three products, params)"""
    random = numpy.random.default_rng(seed)
    size = spec.output_size(*shape[2:])
    params = dict(zip(PARAMS, (*shape, outputs, *size)))
    shapes = {"input": shape, "weight": (outputs, shape[1] // spec.groups, *spec.kernel), "bias": (outputs,),
              "grad_output": (shape[0], outputs, *size)}
    arrays = {name: random.normal(size=s).astype(spec.dtype.numpy) for name, s in shapes.items()}
    for result, like in (("output", "grad_output"), ("grad_input", "input"), ("grad_weight", "weight")):
        arrays[result] = numpy.full_like(arrays[like], numpy.nan)
    return arrays, params


def taps(spec, padded, size):
    """(r, s, the input that tap (r, s) sees, as a view)"""
    for r in range(spec.kernel[0]):
        for s in range(spec.kernel[1]):
            rows, columns = (slice(t * d, t * d + (n - 1) * k + 1, k) for t, d, n, k in
                             zip((r, s), spec.dilation, size, spec.stride))
            yield r, s, padded[:, :, rows, columns]


def reference(spec, arrays, products):
    """The three products in float64."""
    x, weight, grad = (arrays[n].astype("f8") for n in ("input", "weight", "grad_output"))
    (top, left), size, groups = spec.padding, grad.shape[2:], spec.groups
    padded = numpy.pad(x, ((0, 0), (0, 0), (top, top), (left, left)))
    inputs, outputs = x.shape[1] // groups, weight.shape[0] // groups
    output, grad_padded, grad_weight = map(numpy.zeros, (grad.shape, padded.shape, weight.shape))
    backward = {(r, s): view for r, s, view in taps(spec, grad_padded, size)}
    for r, s, seen in taps(spec, padded, size):
        for g in range(groups):
            i, o = slice(g * inputs, (g + 1) * inputs), slice(g * outputs, (g + 1) * outputs)
            output[:, o] += numpy.einsum("nchw,kc->nkhw", seen[:, i], weight[o, :, r, s])
            backward[r, s][:, i] += numpy.einsum("nkhw,kc->nchw", grad[:, o], weight[o, :, r, s])
            grad_weight[o, :, r, s] = numpy.einsum("nchw,nkhw->kc", seen[:, i], grad[:, o])
    if spec.bias:
        output += arrays["bias"][:, None, None]
    height, width = x.shape[2:]
    return {"output": output, "grad_input": grad_padded[:, :, top:top + height, left:left + width],
            "grad_weight": grad_weight}


PRODUCTS = {"output": conv2d_forward, "grad_input": conv2d_backward_data}
address_of = functools.cache(lambda kernel: objects.load_kernel(verify(kernel))[0])
direct_of = functools.cache(lambda result, spec: PRODUCTS[result](spec))


def run_loaded(kernel, arrays, sizes):
    """As run_native, but a kernel is verified and loaded once."""
    arguments = [arrays[b.name].ctypes.data for b in kernel.buffers] + [sizes[p] for p in kernel.params]
    assert all(arrays[b.name].dtype == b.dtype.numpy for b in kernel.buffers)
    _core.call_kernel(address_of(kernel), arguments, loops_interpret.extent(kernel, sizes), 1)
    return arrays


def run(direct, arrays, params, runner=run_loaded, **schedule):
    """The result of both kernels of `direct`; `schedule` overrides its sizes."""
    sizes = {**direct.params(**params), **schedule}
    backward, dtype = direct.backward, direct.spec.accumulator.numpy
    buffers = {"weight": arrays["weight"], "packed": numpy.full(direct.packed_size(sizes), numpy.nan, dtype)}
    packed = buffers["packed"] if sizes["inside"] else runner(direct.pack, buffers, sizes)["packed"]
    result = arrays["grad_input" if backward else "output"]
    buffers = {"source": arrays["grad_output" if backward else "input"], "weight": arrays["weight"],
               "weights": packed, "bias": arrays["bias"],
               "result": numpy.full(result.shape, 77, result.dtype)}
    return runner(direct.kernel, buffers, sizes)["result"]


def check(runner, spec, shape, outputs, tolerance=1e-3):
    arrays, params = make(spec, shape, outputs)
    expected = reference(spec, arrays, PRODUCTS)
    for result in PRODUCTS:
        got = run(direct_of(result, spec), arrays, params, runner)
        numpy.testing.assert_allclose(got, expected[result], rtol=tolerance, atol=tolerance, err_msg=result)


@pytest.mark.parametrize("spec, shape, outputs", SMALL, ids=str)
def test_native_is_interpreted(spec, shape, outputs):
    check(run_both, spec, shape, outputs)


@pytest.mark.parametrize("spec, shape, outputs", LARGE, ids=str)
def test_against_numpy(spec, shape, outputs):
    check(run_loaded, spec, shape, outputs, 1e-4 if spec.dtype is float32 else 1e-12)


def test_every_odd_size():
    """Sizes of each axis in turn, past the borders of lanes, register blocks and blocks of channels."""
    spec = Convolution((3, 3), (1, 1), (1, 1), bias=True)
    for odd in (1, 2, 3, 5, 7, 17, 31, 33, 63, 65, 127, 255, 257):
        for shape, outputs in (((1, odd, 3, 4), 5), ((1, 3, 3, 4), odd), ((1, 2, odd, 3), 3),
                               ((1, 2, 3, odd), 17), ((odd, 2, 2, 3), 2)):
            check(run_loaded, spec, shape, outputs, 1e-4)


VOLUMES = [(Convolution((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), bias=True), (2, 3, 5, 6, 7), 5),
           (Convolution((2, 3, 1), (2, 1, 3), (1, 0, 2), (3, 1, 1), 2), (1, 4, 7, 5, 8), 34),
           (Convolution((4, 2, 2), (3, 2, 2), (2, 1, 0), (1, 2, 1)), (1, 20, 9, 6, 5), 33),
           (Convolution((1, 1, 2), (1, 1, 3), (0, 1, 2), (1, 2, 1)), (2, 3, 7, 1, 2), 5),
           (Convolution((1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1)), (2, 5, 3, 4, 5), 18)]


@pytest.mark.parametrize("spec, shape, outputs", VOLUMES, ids=str)
def test_three_axes(spec, shape, outputs):
    """Against windows in float64; the gradient is the one for which <output, g> = <input, gradient>."""
    random = numpy.random.default_rng(0)
    size = spec.output_size(*shape[2:])
    x, g, bias = (random.normal(size=s).astype("f4") for s in (shape, (shape[0], outputs, *size), outputs))
    weight = random.normal(size=(outputs, shape[1] // spec.groups, *spec.kernel)).astype("f4")
    params = dict(zip(("N", "C", "D", "H", "W"), shape), K=outputs, **dict(zip(("OD", "OH", "OW"), size)))
    arrays = {"input": x, "weight": weight, "bias": bias, "grad_output": g, "output": g, "grad_input": x}
    padded = numpy.pad(x.astype("f8"), ((0, 0), (0, 0), *((p, p) for p in spec.padding)))
    spans = tuple(d * (k - 1) + 1 for k, d in zip(spec.kernel, spec.dilation))
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, spans, (2, 3, 4))
    windows = windows[(..., *(slice(None, None, s) for s in (*spec.stride, *spec.dilation)))]
    windows = windows.reshape(shape[0], spec.groups, -1, *size, spec.taps)
    filters = weight.astype("f8").reshape(spec.groups, outputs // spec.groups, -1, spec.taps)
    expected = numpy.einsum("ngcxyzt,gkct->ngkxyz", windows, filters).reshape(g.shape)
    got = run(direct_of("output", spec), arrays, params)
    numpy.testing.assert_allclose(got, expected + spec.bias * bias.reshape(-1, 1, 1, 1), rtol=1e-4, atol=1e-4)
    gradient = run(direct_of("grad_input", spec), arrays, params)
    assert abs((expected * g).sum() - (gradient.astype("f8") * x).sum()) < 1e-3 * abs(expected * g).sum()


def test_half_precision_accumulates_in_float32():
    spec, shape = Convolution((3, 3), padding=(1, 1), bias=True, dtype=float16), (1, 300, 6, 6)
    check(run_loaded, spec, shape, 5, 2e-2)


def test_bfloat16():
    spec, shape, outputs = Convolution((3, 3), padding=(1, 1), dtype=bfloat16), (1, 8, 6, 6), 5
    wide, params = make(Convolution((3, 3), padding=(1, 1)), shape, outputs)
    short = {name: (array.view("u4") >> 16).astype("u2") for name, array in wide.items()}
    exact = {name: (array.astype("u4") << 16).view("f4") for name, array in short.items()}
    expected = reference(spec, exact, PRODUCTS)["output"]
    got = (run(direct_of("output", spec), short, params).astype("u4") << 16).view("f4")
    numpy.testing.assert_allclose(got, expected, rtol=2 ** -8, atol=1e-6)


def test_epilogue():
    spec, shape, outputs = LARGE[0]
    arrays, params = make(spec, shape, outputs)
    expected = numpy.maximum(reference(spec, arrays, PRODUCTS)["output"], 0)

    class Relu:
        operands = {}

        @staticmethod
        def emit(b, value, place, mask):
            return b.max(value, b.const(0.0, float32, value.lanes))

    direct = conv2d_forward(spec, epilogue=Relu)
    numpy.testing.assert_allclose(run(direct, arrays, params), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("result", PRODUCTS)
def test_images_in_a_tile_and_packing_inside_leave_the_bits(result):
    arrays, params = make(Convolution((3, 3), padding=(1, 1)), (5, 260, 3, 5), 270)
    direct = direct_of(result, Convolution((3, 3), padding=(1, 1)))
    sizes = direct.params(**params)
    assert sizes["inside"] == 1 and sizes["tile_images"] == 5
    expected = run(direct, arrays, params)
    for cut in ({"inside": 0}, {"inside": 0, "tile_images": 2}, {"tile_images": 1},
                {"inside": 0, "tile_images": 1, "steps": 3, "tile_rows": 2}):
        numpy.testing.assert_array_equal(run(direct, arrays, params, **cut), expected, err_msg=str(cut))


@pytest.mark.parametrize("result", PRODUCTS)
def test_bits_depend_on_sizes_alone(result):
    """The same bits from every processor's kernel, and however the result is cut into tiles."""
    spec = Convolution((3, 2), (1, 2), (1, 1))
    arrays, params = make(spec, (2, 19, 9, 11), 40)
    direct = direct_of(result, spec)
    expected = run(direct, arrays, params)
    blocks = -(-direct.params(**params)["K"] // direct.shape.outputs)
    for cut in ({"tile_rows": 1}, {"tile_rows": 2, "tile_blocks": 1, "block_tiles": blocks}):
        numpy.testing.assert_array_equal(run(direct, arrays, params, **cut), expected, err_msg=str(cut))
    for target in runnable_targets()[1:]:
        if result == "output" or target.has("fma"):         # without fma it takes a second to compile
            def on_target(kernel, buffers, sizes):
                call = jit.callable_kernel(kernel, target)
                call([buffers[b.name] for b in kernel.buffers], [sizes[p] for p in kernel.params], 0,
                     loops_interpret.extent(kernel, sizes))
                return buffers
            got = run(PRODUCTS[result](spec, target=target), arrays, params, on_target)
            numpy.testing.assert_array_equal(got, expected, err_msg=target.name)


def test_narrow_and_wide_blocks_give_the_same_bits():
    """A few outputs of many, alone: pixels along the lanes instead of outputs."""
    for spec in (Convolution((3, 3), (2, 2), (1, 1)), Convolution((1, 1)), Convolution((2, 3), (1, 3))):
        arrays, params = make(spec, (2, 5, 17, 33), 40)
        expected = run(direct_of("output", spec), arrays, params)
        for few in (1, 2, 3, 4, 7):
            part = dict(arrays, weight=arrays["weight"][:few].copy(), output=arrays["output"][:, :few].copy())
            got = run(direct_of("output", spec), part, {**params, "K": few})
            numpy.testing.assert_array_equal(got, expected[:, :few], err_msg=f"{spec} {few}")


@pytest.mark.parametrize("value", [numpy.nan, numpy.inf])
def test_a_bad_pixel_touches_only_what_sees_it(value):
    spec, shape, outputs = Convolution((3, 3), (2, 2), (1, 1)), (1, 3, 17, 17), 5
    arrays, params = make(spec, shape, outputs)
    good = {r: run(direct_of(r, spec), arrays, params) for r in PRODUCTS}
    arrays["input"][0, 1, 8, 7] = value
    arrays["grad_output"][0, 1, 4, 3] = value
    output, gradient = (run(direct_of(r, spec), arrays, params) for r in PRODUCTS)
    seen = numpy.zeros((17, 17), bool)
    seen[7:10, 5:8] = True              # of the gradient: what output (4, 3) saw
    assert (numpy.isfinite(gradient) == ~seen).all() and (gradient == good["grad_input"])[..., ~seen].all()
    seen = numpy.zeros((9, 9), bool)
    seen[4, 3:5] = True                 # the outputs that see pixel (8, 7)
    assert (numpy.isfinite(output) == ~seen).all() and (output == good["output"])[..., ~seen].all()


def test_nothing_outside_is_read():
    """NaN around the tensors (the interpreter checks bounds; this checks the native masks' values)."""
    spec, shape, outputs = LARGE[2]
    arrays, params = make(spec, shape, outputs)
    padded = numpy.full(arrays["input"].size + 2000, numpy.nan, "f4")
    padded[1000:-1000] = arrays["input"].ravel()
    expected = reference(spec, arrays, PRODUCTS)
    arrays["input"] = padded[1000:-1000].reshape(shape)
    got = run(direct_of("output", spec), arrays, params)
    numpy.testing.assert_allclose(got, expected["output"], rtol=1e-3, atol=1e-3)


def test_classes_of_a_strided_gradient():
    """Every (place, tap) pair of the convolution is in one class, at the output that saw it."""
    for kernel, stride, padding, dilation in ((3, 2, 1, 1), (4, 2, 0, 2), (5, 3, 2, 2), (2, 5, 1, 1)):
        found = set()
        for start, axis in enumerate(backward_axis(kernel, stride, padding, dilation)):
            for t in range(4):
                for j in range(axis.count):
                    tap, seen = axis.first + j * axis.tap_step, axis.origin + t + j * axis.step
                    found.add((start + t * stride, tap, seen))
        wanted = {(place, tap, (place + padding - tap * dilation) // stride)
                  for place in range(4 * stride) for tap in range(kernel)
                  if (place + padding - tap * dilation) % stride == 0}
        assert found == wanted


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_text_compiles_for(name):
    target = targets.by_name(name)
    for product in PRODUCTS.values() if name != "generic" else (conv2d_forward,):
        direct = product(Convolution((3, 3), (2, 1), (1, 1), bias=True), target=target)
        for kernel in (direct.pack, direct.kernel):
            assert jit.compile_text(llvm.emit(verify(kernel), target), target)
            assert_round_trip(kernel)
