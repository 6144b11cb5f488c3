"""Small calls that are answered without Python: the same answers, errors and records as the way through it."""

import itertools
import random

import numpy
import pytest

import flambeau as fl
from flambeau.ops.random import mix
from flambeau.runtime import _core
from flambeau.tensor.rng import using_stream
from flambeau.testing import oracle

INT = fl.int64


def plain(value):
    """What can be compared: dtype, shape, strides and numbers."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return [(v.dtype, tuple(v.shape), v.stride(), v.requires_grad, repr(v.tolist())) for v in values]


def outcome(call, *operands):
    try:
        return plain(call(*operands))
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0].split("] ")[-1]         # the op may be another form of it


def through_python(call, *operands):
    before = _core.set_mode(1)
    try:
        return outcome(call, *operands)
    finally:
        _core.set_mode(before)


def numbers(*shape, dtype=fl.float32):
    return fl.arange(fl.Size(shape).numel()).reshape(shape).to(dtype)


# ---------------------------------------------------------------------------------- reads
INDICES = [fl.tensor([0, 2]), fl.tensor([-1, 1]), fl.tensor([3]), fl.tensor([[0, 1], [2, 0]]), fl.tensor([], dtype=INT),
           fl.tensor([4]), fl.tensor([-5]), fl.tensor([1, 0], dtype=fl.int32), fl.tensor([1.0])]
READS = {
    "x[i]": lambda x, i: x[i], "x[i, :]": lambda x, i: x[i, :], "x[:, i]": lambda x, i: x[:, i],
    "x[..., i]": lambda x, i: x[..., i], "x[0, i]": lambda x, i: x[0, i], "x[i, 0]": lambda x, i: x[i, 0],
    "x[-9, i]": lambda x, i: x[-9, i], "x[:, 1:, i]": lambda x, i: x[:, 1:, i], "x[i, ..., 1]": lambda x, i: x[i, ..., 1],
    "x[None, i]": lambda x, i: x[None, i], "x[0, :, i]": lambda x, i: x[0, :, i], "x[::2, i]": lambda x, i: x[::2, i],
    "x[..., i, None]": lambda x, i: x[..., i, None], "x[i, ...]": lambda x, i: x[i, ...],
    "x[list]": lambda x, i: x[i.tolist()], "x[:, i, i]": lambda x, i: x[:, i, i],
}


@pytest.mark.parametrize("name", READS)
def test_reads_by_index_in_any_order(name):
    tensors = [numbers(4, 3), numbers(3, 4).t(), numbers(4, 4, 4), numbers(4, dtype=INT), numbers(2, 4, 2).transpose(0, 1),
               numbers(0, 3), numbers(4, 3).requires_grad_()]
    calls = list(itertools.product(tensors, INDICES))
    wanted = [through_python(READS[name], *call) for call in calls]
    for seed in range(2):
        order = list(range(len(calls)))
        random.Random(seed).shuffle(order)
        for k in order:
            assert outcome(READS[name], *calls[k]) == wanted[k], calls[k]


@pytest.mark.parametrize("index", [lambda i: (0, i), lambda i: (slice(1, None), i), lambda i: (i, slice(None), 1),
                                   lambda i: (Ellipsis, i), lambda i: (slice(None), i, None)])
def test_gradients_of_reads(index):
    for _ in range(2):
        x = numbers(3, 4, 5, dtype=fl.float64).requires_grad_()
        i = fl.tensor([1, 0, 1])
        x[index(i)].square().sum().backward()
        array, wanted = x.detach().numpy(), numpy.zeros((3, 4, 5))
        at = tuple(k.numpy() if k is i else k for k in index(i))
        numpy.add.at(wanted, at, 2 * array[at])
        assert (x.grad.numpy() == wanted).all()


@pytest.mark.parametrize("shape, mask_shape", [((4, 3), (4, 3)), ((4, 3), (4,)), ((2, 3, 4), (2, 3)), ((4, 3), (3,)),
                                               ((4, 3), (4, 3, 1)), ((70, 70), (70, 70)), ((0, 3), (0,))])
def test_masks(shape, mask_shape):
    mask = numbers(*mask_shape) % 3 == 1
    for x in (numbers(*shape), numbers(*shape, dtype=INT), numbers(*shape).requires_grad_()):
        assert outcome(lambda: x[mask]) == through_python(lambda: x[mask])
    assert outcome(mask.nonzero) == through_python(mask.nonzero)
    assert plain(fl.where(mask)) == plain(tuple(fl.from_numpy(a) for a in numpy.nonzero(mask.numpy())))


EXTREMES = [-2**63, -2**63 + 1, -5, 4, 5, 2**31, 2**63 - 1]


@pytest.mark.parametrize("bad", EXTREMES)
def test_an_index_far_outside(bad):
    x = numbers(4, 3)
    for count in (1, 2, 3, 4, 5, 9):
        for _ in range(2):
            x[fl.zeros(count, dtype=INT)], fl.gather(x, 0, fl.zeros(count, 3, dtype=INT))
        for place in {0, count // 2, count - 1}:
            index = fl.zeros(count, dtype=INT)
            index[place] = bad
            with pytest.raises(IndexError):
                x[index]
            with pytest.raises((IndexError, RuntimeError)):
                fl.gather(x, 0, index[:, None].expand(count, 3).contiguous())
            if -2**31 <= bad < 2**31:
                with pytest.raises(IndexError):
                    fl.index_select(x, 0, index.int())


# ---------------------------------------------------------------------------------- writes
VALUES = [5, 5.0, True, 2.5, float("inf"), fl.tensor(7.0), numbers(3), numbers(2, 3) + 50, numbers(2, 3, dtype=INT), numbers(2),
          numbers(1, 3), numbers(3, 2).t()]
WRITES = {
    "x[i] =": lambda x, i, v: x.__setitem__(i, v), "x[i, i] =": lambda x, i, v: x.__setitem__((i, i), v),
    "x[x > 3] =": lambda x, i, v: x.__setitem__(x > 3, v), "x[rows] =": lambda x, i, v: x.__setitem__(x[:, 0] > 3, v),
    "x[:, i] =": lambda x, i, v: x.__setitem__((slice(None), i), v),
    "scatter_": lambda x, i, v: x.scatter_(0, i[:, None], v), "scatter_ value": lambda x, i, v: x.scatter_(1, i[:, None], value=v),
    "scatter_ src": lambda x, i, v: x.scatter_(0, i[:, None].expand(-1, 3).contiguous(), v),
    "index_put_": lambda x, i, v: x.index_put_((i,), v), "index_put_ 2": lambda x, i, v: x.index_put_((i, i), v),
    "masked_fill_": lambda x, i, v: x.masked_fill_(x > 3, v), "fill_": lambda x, i, v: x.fill_(v),
    "scatter": lambda x, i, v: x.copy_(x.scatter(0, i[:, None], v)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_in_any_order(name):
    def call(make, index, value):
        x = make()
        version = x._version
        WRITES[name](x, index, value)
        assert x._version > version or not index.numel()
        return x

    makers = [lambda: numbers(4, 3), lambda: numbers(4, 3, dtype=INT), lambda: numbers(3, 4).t(), lambda: numbers(4, 3) > 5,
              lambda: numbers(4, 3, dtype=fl.float16), lambda: numbers(4, 3).to(fl.complex64)]
    indices = [fl.tensor([0, 2]), fl.tensor([2, 2]), fl.tensor([-1, 0]), fl.tensor([4, 0]), fl.tensor([1, 0], dtype=fl.int32)]
    calls = list(itertools.product(makers, indices, VALUES))
    wanted = [through_python(call, *c) for c in calls]
    order = list(range(len(calls)))
    random.Random(name).shuffle(order)
    for k in order:
        assert outcome(call, *calls[k]) == wanted[k], calls[k]


@pytest.mark.parametrize("name", WRITES)
def test_a_leaf_with_a_gradient_refuses_writes(name):
    index, value = fl.tensor([0, 2]), fl.tensor(1.0) if name.startswith("index_put") else 1.0
    try:
        WRITES[name](numbers(4, 3), index, value)
    except (IndexError, RuntimeError, TypeError):
        return
    x = numbers(4, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        WRITES[name](x, index, value)
    with fl.no_grad():
        WRITES[name](x, index, value)
    y = numbers(4, 3).requires_grad_() * 1
    WRITES[name](y, index, value)
    assert y.grad_fn is not None


def test_a_write_is_seen_by_what_was_saved():
    for write in (lambda t: t.fill_(1.0), lambda t: t.scatter_(0, fl.tensor([[0]]), 1.0), lambda t: t.masked_fill_(t > 0, 1.0),
                  lambda t: t.__setitem__((fl.tensor([0]), fl.tensor([0])), 1.0), lambda t: t.index_put_((fl.tensor([0]),), fl.ones(3))):
        x, other = numbers(3, 3).requires_grad_(), numbers(3, 3) + 1
        loss = (x * other).sum()
        write(other)
        with pytest.raises(RuntimeError):
            loss.backward()


def test_writes_of_a_tensor_into_itself():
    x = numbers(3, dtype=INT)
    x[x] = 7
    assert x.tolist() == [7, 7, 7]
    y = numbers(3, 3)
    y[fl.tensor([0, 1])] = y[1:]
    assert y.tolist() == [[3, 4, 5], [6, 7, 8], [6, 7, 8]]


# ---------------------------------------------------------------------------------- parts
PARTS = {
    "split": lambda x, n, d: x.split(n, d), "split list": lambda x, n, d: x.split([n, 1], d), "chunk": lambda x, n, d: x.chunk(n, d),
    "unbind": lambda x, n, d: x.unbind(d), "iterate": lambda x, n, d: list(x), "fl.unbind": lambda x, n, d: fl.unbind(x, d),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts(name):
    tensors = [numbers(4, 3), numbers(3, 4).t(), numbers(5), numbers(0, 3), numbers(), numbers(4, 3).requires_grad_()]
    for x, n, d in itertools.product(tensors, (2, 1, 7, 0, -1), (0, 1, -1, -2, 2)):
        assert outcome(PARTS[name], x, n, d) == through_python(PARTS[name], x, n, d), (tuple(x.shape), n, d)


@pytest.mark.parametrize("name", PARTS)
def test_gradients_of_parts_and_writes_into_them(name):
    x = numbers(2, 4).requires_grad_()
    parts = PARTS[name](x, 3, -1)
    sum(((k + 1) * p.square()).sum() for k, p in enumerate(parts)).backward()
    y = numbers(2, 4).requires_grad_()
    before = _core.set_mode(1)
    try:
        sum(((k + 1) * p.square()).sum() for k, p in enumerate(PARTS[name](y, 3, -1))).backward()
    finally:
        _core.set_mode(before)
    assert (x.grad == y.grad).all()
    z = numbers(2, 4)
    PARTS[name](z, 3, -1)[0].fill_(9)
    assert (z == 9).any()


# ---------------------------------------------------------------------------------- new tensors
CREATIONS = {
    "linspace": lambda *a, **k: fl.linspace(*a, 5, **k), "steps=": lambda *a, **k: fl.linspace(*a, steps=5, **k),
    "arange": lambda *a, **k: fl.arange(*a, 0.5, **k), "eye": lambda *a, **k: fl.eye(3, 4, **k),
}


@pytest.mark.parametrize("name", CREATIONS)
def test_numbers_made_again(name):
    make = CREATIONS[name]
    first = make(0, 1)
    wanted = first.tolist()
    first.fill_(7)
    assert make(0, 1).tolist() == wanted
    assert make(0, 1, dtype=fl.float64).dtype is fl.float64 and make(0, 1).dtype is fl.float32
    assert make(0, 1, requires_grad=True).requires_grad and not make(0, 1).requires_grad
    fl.set_default_dtype(fl.float64)
    try:
        assert make(0, 1).dtype is fl.float64
    finally:
        fl.set_default_dtype(fl.float32)
    assert make(0, 1).dtype is fl.float32 and make(0, 1, device="meta").is_meta
    with fl.device("meta"):
        assert make(0, 1).is_meta
    for _ in range(2):
        with pytest.raises(RuntimeError):
            make(0, 1, dtype=INT, requires_grad=True)
        with pytest.raises(TypeError):
            make(0, 1, colour="red")


def test_arguments_are_told_apart_by_type():
    for _ in range(2):
        assert fl.arange(1, 3).dtype is INT and fl.arange(1.0, 3).dtype is fl.float32 and fl.arange(1, 3, 1.0).dtype is fl.float32
        assert fl.linspace(fl.tensor(2.0), 3, 2).tolist() == [2, 3]


@pytest.mark.parametrize("bounds", [(0,), (7,), (3, 9), (9, 3, -2), (0, 70_000), (5, 200_000, 3), (-100_000, 100_000, 7)])
@pytest.mark.parametrize("dtype", [INT, fl.float32, fl.float64])
def test_ranges(bounds, dtype):
    assert (fl.arange(*bounds, dtype=dtype).numpy() == numpy.arange(*bounds).astype(dtype.numpy)).all()


@pytest.mark.parametrize("value, dtype", [(3, None), (2.5, None), (True, None), (1, fl.float16), (2.5, fl.float64), (7, fl.int16)])
def test_filled_of_every_size(value, dtype):
    for count in (0, 1, 5, 1000, 5000, 70_000, 300_000):
        made = fl.full((count,), value, dtype=dtype)
        assert (made.numpy() == numpy.full(count, value)).all() and made._version == 0
        assert plain(fl.full_like(made[:9], value)) == plain(made[:9].clone())
    for _ in range(2):
        with pytest.raises(RuntimeError):
            fl.full_like(fl.zeros(3, dtype=fl.int8), 1000)


def test_keys_of_the_counter():
    gamma = 0x9E3779B97F4A7C15
    for seed in (0, 5, 2**64 - 1):
        keys = [fl.Generator().manual_seed(seed)]
        keys = [keys[0].key() for _ in range(3)]
        assert [k % 2**64 for k in keys] == [mix(mix(seed + gamma) + n * gamma) for n in (1, 2, 3)]


@pytest.mark.parametrize("draw", [lambda **k: fl.rand(3, 4, **k), lambda **k: fl.randn(3, 4, **k), lambda **k: fl.randint(2, 9, (5,), **k),
                                  lambda **k: fl.rand_like(fl.zeros(3), **k), lambda **k: fl.randn_like(fl.zeros(3), **k)])
@pytest.mark.parametrize("name", ["counter", "pytorch"])
def test_plain_draws_are_those_with_options(draw, name):
    with using_stream(name):
        fl.manual_seed(4)
        first = [draw(), draw()]
        fl.manual_seed(4)
        second = [draw(device="cpu"), draw(device="cpu")]
    assert all((a == b).all() for a, b in zip(first, second)) and (first[0] != first[1]).any()


# ---------------------------------------------------------------------------------- arrays
def test_arrays_share_memory_and_keep_it():
    x = numbers(3, 4)
    array = x.t()[1:].numpy()
    assert array.shape == (3, 3) and array.strides == (4, 16)
    array[0, 0] = 99
    assert x[0, 1] == 99
    del x
    fl.zeros(3, 4), fl.zeros(3, 4)
    assert array[0, 0] == 99 and array[2, 2] == 11
    with pytest.raises(RuntimeError, match="requires grad"):
        numbers(2).requires_grad_().numpy()
    assert numbers(2).requires_grad_().detach().numpy().tolist() == [0, 1]
    assert fl.zeros(0, 3).numpy().shape == (0, 3) and fl.tensor(2).numpy() == 2
    with pytest.raises(TypeError):
        fl.zeros(3, dtype=fl.bfloat16).numpy()
    for dtype in (fl.bool, fl.uint8, fl.int8, fl.int16, fl.int32, INT, fl.float16, fl.float32, fl.float64, fl.complex64):
        ones = fl.ones(2, dtype=dtype).numpy()
        assert ones.dtype == dtype.numpy and (ones == 1).all()


def test_tensors_over_arrays():
    for kind in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8"):
        array = numpy.arange(12).reshape(3, 4).astype(kind)
        shared = fl.from_numpy(array[:, 1:])
        assert shared.dtype.numpy == array.dtype and shared.stride() == (4, 1) and (shared.numpy() == array[:, 1:]).all()
        shared[0, 0] = 0
        assert array[0, 1] == 0
    for bad in (numpy.arange(3.0)[::-1], numpy.arange(3, dtype=">i4"), numpy.zeros(3, "f4,f4")["f1"][::1].view(">f4"), [1.0]):
        for _ in range(2):
            with pytest.raises((TypeError, ValueError)):
                fl.from_numpy(bad)
    with pytest.raises(TypeError):
        fl.from_numpy(numpy.array(["a"]))


def test_sizes():
    size = fl.Size((2, 3, 4))
    assert size[0] == 2 and size[-1] == 4 and size[True] == 3 and type(size[1:]) is fl.Size and size[1:] == (3, 4)
    for bad in (3, -4, 2**70):
        with pytest.raises(IndexError):
            size[bad]
    with pytest.raises(TypeError):
        size["a"]
    assert type(numbers(2, 3).shape) is fl.Size and numbers().shape == () and hash(numbers(2, 3).shape) == hash((2, 3))


# ---------------------------------------------------------------------------------- powers, operands by name
@pytest.mark.parametrize("dtype", [fl.float16, fl.bfloat16, fl.float32, fl.float64])
def test_powers_by_a_number_are_those_by_a_tensor(dtype):
    x = fl.cat([fl.linspace(-3, 3, 501), fl.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")])]).to(dtype)
    for exponent in (1, 2, 3, 2.0, 3.0, 0.5, -1, 2.5):
        by_tensor = x ** fl.full(x.shape, exponent, dtype=dtype)
        for result in (x**exponent, fl.pow(x, exponent), x.pow(exponent), x.clone().pow_(exponent)):
            assert result.dtype is dtype and repr(result.tolist()) == repr(by_tensor.tolist()), exponent
    assert (fl.tensor([2, -3]) ** 2).tolist() == [4, 9] and (fl.tensor([2, -3]) ** 2.0).dtype is fl.float32
    assert (fl.tensor(3.0, dtype=dtype) ** 2).item() == 9


def test_gradients_of_powers():
    for exponent in (2, 3):
        x = fl.linspace(-2, 2, 9, dtype=fl.float64).requires_grad_()
        y = x**exponent
        assert type(y.grad_fn).__name__ in str(y.grad_fn) or "PowBackward0" in str(y.grad_fn)
        first, = fl.autograd.grad(y.sum(), x, create_graph=True)
        second, = fl.autograd.grad(first.sum(), x)
        assert fl.allclose(first, exponent * x.detach() ** (exponent - 1)) and fl.allclose(second, exponent * (exponent - 1) * x.detach() ** (exponent - 2))


@pytest.mark.parametrize("dtype", [fl.float16, fl.float32, fl.float64])
def test_compiled_powers_have_the_same_bits(dtype):
    x = fl.linspace(-3, 3, 501, dtype=fl.float64).to(dtype)
    for exponent in (2, 3):
        _, run = oracle.compile_function(lambda x: x**exponent * 0.7 + x, [x])
        assert (run(x)[0] == x**exponent * 0.7 + x).all()
        own = x.clone().requires_grad_()
        (own**exponent).sum().backward()
        compiled, = oracle.compiled_gradients(lambda x: [x**exponent], [x], [fl.ones_like(x)])
        assert (compiled == own.grad).all()


NAMED = {
    "addcmul": lambda x, y, n: fl.addcmul(x, y, y, value=n), "addcmul 1": lambda x, y, n: fl.addcmul(x, y, y),
    "addcdiv": lambda x, y, n: fl.addcdiv(x, y, y + 1, value=n), "clamp": lambda x, y, n: fl.clamp(x, min=n),
    "clamp 2": lambda x, y, n: x.clamp(max=n, min=-1), "lerp": lambda x, y, n: fl.lerp(x, y, weight=n),
    "where": lambda x, y, n: fl.where(x > 1, input=x, other=n), "leaky": lambda x, y, n: fl.nn.functional.leaky_relu(x, negative_slope=n),
    "add": lambda x, y, n: fl.add(x, other=n), "mul": lambda x, y, n: fl.mul(other=y, input=x),
}


@pytest.mark.parametrize("name", NAMED)
def test_operands_by_name_and_by_default(name):
    tensors = [(numbers(3), numbers(3)), (numbers(2, 3), numbers(3)), (numbers(3, dtype=INT), numbers(3, dtype=INT)),
               (numbers(3), numbers(3).double()), (numbers(3).requires_grad_(), numbers(3)), (numbers(3), numbers(2))]
    calls = [(x, y, n) for (x, y), n in itertools.product(tensors, (2, 0.5, -1, 2.0, True, float("inf")))]
    wanted = [through_python(NAMED[name], *c) for c in calls]
    for seed in range(2):
        order = list(range(len(calls)))
        random.Random(seed).shuffle(order)
        for k in order:
            assert outcome(NAMED[name], *calls[k]) == wanted[k], calls[k]


# ---------------------------------------------------------------------------------- who wants to see calls
def test_modes_and_subclasses_see_the_calls():
    from flambeau.torch.overrides import TorchFunctionMode

    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    x, i = numbers(4, 3), fl.tensor([0, 2])
    for _ in range(2):
        x[0, i], x.split(2), x.fill_(1), x**2, x.t().contiguous(), x.scatter_(0, i[:, None], 1.0)
    with Watch():
        x[i]
        x.scatter_(0, i[:, None], 2.0)
    assert "__getitem__" in seen

    class Own(fl.Tensor):
        pass

    own = x.as_subclass(Own)
    assert type(own[0, i]) is Own and all(type(p) is Own for p in own.split(2)) and type(own**2) is Own


def test_quick_calls_inside_transforms():
    x = numbers(3, 4)
    assert (fl.func.vmap(lambda r: r**2 + r.split(2)[0].sum())(x) == x**2 + x[:, :2].sum(1, keepdim=True)).all()
    assert (fl.func.vmap(lambda r: fl.eye(4)[0] * r)(x) == fl.eye(4)[0] * x).all()
    assert (fl.func.grad(lambda r: (r**3).sum())(x) == 3 * (x * x)).all()


# ---------------------------------------------------------------------------------- copies of permuted tensors
@pytest.mark.parametrize("shape, order", [((8, 3, 32, 32), (0, 2, 3, 1)), ((8, 32, 32, 3), (0, 3, 1, 2)), ((3000, 3), (1, 0)),
                                          ((2, 5000, 2), (2, 0, 1)), ((7, 9, 80), (1, 0, 2))])
@pytest.mark.parametrize("dtype", [fl.float32, fl.uint8, fl.float64, fl.bool])
def test_short_innermost_axes(shape, order, dtype):
    x = (numbers(*shape) % 251).to(dtype)
    array = x.numpy()
    moved = x.permute(order)
    assert (moved.contiguous().numpy() == array.transpose(order)).all() and moved.contiguous().is_contiguous()
    assert (moved.clone().contiguous() == moved).all()
    if dtype is not fl.bool:
        row = fl.arange(moved.shape[-1]).to(dtype)
        assert ((moved + row).numpy() == array.transpose(order) + row.numpy()).all()
