"""Nested tensors against the same computation item by item."""

import copy
import io

import numpy
import pytest

import flambeau as fl

F = fl.nn.functional
LENGTHS = (3, 1, 5)


def items(width=4, lengths=LENGTHS, seed=0):
    rng = numpy.random.default_rng(seed)
    return [fl.from_numpy(rng.standard_normal((n, width))).requires_grad_() for n in lengths]


def jagged(parts):
    return fl.nested.as_nested_tensor(parts, layout=fl.jagged)


def strided(parts):
    return fl.nested.as_nested_tensor(parts)


def close(got, want):
    numpy.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-10, atol=1e-12)


def same_items(got, want):
    assert got.is_nested and len(got) == len(want)
    for a, b in zip(got.unbind(), want):
        assert tuple(a.shape) == tuple(b.shape) and a.dtype is b.dtype
        close(a, b)


# ---------------------------------------------------------------------------------- making
def test_the_parts_of_a_jagged_tensor():
    made = jagged(items())
    assert made.layout is fl.jagged and made.is_nested and not made.is_sparse
    assert made.offsets().tolist() == [0, 3, 4, 9] and made.lengths() is None
    assert tuple(made.values().shape) == (9, 4) and (made.dim(), made.numel(), made.size(0), made.size(-1)) == (3, 36, 3, 4)
    assert str(made.shape).startswith("flambeau.Size([3, j") and made.is_contiguous()
    same_items(made, items())


def test_nested_tensor_is_a_leaf_with_a_copy():
    parts = items()
    for layout in (fl.jagged, fl.strided):
        made = fl.nested.nested_tensor(parts, layout=layout, requires_grad=True)
        assert made.is_leaf and made.requires_grad
        (made * made).sum().backward()
        same_items(made.grad, [2 * p for p in parts])
        assert all(p.grad is None for p in parts)
    assert fl.nested.nested_tensor([[1, 2], [3]]).dtype is fl.int64
    assert fl.nested.nested_tensor([[1, 2], [3]], dtype=fl.float64, layout=fl.jagged).dtype is fl.float64


def test_any_axis_may_be_ragged():
    parts = [fl.randn(2, n, 3) for n in LENGTHS]
    made = jagged(parts)
    assert tuple(made.values().shape) == (2, 9, 3) and made.shape[1] == 2
    same_items(made, parts)
    same_items(made.transpose(1, 2), [p.transpose(0, 1) for p in parts])


def test_what_is_refused():
    with pytest.raises(RuntimeError, match="one ragged dimension"):
        jagged([fl.ones(2, 3), fl.ones(4, 5)])
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        strided([fl.ones(2, 3), fl.ones(4)])
    with pytest.raises(RuntimeError, match="offsets"):
        fl.nested.nested_tensor_from_jagged(fl.ones(4, 2), fl.tensor([0, 9]))
    with pytest.raises(RuntimeError, match="sizes differ"):
        jagged(items()) + jagged(items(lengths=(3, 2, 4)))
    with pytest.raises(TypeError):
        fl.nested.nested_tensor(3)


def test_gaps_between_items():
    values = fl.arange(20.0).reshape(10, 2)
    made = fl.nested.nested_tensor_from_jagged(values, fl.tensor([0, 4, 10]), fl.tensor([2, 3]))
    want = [values[0:2], values[4:7]]
    assert not made.is_contiguous() and made.numel() == 10
    same_items(made, want)
    same_items(made * 2, [2 * w for w in want])
    close(made.sum(1), fl.stack([w.sum(0) for w in want]))
    close(made.sum(), sum(w.sum() for w in want))
    x = fl.arange(12.0).reshape(3, 4)
    cut = fl.nested.narrow(x, 1, fl.tensor([0, 1, 2]), fl.tensor([1, 2, 2]), layout=fl.jagged)
    same_items(cut, [x[0, :1], x[1, 1:3], x[2, 2:]])


def test_selected_by_a_mask():
    x, mask = fl.arange(6.0).reshape(2, 3), fl.tensor([[True, False, True], [False, False, False]])
    same_items(fl.nested.masked_select(x, mask), [fl.tensor([0.0, 2.0]), fl.zeros(0)])


@pytest.mark.parametrize("make", [jagged, strided])
def test_padding(make):
    parts = items()
    made = make(parts).to_padded_tensor(-1.0)
    want = fl.full((3, 5, 4), -1.0, dtype=fl.float64)
    for b, p in enumerate(parts):
        want[b, :p.shape[0]] = p.detach()
    close(made, want)
    assert tuple(fl.nested.to_padded_tensor(make(parts), 0, (3, 7, 4)).shape) == (3, 7, 4)
    (made * made).sum().backward()
    for p in parts:
        close(p.grad, 2 * p)
    with pytest.raises(RuntimeError, match="Truncation"):
        make(parts).to_padded_tensor(0, (3, 2, 4))


# ---------------------------------------------------------------------------------- ops
CALLS = {
    "arithmetic": lambda x: (x * 2 + 1) / 3 - x, "sin": fl.sin, "gelu": F.gelu, "compare": lambda x: x > 0,
    "where": lambda x: fl.where(x > 0, x, 0.0), "cast": lambda x: x.float(), "row": lambda x: x * fl.arange(4.0).double(),
    "softmax": lambda x: fl.softmax(x, -1), "log_softmax": lambda x: F.log_softmax(x, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, (4,)), "linear": lambda x: F.linear(x, fl.ones(2, 4).double(), fl.ones(2).double()),
    "matmul": lambda x: x @ fl.arange(8.0).double().reshape(4, 2), "sum": lambda x: x.sum(-1),
    "keep": lambda x: x.sum(-1, keepdim=True), "mean": lambda x: x.mean(-1), "max": lambda x: x.max(-1).values,
    "argmax": lambda x: x.argmax(-1), "unflatten": lambda x: x.unflatten(-1, (2, 2)), "cumsum": lambda x: fl.cumsum(x, -1),
    "flatten": lambda x: x.unflatten(-1, (2, 2)).flatten(-2), "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.unsqueeze(-1).squeeze(-1), "part": lambda x: x.narrow(-1, 1, 2), "chunk": lambda x: x.chunk(2, -1)[1],
    "select": lambda x: x.select(-1, 2), "cat": lambda x: fl.cat([x, x * 2], -1), "sort": lambda x: x.sort(-1).values,
    "transpose": lambda x: x.transpose(-1, -2), "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "clone": lambda x: x.clone(), "norm": lambda x: x.norm(dim=-1), "std": lambda x: x.std(-1),
}


@pytest.mark.parametrize("make", [jagged, strided])
@pytest.mark.parametrize("name", CALLS)
def test_an_op_is_the_op_on_each_item(name, make):
    same_items(CALLS[name](make(items())), [CALLS[name](p) for p in items()])


@pytest.mark.parametrize("name", [n for n in CALLS if n not in ("compare", "argmax", "cast")])
def test_gradients_are_those_of_each_item(name):
    parts, alone = items(), items()
    (CALLS[name](jagged(parts)).values() ** 2).sum().backward()
    sum((CALLS[name](p) ** 2).sum() for p in alone).backward()
    for a, b in zip(parts, alone):
        close(a.grad, b.grad)


ALONG = {"sum": lambda x, d: x.sum(d), "mean": lambda x, d: x.mean(d), "amax": lambda x, d: x.amax(d),
         "max": lambda x, d: x.max(d).indices, "std": lambda x, d: x.std(d), "any": lambda x, d: (x > 1).any(d),
         "both": lambda x, d: x.sum((d, d + 1)), "logsumexp": lambda x, d: fl.logsumexp(x, d)}


@pytest.mark.parametrize("name", ALONG)
def test_reductions_over_the_ragged_axis(name):
    parts, alone = items(lengths=(3, 2, 5)), items(lengths=(3, 2, 5))
    got, want = ALONG[name](jagged(parts), 1), fl.stack([ALONG[name](p, 0) for p in alone])
    close(got, want)
    if want.requires_grad:
        (got ** 2).sum().backward()
        (want ** 2).sum().backward()
        for a, b in zip(parts, alone):
            close(a.grad, b.grad)


def test_softmax_over_the_ragged_axis():
    same_items(fl.softmax(jagged(items()), 1), [fl.softmax(p, 0) for p in items()])


def test_reductions_of_everything():
    for make in (jagged, strided):
        close(make(items()).sum(), sum(p.sum() for p in items()))
        close(make(items()).mean(), fl.cat(items()).mean())
        assert make(items()).max().item() == max(p.max().item() for p in items())


def test_dense_operands_for_each_item():
    weight = fl.arange(3.0).double()
    for shape in ((3, 1, 1), (1, 1, 4), (3, 1, 4)):
        factor = fl.arange(float(numpy.prod(shape))).double().reshape(shape)
        got = jagged(items()) * factor
        same_items(got, [p * factor[b if shape[0] == 3 else 0] for b, p in enumerate(items())])
    assert weight.shape == (3,)


def test_indexing():
    made, parts = jagged(items()), items()
    close(made[1], parts[1])
    close(made[2, 1], parts[2][1])
    same_items(made[:, :, 1:3], [p[:, 1:3] for p in parts])
    same_items(made[..., 0], [p[..., 0] for p in parts])
    same_items(made[1:], parts[1:])


def test_products_of_two_ragged_tensors():
    made = jagged(items())
    same_items(made @ made.transpose(1, 2), [p @ p.T for p in items()])


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_sequences(causal):
    parts, alone = items(8), items(8)
    heads = jagged(parts).unflatten(-1, (2, 4)).transpose(1, 2)
    got = F.scaled_dot_product_attention(heads, heads, heads, is_causal=causal).transpose(1, 2).flatten(-2)
    want = []
    for p in alone:
        h = p.unflatten(-1, (2, 4)).transpose(0, 1)
        want.append(F.scaled_dot_product_attention(h, h, h, is_causal=causal).transpose(0, 1).flatten(-2))
    same_items(got, want)
    (got.values() ** 2).sum().backward()
    sum((w ** 2).sum() for w in want).backward()
    for a, b in zip(parts, alone):
        close(a.grad, b.grad)


def test_a_model_of_sequences():
    table = fl.nn.Embedding(7, 4)
    model = fl.nn.Sequential(fl.nn.Linear(4, 8), fl.nn.ReLU(), fl.nn.LayerNorm(8), fl.nn.Linear(8, 2))
    words = [fl.tensor([1, 2, 3]), fl.tensor([6])]
    out = model(table(fl.nested.nested_tensor(words, layout=fl.jagged)))
    for got, want in zip(out.unbind(), [model(table(w)) for w in words]):
        numpy.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6)
    out.mean(1).sum().backward()
    assert float(table.weight.grad[6].abs().sum()) > 0 and float(table.weight.grad[4].abs().sum()) == 0


# ---------------------------------------------------------------------------------- the rest of the surface
def test_in_place_and_like():
    made = fl.nested.nested_tensor(items(), layout=fl.jagged)
    made.mul_(2)
    made += 1
    same_items(made, [2 * p + 1 for p in items()])
    same_items(fl.zeros_like(made), [p * 0 for p in items()])
    same_items(fl.ones_like(made), [fl.ones_like(p) for p in items()])


@pytest.mark.parametrize("layout", [fl.jagged, fl.strided])
def test_copies_and_files(layout):
    made = fl.nested.nested_tensor(items(), layout=layout, requires_grad=True)
    buffer = io.BytesIO()
    fl.save([made], buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(made), fl.load(buffer)[0]):
        assert other.layout is layout and other.requires_grad
        same_items(other, items())


def test_text():
    made = fl.nested.nested_tensor([[1.0, 2.0], [3.0]])
    assert repr(made) == "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])"
    text = repr(fl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=fl.jagged))
    assert text.startswith("NestedTensor(size=(2, j") and text.endswith("), offsets=tensor([0, 2, 3]), contiguous=True)")


def test_numbers_are_not_read_silently():
    with pytest.raises(NotImplementedError, match="to_padded_tensor"):
        jagged(items()).tolist()


@pytest.mark.parametrize("layout", [fl.jagged, fl.strided])
@pytest.mark.parametrize("rest", [(-1,), (slice(1, None), 2), (slice(None), -1), (slice(-2, None),), (Ellipsis, 0),
                                  (slice(None, 1), None)])
def test_an_index_into_one_item_is_read_by_its_own_sizes(layout, rest):
    parts = [fl.arange(6.0).reshape(2, 3), fl.arange(12.0).reshape(4, 3)]
    made = fl.nested.nested_tensor(parts, layout=layout, requires_grad=True)
    for number in (1, -2):
        assert fl.equal(made[(number, *rest)], parts[number][rest])
    made[(1, *rest)].sum().backward()
    assert made.grad[1].sum() == parts[1][rest].numel() and made.grad[0].sum() == 0
