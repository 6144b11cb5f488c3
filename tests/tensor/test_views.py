"""Views share memory and count writes together; copies do not."""

import numpy
import pytest

import flambeau as fl

VIEWS = {
    "view": lambda x: x.view(4, 3), "reshape": lambda x: x.reshape(2, 6), "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT, "permute": lambda x: x.permute(1, 0), "transpose": lambda x: x.transpose(0, 1),
    "expand": lambda x: x.expand(2, 3, 4), "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(),
    "flatten": lambda x: x.flatten(), "narrow": lambda x: x.narrow(1, 1, 2), "row": lambda x: x[1],
    "slice": lambda x: x[::2, 1:], "none": lambda x: x[:, None], "ellipsis": lambda x: x[..., 0],
    "unbind": lambda x: x.unbind(1)[2], "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data, "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 1),
}
COPIES = {
    "clone": lambda x: x.clone(), "contiguous": lambda x: x.t().contiguous(),
    "reshape": lambda x: x.t().reshape(12),
    "list": lambda x: x[[0, 2]], "mask": lambda x: x[x > 3], "cast": lambda x: x.double(),
    "op": lambda x: x + 0,
}


def table():
    return fl.arange(12, dtype=fl.float32).reshape(3, 4)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_memory_and_version(name):
    x = table()
    view = VIEWS[name](x)
    version = x._version
    if name != "expand":
        view.add_(100)
        assert x._version == view._version
        assert x._version > version or name == "data"       # the tape does not see writes through `data`
        assert (x >= 100).any()
    x.zero_()
    assert not view.any()


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_does_not(name):
    x = table()
    made = COPIES[name](x)
    version, before = x._version, x.tolist()
    made.zero_()
    assert x.tolist() == before and x._version == version


@pytest.mark.parametrize("name", VIEWS)
def test_strides_are_numpys(name):
    x = table()
    numpy_views = {"view": lambda a: a.reshape(4, 3), "t": lambda a: a.T,
                   "expand": lambda a: numpy.broadcast_to(a, (2, 3, 4)),
                   "slice": lambda a: a[::2, 1:], "row": lambda a: a[1], "ellipsis": lambda a: a[..., 0]}
    if name in numpy_views:
        want = numpy_views[name](x.numpy())
        assert VIEWS[name](x).stride() == tuple(s // 4 for s in want.strides)
    view = VIEWS[name](x)
    numpy.testing.assert_array_equal(view.numpy(), view.contiguous().numpy())


def test_base_is_the_first_tensor():
    x = table().clone()
    assert x._base is None and x[1][2:]._base is x and x.t().t()._base is x


def test_view_needs_fitting_strides():
    x = table()
    with pytest.raises(RuntimeError, match="reshape"):
        x.t().view(12)
    with pytest.raises(RuntimeError, match="invalid for|elements|size"):
        x.view(5, 2)
    assert x.view(-1, 6).shape == (2, 6)
    with pytest.raises(RuntimeError):
        x.view(-1, -1)


def test_view_gradients_are_transposes():
    w = fl.arange(12, dtype=fl.float64).reshape(3, 4)
    for name, view in VIEWS.items():
        if name in ("detach", "data"):
            continue
        x = table().double().requires_grad_(True)
        y = view(x)
        weights = fl.arange(1, y.numel() + 1, dtype=fl.float64).reshape(y.shape)
        (y * weights).sum().backward()
        want = numpy.zeros((3, 4))
        places = view(fl.arange(12).reshape(3, 4)).numpy()
        numpy.add.at(want.reshape(-1), places.reshape(-1), weights.numpy().reshape(-1))
        numpy.testing.assert_array_equal(x.grad.numpy(), want, err_msg=name)
    assert w.grad is None


def test_as_strided_with_overlap_and_out_of_bounds():
    x = fl.arange(5, dtype=fl.float64).requires_grad_(True)
    y = x.as_strided((3, 3), (1, 1))
    assert y.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0, 2.0, 1.0]
    with pytest.raises(RuntimeError, match="outside"):
        x.as_strided((3, 3), (2, 1))
    with pytest.raises(RuntimeError):
        x.as_strided((3,), (1, 1))


def test_a_write_to_an_expanded_tensor_is_refused():
    x = fl.ones(3)
    for write in (lambda: x.expand(2, 3).fill_(1), lambda: x.expand(2, 3).copy_(fl.ones(2, 3)),
                  lambda: x.expand(4, 2, 3).__setitem__(0, 5), lambda: x.expand(2, 3).add_(1)):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    x.expand(1, 3).fill_(2)
    assert x.tolist() == [2.0] * 3


def test_overlapping_copies_read_before_they_write():
    for size in (5, 100, 1000):
        x, want = fl.arange(size), numpy.arange(size)
        x[1:] = x[:-1]
        want[1:] = want[:-1].copy()
        assert x.tolist() == want.tolist()
        x[:-1] = x[1:]
        want[:-1] = want[1:].copy()
        assert x.tolist() == want.tolist()


def test_a_view_keeps_the_memory_alive():
    row = fl.ones(100, 100)[3]
    fl.zeros(100, 100)
    assert row.sum().item() == 100.0


def test_numpy_shares_memory_both_ways():
    x = table()
    array = x.numpy()
    array[0, 0] = 42
    x[0, 1] = 43
    assert x[0, 0].item() == 42 and array[0, 1] == 43
    back = fl.from_numpy(array)
    back[0, 2] = 44
    assert x[0, 2].item() == 44
    del x
    assert array[0, 2] == 44
