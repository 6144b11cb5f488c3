"""Copies that rearrange, joins and grids, against NumPy."""

import itertools

import numpy
import pytest

import flambeau as fl

MATRIX = numpy.arange(12.0).reshape(3, 4)

COPIES = {
    "flip": (lambda x: fl.flip(x, (0, -1)), lambda a: numpy.flip(a, (0, -1))),
    "flip by keyword": (lambda x: x.flip(dims=(1,)), lambda a: numpy.flip(a, 1)),
    "fliplr": (fl.fliplr, numpy.fliplr), "flipud": (fl.flipud, numpy.flipud),
    "roll": (lambda x: fl.roll(x, (1, -1), (0, 1)), lambda a: numpy.roll(a, (1, -1), (0, 1))),
    "roll flat": (lambda x: x.roll(5), lambda a: numpy.roll(a, 5)),
    "rot90": (lambda x: fl.rot90(x, -1, (1, 0)), lambda a: numpy.rot90(a, -1, (1, 0))),
    "rot90 twice": (lambda x: fl.rot90(x, 6), lambda a: numpy.rot90(a, 6)),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda a: numpy.tile(a, (2, 1, 3))),
    "tile": (lambda x: x.tile(2), lambda a: numpy.tile(a, 2)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), lambda a: numpy.repeat(a, 2, 1)),
    "repeat_interleave by counts": (lambda x: x.repeat_interleave(fl.tensor([2, 0, 1]), 0),
                                    lambda a: numpy.repeat(a, [2, 0, 1], 0)),
    "tril": (lambda x: fl.tril(x, -1), lambda a: numpy.tril(a, -1)),
    "triu": (lambda x: x.triu(2), lambda a: numpy.triu(a, 2)),
    "diagonal_copy": (lambda x: fl.diagonal_copy(x, 1), lambda a: numpy.diagonal(a, 1)),
    "unfold_copy": (lambda x: fl.unfold_copy(x, 1, 2, 2), lambda a: a.reshape(3, 2, 2)),
    "column_stack": (lambda x: fl.column_stack([x, x[:, 0]]), lambda a: numpy.column_stack([a, a[:, 0]])),
    "block_diag": (lambda x: fl.block_diag(x, x[0])[3:, 4:], lambda a: a[:1]),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies(name):
    """The values, memory of their own, and a gradient that counts how often each element appears."""
    make, reference = COPIES[name]
    x = fl.tensor(MATRIX + 1).requires_grad_()
    made = make(x)
    want = reference(MATRIX + 1)
    numpy.testing.assert_array_equal(made.detach().numpy(), want)
    made.sum().backward()
    times = numpy.bincount(want.ravel().astype(int), minlength=13)[1:]
    numpy.testing.assert_array_equal(x.grad.numpy().ravel(), times)
    with fl.no_grad():
        made.zero_()
        assert (x == fl.tensor(MATRIX + 1)).all()


@pytest.mark.parametrize("dtype", [fl.int64, fl.bool, fl.bfloat16])
def test_dtypes_stay(dtype):
    x = fl.tensor([[1, 0], [1, 1]]).to(dtype)
    for made in (fl.flip(x, (0,)), fl.roll(x, 1), fl.tril(x), x.repeat(1, 2), fl.rot90(x),
                 x.repeat_interleave(2)):
        assert made.dtype is dtype
    assert fl.triu(x).tolist() == [[1, 0], [0, 1]]


def test_stacks():
    a, b = fl.tensor([1, 2]), fl.tensor([3, 4])
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        want = getattr(numpy, name)([a.numpy(), b.numpy()])
        numpy.testing.assert_array_equal(getattr(fl, name)([a, b]).numpy(), want)
    assert fl.row_stack((a, b)).tolist() == [[1, 2], [3, 4]]
    out = fl.empty(4, dtype=fl.int64)
    assert fl.hstack([a, b], out=out) is out and out.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("sizes", [(2,), (2, 3), (2, 3, 4), (2, 0)])
def test_meshgrid(sizes, indexing):
    axes = [numpy.arange(n) for n in sizes]
    got = fl.meshgrid(*map(fl.tensor, axes), indexing=indexing) if 0 not in sizes else \
        fl.meshgrid([fl.arange(n) for n in sizes], indexing=indexing)
    for grid, want in zip(got, numpy.meshgrid(*axes, indexing=indexing), strict=True):
        assert tuple(grid.shape) == want.shape
        numpy.testing.assert_array_equal(grid.numpy(), want)


def test_products_and_choices():
    a, b = fl.tensor([1, 2]), fl.tensor([3, 4, 5])
    assert fl.cartesian_prod(a, b).tolist() == [list(p) for p in itertools.product([1, 2], [3, 4, 5])]
    assert fl.combinations(b).tolist() == [[3, 4], [3, 5], [4, 5]]
    assert fl.combinations(a, 2, with_replacement=True).tolist() == [[1, 1], [1, 2], [2, 2]]
    assert fl.combinations(a, 3).tolist() == []
    assert fl.repeat_interleave(fl.tensor([1, 0, 2])).tolist() == [0, 2, 2]


def test_triangle_indices():
    for name, offset in itertools.product(("tril_indices", "triu_indices"), (-1, 0, 2)):
        want = numpy.stack(getattr(numpy, name)(3, offset, 4))
        numpy.testing.assert_array_equal(getattr(fl, name)(3, 4, offset).numpy(), want)


def test_where_with_a_condition_alone():
    places = fl.where(fl.tensor([[0.0, 1.0], [2.0, 0.0]]))
    assert [p.tolist() for p in places] == [[0, 1], [1, 0]]
    assert fl.where(fl.tensor([True, False]), 1.0, fl.tensor([5.0, 6.0])).tolist() == [1, 6]


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda x: x.flip(0, 0), RuntimeError, "more than once"),
    (lambda x: fl.roll(x, (1, 2), 0), RuntimeError, "must align"),
    (lambda x: fl.rot90(x, 1, (0, 0)), RuntimeError, "different"),
    (lambda x: x.repeat(2), RuntimeError, "at least 2"),
    (lambda x: fl.tril(x[0]), RuntimeError, "at least 2 dimensions"),
    (lambda x: x.repeat_interleave(fl.tensor([1, 2]), 0), RuntimeError, "same size"),
    (lambda x: x.repeat_interleave(-1), RuntimeError, "negative"),
    (lambda x: fl.meshgrid(x, indexing="ij"), RuntimeError, "0D or 1D"),
    (lambda x: fl.hstack([]), RuntimeError, "non-empty"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(fl.tensor(MATRIX))


@pytest.mark.parametrize("x", [fl.ones(1), fl.ones(1, 3), fl.ones(1).expand(5), fl.ones(1, 3).expand(4, 3), fl.ones(2, 3)])
def test_repeats_have_memory_of_their_own(x):
    for made in (x.repeat_interleave(4, 0), x.repeat_interleave(2), x.repeat_interleave(1, 0), x.repeat(2, 1), x.tile((2,)),
                 fl.diff(x, 0)):
        assert made.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
        made[0] = 2
        assert made.sum().item() > made.numel() and x.sum().item() == x.numel()
