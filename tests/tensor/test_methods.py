"""Methods of Tensor that are no ops: conversion, in-place forms, extremes, protocols, attributes."""

import copy
import pickle

import numpy
import pytest

import flambeau as fl


def table():
    return fl.tensor([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]])


# ---------------------------------------------------------------------------------- conversion
@pytest.mark.parametrize("spelling, dtype", [
    (lambda x: x.to(fl.float64), "float64"), (lambda x: x.to("cpu", fl.int32), "int32"),
    (lambda x: x.to(dtype=fl.float16), "float16"),
    (lambda x: x.to(fl.ones(1, dtype=fl.int8)), "int8"), (lambda x: x.double(), "float64"),
    (lambda x: x.half(), "float16"),
    (lambda x: x.bfloat16(), "bfloat16"), (lambda x: x.long(), "int64"), (lambda x: x.int(), "int32"),
    (lambda x: x.short(), "int16"),
    (lambda x: x.char(), "int8"), (lambda x: x.abs().byte(), "uint8"), (lambda x: x.bool(), "bool"),
    (lambda x: x.type(fl.float64), "float64"),
    (lambda x: x.type_as(fl.ones(1, dtype=fl.int16)), "int16"),
])
def test_casts(spelling, dtype):
    assert spelling(table()).dtype.name == dtype


def test_a_cast_to_the_same_dtype_is_the_tensor_itself():
    x = table()
    assert x.to(fl.float32) is x and x.float() is x and x.cpu() is x and x.to("cpu") is x
    assert x.to(fl.float32, copy=True) is not x


def test_casts_round_toward_zero_and_keep_gradients():
    assert fl.tensor([1.9, -1.9]).long().tolist() == [1, -1]
    assert fl.tensor([0.0, float("nan"), 2.0]).bool().tolist() == [False, True, True]
    x = table().requires_grad_(True)
    x.double().sum().backward()
    assert x.grad.dtype is fl.float32 and x.grad.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32",
                                   "float64"])
def test_numpy_and_back(dtype):
    array = numpy.array([[0, 1, 5], [2, 0, 3]], dtype)
    x = fl.from_numpy(array)
    assert x.numpy().dtype == array.dtype and (x.numpy() == array).all()
    assert x.numpy().ctypes.data == array.ctypes.data
    assert x.tolist() == array.tolist() and numpy.asarray(x).dtype == array.dtype
    assert numpy.array(x, dtype="float64").tolist() == array.astype("float64").tolist()
    assert x.t().numpy().tolist() == array.T.tolist()


def test_numpy_refuses_what_it_cannot_share():
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        table().requires_grad_(True).numpy()
    with pytest.raises(TypeError, match="bfloat16"):
        table().bfloat16().numpy()
    with pytest.raises(RuntimeError, match="meta"):
        fl.zeros(2, device="meta").numpy()
    assert table().bfloat16().tolist() == table().tolist()


def test_python_numbers():
    assert fl.tensor(2.5).item() == 2.5 and float(fl.tensor([2.5])) == 2.5
    assert int(fl.tensor(7.9)) == 7 and bool(fl.tensor(0)) is False
    assert [1, 2, 3][fl.tensor(1)] == 2 and type(fl.tensor(True).item()) is bool
    assert type(fl.tensor(3).item()) is int
    assert fl.tensor(1.5, dtype=fl.float16).item() == 1.5 and fl.tensor(3, dtype=fl.bfloat16).item() == 3.0
    for bad in (lambda: table().item(), lambda: bool(table()), lambda: bool(fl.zeros(0)),
                lambda: float(table())):
        with pytest.raises((RuntimeError, ValueError)):
            bad()
    with pytest.raises(TypeError):
        [1, 2][fl.tensor(1.0)]
    assert f"{fl.tensor(1.234):.2f}" == "1.23" and f"{fl.tensor(3)}" == "3"


# ---------------------------------------------------------------------------------- in place
@pytest.mark.parametrize("write, want", [
    (lambda x: x.fill_(2), [2.0] * 3), (lambda x: x.zero_(), [0.0] * 3),
    (lambda x: x.add_(1), [2.0, -1.0, 4.0]),
    (lambda x: x.add_(x, alpha=2), [3.0, -6.0, 9.0]), (lambda x: x.sub_(1), [0.0, -3.0, 2.0]),
    (lambda x: x.mul_(x), [1.0, 4.0, 9.0]),
    (lambda x: x.div_(2), [0.5, -1.0, 1.5]), (lambda x: x.pow_(2), [1.0, 4.0, 9.0]),
    (lambda x: x.neg_(), [-1.0, 2.0, -3.0]),
    (lambda x: x.abs_(), [1.0, 2.0, 3.0]), (lambda x: x.clamp_(0, 2), [1.0, 0.0, 2.0]),
    (lambda x: x.clamp_(max=0), [0.0, -2.0, 0.0]),
    (lambda x: x.relu_(), [1.0, 0.0, 3.0]), (lambda x: x.copy_(fl.tensor([7, 8, 9])), [7.0, 8.0, 9.0]),
    (lambda x: x.copy_(fl.tensor(5)), [5.0] * 3),
    (lambda x: x.masked_fill_(x < 0, 9), [1.0, 9.0, 3.0]), (lambda x: x.floor_().add_(0.5), [1.5, -1.5, 3.5]),
])
def test_in_place_forms(write, want):
    x = fl.tensor([1.0, -2.0, 3.0])
    place, version = x.data_ptr(), x._version
    assert write(x) is x
    assert x.tolist() == want and x.data_ptr() == place and x._version > version
    row = fl.zeros(2, 6)[1, ::2]
    row.copy_(fl.tensor([1.0, -2.0, 3.0]))
    write(row)
    assert row.tolist() == want and not row._base[0].any()


def test_in_place_results_must_fit():
    x = fl.ones(3)
    with pytest.raises(RuntimeError):
        x.add_(fl.ones(2, 3))
    with pytest.raises(RuntimeError, match="can't be cast"):
        fl.ones(3, dtype=fl.int64).mul_(1.5)
    assert x.tolist() == [1.0] * 3


def test_random_fills():
    x = fl.empty(1000)
    assert 2 <= x.uniform_(2, 3).min().item() and x.max().item() < 3
    assert abs(x.normal_(5, 0.1).mean().item() - 5) < 0.05 and set(x.bernoulli_(0.5).tolist()) == {0.0, 1.0}
    assert set(x.random_(3).tolist()) == {0.0, 1.0, 2.0} and set(x.random_(5, 7).tolist()) == {5.0, 6.0}
    assert not x.detach().requires_grad
    assert fl.ones(2, requires_grad=True).detach().uniform_().requires_grad is False


def test_masked_fill_keeps_the_dtype():
    i, mask = fl.tensor([1, 2]), fl.tensor([True, False])
    assert i.masked_fill(mask, 2.5).tolist() == [2, 2] and i.masked_fill(mask, 2.5).dtype is fl.int64
    assert table().masked_fill(table() < 0, float("-inf")).min().item() == float("-inf")
    x = table().requires_grad_(True)
    x.masked_fill(x.detach() < 0, 0.0).sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]


def test_where_chooses_itself():
    x = table()
    assert x.where(x > 0, 0.0).tolist() == x.clamp(min=0).tolist()


# ---------------------------------------------------------------------------------- extremes
def test_max_and_min_in_their_three_forms():
    x = table()
    assert x.max().item() == 4.0 and x.min().item() == -6.0
    values, places = x.max(1)
    assert values.tolist() == [3.0, 4.0] and places.tolist() == [2, 0]
    assert x.max(dim=0).indices.tolist() == [1, 1, 0]
    assert x.min(1, keepdim=True).values.shape == (2, 1)
    assert fl.max(x, fl.zeros(1)).tolist() == x.clamp(min=0).tolist()
    nan = fl.tensor([1.0, float("nan"), 3.0])
    assert nan.max().isnan() and nan.argmax().item() == 1 and nan.max(0).indices.item() == 1
    x.requires_grad_(True)
    x.max(1).values.sum().backward()
    assert x.grad.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_places_of_extremes():
    x = fl.tensor([[3, 1, 3], [0, 0, 2]])
    assert x.argmax().item() == 0 and x.argmin().item() == 3
    assert x.argmax(0).tolist() == [0, 0, 0]      # the first of equals
    assert x.argmax(1, keepdim=True).shape == (2, 1) and x.argmin(-1).tolist() == [1, 0]
    assert fl.tensor(3).argmax().item() == 0
    with pytest.raises(IndexError):
        fl.zeros(0).argmax()
    with pytest.raises(IndexError):
        x.argmax(2)


# ---------------------------------------------------------------------------------- shape
def test_shape_attributes():
    x = fl.zeros(2, 3, 4)
    assert x.shape == (2, 3, 4) == x.size() and x.size(-1) == 4 and x.ndim == x.dim() == 3
    assert x.numel() == x.nelement() == 24
    assert x.shape.numel() == 24 and type(x.shape[1:]) is fl.Size
    assert repr(x.shape) == "flambeau.Size([2, 3, 4])"
    assert x.stride() == (12, 4, 1) and x.stride(0) == 12 and x.element_size() == 4
    assert x.nbytes == 96 and x[1].storage_offset() == 12
    with pytest.raises(IndexError):
        x.size(3)


def test_unbind_and_unflatten():
    x = fl.arange(24).reshape(2, 3, 4)
    assert [t.shape for t in x.unbind(1)] == [(2, 4)] * 3 and x.unbind()[1].tolist() == x[1].tolist()
    assert x.unflatten(2, (2, 2)).shape == (2, 3, 2, 2) and x.unflatten(-1, (2, -1)).shape == (2, 3, 2, 2)


# ---------------------------------------------------------------------------------- protocols
def test_tensors_are_keys_by_identity():
    x, y = fl.ones(1), fl.ones(1)
    assert len({x: 1, y: 2}) == 2 and {x: 1}[x] == 1


def test_attributes_of_ones_own():
    x = fl.ones(1)
    x.note = "kept"
    assert x.note == "kept" and not hasattr(x, "other")
    del x.note
    with pytest.raises(AttributeError, match="note"):
        x.note
    with pytest.raises(AttributeError):
        x.shape = (1,)


def test_copies():
    x = table().requires_grad_(True)
    x.sum().backward()
    deep = copy.deepcopy(x)
    assert deep.requires_grad and deep.grad.tolist() == x.grad.tolist() and deep.data_ptr() != x.data_ptr()
    again = pickle.loads(pickle.dumps(x))
    assert again.tolist() == x.tolist() and again.requires_grad
    with pytest.raises(RuntimeError, match="leaves"):
        copy.deepcopy(x * 2)


def test_assigning_a_gradient():
    x = table()
    x.grad = fl.ones(2, 3)
    assert x.grad.sum().item() == 6.0
    for bad, kind in ((fl.ones(3), RuntimeError), (fl.ones(2, 3).double(), RuntimeError), (1.0, TypeError)):
        with pytest.raises(kind):
            x.grad = bad
    del x.grad
    assert x.grad is None


def test_meta_tensors_have_shapes_only():
    x = fl.zeros(2, 3, device="meta")
    assert x[0].is_meta and x[:, None, :2].shape == (2, 1, 2) and x.t().shape == (3, 2)
    assert x.is_meta and x.device.type == "meta" and x.shape == (2, 3) and table().to("meta").shape == (2, 3)
    with pytest.raises(RuntimeError, match="meta"):
        fl.zeros((), device="meta").item()


def test_complex_numbers_on_the_tape_can_be_read():
    z = fl.tensor([1 + 2j], requires_grad=True)
    assert z.item() == 1 + 2j and z[0].tolist() == 1 + 2j and bool(z)


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty"])
def test_new_tensors_without_a_dtype_take_that_of_their_tensor(name):
    x = fl.zeros(2, dtype=fl.float16)
    assert getattr(x, name)(3, dtype=None, device=None).dtype is fl.float16
    assert x.new_full((2,), 1, dtype=None).dtype is x.new_tensor([1], dtype=None).dtype is fl.float16
