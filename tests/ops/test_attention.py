"""Attention as a user calls it: sizes, layouts, masks, groups, half precision, gradients, memory."""

import itertools

import numpy
import pytest

import flambeau as fl
from flambeau import ops
from flambeau.ops.attention import attend_in_numpy, attention_by_products, attention_gradient
from flambeau.runtime._core import get_num_threads, set_num_threads
from flambeau.testing import oracle

ODD = (1, 2, 3, 5, 7, 17, 31, 33, 63, 65, 127, 255, 257)
F = fl.nn.functional


def draw(*shapes, seed=0, dtype="f4"):
    random = numpy.random.default_rng(seed)
    return [random.normal(size=s).astype(dtype) for s in shapes]


def tensors(arrays, grad=False):
    return [fl.tensor(a).requires_grad_(grad) for a in arrays]


def want(query, key, value, mask=None, causal=False, scale=None):
    """NumPy in float64 for (batch, heads, time, width), heads of key and value repeated."""
    query, key, value = (x.astype("f8") for x in (query, key, value))
    batch, heads, length, width = query.shape
    groups = query.reshape(batch, key.shape[1], -1, length, width)
    if mask is not None:
        mask = numpy.broadcast_to(mask, (batch, heads, length, key.shape[2])).reshape(*groups.shape[:4], -1)
    scale = 1 / max(width, 1) ** 0.5 if scale is None else scale
    out, _ = attend_in_numpy(groups, key, value, scale, mask, causal)
    return out.reshape(batch, heads, length, value.shape[3])


def close(got, wanted, bound=2e-6):
    numpy.testing.assert_allclose(got.detach().numpy(), wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("axis", range(4), ids=("length", "source", "width", "value_width"))
@pytest.mark.parametrize("causal", [False, True])
def test_odd_sizes(axis, causal):
    for size in ODD:
        length, source, width, value_width = [size if i == axis else other
                                              for i, other in enumerate((20, 30, 9, 11))]
        arrays = draw((1, 2, length, width), (1, 2, source, width), (1, 2, source, value_width), seed=size)
        got = F.scaled_dot_product_attention(*tensors(arrays), is_causal=causal)
        close(got, want(*arrays, causal=causal), 1e-5)


def test_mixed_magnitudes():
    arrays = draw((2, 3, 65, 33), (2, 3, 130, 33), (2, 3, 130, 17), dtype="f8")
    scales = 10.0 ** numpy.random.default_rng(1).uniform(-3, 1.5, (1, 1, 130, 1))
    arrays = [arrays[0], arrays[1] * scales, arrays[2] / scales]
    narrow = [a.astype("f4") for a in arrays]
    close(F.scaled_dot_product_attention(*tensors(arrays)), want(*arrays), 1e-11)
    exact = want(*narrow)
    got = F.scaled_dot_product_attention(*tensors(narrow)).numpy()
    assert abs(got - exact).max() < 1e-5 * abs(exact).max()


@pytest.mark.parametrize("layout", ["transposed", "packed", "sliced", "reversed", "expanded", "wide"])
def test_strided_operands(layout):
    """Views give what copies give, bit for bit, and the output is laid out as the query."""
    made = {"transposed": lambda: [fl.randn(2, 40, 3, 8).transpose(1, 2) for _ in range(3)],
            "packed": lambda: [x.view(2, 40, 3, 8).transpose(1, 2) for x in fl.randn(2, 40, 72).split(24, 2)],
            "sliced": lambda: [fl.randn(2, 6, 40, 20)[:, 1::2, :, 3:11] for _ in range(3)],
            "reversed": lambda: [fl.randn(2, 3, 40, 8).flip(2)[:, :, 1:] for _ in range(3)],
            "expanded": lambda: [fl.randn(2, 1, 40, 8).expand(2, 3, 40, 8) for _ in range(3)],
            "wide": lambda: [fl.randn(2, 3, 8, 40).mT for _ in range(3)]}[layout]()
    results = []
    for views in (made, [x.contiguous() for x in made]):
        views = [x.detach().requires_grad_(True) for x in views]
        out = F.scaled_dot_product_attention(*views, is_causal=True)
        grads = fl.autograd.grad((out * out).sum(), views)
        results.append([x.detach().numpy() for x in (out, *grads)])
        if layout in ("transposed", "packed") and views[0].stride() != views[0].contiguous().stride():
            assert all(x.transpose(1, 2).is_contiguous() for x in (out, *grads))
    for viewed, copied in zip(*results):
        oracle.check_bits(viewed, copied, layout)


MASKS = {"queries": (35, 40), "heads": (1, 4, 1, 40), "keys": (2, 1, 1, 40), "all": (2, 4, 35, 40),
         "one": (1,)}


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("shape", MASKS.values(), ids=MASKS)
def test_masks_broadcast(shape, kind):
    """With groups; gradients against the products in float64, that of the mask too."""
    arrays = draw((2, 4, 35, 6), (2, 2, 40, 6), (2, 2, 40, 5), dtype="f8")
    mask, = draw(shape, seed=1, dtype="f8")
    mask = mask > -1 if kind == "bool" else mask
    given, = tensors([mask])
    given.requires_grad_(kind == "float")
    inputs = [*tensors(arrays, True), *([given] if kind == "float" else [])]
    out = F.scaled_dot_product_attention(*inputs[:3], attn_mask=given, enable_gqa=True)
    close(out, want(*arrays, mask=mask), 1e-12)
    weights, = tensors(draw(tuple(out.shape), seed=2, dtype="f8"))
    grads = fl.autograd.grad((out * weights).sum(), inputs)
    query, key, value = inputs[:3]
    same = attention_by_products(query.reshape(2, 2, 2, 35, 6), key, value, 6 ** -0.5,
                                 given.expand(2, 4, 35, 40).reshape(2, 2, 2, 35, 40)).reshape(2, 4, 35, 5)
    for got, wanted in zip(grads, fl.autograd.grad((same * weights).sum(), inputs)):
        close(got, wanted.numpy(), 1e-12)


def test_masked_queries_are_zero():
    """Without any key output and gradients are 0, whatever the other queries see."""
    arrays = draw((1, 2, 5, 4), (1, 2, 7, 4), (1, 2, 7, 3))
    hidden = numpy.ones((5, 7), bool)
    hidden[2] = False
    for mask in (fl.tensor(hidden), fl.tensor(numpy.where(hidden, 0, -numpy.inf).astype("f4"))):
        inputs = tensors(arrays, True)
        out = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
        assert not out[:, :, 2].any() and out[:, :, 1].all()
        grads = fl.autograd.grad(out.sum(), inputs)
        assert not grads[0][:, :, 2].any() and all(g.isfinite().all() for g in grads)


def test_not_numbers_and_infinities_show():
    query, key, value = draw((1, 1, 40, 4), (1, 1, 50, 4), (1, 1, 50, 3))
    for place, number in itertools.product((0, 35), (numpy.nan, numpy.inf)):
        bad = query.copy()
        bad[0, 0, place, 1] = number
        out = F.scaled_dot_product_attention(*tensors((bad, key, value))).numpy()
        assert numpy.isnan(out[0, 0, place]).all() and numpy.isfinite(numpy.delete(out, place, 2)).all()
    key[0, 0, 45] = numpy.nan
    assert numpy.isnan(F.scaled_dot_product_attention(*tensors((query, key, value))).numpy()).all()
    causal = F.scaled_dot_product_attention(*tensors((query, key, value)), is_causal=True).numpy()
    assert numpy.isfinite(causal).all()         # no query sees key 45
    huge = F.scaled_dot_product_attention(*tensors((query * 1e20, key[:, :, :40] * 1e17, value[:, :, :40])))
    assert huge.isfinite().all()


@pytest.mark.parametrize("dtype, bound", [(fl.float16, 2e-3), (fl.bfloat16, 2e-2)], ids=str)
def test_half_precision(dtype, bound):
    """Sums in float32: as near as rounding the exact result, at any head size."""
    for width in (7, 64, 130):
        arrays = draw((2, 2, 70, width), (2, 2, 101, width), (2, 2, 101, width), seed=width)
        inputs = [fl.tensor(a).to(dtype).requires_grad_(True) for a in arrays]
        exact = [x.detach().double().requires_grad_(True) for x in inputs]
        out = F.scaled_dot_product_attention(*inputs, is_causal=True)
        same = F.scaled_dot_product_attention(*exact, is_causal=True)
        assert out.dtype is dtype
        close(out.double(), same.detach().numpy(), bound)
        for got, wanted in zip(fl.autograd.grad(out.sum(), inputs), fl.autograd.grad(same.sum(), exact)):
            assert got.dtype is dtype and abs(got.double() - wanted).max() < 2 * bound * wanted.abs().max()


def test_ranks_and_heads():
    query, key, value = tensors(draw((3, 2, 5, 4), (3, 2, 7, 4), (3, 2, 7, 6)))
    whole = F.scaled_dot_product_attention(query, key, value)
    assert (F.scaled_dot_product_attention(query[1], key[1], value[1]) == whole[1]).all()
    assert (F.scaled_dot_product_attention(query[1, 0], key[1, 0], value[1, 0]) == whole[1, 0]).all()
    five = F.scaled_dot_product_attention(*(x.unsqueeze(1) for x in (query, key, value)))
    assert five.shape == (3, 1, 2, 5, 6) and (five[:, 0] == whole).all()
    one = F.scaled_dot_product_attention(query, key[:1, :1], value[:1, :1])     # shared by all
    assert (one[2, 1] == F.scaled_dot_product_attention(query[2, 1], key[0, 0], value[0, 0])).all()
    grouped = F.scaled_dot_product_attention(fl.cat((query, query), 1), key, value, enable_gqa=True)
    assert (grouped[:, 0] == whole[:, 0]).all() and (grouped[:, 3] == whole[:, 1]).all()


def test_empty():
    for length, source, width in ((0, 3, 4), (3, 0, 4), (3, 2, 0), (0, 0, 0)):
        inputs = [fl.ones(2, 2, n, width, requires_grad=True) for n in (length, source, source)]
        out = F.scaled_dot_product_attention(*inputs, is_causal=True)
        assert out.shape == (2, 2, length, width) and not (source == 0 and out.any())
        assert [g.shape for g in fl.autograd.grad(out.sum(), inputs)] == [x.shape for x in inputs]
    assert F.scaled_dot_product_attention(*[fl.ones(0, 2, 3, 4)] * 3).shape == (0, 2, 3, 4)


def test_any_width():
    """Beyond the kernels' largest size class products take over; the classes agree."""
    for width in (129, 513, 2100):
        arrays = draw((1, 1, 3, width), (1, 1, 5, width), (1, 1, 5, 2))
        close(F.scaled_dot_product_attention(*tensors(arrays)), want(*arrays), 1e-5)


def test_a_scale_and_mistakes():
    arrays = draw((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    query, key, value = tensors(arrays)
    close(F.scaled_dot_product_attention(query, key, value, scale=0.3), want(*arrays, scale=0.3))
    for args, text in (((query, key[..., :3], value), "sizes do not fit"),
                       ((query, key, value.double()), "differ in dtype"),
                       ((query, fl.cat((key, key[:, :1]), 1), value), "numbers of heads"),
                       ((query, key, value, fl.ones(3, 5, dtype=fl.int32)), "mask's dtype"),
                       ((query, key, value, None, 1.5), "between 0 and 1"),
                       ((query, key, value, fl.ones(3, 5).bool(), 0.0, True), "Explicit attn_mask")):
        with pytest.raises(RuntimeError, match=text):
            F.scaled_dot_product_attention(*args)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": "bool"}, {"attn_mask": "float"},
                                     {"dropout_p": 0.4, "seed": 3}], ids=str)
def test_a_single_query(options):
    """Its own kernel: values as by products, groups and odd widths too."""
    options = dict(options)
    for source, width in ((1, 3), (31, 64), (77, 65), (200, 130)):
        query, key, value = tensors(draw((2, 4, 1, width), (2, 2, source, width), (2, 2, source, width + 1)))
        mask, = tensors(draw((2, 4, 1, source), seed=1))
        kind = options.get("attn_mask")
        mask = None if kind is None else mask > -0.5 if kind == "bool" else mask
        seed, dropout_p = options.get("seed"), options.get("dropout_p")
        out = ops.scaled_dot_product_attention(query, key, value, mask, dropout_p or 0.0,
                                               options.get("is_causal", False), None, True, seed)
        mask = None if mask is None else mask.reshape(2, 2, 2, 1, source)
        same = attention_by_products(query.reshape(2, 2, 2, 1, width), key, value, width ** -0.5, mask, seed,
                                     dropout_p, options.get("is_causal", False))
        close(out, same.reshape(out.shape).numpy(), 5e-6)


# ---------------------------------------------------------------------------------- dropout
def test_dropout():
    """The share that is dropped, the same draw in the gradient, and seeds."""
    query, key = tensors(draw((2, 3, 33, 8), (2, 3, 50, 8)), True)
    value = fl.eye(50).expand(2, 3, 50, 50).contiguous().requires_grad_(True)
    plain = F.scaled_dot_product_attention(query, key, value).detach()
    fl.manual_seed(1)
    out = F.scaled_dot_product_attention(query, key, value, dropout_p=0.25)
    fl.manual_seed(1)
    assert (F.scaled_dot_product_attention(query, key, value, dropout_p=0.25) == out).all()
    kept = out.detach() != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.02
    close(out[kept], (plain / 0.75)[kept].numpy())
    grad, = fl.autograd.grad(out.sum(), [value])
    close(grad[..., 0], out.detach().sum(2).numpy(), 1e-5)      # the gradient of value is weights @ ones
    assert not F.scaled_dot_product_attention(query, key, value, dropout_p=1.0).any()


def test_derivatives_with_dropout_and_groups():
    """First and second order against differences in float64; the seed fixes the draw."""
    arrays = draw((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 4), (1, 1, 5, 7), dtype="f8")

    def call(query, key, value, mask):
        return ops.scaled_dot_product_attention(query, key, value, mask, 0.3, False, 0.7, True, 11)

    weights = numpy.random.default_rng(1).uniform(0.5, 1, (2, 4, 5, 4))

    def first(*inputs):
        return fl.autograd.grad(call(*inputs), inputs, fl.tensor(weights), create_graph=True)

    directions = draw(*(a.shape for a in arrays), seed=2, dtype="f8")
    for function in (lambda *x: [(call(*x) * fl.tensor(weights)).sum()], first):
        def total(step):
            inputs = tensors([a + step * d for a, d in zip(arrays, directions)], True)
            return sum(((x * x).sum() for x in function(*inputs)), fl.zeros((), dtype=fl.float64)), inputs
        ahead, behind = (total(step)[0].item() for step in (1e-5, -1e-5))
        value, inputs = total(0.0)
        grads = fl.autograd.grad(value, inputs)
        slope = sum(float((g.numpy() * d).sum()) for g, d in zip(grads, directions))
        assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


# ---------------------------------------------------------------------------------- threads and memory
def test_threads_change_no_bit():
    arrays = draw((1, 3, 257, 33), (1, 3, 130, 33), (1, 3, 130, 20))
    before, results = get_num_threads(), []
    try:
        for count in (1, 2, 3):
            set_num_threads(count)
            inputs = tensors(arrays, True)
            out = F.scaled_dot_product_attention(*inputs, is_causal=True)
            grads = fl.autograd.grad((out * out).sum(), inputs)
            results.append([x.detach().numpy() for x in (out, *grads)])
    finally:
        set_num_threads(before)
    for other in results[1:]:
        for one, two in zip(results[0], other):
            oracle.check_bits(one, two)


def test_compiled_is_eager():
    """In a graph with other ops, the gradient too."""
    arrays = draw((2, 3, 37, 16), (2, 3, 37, 16), (2, 3, 37, 16))

    def function(query, key, value):
        out = ops.attention.attention(query.unsqueeze(2), key, value, 0.25, is_causal=True)[0]
        return [out * 2]

    inputs = tensors(arrays)
    _, run = oracle.compile_function(function, inputs)
    eager, = function(*inputs)
    oracle.check_bits(run(*inputs)[0].numpy(), eager.numpy())
    cotangent = fl.ones(2, 3, 1, 37, 16)
    leaves = tensors(arrays, True)
    wanted = oracle.gradients(function(*leaves), [cotangent], leaves)
    for got, other in zip(oracle.compiled_gradients(function, inputs, [cotangent]), wanted):
        oracle.check_bits(got.numpy(), other.numpy())


def test_sizes_that_are_not_known_yet():
    """A graph with symbolic sizes runs at any."""
    _, run = oracle.compile_function(lambda q, k, v, m: [F.scaled_dot_product_attention(q, k, v, m)],
                                     tensors(draw((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 5), (4, 6))))
    arrays = draw((1, 2, 9, 7), (1, 2, 3, 7), (1, 2, 3, 4), (9, 3))
    close(run(*tensors(arrays))[0], want(*arrays))


def test_memory_grows_with_the_length():
    """Ten times as long: ten times the peak, forward and backward, not a hundred times."""
    def peak(length):
        inputs = [fl.ones(1, 1, length, 8, requires_grad=True) for _ in range(3)]
        fl.memory.empty_cache()
        fl.memory.reset_peak()
        before = fl.memory.stats()["live_bytes"]
        F.scaled_dot_product_attention(*inputs, is_causal=True).sum().backward()
        return fl.memory.stats()["peak_bytes"] - before

    small, large = peak(200), peak(2000)
    assert large < 12 * small and large < 2000 * 2000 * 4 / 4


def test_a_batch_of_examples():
    """vmap takes all examples at once; a draw is refused, different or the same."""
    examples = fl.randn(4, 2, 10, 3, 8)
    key, value = fl.randn(2, 3, 10, 8), fl.randn(2, 3, 10, 8)

    def attend(x, **options):
        return F.scaled_dot_product_attention(x.transpose(1, 2), key, value, **options)

    for options in ({"is_causal": True}, {"attn_mask": fl.ones(10, 10).tril().bool()}):
        got = fl.vmap(lambda x: attend(x, **options))(examples)         # noqa: B023 - called at once
        oracle.check_bits(got.numpy(), fl.stack([attend(x, **options) for x in examples]).numpy())
    same = examples[:1].expand(4, 2, 10, 3, 8)
    drawn = {how: fl.vmap(lambda x: attend(x, dropout_p=0.5), randomness=how)(same)
             for how in ("different", "same")}
    assert (drawn["same"][0] == drawn["same"][1]).all()
    assert (drawn["different"][0] != drawn["different"][1]).any()
    with pytest.raises(RuntimeError, match="draws random numbers"):
        fl.vmap(lambda x: attend(x, dropout_p=0.5))(examples)


# ---------------------------------------------------------------------------------- many heads
def test_many_heads_with_and_without_weights():
    """need_weights=False takes the kernel: the same output, also with masks."""
    fl.manual_seed(0)
    layer = fl.nn.MultiheadAttention(12, 3, batch_first=True)
    x = fl.randn(2, 7, 12)
    causal = fl.ones(7, 7).triu(1).bool()
    padding = fl.tensor(numpy.arange(7) > numpy.array([[4], [6]]))
    for options in ({}, {"attn_mask": causal}, {"attn_mask": causal, "is_causal": True},
                    {"key_padding_mask": padding},
                    {"attn_mask": fl.randn(6, 7, 7), "key_padding_mask": fl.randn(2, 7)}):
        weighed, weights = layer(x, x, x, **options)
        out, nothing = layer(x, x, x, need_weights=False, **options)
        assert nothing is None and weights.shape == (2, 7, 7)
        close(out, weighed.detach().numpy(), 2e-6)


def test_gradient_op_has_no_scores():
    """Its results are as large as its operands: query, key and value."""
    sizes = [(1, 1, 1, 3, 4), (1, 1, 5, 4), (1, 1, 5, 2)]
    query, key, value = tensors(draw(*sizes))
    out, lse = ops.attention.attention(query, key, value, 1.0)
    grads = attention_gradient(fl.ones(1, 1, 1, 3, 2), query, key, value, lse, out.sum(-1), 1.0)
    assert [g.shape for g in grads] == sizes
