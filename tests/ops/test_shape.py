"""Further views and splits: the memory they share, the sizes they give, the gradients that come back."""

import numpy
import pytest

import flambeau as fl


def grid(*shape):
    return fl.arange(float(numpy.prod(shape))).reshape(shape)


VIEWS = {
    "movedim": (lambda x: fl.movedim(x, 0, -1), lambda a: numpy.moveaxis(a, 0, -1)),
    "moveaxis of two": (
        lambda x: fl.moveaxis(x, (0, 2), (1, 0)), lambda a: numpy.moveaxis(a, (0, 2), (1, 0))),
    "swapaxes": (lambda x: fl.swapaxes(x, 0, 2), lambda a: a.swapaxes(0, 2)),
    "swapdims": (lambda x: x.swapdims(-1, 0), lambda a: a.swapaxes(-1, 0)),
    "adjoint": (fl.adjoint, lambda a: a.swapaxes(-1, -2)),
    "mH": (lambda x: x.mH, lambda a: a.swapaxes(-1, -2)),
    "select": (lambda x: fl.select(x, 1, -2), lambda a: a[:, -2]),
    "diagonal": (lambda x: x.diagonal(1, 0, 2), lambda a: a.diagonal(1, 0, 2)),
    "narrow": (lambda x: x.narrow(2, -3, 2), lambda a: a[:, :, -3:-1]),
    "narrow with a tensor": (lambda x: fl.narrow(x, 2, fl.tensor(1), 2), lambda a: a[:, :, 1:3]),
    "unflatten": (lambda x: x.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2)),
    "ravel": (fl.ravel, numpy.ravel),
    "broadcast_to": (
        lambda x: fl.broadcast_to(x, (5, 2, 3, 4)), lambda a: numpy.broadcast_to(a, (5, 2, 3, 4))),
    "unfold": (lambda x: x.unfold(2, 2, 2), lambda a: a.reshape(2, 3, 2, 2)),
    "atleast_3d": (fl.atleast_3d, numpy.atleast_3d),
    "as_strided": (lambda x: fl.as_strided(x, (2, 2), (1, 3), 4), lambda a: a.ravel()[[[4, 7], [5, 8]]]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name):
    make, reference = VIEWS[name]
    x = grid(2, 3, 4)
    view = make(x)
    numpy.testing.assert_array_equal(view.numpy(), reference(x.numpy()))
    x.mul_(2)
    numpy.testing.assert_array_equal(view.numpy(), reference(x.numpy()))


@pytest.mark.parametrize("name", VIEWS)
def test_gradient_of_views(name):
    """The gradient counts how often the view shows each element."""
    x = grid(2, 3, 4).requires_grad_()
    VIEWS[name][0](x).sum().backward()
    shown = VIEWS[name][1](numpy.arange(24.0).reshape(2, 3, 4)).ravel().astype(int)
    numpy.testing.assert_array_equal(x.grad.numpy().ravel(), numpy.bincount(shown, minlength=24))


def test_overlapping_windows_add_their_gradients():
    x = grid(6).requires_grad_()
    (x.unfold(0, 3, 1) * fl.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [1, 11, 111, 111, 110, 100]


SPLITS = {
    "split": (lambda x: x.split(2), lambda a: numpy.split(a, [2, 4])),
    "split by sizes": (lambda x: fl.split(x, [1, 4], 0), lambda a: numpy.split(a, [1])),
    "chunk": (lambda x: x.chunk(2), lambda a: numpy.split(a, [3])),
    "tensor_split": (lambda x: x.tensor_split(3), lambda a: numpy.array_split(a, 3)),
    "tensor_split at": (lambda x: fl.tensor_split(x, (1, 9)), lambda a: numpy.split(a, [1, 9])),
    "vsplit": (lambda x: fl.vsplit(x, (2,)), lambda a: numpy.vsplit(a, (2,))),
    "hsplit": (lambda x: x.hsplit(2), lambda a: numpy.hsplit(a, 2)),
    "unbind": (lambda x: x.unbind(1), lambda a: list(a.swapaxes(0, 1))),
}


@pytest.mark.parametrize("name", SPLITS)
def test_splits(name):
    make, reference = SPLITS[name]
    x = grid(5, 4)
    parts, wanted = make(x), reference(x.numpy())
    assert isinstance(parts, tuple) and len(parts) == len(wanted)
    for part, want in zip(parts, wanted):
        numpy.testing.assert_array_equal(part.numpy(), want)


def test_negative_places_in_a_graph():
    from flambeau.testing.oracle import compile_function
    x = grid(3, 4)
    for function in (lambda x: fl.select(x, 1, -1) * 2, lambda x: x.diagonal(-1) + 1,
                     lambda x: x.unfold(1, 2, 1) * 2):
        numpy.testing.assert_array_equal(compile_function(function, [x])[1](x)[0].numpy(),
                                         function(x).numpy())


def test_split_of_nothing():
    assert [tuple(p.shape) for p in fl.zeros(0, 2).chunk(3)] == [(0, 2)] * 3
    assert [tuple(p.shape) for p in fl.zeros(0, 2).split(0)] == [(0, 2)]


def test_diagonals_as_results():
    x = grid(2, 2) + 1
    numpy.testing.assert_array_equal(fl.diagflat(x, 1).numpy(), numpy.diagflat(x.numpy(), 1))
    numpy.testing.assert_array_equal(fl.diag(fl.diag(grid(3), -1), -1).numpy(), numpy.arange(3.0))
    made = fl.diag_embed(grid(2, 3), offset=-1, dim1=0, dim2=2)
    assert tuple(made.shape) == (4, 2, 4)
    numpy.testing.assert_array_equal(made.diagonal(-1, 0, 2).numpy(), grid(2, 3).numpy())
    assert made.sum() == 15


SCATTERS = {
    "select_scatter": (lambda x, s: fl.select_scatter(x, s, 1, -1), lambda a: a[:, -1]),
    "slice_scatter": (lambda x, s: fl.slice_scatter(x, s, 1, 0, 4, 2), lambda a: a[:, 0:4:2]),
    "diagonal_scatter": (lambda x, s: x.diagonal_scatter(s, 1), lambda a: a[[0, 1, 2], [1, 2, 3]]),
    "as_strided_scatter": (
        lambda x, s: fl.as_strided_scatter(x, s, (2, 2), (4, 2), 1), lambda a: a[:2, 1::2]),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatter_into_a_view(name):
    """The source replaces the part, and takes its gradient."""
    make, part = SCATTERS[name]
    x = grid(3, 4).requires_grad_()
    source = fl.tensor(-1.0 - part(x.detach().numpy())).requires_grad_()
    weight = grid(3, 4) + 1
    made = make(x, source)
    numpy.testing.assert_array_equal(part(made.detach().numpy()), source.detach().numpy())
    (made * weight).sum().backward()
    numpy.testing.assert_array_equal(source.grad.numpy(), part(weight.numpy()))
    assert (x.grad + (x.grad == 0) * weight == weight).all() and (part(x.grad.numpy()) == 0).all()


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda x: fl.select(x, 0, 7), IndexError, "index 7"),
    (lambda x: x.split(-1), RuntimeError, "non-negative"),
    (lambda x: x.split([1, 1]), RuntimeError, "sum exactly to 3"),
    (lambda x: x.chunk(0), RuntimeError, "greater than 0"),
    (lambda x: x.unflatten(1, (3, 3)), RuntimeError, "don't multiply up"),
    (lambda x: fl.movedim(x, (0, 1), (0,)), RuntimeError, "length"),
    (lambda x: x.diagonal(0, 1, 1), RuntimeError, "identical"),
    (lambda x: x.unfold(0, 4, 1), RuntimeError, "maximum size"),
    (lambda x: fl.select_scatter(x, fl.ones(9), 0, 0), RuntimeError, "slice of self"),
    (lambda x: x.narrow(0, 2, 2), RuntimeError, "lie inside"),
    (lambda x: fl.hsplit(x, 3), RuntimeError, "not divisible"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(grid(3, 4))


def test_integer_tensors_are_sizes_axes_and_counts():
    x = fl.arange(12.0).reshape(3, 4)
    two, one = fl.tensor(2), fl.tensor([1])
    for k in (2, 3):                                       # a call's number is not remembered with its tensor
        assert x.topk(fl.tensor(k), dim=-1).values.shape == (3, k)
        assert x.kthvalue(fl.tensor(k)).values.tolist() == [k - 1, k + 3, k + 7]
        assert x.unfold(1, fl.tensor(k), one).shape == (3, 5 - k, k)
    assert x.reshape(two, -1).shape == x.view(fl.Size((2, 6))).shape == (2, 6)
    assert x.reshape((two, fl.tensor(6))).shape == x.reshape([2, fl.tensor(6)]).shape == (2, 6)
    assert [p.shape[0] for p in x.split(two)] == [2, 1]
    assert x[:, :1].expand(fl.tensor(3), two).shape == (3, 2)
    assert x.sum(dim=one).tolist() == x.sum(1).tolist()
    assert x.roll(two, one).tolist() == x.roll(2, 1).tolist()
    assert x.movedim(fl.tensor(0), one).shape == x.T.shape
    assert x.diagonal(one).tolist() == [1, 6, 11]
    assert x.unflatten(1, (two, -1)).shape == (3, 2, 2)
    assert fl.nn.functional.pad(x, (two, 0)).shape == (3, 6)
    assert fl.nn.functional.avg_pool2d(x[None], two).shape == (1, 1, 2)
    assert fl.nn.functional.interpolate(x[None, None], size=(two, two)).shape == (1, 1, 2, 2)
    with pytest.raises(TypeError):
        x.reshape(fl.tensor(2.0), 6)


def test_broadcast_to_takes_sizes_in_every_spelling():
    x = fl.ones(3)
    for y in (x.broadcast_to(2, 2, 3), x.broadcast_to((2, 2, 3)), fl.broadcast_to(x, fl.Size([2, 2, 3])),
              fl.broadcast_to(x, size=(2, 2, 3))):
        assert y.shape == (2, 2, 3) and y.stride() == (0, 0, 1)
