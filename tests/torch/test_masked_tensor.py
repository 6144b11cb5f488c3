"""Masked tensors: what they show, which ops keep which mask, and gradients that are masked themselves."""

import copy
import io
import math
import pickle

import pytest

import flambeau as fl
from flambeau import torch
from flambeau.torch.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

KEPT = [[True, False, True], [False, False, False]]


@pytest.fixture
def x():
    return masked_tensor(fl.arange(6.0).reshape(2, 3) + 1, fl.tensor(KEPT), requires_grad=True)


def read(masked):
    """Nested lists with None for what is masked out."""
    def joined(values, kept):
        return [joined(v, k) for v, k in zip(values, kept)] if isinstance(values, list) else values if kept else None
    masked = masked.detach().to_dense()
    return joined(masked.get_data().tolist(), masked.get_mask().tolist())


def test_text_shows_dashes_for_what_is_masked_out():
    data = fl.tensor([[1.5, -123456.5], [2.0, 3.0]])
    shown = repr(masked_tensor(data, fl.tensor([[True, False], [False, True]])))
    assert shown == "MaskedTensor(\n  [\n    [  1.5000,       --],\n    [      --,   3.0000]\n  ]\n)"
    assert repr(masked_tensor(fl.tensor(7), fl.tensor(False))) == "MaskedTensor(--, False)"
    assert str(masked_tensor(fl.tensor(7.0), fl.tensor(True))) == "MaskedTensor(  7.0000, True)"
    assert repr(masked_tensor(fl.zeros(0), fl.zeros(0).bool())) == "MaskedTensor(\n  []\n)"


def test_what_it_holds(x):
    assert is_masked_tensor(x) and isinstance(x, torch.Tensor) and isinstance(x, MaskedTensor)
    assert x.is_leaf and x.requires_grad and x.shape == (2, 3) and x.dtype is fl.float32
    assert x.get_mask().tolist() == KEPT and type(x.get_data()) is fl.Tensor
    assert x.to_tensor(0).tolist() == [[1, 0, 3], [0, 0, 0]]
    assert x.stride() == (3, 1) and x.is_contiguous() and not x.T.is_contiguous() and x.T.contiguous().is_contiguous()


def test_data_is_copied_and_history_asked_about():
    data = fl.ones(2)
    made = masked_tensor(data, fl.tensor([True, True]))
    data.zero_()
    assert made.sum().item() == 2
    with pytest.warns(UserWarning, match="as_masked_tensor"):
        masked_tensor(fl.ones(2, requires_grad=True), fl.tensor([True, True]))


@pytest.mark.parametrize("data, mask, error, text", [
    ([1], fl.tensor([True]), TypeError, "data must be a Tensor"),
    (fl.ones(1), [True], TypeError, "mask must be a Tensor"),
    (fl.ones(2), fl.ones(2), TypeError, "mask must have dtype bool"),
    (fl.ones(2), fl.ones(3).bool(), ValueError, r"data.size\(\) must equal mask.size"),
    (fl.ones(2), fl.ones(2, 1).bool(), ValueError, r"data.dim\(\) must equal mask.dim"),
    (fl.ones(2).to_sparse(), fl.ones(2).bool(), TypeError, "same layout"),
    (fl.ones(2).bfloat16(), fl.ones(2).bool(), TypeError, "bfloat16 is not supported"),
    (fl.ones(2, 2).to_sparse_csc(), fl.ones(2, 2).bool().to_sparse_csc(), TypeError, "layout of .* is not supported"),
    (fl.tensor([1.0, 0]).to_sparse(), fl.tensor([False, True]).to_sparse(), ValueError, "the same indices"),
])
def test_what_does_not_fit_is_refused(data, mask, error, text):
    with pytest.raises(error, match=text):
        masked_tensor(data, mask)


def test_elementwise_ops_keep_the_mask(x):
    assert read(x + 1) == [[2, None, 4], [None] * 3]
    assert read(2 / x.detach() * fl.tensor([1.0, 2.0, 3.0])) == [[2, None, 2], [None] * 3]
    assert read(x > 2) == [[False, None, True], [None] * 3]
    assert read(x.pow(2).clamp(max=5)) == [[1, None, 5], [None] * 3]
    assert read(x.int()) == [[1, None, 3], [None] * 3] and x.half().dtype is fl.float16
    assert read(x.detach().add_(1).sqrt_()) == [[pytest.approx(math.sqrt(2)), None, 2], [None] * 3]
    with pytest.raises(RuntimeError, match="leaf"):
        x.neg_()


def test_two_masks_must_be_the_same(x):
    same = masked_tensor(fl.ones(2, 3), fl.tensor(KEPT))
    assert read(x - same) == [[0, None, 2], [None] * 3]
    with pytest.raises(ValueError, match="Input masks must match"):
        x + masked_tensor(fl.ones(2, 3), ~fl.tensor(KEPT))
    with pytest.raises(ValueError, match="Input masks must match"):
        x * masked_tensor(fl.ones(3), fl.tensor([True, False, True]))


def test_views_and_joins_move_the_mask(x):
    assert read(x[0]) == [1, None, 3] and read(x[:, 2:]) == [[3], [None]]
    assert read(x[[1, 0], 0]) == [None, 1] and read(x[x.get_mask()]) == [1, 3]
    assert read(x.t()) == [[1, None], [None, None], [3, None]]
    assert read(x.reshape(-1)) == [1, None, 3, None, None, None] == read(x.view(3, 2).flatten())
    assert read(torch.cat([x, fl.zeros(1, 3)])) == [[1, None, 3], [None] * 3, [0, 0, 0]]
    assert torch.stack([x, x]).shape == (2, 2, 3) and [read(part) for part in x.split(2, 1)][1] == [[3], [None]]


@pytest.mark.parametrize("name, row, whole", [
    ("sum", 4, 4), ("mean", 2, 2), ("prod", 3, 3), ("amin", 1, 1), ("amax", 3, 3), ("argmin", 0, 0), ("argmax", 2, 2),
    ("all", True, True), ("var", 2, 2), ("std", math.sqrt(2), math.sqrt(2))])
def test_reductions_leave_out_what_is_masked(x, name, row, whole):
    assert read(getattr(torch, name)(x, 1)) == [pytest.approx(row), None]
    assert read(getattr(x, name)(1, keepdim=True)) == [[pytest.approx(row)], [None]]
    assert read(getattr(x, name)()) == pytest.approx(whole)
    assert read(getattr(x[1], name)()) is None


def test_item_of_what_is_masked_out_is_refused(x):
    assert x.sum().item() == 4 and bool(x.sum() > 3)
    with pytest.raises(ValueError, match="masked out"):
        x[1].sum().item()
    with pytest.raises(RuntimeError, match="6 elements"):
        x.item()


def test_softmax_over_what_is_specified(x):
    found = read(x.softmax(1))
    assert found[0] == [pytest.approx(1 / (1 + math.e ** 2)), None, pytest.approx(1 / (1 + math.e ** -2))]
    assert found[1] == [None] * 3
    (x.softmax(1) * x).sum().backward()
    share = found[0][2]
    assert read(x.grad)[0] == [pytest.approx(1 - share - 2 * share * (1 - share)), None,
                               pytest.approx(share + 2 * share * (1 - share))]


def test_where_takes_elements_and_masks(x):
    mask = x.get_mask()
    assert read(torch.where(mask, x, fl.zeros(2, 3))) == [[1, 0, 3], [0, 0, 0]] == read(torch.where(mask, x, 0.0))
    assert read(torch.where(mask, fl.zeros(2, 3), x)) == [[0, None, 0], [None] * 3]
    below, above = (masked_tensor(fl.tensor([-1.0, 2.0]), m, requires_grad=True) for m in (fl.tensor([True, False]),
                                                                                   fl.tensor([False, True])))
    torch.where(fl.tensor([True, False]), below.exp(), above).sum().backward()
    assert read(below.grad) == [pytest.approx(math.exp(-1)), None] and read(above.grad) == [None, 1]


def test_the_gradient_of_a_branch_not_taken_is_masked():
    a = masked_tensor(fl.tensor(2.0), fl.tensor(True), requires_grad=True)
    found, = torch.autograd.grad(torch.where(fl.tensor(False), a / 0, fl.ones(())), a)
    assert repr(found) == "MaskedTensor(--, False)"


@pytest.mark.parametrize("function, want", [
    (lambda x: x.sum(), [1, 1]), (lambda x: x.mean(), [0.5, 0.5]), (lambda x: (x * x).sum(), [2, 6]),
    (lambda x: x.prod(), [3, 1]), (lambda x: x.amax(), [0, 1]), (lambda x: x.var(), [-2, 2]),
    (lambda x: x.std(), [-math.sqrt(0.5), math.sqrt(0.5)]), (lambda x: x.norm(), [0.1 ** 0.5, 0.9 ** 0.5]),
    (lambda x: x.abs().sum(1).sum(), [1, 1]), (lambda x: x.T.reshape(-1)[:5].sum(), [1, 1]),
    (lambda x: x.log().sum(), [1, 1 / 3]), (lambda x: x[x.get_mask()].sum(), [1, 1]),
    (lambda x: x.expand(2, 2, 3).sum(), [2, 2]), (lambda x: torch.cat([x, x * 2]).sum(), [3, 3]),
    (lambda x: x.double().relu().sum(), [1, 1]), (lambda x: x.to_sparse().pow(2).to_dense().sum(), [2, 6]),
    (lambda x: x.to_sparse_csr().sum(), [1, 1]), (lambda x: x.get_data().sum(), [1, 1]),
    (lambda x: x.to_tensor(5).sum(), [1, 1])])
def test_gradients_are_masked(x, function, want):
    function(x).backward()
    first, second, third = read(x.grad)[0]
    assert second is None and [first, third] == pytest.approx(want) and read(x.grad)[1] == [None] * 3
    function(x).backward()
    assert read(x.grad)[0][2] == pytest.approx(2 * want[1])


def test_a_gradient_given_and_gradients_twice(x):
    (x * 3).backward(fl.full((2, 3), 2.0))
    assert read(x.grad) == [[6, None, 6], [None] * 3]
    first, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    second, = torch.autograd.grad(first.sum(), x)
    assert read(second) == [[6, None, 18], [None] * 3]


def test_plain_leaves_get_masked_gradients():
    x = fl.ones(2, requires_grad=True)
    as_masked_tensor(x / fl.tensor([0.0, 1.0]), fl.tensor([False, True])).sum().backward()
    assert read(x.grad) == [None, 1]
    b = fl.tensor(1.0, requires_grad=True)
    a = fl.tensor([1.0, 2.0, math.nan])
    found, = torch.autograd.grad((masked_tensor(a, ~a.isnan()) * b).sum(), b)
    assert read(found) == 3


def test_layouts(x):
    coo, csr = x.detach().to_sparse_coo(), x.detach().to_sparse_csr()
    assert coo.is_sparse and coo.is_sparse_coo() and not coo.is_sparse_csr() and csr.is_sparse_csr() and not x.is_sparse
    assert coo.get_data().indices().tolist() == [[0, 0], [0, 2]] and csr.get_data().crow_indices().tolist() == [0, 2, 2]
    for sparse in (coo, csr):
        assert repr(sparse) == repr(x) and read(sparse * 2 + sparse) == [[3, None, 9], [None] * 3]
        assert read(sparse.mean()) == 2 and read(sparse.argmax()) == 2 and sparse.sin().layout is sparse.layout
        assert read(sparse.to_dense()) == read(x) and sparse.to_sparse().is_sparse_coo()
        with pytest.raises(NotImplementedError, match="along an axis"):
            sparse.sum(1)
        with pytest.raises(NotImplementedError, match="layout"):
            sparse.t()
    with pytest.raises(ValueError, match="2D"):
        x[0].to_sparse_csr()


def test_sparse_data_takes_the_places_of_the_mask():
    data, mask = fl.tensor([[0, 0, 3], [4, 0, 5]]).to_sparse(), fl.tensor([[False, False, True], [False, False, True]])
    fewer = masked_tensor(data, mask.to_sparse())
    assert fewer.get_data().values().tolist() == [3, 5]
    given = fl.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], fl.tensor([True, False, True]), (2, 3))
    same = masked_tensor(data, given)
    assert same.get_data().values().tolist() == [3, 4, 5] and read(same) == read(fewer)
    with pytest.raises(ValueError, match="sparse_coo indices must match"):
        same + fewer


def test_what_has_no_rule_says_what_to_do(x):
    for call in (lambda: x @ x.T, lambda: x.cumsum(1), lambda: fl.sort(x), lambda: x.numpy(), lambda: x.tolist()):
        with pytest.raises(NotImplementedError, match="to_tensor"):
            call()


def test_copies_and_pickles(x):
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), copy.deepcopy(x.detach().to_sparse())):
        assert repr(made) == repr(x)
    for save in (torch.save, fl.save):
        with pytest.raises(NotImplementedError, match="get_mask"):
            save(x, io.BytesIO())
    assert copy.deepcopy(x).requires_grad and not x.detach().requires_grad


def test_functions_take_masked_tensors(x):
    assert torch.masked.sum(x, 1).tolist() == [4, 0] and type(torch.masked.sum(x, 1)) is fl.Tensor
    assert torch.masked.amax(input=x, dim=0, mask=fl.tensor([True, True, False])).tolist()[0] == 1
    assert torch.masked.softmax(x.detach()[:1], 1).tolist()[0][1] == 0
    assert torch.masked.logaddexp(x.detach()[0], fl.zeros(3))[0].item() == pytest.approx(math.log(1 + math.e))
    assert torch.masked.median(x.detach()[0], 0).item() == 1


def test_a_loss_with_a_mask_trains_a_layer():
    layer, inputs, keeps = fl.nn.Linear(3, 1), fl.arange(6.0).reshape(2, 3), fl.tensor([[False], [True]])
    as_masked_tensor(layer(inputs).softmax(0), keeps).sum().backward()
    found = layer.weight.grad
    layer.zero_grad()
    layer(inputs).softmax(0)[1].sum().backward()
    assert type(found) is fl.Tensor and torch.allclose(found, layer.weight.grad)


def test_gradients_with_two_masks_are_added():
    x = fl.ones(2, requires_grad=True)
    (as_masked_tensor(x, fl.tensor([True, False])).sum() + as_masked_tensor(x, fl.tensor([False, True])).sum()).backward()
    assert x.grad.tolist() == [1, 1]


def test_writes_keep_the_mask(x):
    with pytest.raises(NotImplementedError, match="setitem"):
        x[0] = 1.0
    plain, other = fl.zeros(2, 3), x.detach()
    with pytest.raises(ValueError, match="masks must match"):
        other.copy_(masked_tensor(plain, ~fl.tensor(KEPT)))
    with pytest.raises(NotImplementedError, match="copy_"):
        other.copy_(plain)
    with pytest.raises(RuntimeError):
        plain.add_(other)
    assert read(other.copy_(masked_tensor(plain, fl.tensor(KEPT)))) == [[0, None, 0], [None] * 3]
    assert read(x)[0] == [1, None, 3]


def test_hooks_see_masked_gradients(x):
    seen = []
    x.register_hook(lambda grad: seen.append(repr(grad)) or grad * 2)
    middle = x * 3
    middle.retain_grad()
    middle.sum().backward()
    assert "--" in seen[0] and read(x.grad) == [[6, None, 6], [None] * 3]
    assert read(middle.grad) == [[1, None, 1], [None] * 3]
