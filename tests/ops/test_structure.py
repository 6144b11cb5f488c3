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


# ------------------------------------------------------------------------------ written piece by piece
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (5, 4), (2, 3, 6)])
@pytest.mark.parametrize("diagonal", [-7, -1, 0, 2, 9])
def test_triangles_in_place_and_not(dtype, shape, diagonal):
    x = numpy.random.default_rng(0).integers(1, 9, shape).astype(dtype)
    for name in ("tril", "triu"):
        want = getattr(numpy, name)(x, diagonal)
        assert (getattr(fl, name)(fl.tensor(x), diagonal).numpy() == want).all()
        written = fl.tensor(x)
        before = written._version
        assert getattr(written, name + "_")(diagonal) is written and written._version > before
        assert (written.numpy() == want).all()
        turned = fl.tensor(x.swapaxes(-1, -2).copy()).transpose(-1, -2)
        assert (getattr(turned, name + "_")(diagonal).numpy() == want).all()


def test_triangles_in_place_on_the_tape():
    x = fl.rand(3, 4, requires_grad=True)
    y = x * 2
    y.tril_().triu_(-1)
    y.sum().backward()
    assert (x.grad.numpy() == 2 * numpy.triu(numpy.tril(numpy.ones((3, 4))), -1)).all()


@pytest.mark.parametrize("row, col", [(0, 3), (3, 0), (4, 4), (3, 7), (7, 3)])
@pytest.mark.parametrize("offset", [-8, -2, 0, 1, 8])
def test_triangle_indices(row, col, offset):
    for name in ("tril_indices", "triu_indices"):
        want = numpy.stack(getattr(numpy, name)(row, offset, col))
        got = getattr(fl, name)(row, col, offset, dtype=fl.int32)
        assert got.dtype is fl.int32 and got.shape == want.shape and (got.numpy() == want).all()


@pytest.mark.parametrize("n, r", [(5, 1), (5, 2), (6, 4), (4, 4), (3, 5), (0, 2), (1, 3)])
@pytest.mark.parametrize("again", [False, True])
def test_combinations(n, r, again):
    choose = itertools.combinations_with_replacement if again else itertools.combinations
    want = numpy.array(list(choose(range(n), r)), int).reshape(-1, r)
    got = fl.combinations(fl.arange(n), r, again)
    assert tuple(got.shape) == want.shape and (got.numpy() == want).all()


@pytest.mark.parametrize("shape", [(3, 4), (130, 140)])
def test_copies_in_pieces_have_the_values_and_gradients_of_one_copy(shape):
    for call in (lambda x: fl.roll(x, 3, 1), lambda x: fl.roll(x, (-1, 2), (0, 1)), lambda x: x.repeat(2, 1),
                 lambda x: x.repeat(2, 1, 3), lambda x: fl.block_diag(x, x * 2, x[0])):
        x = fl.rand(*shape, requires_grad=True)
        recorded, plain = call(x), call(x.detach())
        assert (recorded == plain).all() and plain._version == 0 and recorded.stride() == plain.stride()
        recorded.sum().backward()
        assert x.grad.isfinite().all()


def test_flipped_copies_lie_in_memory_like_their_source():
    x = fl.rand(3, 4)
    assert x.rot90().stride() == (1, 4) and x.t().flip(0).stride() == (1, 4)
    assert (x.rot90().numpy() == numpy.rot90(x.numpy())).all()
    images = fl.rand(2, 3, 4, 5).contiguous(memory_format=fl.channels_last)
    flipped = images.flip(1, 3)
    assert flipped.stride() == images.stride() and (flipped.numpy() == images.numpy()[:, ::-1, :, ::-1]).all()
    assert x[:, ::2].flip(0).is_contiguous()


@pytest.mark.parametrize("repeats", [1, 2, 3, 9])
def test_large_rows_repeated_element_by_element(repeats):
    x = fl.rand(130, 140)
    for dim in (0, 1, None):
        got = x.repeat_interleave(repeats, dim)
        assert (got.numpy() == numpy.repeat(x.numpy(), repeats, dim)).all() and got._version == 0
        assert got.data_ptr() != x.data_ptr()
