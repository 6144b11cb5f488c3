"""In-place forms and out= of elementwise ops: computed in the target's memory, with the values of the other form."""

import pytest

import flambeau as fl
from flambeau.ops.spec import REGISTRY

UNARY = [name for name, operation in sorted(REGISTRY.items())
         if operation.kind == "elementwise" and not operation.internal and hasattr(fl.Tensor, name + "_")
         and len(operation.operands) == 1]
BINARY = [name for name, operation in sorted(REGISTRY.items())
          if operation.kind == "elementwise" and not operation.internal and hasattr(fl.Tensor, name + "_")
          and len(operation.operands) == 2]
MORE = {
    "add_": lambda x, y: ((y,), {"alpha": 3}),
    "sub_": lambda x, y: ((y,), {"alpha": 2}),
    "addcmul_": lambda x, y: ((y, y), {"value": 2}),
    "addcdiv_": lambda x, y: ((y, y + 5), {"value": 2}),
    "lerp_": lambda x, y: ((y, 0.25), {}),
    "clamp_": lambda x, y: ((-1, 1), {}),
    "clip_": lambda x, y: ((), {"max": y}),
}
TARGETS = {
    "whole": lambda t: t,
    "turned": lambda t: t.T,
    "every other": lambda t: t[::2, 1:],
    "one element": lambda t: t[1, 1],
}


def numbers(dtype):
    return (fl.arange(24).reshape(4, 6) % 7 + 1).to(dtype)


def outcome(call):
    """The result, or the kind of the error."""
    try:
        return call()
    except (RuntimeError, TypeError, NotImplementedError, ZeroDivisionError) as error:
        return type(error)


def same(a, b):
    return a is b if isinstance(a, type) else fl.equal(a.nan_to_num(7), b.nan_to_num(7)) if a.is_floating_point() else fl.equal(a, b)


def compare(name, dtype, target, others):
    """`name_` on a window of a tensor against the out-of-place form; the rest of the tensor stays."""
    whole = numbers(dtype)
    before, part = whole.clone(), TARGETS[target](whole)
    args = tuple(TARGETS[target](numbers(o)) if isinstance(o, fl.dtype) else o for o in others)
    for _ in range(2):
        whole.copy_(before)
        wanted = outcome(lambda: getattr(part.clone(), name)(*args))
        if not isinstance(wanted, type) and not fl.can_cast(wanted.dtype, dtype):
            wanted = RuntimeError
        got = outcome(lambda: getattr(part, name + "_")(*args))
        rest = before.clone()
        if isinstance(wanted, type):
            assert isinstance(got, type), (name, dtype, target)
        else:
            assert got is part, (name, dtype, got)
            TARGETS[target](rest).copy_(wanted)
        assert same(whole, rest), (name, dtype, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [fl.float32, fl.bfloat16, fl.int64, fl.uint8, fl.bool, fl.complex64])
def test_unary(dtype, target):
    for name in UNARY:
        compare(name, dtype, target, ())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype, other", [
    (fl.float32, fl.float32), (fl.float32, fl.float64), (fl.float64, fl.int32), (fl.int64, fl.int64), (fl.int32, fl.float32),
    (fl.float32, 2), (fl.int64, 2.5), (fl.bool, fl.bool), (fl.bfloat16, fl.float32)])
def test_binary(dtype, other, target):
    for name in BINARY:
        compare(name, dtype, target, (other,))


@pytest.mark.parametrize("name", MORE)
def test_with_attributes_and_numbers(name):
    for dtype in (fl.float32, fl.float64, fl.int64):
        x, y = numbers(dtype), numbers(dtype).flip(0)
        args, named = MORE[name](x, y)
        wanted = outcome(lambda: getattr(x, name[:-1])(*args, **named))
        if not isinstance(wanted, type) and not fl.can_cast(wanted.dtype, dtype):
            wanted = RuntimeError           # lerp of whole numbers
        got = outcome(lambda: getattr(x, name)(*args, **named))
        assert same(got, wanted) and (got is x or isinstance(got, type)), (name, dtype)


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
def test_bools_have_no_quotients(name):
    with pytest.raises(RuntimeError, match="not implemented for bools"):
        getattr(fl, name)(fl.tensor([True]), fl.tensor([True]))
    assert getattr(fl, name)(fl.tensor([True]), 2).dtype is fl.int64


def test_operands_that_overlap_the_target():
    for call in (lambda x: x[1:].add_(x[:-1], alpha=2), lambda x: x[:, 1:].lerp_(x[:, :-1], 0.5),
                 lambda x: x.addcmul_(x, x[0], value=2), lambda x: x[:4, :4].sub_(x[:4, :4].T, alpha=1.5)):
        x = numbers(fl.float64)
        copies = [x.clone() for _ in range(3)]
        whole = call(x)
        del whole
        assert not fl.equal(x, copies[0])
    x = numbers(fl.float64)
    wanted = x.clone()
    wanted[1:] = wanted[1:] + 2 * x[:-1].clone()
    x[1:].add_(x[:-1], alpha=2)
    assert fl.equal(x, wanted)
    x, y = numbers(fl.float64), numbers(fl.float64)
    assert fl.equal(fl.add(x[1:], x[:-1], out=x[1:]), y[1:] + y[:-1])


def test_out_is_written_to_directly_or_refused():
    x, out = numbers(fl.float32), fl.zeros(4, 6)
    assert fl.exp(x, out=out) is out and fl.equal(out, x.exp())
    empty = fl.zeros(0)
    assert fl.mul(x, 2, out=empty) is empty and fl.equal(empty, x * 2)
    with pytest.raises(RuntimeError, match="shape"):
        fl.mul(x, 2, out=fl.zeros(3))
    with pytest.raises(RuntimeError):
        fl.div(x, 2, out=fl.zeros(4, 6, dtype=fl.int64))
    with pytest.raises(RuntimeError, match="differentiation"):
        fl.mul(x.clone().requires_grad_(), 2, out=out)
    wide = fl.zeros(4, 6, dtype=fl.float64)
    assert fl.equal(fl.mul(x, 2, out=wide), (x * 2).double())


def test_the_tape_follows_where_it_is_on():
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    y.add_(x, alpha=3).clamp_(0, 100).lerp_(fl.zeros(3), 0.5)
    y.sum().backward()
    assert x.grad.tolist() == [2.5] * 3
    saved = fl.ones(3)
    loss = (x * saved).sum()
    with fl.no_grad():
        saved.clamp_(max=0.5)
    with pytest.raises(RuntimeError, match="clamp_"):
        loss.backward()
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1, alpha=2)


def test_no_second_memory_for_a_large_target():
    x, y = fl.ones(1 << 20), fl.ones(1 << 20)
    calls = (lambda: x.add_(y, alpha=2), lambda: x.clamp_(0, 2), lambda: x.addcmul_(y, y), lambda: fl.exp(y, out=x))
    for call in calls:
        call()
        fl.memory.reset_peak()
        before = fl.memory.stats()["live_bytes"]
        call()
        assert fl.memory.stats()["peak_bytes"] - before < x.nbytes / 4


def test_calls_found_again_tell_operands_apart():
    def three(seed):
        fl.manual_seed(seed)
        return fl.randn(3, 4), fl.randn(3, 4), fl.randn(3, 4)
    calls = (lambda x, y, z: x.addcmul_(y, y, value=2), lambda x, y, z: x.addcmul_(y, z, value=3.5),
             lambda x, y, z: x.addcmul_(y, z), lambda x, y, z: x.addcmul_(x, z, value=-1),
             lambda x, y, z: x.lerp_(y, 0.25), lambda x, y, z: x.lerp_(end=z, weight=0.5), lambda x, y, z: x.lerp_(y, z),
             lambda x, y, z: x.add_(y, alpha=2), lambda x, y, z: x.add_(other=z, alpha=-0.5), lambda x, y, z: x.sub_(z, alpha=4),
             lambda x, y, z: x.clamp_(-1, 1), lambda x, y, z: x.clamp_(-0.5, 0.5), lambda x, y, z: x.clamp_(max=y),
             lambda x, y, z: x.leaky_relu_(0.2), lambda x, y, z: x.leaky_relu_(0.3), lambda x, y, z: x.add_(y[0], alpha=2))
    plain = (lambda x, y, z: x + 2 * y * y, lambda x, y, z: x + 3.5 * y * z, lambda x, y, z: x + y * z,
             lambda x, y, z: x - x * z, lambda x, y, z: x.lerp(y, 0.25), lambda x, y, z: x.lerp(z, 0.5),
             lambda x, y, z: x.lerp(y, z), lambda x, y, z: x + 2 * y, lambda x, y, z: x - 0.5 * z, lambda x, y, z: x - 4 * z,
             lambda x, y, z: x.clip(-1, 1), lambda x, y, z: x.clip(-0.5, 0.5), lambda x, y, z: x.minimum(y),
             lambda x, y, z: fl.where(x > 0, x, x * 0.2), lambda x, y, z: fl.where(x > 0, x, x * 0.3),
             lambda x, y, z: x + 2 * y[0])
    for seed in range(3):
        for written, wanted in zip(calls, plain):
            x, y, z = three(seed)
            want = wanted(x, y, z)
            assert fl.allclose(written(x, y, z), want, rtol=1e-6, atol=1e-6)
    with pytest.raises(RuntimeError, match="shape"):        # found again, but with other sizes
        fl.zeros(3, 4).add_(fl.ones(2, 3, 4), alpha=2)
    x = fl.zeros(3, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(fl.ones(3, 4), alpha=2)
    y = (x * 1).add_(x, alpha=2)
    assert y.requires_grad


@pytest.mark.parametrize("call", [
    lambda x: x.add_(1), lambda x: x.add_(x, alpha=2), lambda x: x.clamp_(0, 1), lambda x: x.tril_(), lambda x: x.triu_(1),
    lambda x: x.index_fill_(0, fl.tensor([1]), 3), lambda x: x.put_(fl.tensor([3]), fl.tensor([2.0])), lambda x: x.nan_to_num_(),
])
def test_a_write_counts_once(call):
    x = fl.ones(3, 3)
    for count in (1, 2, 3):
        assert call(x) is x and x._version == count
