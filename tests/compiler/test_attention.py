"""The attention kernels: interpreted and native bit for bit, on every target, against NumPy."""

import numpy
import pytest

from flambeau.compiler import attention, attention_backward, attention_single, jit, llvm
from flambeau.compiler import target as targets
from flambeau.compiler.expand import expand_math
from flambeau.ir import loops_interpret
from flambeau.ir.loops_verify import verify
from flambeau.ops.attention import attend_in_numpy
from flambeau.ops.random import mix
from flambeau.types.dtype import bfloat16, bool_, float16, float32, float64, int64
from tests.compiler import kernels as K
from tests.compiler.native import assert_round_trip

MASKS = {None: (None, ()), "bool": (bool_, (0, 0, 0, None, 1)), "keys": (float32, (None, 0, 0, 0, 1)),
         "numbers": (float32, (None, None, None, None, 1)), "transposed": (float32, (0, 0, 0, 1, None))}
SIZES = (1, 2, 2, 35, 37, 5, 6)             # batch, heads, group, length, source, width, value width


def spec_of(dtype=float32, causal=False, mask=None, dropout=False):
    kind, strides = MASKS[mask]
    return attention.Attention(dtype, causal, kind, strides, float64, float64 if dropout else None, 128)


def problem(spec, sizes=SIZES, seed=0):
    """(arrays of one call of all kernels, params): row-major, but query with the time before the heads."""
    random = numpy.random.default_rng(seed)
    batch, heads, group, length, source, width, value_width = sizes
    total = spec.total.numpy

    def normal(*shape, dtype=spec.dtype.numpy):
        return random.normal(size=shape).astype(dtype)

    arrays = {"query": normal(batch, length, heads, group, width), "key": normal(batch, heads, source, width),
              "value": normal(batch, heads, source, value_width),
              "grad": normal(batch, heads, group, length, value_width), "scale": numpy.array([0.7]),
              "seed": numpy.array([5]), "dropped": numpy.array([0.4]),
              "mask": normal(batch, heads, group, length, source, dtype="f4")}
    params = dict(zip(attention.SIZES, sizes)) | {"parts": 2}
    steps = {"batch": heads * group * length, "head": group * length, "member": length, "row": 1}
    late = {"batch": heads * group * length, "head": group, "member": 1, "row": heads * group}
    short = {"batch": heads * source, "head": source, "row": 1}
    for name, strides, columns in (("query", late, width), ("query_grad", late, width),
                                   ("output", steps, value_width), ("grad", steps, value_width),
                                   ("key", short, width), ("key_grad", short, width),
                                   ("value", short, value_width), ("value_grad", short, value_width)):
        params |= {f"{name}_{axis}": stride * columns for axis, stride in strides.items()}
    for axis, size in zip(attention.MASK_AXES, numpy.array(arrays["mask"].strides) // 4):
        params[f"mask_{axis}"] = int(size)
    if spec.mask_strides[3:4] == (1,):
        params["mask_key"] = length             # the query is the last axis in memory
    if spec.mask is bool_:
        arrays["mask"] = arrays["mask"] > -1
    arrays |= {"output": numpy.zeros((batch, heads, group, length, value_width), spec.dtype.numpy),
               "logsumexp": numpy.zeros((batch, heads, group, length), total),
               "delta": numpy.zeros((batch, heads, group, length), total),
               "sums": numpy.zeros((2, batch, heads, group, length, width), total),
               "query_grad": numpy.zeros_like(arrays["query"]), "key_grad": numpy.zeros_like(arrays["key"]),
               "value_grad": numpy.zeros_like(arrays["value"])}
    return arrays, params


def kernels_of(spec, params, target=None):
    """Forward, gradient and fold."""
    forward = attention_single.single_kernel if params["length"] == 1 else attention.attention_kernel
    makers = forward, attention_backward.gradient_kernel, attention_backward.fold_kernel
    return [expand_math(verify(make(spec, params, target))) for make in makers]


def run_all(spec, arrays, params, run, target=None):
    """The arrays after all three kernels, run by `run(kernel, buffers, params)(begin, end)`."""
    arrays = {name: array.copy() for name, array in arrays.items()}
    for number, kernel in enumerate(kernels_of(spec, params, target)):
        buffers = {b.name: arrays[b.name].view(b.dtype.numpy) for b in kernel.buffers}
        extent = loops_interpret.extent(kernel, params)
        part = run(kernel, buffers, params)
        for begin in reversed(range(0, extent, 3)):                 # chunks, the last one first
            part(begin, min(begin + 3, extent))
        if number == 0:
            out, grad = (arrays[n].astype(spec.total.numpy) for n in ("output", "grad"))
            arrays["delta"] = (out * grad).sum(-1)
    return arrays


def natively(target=None):
    def run(kernel, buffers, params):
        call = jit.callable_kernel(kernel, target)
        given = [buffers[b.name] for b in kernel.buffers], [params[p] for p in kernel.params]
        return lambda begin, end: call(*given, begin, end)
    return run


def interpreted(kernel, buffers, params):
    flat = {name: array.reshape(-1) for name, array in buffers.items()}
    return lambda begin, end: loops_interpret.run(kernel, flat, params, begin, end)


RESULTS = ("output", "logsumexp", "query_grad", "key_grad", "value_grad")


@pytest.mark.parametrize("dtype, causal, mask, dropout", [
    (float32, False, None, False), (float32, True, "bool", False), (float32, False, "keys", True),
    (float64, True, None, True), (float16, False, "numbers", False)], ids=str)
def test_native_is_interpreted(dtype, causal, mask, dropout):
    spec = spec_of(dtype, causal, mask, dropout)
    for length in (1, 5):
        arrays, params = problem(spec, (1, 1, 2, length, 7, 3, 4))
        got, want = (run_all(spec, arrays, params, run) for run in (natively(), interpreted))
        for name in RESULTS:
            numpy.testing.assert_array_equal(got[name], want[name], err_msg=name)


@pytest.mark.parametrize("target", K.runnable_targets(), ids=lambda t: t.name)
def test_targets_give_the_same_bits(target):
    for dtype, length in ((float32, 1), (float32, 70), (float64, 35)):
        spec = spec_of(dtype, True, "numbers")
        arrays, params = problem(spec, (1, 1, 1, length, 101, 20, 9))
        got = run_all(spec, arrays, params, natively(target), target)
        want = run_all(spec, arrays, params, natively())
        for name in RESULTS:
            numpy.testing.assert_array_equal(got[name], want[name], err_msg=name)


@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("causal", [False, True])
def test_against_numpy(causal, mask):
    """Values, and gradients by the formula of the softmax, in float64."""
    spec = spec_of(causal=causal, mask=mask)
    arrays, params = problem(spec)
    got = run_all(spec, arrays, params, natively())
    query, key, value, grad = (arrays[n].astype("f8") for n in ("query", "key", "value", "grad"))
    query = numpy.moveaxis(query, 1, 3)
    added = seen_mask(arrays["mask"], MASKS[mask][1]) if mask else None
    output, logsumexp = attend_in_numpy(query, key, value, 0.7, added, causal)
    close = {"output": output, "logsumexp": logsumexp}
    scores = query @ key[:, :, None].swapaxes(-1, -2) * 0.7
    if mask:
        scores = numpy.where(added, scores, -numpy.inf) if added.dtype == bool else scores + added
    if causal:
        scores = numpy.where(numpy.tri(*scores.shape[-2:], dtype=bool), scores, -numpy.inf)
    weights = numpy.exp(scores - logsumexp[..., None])
    slopes = grad @ value[:, :, None].swapaxes(-1, -2)
    changes = weights * (slopes - (weights * slopes).sum(-1, keepdims=True)) * 0.7
    close["query_grad"] = numpy.moveaxis(changes @ key[:, :, None], 3, 1)
    close["key_grad"] = (changes.swapaxes(-1, -2) @ query).sum(2)
    close["value_grad"] = (weights.swapaxes(-1, -2) @ grad).sum(2)
    for name, want in close.items():
        numpy.testing.assert_allclose(got[name], want, rtol=2e-5, atol=2e-5, err_msg=name)


def seen_mask(mask, strides):
    """The mask as a kernel with these strides reads it: where one is 0 the first element counts."""
    if strides[3] == 1:
        length, source = mask.shape[-2:]
        return mask.reshape(-1)[numpy.arange(length)[:, None] + numpy.arange(source) * length]
    index = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
    return mask[index]


def test_dropout_is_the_draw_of_the_house():
    """Weight number i of all scores is kept where element i of a uniform draw with the same key is >= p."""
    spec = spec_of(float64, dropout=True)
    sizes = (1, 2, 2, 3, 5, 4, 5)
    arrays, params = problem(spec, sizes)
    arrays["value"][:] = numpy.eye(5)           # the output is the dropped weights
    got = run_all(spec, arrays, params, natively())["output"].reshape(-1)
    draws = [mix(5 + (i + 1) * 0x9E3779B97F4A7C15) >> 40 for i in range(got.size)]
    assert ((got != 0) == (numpy.array(draws) * 2.0 ** -24 >= numpy.float32(0.4))).all()
    plain = run_all(spec_of(float64), arrays, params, natively())["output"].reshape(-1)
    numpy.testing.assert_allclose(got[got != 0], plain[got != 0] / 0.6)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512", "aarch64"])
def test_compiles_for_every_target(name):
    target = targets.by_name(name)
    for spec in (spec_of(causal=True), spec_of(bfloat16, mask="bool")):
        _, params = problem(spec)
        single = kernels_of(spec, params | {"length": 1}, target)[0]
        for kernel in (*kernels_of(spec, params, target), single):
            assert jit.compile_text(llvm.emit(kernel, target), target)


def test_kernels_are_printable():
    spec = spec_of(causal=True, mask="bool", dropout=True)
    _, params = problem(spec)
    for kernel in (*kernels_of(spec, params), kernels_of(spec, params | {"length": 1})[0]):
        assert_round_trip(kernel)
    assert int64 in {b.dtype for b in kernels_of(spec, params)[0].buffers}
