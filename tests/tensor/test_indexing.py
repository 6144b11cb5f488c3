"""Reads and writes by index against NumPy, with gradients; random indices with the failing one printed."""

import numpy
import pytest

import flambeau as fl

SHAPE = (4, 3, 5)


def number_table(dtype="float64"):
    return numpy.arange(1, 61).reshape(SHAPE).astype(dtype)


def random_index(rng, shape, advanced):
    """A tuple that NumPy and Flambeau both take: ints, slices, None, an Ellipsis, index arrays and masks."""
    kinds = ["int", "slice", "slice", "full"] + (["list", "list", "mask"] if advanced else [])
    items, axis, together = [], 0, int(rng.integers(1, 4))
    stop = int(rng.integers(0, len(shape) + 1))
    while axis < stop:
        kind, size = kinds[int(rng.integers(len(kinds)))], shape[axis]
        if kind == "int":
            items.append(int(rng.integers(-size, size)))
        elif kind == "slice":
            first, last = sorted(int(v) for v in rng.integers(0, size + 1, 2))
            items.append(slice(first, last, int(rng.integers(1, 3))))
        elif kind == "full":
            items.append(slice(None))
        elif kind == "mask":
            kept = rng.random(size) < 0.5
            kept[:] = False
            kept[rng.permutation(size)[:min(together, size)]] = True
            items.append(kept)
        else:
            items.append(rng.integers(-size, size, min(together, 3)))
        if kind == "mask" and kept.sum() != min(together, 3):
            items.pop()
            continue
        axis += 1
    for extra in (None, Ellipsis):
        if rng.random() < 0.25:
            items.insert(int(rng.integers(0, len(items) + 1)), extra)
    # NumPy treats an int beside index arrays as one of them, with another place for the result
    if advanced and any(isinstance(i, int) for i in items) and any(isinstance(i,
        numpy.ndarray) for i in items):
        items = [slice(i, i + 1) if type(i) is int and i >= 0 else slice(0,
            1) if type(i) is int else i for i in items]
    try:
        number_table()[tuple(items)]
    except IndexError:          # the Ellipsis moved an item to a smaller axis
        items = [i for i in items if i is not Ellipsis]
    return tuple(items)


def ours(index):
    return tuple(fl.from_numpy(i) if isinstance(i, numpy.ndarray) else i for i in index)


@pytest.mark.parametrize("advanced", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_random_reads_and_their_gradients(seed, advanced):
    rng = numpy.random.default_rng(seed)
    array, index = number_table(), random_index(rng, SHAPE, advanced)
    want = array[index]
    x = fl.tensor(array, requires_grad=True)
    got = x[ours(index)]
    assert got.shape == want.shape, index
    numpy.testing.assert_array_equal(got.detach().numpy(), want, err_msg=str(index))
    weights = rng.uniform(size=want.shape)
    (got * fl.tensor(weights)).sum().backward()
    gradient = numpy.zeros(SHAPE)
    numpy.add.at(gradient, index, weights)
    numpy.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-12, err_msg=str(index))


@pytest.mark.parametrize("advanced", [False, True])
@pytest.mark.parametrize("seed", range(60, 120))
def test_random_writes(seed, advanced):
    rng = numpy.random.default_rng(seed)
    index = random_index(rng, SHAPE, advanced)
    number = bool(rng.random() < 0.3)
    for dtype in ("float64", "float32", "int64", "int8", "float16"):
        array = number_table(dtype)
        x = fl.from_numpy(array.copy())
        value = 7 if number else rng.integers(-50, 50, array[index].shape)
        flat = numpy.arange(60).reshape(SHAPE)[index]
        if len(numpy.unique(flat)) < flat.size and not number:
            continue                                    # which of two writes wins is not defined
        array[index] = value
        version = x._version
        x[ours(index)] = value if number else fl.tensor(value)
        assert x._version > version
        numpy.testing.assert_array_equal(x.numpy(), array, err_msg=f"{index} {dtype}")


@pytest.mark.parametrize("seed", range(120, 170))
def test_random_recorded_writes(seed):
    """The gradients of a write: of what is written, and of what stays."""
    rng = numpy.random.default_rng(seed)
    index = random_index(rng, SHAPE, advanced=seed % 2 == 0)
    places = numpy.arange(60).reshape(SHAPE)[index]
    if len(numpy.unique(places)) < places.size:
        return
    x = fl.tensor(number_table(), requires_grad=True)
    value = fl.tensor(rng.uniform(size=places.shape), requires_grad=True)
    y = x * 2
    y[ours(index)] = value
    weights = rng.uniform(size=SHAPE)
    (y * fl.tensor(weights)).sum().backward()
    kept = 2 * weights
    kept[index] = 0
    numpy.testing.assert_allclose(x.grad.numpy(), kept, err_msg=str(index))
    if value.numel():
        numpy.testing.assert_allclose(value.grad.numpy(), weights[index], err_msg=str(index))


def test_an_int_beside_an_index_tensor():
    """PyTorch takes the int first, as a view; NumPy would broadcast it with the tensor."""
    x = fl.from_numpy(number_table())
    assert x[0, :, [1, 2]].tolist() == number_table()[0][:, [1, 2]].tolist()
    assert x[:, 0, [1, 2]].tolist() == number_table()[:, 0][:, [1, 2]].tolist()


def test_masks():
    array = number_table()
    x, mask = fl.from_numpy(array.copy()), array % 3 == 0
    m = fl.from_numpy(mask)
    assert x[m].tolist() == array[mask].tolist()
    assert x[m[:, :, 0]].shape == array[mask[:, :, 0]].shape
    assert x[~m & (x > 10)].tolist() == array[~mask & (array > 10)].tolist()
    x[m] = -1
    x[x > 50] = fl.tensor(2.0)
    array[mask] = -1
    array[array > 50] = 2
    numpy.testing.assert_array_equal(x.numpy(), array)
    with pytest.raises(IndexError, match="mask"):
        x[fl.ones(3, dtype=fl.bool)]


def test_numbers_without_axes():
    x = fl.tensor([1, 2, 3])
    assert x[True].shape == (1, 3) and x[False].shape == (0, 3)
    assert fl.tensor(5)[None].shape == (1,) and fl.tensor(5)[...].item() == 5 and fl.tensor(5)[()].item() == 5
    assert x[fl.tensor(1)].item() == 2 and x[numpy.int64(-1)].item() == 3
    assert x[numpy.array([0, 2])].tolist() == [1, 3]
    assert x[fl.tensor([0, 1, 1], dtype=fl.uint8)].tolist() == [2, 3]
    assert x[[]].shape == (0,) and x[range(2)].tolist() == [1, 2]
    assert x[[True, False, True]].tolist() == [1, 3]


@pytest.mark.parametrize("index, kind, words", [
    (3, IndexError, "out of bounds"), (-4, IndexError, "out of bounds"),
    ((0, 0, 0, 0), IndexError, "too many indices"),
    (slice(None, None, -1), ValueError, "greater than zero"), (1.5, IndexError, "cannot be an index"),
    ("a", IndexError, "cannot be an index"), ([9], IndexError, "out of bounds"),
    ([-4], IndexError, "out of bounds"),
])
def test_bad_indices(index, kind, words):
    x = fl.zeros(3, 2)
    for _ in range(2):              # the second call may take a faster way
        with pytest.raises(kind, match=words):
            x[index]
        with pytest.raises(kind):
            x[index] = 1
    assert not x.any()


def test_an_index_is_checked_at_every_call():
    x = fl.zeros(3, 2)
    assert x[[2]].shape == (1, 2)
    for bad in ([3], [-4], [10 ** 9]):
        for read in (lambda: x[bad], lambda: fl.index_select(x, 0, fl.tensor(bad)),
                     lambda: fl.gather(x, 0, fl.tensor([bad * 2])), lambda: fl.embedding(fl.tensor(bad), x)):
            with pytest.raises(IndexError, match="out of bounds"):
                read()
    assert x[[-1]].shape == (1, 2)


def test_bad_values():
    x = fl.zeros(3, 2)
    for index in (0, [0, 1], fl.tensor([True, False, True])):
        with pytest.raises((RuntimeError, ValueError, IndexError)):
            x[index] = fl.ones(3)
    assert not x.any()


def test_values_are_cast_and_broadcast():
    x = fl.zeros(2, 3, dtype=fl.int64)
    x[0] = 2.7
    x[1] = fl.tensor([[1.9, -1.9, 0.0]])
    assert x.tolist() == [[2, 2, 2], [1, -1, 0]]
    x[:, 1] = fl.tensor(9)
    x[0, 0] = fl.tensor([5])
    x[1, :2] = [7, 8]
    assert x.tolist() == [[5, 9, 2], [7, 8, 0]]
    b = fl.zeros(2, dtype=fl.bfloat16)
    b[[1]] = 1.5
    b[0] = fl.tensor(2.5)
    assert b.tolist() == [2.5, 1.5]


def test_augmented_assignment():
    x = fl.zeros(3, 2)
    x[0] += 1
    x[:, 1] -= fl.tensor([1.0, 2.0, 3.0])
    x[[0, 2]] *= 2
    x[x < -3] += 10
    assert x.tolist() == [[2.0, 0.0], [0.0, -2.0], [0.0, 4.0]]


def test_writes_into_transposed_memory():
    x = fl.zeros(3, 4).t()
    x[1] = 5
    x[[0, 3], [2, 2]] = fl.tensor([7.0, 8.0])
    assert x.t().contiguous().tolist() == [[0, 5, 0, 0], [0, 5, 0, 0], [7, 5, 0, 8]]


def test_nonzero():
    array = numpy.array([[0, 3, 0], [1, 0, 2]])
    x = fl.from_numpy(array)
    assert x.nonzero().tolist() == [[0, 1], [1, 0], [1, 2]] and x.nonzero().dtype is fl.int64
    rows, columns = fl.nonzero(x, as_tuple=True)
    assert rows.tolist() == [0, 1, 1] and columns.tolist() == [1, 0, 2]
    assert fl.tensor(3).nonzero().shape == (1, 0) and fl.tensor(0).nonzero().shape == (0, 0)
    assert fl.zeros(0, 2).nonzero().shape == (0, 2)


def test_iteration_and_length():
    x = fl.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]] and len(x) == 2
    first, second = x
    assert second[0].item() == 3
    with pytest.raises(TypeError):
        len(fl.tensor(1))


def test_iterating_a_number_is_refused():
    with pytest.raises(TypeError, match="0-d"):
        list(fl.tensor(1))


def test_membership():
    x = fl.tensor([[1, 2], [3, 4]])
    assert 3 in x and 5 not in x


@pytest.mark.parametrize("join", ["cat", "stack"])
@pytest.mark.parametrize("count", [1, 2, 31, 32, 62, 63, 64, 65, 200])
def test_gradients_of_many_joined_tensors(join, count):
    parts = [fl.full((2,), float(i), requires_grad=i % 3 > 0) for i in range(count)]
    joined = getattr(fl, join)(parts)
    assert joined.reshape(-1).tolist() == [float(i) for i in range(count) for _ in range(2)]
    if joined.requires_grad:
        (joined.reshape(-1) * fl.arange(2 * count)).sum().backward()
    for i, part in enumerate(parts):
        assert part.grad.tolist() == [2.0 * i, 2.0 * i + 1] if i % 3 > 0 else part.grad is None


def test_joins_along_every_axis_and_what_is_refused():
    rng = numpy.random.default_rng(0)
    arrays = [rng.standard_normal((2, size, 3)).astype("float32") for size in (1, 4, 0, 2)]
    tensors = [fl.from_numpy(a) for a in arrays]
    numpy.testing.assert_array_equal(fl.cat(tensors, 1).numpy(), numpy.concatenate(arrays, 1))
    numpy.testing.assert_array_equal(fl.cat(tensors, dim=-2).numpy(), numpy.concatenate(arrays, 1))
    same = [tensors[1], tensors[1].flip(0), tensors[1] * 2]
    for axis in (-4, -1, 0, 1, 2, 3):
        wanted = numpy.stack([t.numpy() for t in same], axis)
        numpy.testing.assert_array_equal(fl.stack(same, axis).numpy(), wanted)
    assert fl.cat([fl.empty(0), fl.ones(2, 2)]).shape == (2, 2)         # a vector of nothing fits everywhere
    assert fl.cat([fl.ones(1), fl.ones(1, dtype=fl.float64)]).dtype is fl.float64
    for wrong in ([fl.ones(2), fl.ones(2, 2)], [fl.ones(2, 2), fl.ones(2, 3)], [fl.tensor(1.0)]):
        with pytest.raises(RuntimeError):
            fl.cat(wrong)
    with pytest.raises(IndexError):
        fl.cat([fl.ones(2)], 1)


def test_index_tensors_again_and_again():
    """The second call takes the native path: the same checks hold there."""
    x = fl.arange(12.0).reshape(3, 4)
    i, j = fl.tensor([2, 0]), fl.tensor([1, 3])
    for _ in range(3):
        assert x[i].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
        assert x[i, j].tolist() == [9, 3] and x[:, j].tolist() == [[1, 3], [5, 7], [9, 11]]
        assert x[fl.tensor([-1, 0])].tolist() == x[i].tolist()
        assert x[i[:, None]].shape == (2, 1, 4)
        for wrong in ([3], [-4], [0, 5]):
            with pytest.raises(IndexError):
                x[fl.tensor(wrong)]
            with pytest.raises(IndexError):
                x.index_select(0, fl.tensor(wrong))
            with pytest.raises(IndexError):
                x[fl.tensor([0] * len(wrong)), fl.tensor(wrong) * 2]
            with pytest.raises(IndexError):
                fl.gather(x, 0, fl.tensor([wrong]))
            with pytest.raises(IndexError):
                fl.nn.functional.embedding(fl.tensor(wrong), x)


def test_writes_into_a_window():
    x = fl.zeros(3, 4)
    kept = x.numpy()
    x[0], x[1, 1:3], x[2, ::2], x[..., 3] = 1.5, fl.tensor([7.0, 8.0]), True, 2
    assert kept.tolist() == [[1.5, 1.5, 1.5, 2], [0, 7, 8, 2], [1, 0, 1, 2]]
    x[1:] = x[:-1]                      # from itself, as if from a copy
    assert x[2].tolist() == [0, 7, 8, 2]
    whole = fl.zeros(2, dtype=fl.int64)
    whole[0] = 2.9
    assert whole.tolist() == [2, 0]
    with pytest.raises(RuntimeError):
        fl.zeros(1).expand(3)[:] = 1.0
    with pytest.raises(IndexError):
        x[3] = 1.0
    leaf = fl.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] = 1.0


def test_writes_by_mask_and_by_index():
    rng = numpy.random.default_rng(1)
    start = rng.standard_normal((4, 3)).astype("float32")
    mask = start > 0
    index = numpy.array([2, 0, 2])
    rows = rng.standard_normal((3, 3)).astype("float32")
    for value in (5, 2.5, rows, rows[0], rows[:, :1], rows[0, 0], True):
        wanted, got = start.copy(), fl.from_numpy(start.copy())
        wanted[index] = value
        got[fl.from_numpy(index)] = fl.from_numpy(value) if isinstance(value, numpy.ndarray) else value
        numpy.testing.assert_array_equal(got.numpy(), wanted)
    for value in (0, -1.5, numpy.float32(3)):
        wanted, got = start.copy(), fl.from_numpy(start.copy())
        wanted[mask] = value
        got[fl.from_numpy(mask)] = value
        numpy.testing.assert_array_equal(got.numpy(), wanted)
    for wrong in ([4], [-5]):
        with pytest.raises(IndexError):
            got[fl.tensor(wrong)] = 1.0
    got[fl.tensor([-1])] = 9.0
    assert got[3].tolist() == [9, 9, 9]
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    loss = (y * y).sum()
    y[fl.tensor([True, False, False])] = 0.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("index, as_tuple", [
    ([[0], [1]], ([0], [1])), ([[0, 1], [1, 2]], ([0, 1], [1, 2])), ([[0, 1]], ([0, 1],)), ([None, 0], (None, 0)),
    ([..., 0], (..., 0)), ([slice(0, 1)], (slice(0, 1),)), ([[0, 1], slice(1, 2)], ([0, 1], slice(1, 2))),
    ([fl.tensor([0]), 1], (fl.tensor([0]), 1)), ([[True, False]], ([True, False],)),
])
def test_a_short_list_of_more_than_numbers_stands_for_a_tuple(index, as_tuple):
    x = fl.arange(24).reshape(2, 3, 4)
    assert x[index].shape == x[as_tuple].shape and fl.equal(x[index], x[as_tuple])
    y, z = x.clone(), x.clone()
    y[index], z[as_tuple] = 7, 7
    assert fl.equal(y, z)


def test_lists_of_numbers_and_long_lists_are_index_tensors():
    x = fl.arange(24).reshape(2, 3, 4)
    assert x[[0, 1]].shape == (2, 3, 4) and x[[True, False]].shape == (1, 3, 4)
    assert x[[[0, 1]] * 32].shape == (32, 2, 3, 4) and x[((0, 1), (1, 1)), 0].shape == (2, 2, 4)
