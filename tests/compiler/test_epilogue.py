"""Elementwise nodes behind a product: in one kernel with it, with the bits of separate ones, or apart."""

import numpy
import pytest

import flambeau as fl
from flambeau.compiler import pipeline
from flambeau.compiler.gemm_choices import PRODUCT
from flambeau.ops.spec import REGISTRY
from flambeau.runtime import _core
from flambeau.testing import oracle
from flambeau.testing.arrays import to_tensor

RNG = numpy.random.default_rng(0)
mm, linear, relu, gelu, silu, tanh, reshape, transpose, squeeze, unsqueeze, convolution = (
    REGISTRY[name].function for name in
    "mm linear relu gelu silu tanh reshape transpose squeeze unsqueeze convolution".split())


def tensor(*shape, dtype=fl.float32):
    return to_tensor(RNG.normal(size=shape)).to(dtype)


def planned(function, *tensors):
    """(results of one plan, results op by op, names of the plan's kernels, its Fusion); results as bytes."""
    kernels, fusions = [], []

    def watch(stage, form):
        if stage == "loops":
            kernels.append(form.name)
        elif stage == "fusion":
            fusions.append(form)

    with pipeline.watch(watch):
        results = oracle.compile_function(function, tensors)[1](*tensors)
    separate = function(*tensors)
    separate = separate if isinstance(separate, (tuple, list)) else [separate]
    bits = [[r.contiguous().view(fl.uint8).numpy().tobytes() for r in each] for each in (results, separate)]
    return *bits, kernels, fusions[-1]


FUSED = {
    "relu": lambda x, y, r, s: relu(mm(x, y)),
    "residual": lambda x, y, r, s: gelu(mm(x, y) * 2.5 + r) - r,
    "left residual": lambda x, y, r, s: r / (mm(x, y) * mm(x, y)),
    "number in memory": lambda x, y, r, s: silu(mm(x, y)) * s,
    "views": lambda x, y, r, s: tanh(reshape(mm(x, y), (-1,))) * s,
    "literal": lambda x, y, r, s: fl.where(mm(x, y) > 0, mm(x, y), 0.0),
}


@pytest.mark.parametrize("dtype", [fl.float32, fl.float64, fl.bfloat16])
@pytest.mark.parametrize("name", FUSED)
def test_one_kernel_with_the_bits_of_separate_ones(name, dtype):
    for m, n, k in ((5, 7, 9), (33, 65, 300), (17, 31, 2100), (1, 40, 3), (3, 2, 0)):
        operands = (tensor(*shape, dtype=dtype) for shape in ((m, k), (k, n), (m, n), (1,)))
        got, expected, kernels, fusion = planned(FUSED[name], *operands)
        assert got == expected
        assert kernels[0].startswith("matmul") and set(kernels[1:]) <= {"matmul_parts"}
        finish, = fusion.finishes.values()
        assert finish.why and finish.node.op == "mm"


def test_layers_batches_and_column_major_operands():
    x, w, b = tensor(2, 9, 20), tensor(12, 20), tensor(12)
    got, expected, kernels, _ = planned(lambda x, w, b: gelu(linear(x, w, b)), x, w, b)
    assert got == expected and kernels == ["matmul", "matmul_parts"]
    x, y = tensor(3, 11, 9).transpose(1, 2), tensor(3, 13, 11).transpose(1, 2)
    got, expected, kernels, _ = planned(lambda x, y: relu(mm(x, y)), x, y)
    assert got == expected and kernels == ["matmul", "matmul_parts"]


@pytest.mark.parametrize("stride, padding, groups", [(1, 1, 1), (2, 0, 1), (1, 2, 4), (1, 1, 20)])
def test_convolutions(stride, padding, groups):
    """Direct ones in one kernel; a depthwise one, which takes no epilogue, in front of the rest."""
    x, w, b = tensor(2, 20, 9, 11), tensor(40 if groups < 20 else 20, 20 // groups, 3, 3), tensor(40)
    window = (3, 3), (stride, stride), (padding, padding), (1, 1), groups

    def convolve(x, w, b, r):
        return silu(convolution(x, w, b if groups < 20 else None, *window)) + r

    r = tensor(*convolution(x, w, None, *window).shape)
    got, expected, kernels, fusion = planned(convolve, x, w, b, r)
    assert got == expected and len(fusion.finishes) == 1
    assert any("add" in kernel for kernel in kernels) == (groups == 20), kernels


def test_a_convolution_along_a_line_and_over_three_axes():
    def line(x, w, b):
        return relu(squeeze(convolution(unsqueeze(x, 2), unsqueeze(w, 2), b, (1, 3), groups=1), 2))

    def cube(x, w, b):
        return relu(convolution(x, w, b, (2, 3, 3), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1) * 2.0)

    for function, *shapes in (line, (3, 5, 30), (7, 5, 3)), (cube, (1, 3, 4, 7, 8), (7, 3, 2, 3, 3)):
        got, expected, kernels, fusion = planned(function, *(tensor(*shape) for shape in shapes), tensor(7))
        assert got == expected and len(fusion.finishes) == 1 and len(kernels) == 2


APART = {
    "read twice": lambda x, y, r: (relu(mm(x, y)), tanh(mm(x, y)), r),
    "returned too": lambda x, y, r: (mm(x, y), relu(mm(x, y)), r),
    "read by a sum": lambda x, y, r: (relu(mm(x, y)) - fl.sum(mm(x, y), 1, keepdim=True), r),
    "turned": lambda x, y, r: (relu(transpose(mm(x, y), 0, 1)) + r, r),
    "another shape": lambda x, y, r: (relu(mm(x, y)) + fl.unsqueeze(r, 0), r),
    "another dtype": lambda x, y, r: (mm(x, y) > 0, r),
}


@pytest.mark.parametrize("name", APART)
def test_what_stays_apart(name):
    got, expected, kernels, fusion = planned(APART[name], tensor(6, 9), tensor(9, 6), tensor(6, 6))
    assert got == expected and len(kernels) > 1
    assert not fusion.finishes or name == "another shape"


def test_an_operand_with_gaps_is_read_by_a_kernel_of_its_own():
    x, y, r = tensor(6, 9), tensor(9, 8), tensor(6, 16)[:, ::2]
    got, expected, kernels, _ = planned(lambda x, y, r: relu(mm(x, y) + r), x, y, r)
    assert got == expected and any(not k.startswith("matmul") for k in kernels)


def test_another_schedule_gives_the_same(monkeypatch, tmp_path):
    from flambeau.compiler import tune
    monkeypatch.setattr(tune, "default_folder", lambda: str(tmp_path))
    x, y, r = tensor(14, 40), tensor(40, 33), tensor(14, 33)
    run = oracle.compile_function(lambda x, y, r: relu(mm(x, y) + r), (x, y, r))[1]
    expected = run(x, y, r)[0].numpy()
    monkeypatch.setattr(tune, "measure", lambda site: (PRODUCT.candidates[0], 1.0, 2.0))
    _core.set_autotune(True)
    try:
        numpy.testing.assert_array_equal(run(x, y, r)[0].numpy(), expected)
    finally:
        _core.set_autotune(False)
    assert [entry["choice"] for entry in tune.table().entries()] == [{"few": 24}]


def test_the_viewer_says_why():
    from flambeau.compiler.viewer import GraphViewer
    viewer = GraphViewer()
    with pipeline.watch(viewer.see):
        oracle.compile_function(lambda x, y: relu(mm(x, y)), (tensor(3, 4), tensor(4, 5)))
    assert "product with what is behind it" in "\n".join(viewer.parts) and "why: " in "\n".join(viewer.parts)
