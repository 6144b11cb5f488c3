"""Convolution and the gradient of its input against plain NumPy."""

import numpy
import pytest

from flambeau.compiler.conv import PARAMS, Convolution, conv2d_backward_data, conv2d_forward, conv2d_work
from flambeau.types.dtype import float16, float32, float64
from tests.compiler.native import assert_round_trip, run_both, run_native

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
         (Convolution((3, 3), (1, 1), (1, 1), bias=True, dtype=float64), (2, 5, 8, 8), 6)]


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


def check(run, spec, shape, outputs, tolerance=1e-3):
    arrays, params = make(spec, shape, outputs)
    expected = reference(spec, arrays, PRODUCTS)
    for result, product in PRODUCTS.items():
        got = run(product(spec), {name: array.copy() for name, array in arrays.items()}, params)[result]
        numpy.testing.assert_allclose(got, expected[result], rtol=tolerance, atol=tolerance, err_msg=result)


@pytest.mark.parametrize("spec, shape, outputs", SMALL, ids=str)
def test_native_is_interpreted(spec, shape, outputs):
    check(run_both, spec, shape, outputs)


@pytest.mark.parametrize("spec, shape, outputs", LARGE, ids=str)
def test_against_numpy(spec, shape, outputs):
    check(run_native, spec, shape, outputs, 1e-3 if spec.dtype is float32 else 1e-10)


def test_half_precision_accumulates_in_float32():
    check(run_native, Convolution((3, 3), padding=(1, 1), bias=True, dtype=float16), (1, 8, 6, 6), 5, 2e-2)


def test_epilogue():
    spec, shape, outputs = LARGE[0]
    arrays, params = make(spec, shape, outputs)
    expected = numpy.maximum(reference(spec, arrays, PRODUCTS)["output"], 0)
    kernel = conv2d_forward(spec, epilogue=lambda b, value: b.max(value, b.const(0.0, float32, value.lanes)))
    got = run_native(kernel, arrays, params)["output"]
    numpy.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


def test_nothing_outside_is_read():
    """NaN around the tensors (the interpreter checks bounds; this checks the native masks' values)."""
    spec, shape, outputs = LARGE[2]
    arrays, params = make(spec, shape, outputs)
    padded = numpy.full(arrays["input"].size + 2000, numpy.nan, "f4")
    padded[1000:-1000] = arrays["input"].ravel()
    expected = reference(spec, arrays, PRODUCTS)
    arrays["input"] = padded[1000:-1000].reshape(shape)
    got = run_native(conv2d_forward(spec), dict(arrays), params)["output"]
    numpy.testing.assert_allclose(got, expected["output"], rtol=1e-3, atol=1e-3)


def test_work_and_text():
    spec = Convolution((3, 3))
    params = dict(zip(PARAMS, (1, 8, 10, 10, 8, 8, 8)))
    for kind, product in zip(("forward", "data"), PRODUCTS.values()):
        assert conv2d_work(spec, kind, **params) > 0
        assert_round_trip(product(spec))
