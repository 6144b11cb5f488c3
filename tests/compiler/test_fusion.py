"""Fusion: which kernels a graph becomes, and that they compute what its nodes say one by one."""

import numpy
import pytest

from flambeau.compiler import pipeline
from flambeau.compiler.rows import Axis, coalesce
from flambeau.ir import graph_text
from flambeau.ops import normalize, plans
from flambeau.ops.elementwise import add, minimum, mul
from flambeau.ops.loss import cross_entropy
from flambeau.ops.mathematics import exp
from flambeau.ops.normalize import batch_norm_train, layer_norm, softmax
from flambeau.ops.reduce import amax, amin, mean, sum as total
from flambeau.ops.view import permute, reshape
from flambeau.runtime import _core
from flambeau.testing import oracle
from flambeau.testing.arrays import to_array, to_tensor

RNG = numpy.random.default_rng(0)


def tensor(*shape, dtype="float64"):
    return to_tensor(RNG.normal(size=shape).astype(dtype))


def names_of_kernels(function):
    """The names of the Loops kernels that a call makes."""
    made = []
    with pipeline.watch(lambda stage, form: made.append(form.name) if stage == "loops" else None):
        function()
    return made


def planned(function, *tensors):
    """(results of the fused plan, results op by op, names of the plan's kernels)."""
    compiled = []

    def run():
        compiled.append(oracle.compile_function(function, tensors)[1](*tensors))

    kernels = names_of_kernels(run)
    separate = function(*tensors)
    separate = separate if isinstance(separate, (tuple, list)) else [separate]
    return [to_array(r) for r in compiled[0]], [to_array(r) for r in separate], kernels


def run_text(text, *arrays):
    """A graph given as text, planned and run: (results, names of kernels)."""
    graph = graph_text.parse(text)
    operands = tuple(plans.Operand(v.dtype, v.shape) for v in graph.inputs)
    signature = plans.Signature("test", operands, {}, tuple((o.dtype, o.shape) for o in graph.outputs))
    results = []
    kernels = names_of_kernels(lambda: results.extend(
        _core.execute(plans.compiler().plan(signature, graph), tuple(map(to_tensor, arrays)))))
    return [to_array(r) for r in results], kernels


# ------------------------------------------------------------------------------ text in, kernels out
SOFTMAX = """graph softmax(x: f64[s0, s1]) {
  top: f64[s0, 1] = amax(x; dim=(1,), keepdim=True, dtype=None)
  away: f64[s0, s1] = sub(x, top; alpha=1)
  power: f64[s0, s1] = exp(away)
  all: f64[s0, 1] = sum(power; dim=(1,), keepdim=True, dtype=None)
  share: f64[s0, s1] = div(power, all; rounding_mode=None)
  return share
}
"""


def test_a_softmax_in_text_is_one_kernel():
    x = RNG.normal(size=(7, 130))
    (got,), kernels = run_text(SOFTMAX, x)
    powers = numpy.exp(x - x.max(axis=1, keepdims=True))
    assert kernels == ["rows_amax_sum_div"]
    assert numpy.allclose(got, powers / powers.sum(axis=1, keepdims=True), rtol=1e-14)


def test_an_expensive_element_is_computed_once():
    """exp is kept in the result's memory between the pass that sums it and the pass that divides it."""
    seen = []
    with pipeline.watch(lambda stage, form: seen.append(form) if stage == "loops" else None):
        run_text(SOFTMAX, RNG.normal(size=(7, 130)))
    from flambeau.ir.loops_text import show
    text = show(seen[0])
    assert text.count("exp(") == 3          # short rows; the main loop and its tail
    assert "rw f64*" in text


def test_what_is_the_same_in_a_row_stands_before_its_loop():
    text = """graph g(x: f64[s0, s1], y: f64[s0, 1]) {
  root: f64[s0, 1] = sqrt(y)
  each: f64[s0, s1] = mul(x, root)
  all: f64[s0] = sum(each; dim=(1,), keepdim=False, dtype=None)
  return all
}
"""
    seen = []
    with pipeline.watch(lambda stage, form: seen.append(form) if stage == "loops" else None):
        x, y = RNG.normal(size=(5, 40)), abs(RNG.normal(size=(5, 1)))
        (got,), _ = run_text(text, x, y)
    from flambeau.ir.loops_text import show
    shown = show(seen[0])
    assert shown.index("sqrt") < shown.index("for v")
    assert numpy.allclose(got, (x * numpy.sqrt(y)).sum(axis=1), rtol=1e-14)


# ------------------------------------------------------------------------------ ops
def test_composites_are_one_kernel():
    x, image = tensor(5, 37, dtype="float32"), tensor(2, 3, 5, 4, dtype="float32")
    w, c = tensor(37, dtype="float32"), tensor(3, dtype="float32")
    assert len(names_of_kernels(lambda: layer_norm(x, (37,), w, w, 1e-3))) == 1
    assert len(names_of_kernels(lambda: batch_norm_train(image, c, c, 1e-3))) == 1
    assert len(names_of_kernels(lambda: normalize.var(x, 0))) == 1
    assert len(names_of_kernels(lambda: normalize.logsumexp(x, 0))) == 1
    rows = names_of_kernels(lambda: cross_entropy(x, to_tensor(numpy.arange(5)), reduction="none"))
    assert len(rows) == 1 and rows[0].startswith("rows_amax")


@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (33, 3), (130, 5), (2, 1000), (2, 3, 33)])
def test_fused_is_bit_for_bit_what_its_ops_are(shape):
    def by_hand(x):
        powers = exp(x - amax(x, axis, True))
        return powers / total(powers, axis, True)

    x = tensor(*shape)
    for axis in range(len(shape)):
        got, want, _ = planned(by_hand, x)
        oracle.check_bits(got[0], want[0], f"{shape} along {axis}")


FUNCTIONS = {
    "two groups over different axes": lambda x, y: [total(x * mean(x, 0, True), 1), mean(x, 0)],
    "a reduction of a reduction": lambda x, y: total(total(x, 1, True) * x),
    "kept and full results": lambda x, y: [x - mean(x, 1, True), mean(x, 1), total(x * x, 1)],
    "a permuted operand": lambda x, y: total(permute(x, (1, 0)) * y, 0),
    "a reshaped result": lambda x, y: reshape(softmax(x, 1), (-1,)) * 2.0,
    "softmax of a product": lambda x, y: softmax(x * permute(y, (1, 0)), 0),
    "middle of three axes": lambda x, y: softmax(reshape(x, (*x.shape, 1)) * reshape(y, (1, *y.shape)), 1),
    "a number from a size": lambda x, y: total(x, 1) / x.shape[1],
    "views of views": lambda x, y: total(reshape(permute(add(x, permute(y, (1, 0))), (1, 0)), (-1,))),
    "the same twice": lambda x, y: [mul(total(x), x), mul(total(x), x)],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs(name):
    function = FUNCTIONS[name]
    for rows, columns in ((1, 1), (3, 5), (5, 33), (40, 7), (130, 64)):
        x, y = tensor(rows, columns), tensor(columns, rows)
        got, want, _ = planned(function, x, y)
        for a, b in zip(got, want, strict=True):
            assert a.shape == b.shape and numpy.allclose(a, b, rtol=1e-12, atol=1e-12), (name, rows, columns)
        turned = permute(tensor(columns, rows), (1, 0))
        for a, b in zip(*planned(function, turned, y)[:2], strict=True):
            assert numpy.allclose(a, b, rtol=1e-12, atol=1e-12), (name, rows, columns, "transposed")


def test_a_sum_over_much_is_split_alike_in_any_company():
    """Eager and compiled add up in the same order, also where more is made of the elements."""
    x, column = tensor(300, 200), tensor(300, 1)
    for function in (lambda x, y: [x - mean(x), total(x)], lambda x, y: total(x * y),
                     lambda x, y: [total(x * y), total(x, 1)], lambda x, y: softmax(reshape(x, (-1,)), 0),
                     lambda x, y: normalize.var(x * y)):
        for got, want in zip(*planned(function, x, column)[:2], strict=True):
            oracle.check_bits(got, want, "compiled against eager")


def test_groups_do_not_wait_for_each_other():
    """Each of two groups could store what the other one needs."""
    def function(x, y):
        top, share = amax(y, 1, True), softmax(x, 0)
        return share, share + top, minimum(top, amin(share, (0, 1), True))

    for got, want in zip(*planned(function, tensor(3, 3), tensor(3, 1))[:2], strict=True):
        assert numpy.allclose(got, want, rtol=1e-14)


def test_sizes_that_must_agree_are_checked_at_every_run():
    bias = tensor(4)
    for rows in (2, 3):
        layer_norm(tensor(rows, 4), (4,), bias, bias)
        with pytest.raises(RuntimeError):
            layer_norm(tensor(rows, 4), (4,), bias, tensor(5))


def test_a_sum_over_much_is_split_alike_for_any_layout():
    x = RNG.normal(size=(300, 200))
    got = [to_array(total(to_tensor(numpy.asarray(a)))) for a in (x, numpy.asfortranarray(x))]
    assert got[0] == got[1]


# ------------------------------------------------------------------------------ coalescing
def test_axes_merge_only_where_every_access_allows_it():
    kept, reduced = (lambda n: Axis(n, False)), (lambda n: Axis(n, True))
    axes = [reduced(2), kept(3), reduced(4), reduced(5)]
    image = (60, 20, 5, 1)
    assert coalesce(axes, [image]) == [[0], [1], [2, 3]]
    assert coalesce(axes, [image, (0, 1, 0, 0)]) == [[0], [1], [2, 3]]
    assert coalesce(axes, [image, (0, 0, 1, 4)]) == [[0], [1], [2], [3]]
    assert coalesce([kept(1), kept(6), reduced(1)], [(9, 1, 3)]) == [[1]]
