"""Orders in memory: contiguous, clone, to, creation and modules take `memory_format=`."""

import numpy
import pytest

import flambeau as fl

FORMATS = {4: fl.channels_last, 5: fl.channels_last_3d}
SHAPES = [(2, 3, 4, 5), (1, 1, 1, 1), (2, 1, 4, 4), (2, 3, 1, 1), (0, 3, 2, 2), (2, 3, 2, 4, 5)]


def last_strides(shape):
    """The strides of an array with the channels innermost."""
    item = numpy.empty((shape[0], *shape[2:], shape[1]), "int8")
    steps = [step for step in item.strides]
    return (steps[0], steps[-1], *steps[1:-1])


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "bfloat16"])
@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s])
def test_values_stay_and_strides_follow(shape, dtype):
    x = fl.arange(int(numpy.prod(shape))).reshape(shape).to(getattr(fl, dtype))
    form = FORMATS[len(shape)]
    for made in (
        x.contiguous(memory_format=form),
        x.clone(memory_format=form),
        x.to(memory_format=form),
        x.clone(memory_format=form).sin().clone() if dtype == "float32" else x.clone(memory_format=form),
    ):
        assert made.is_contiguous(memory_format=form) and made.shape == x.shape and made.dtype == x.dtype
    assert x.clone(memory_format=form).stride() == last_strides(shape)
    assert x.contiguous(memory_format=form).tolist() == x.tolist()
    back = x.contiguous(memory_format=form).contiguous()
    assert back.is_contiguous() and back.tolist() == x.tolist()
    assert x.clone(memory_format=form).data_ptr() != x.data_ptr()


def test_what_is_in_order_already_is_not_copied():
    x = fl.rand(2, 3, 4, 5).contiguous(memory_format=fl.channels_last)
    assert x.contiguous(memory_format=fl.channels_last) is x and not x.is_contiguous()
    assert x.contiguous(memory_format=fl.contiguous_format).stride() == (60, 20, 5, 1)
    assert fl.ones(2, 3).contiguous(memory_format=fl.contiguous_format).is_contiguous()


def test_orders_are_kept():
    """clone, casts, ops and new tensors like another one keep its order; preserve_format asks for that."""
    x = fl.rand(2, 3, 4, 5).contiguous(memory_format=fl.channels_last)
    kept = x.stride()
    for made in (
        x.clone(),
        x.clone(memory_format=fl.preserve_format),
        x.double(),
        x.to(fl.float64),
        x + 1,
        fl.empty_like(x),
        fl.zeros_like(x),
        fl.full_like(x, 2),
        fl.rand_like(x),
        fl.randn_like(x),
        x.to(fl.int64, memory_format=fl.preserve_format),
    ):
        assert made.stride() == kept
    for made in (
        fl.zeros_like(x, memory_format=fl.contiguous_format),
        x.clone(memory_format=fl.contiguous_format),
        x.double(memory_format=fl.contiguous_format),
    ):
        assert made.is_contiguous()
    assert fl.full_like(x, 2.5).tolist() == fl.full((2, 3, 4, 5), 2.5).tolist()
    assert fl.zeros_like(fl.ones(3, 1).expand(3, 4)).is_contiguous()
    assert fl.zeros_like(fl.ones(4, 6).t()[::2]).stride() == (1, 3)


def test_creation():
    for make in (fl.empty_like, fl.zeros_like, fl.ones_like, fl.rand_like, fl.randn_like):
        assert make(fl.ones(2, 3, 4, 5), memory_format=fl.channels_last).stride() == (60, 1, 15, 3)
    assert fl.empty(2, 3, 4, 5, memory_format=fl.channels_last).stride() == (60, 1, 15, 3)
    leaf = fl.ones_like(fl.ones(2, 3, 4, 5), memory_format=fl.channels_last, requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad and leaf._version == 0


@pytest.mark.parametrize("name", ["contiguous", "clone", "to"])
def test_gradients_pass(name):
    x = fl.rand(2, 3, 4, 5, requires_grad=True)
    factor = fl.arange(120.0).reshape(2, 3, 4, 5)
    (getattr(x, name)(memory_format=fl.channels_last) * factor).sum().backward()
    assert x.grad.tolist() == factor.tolist()


def test_wrong_ranks_are_refused():
    for shape, form in (
        ((3,), fl.channels_last),
        ((2, 3, 4, 5, 6), fl.channels_last),
        ((2, 3, 4, 5), fl.channels_last_3d),
    ):
        for call in (
            lambda f=form, s=shape: fl.ones(s).contiguous(memory_format=f),
            lambda f=form, s=shape: fl.empty(s, memory_format=f),
            lambda f=form, s=shape: fl.ones(s).to(memory_format=f),
        ):
            with pytest.raises(RuntimeError, match="required rank"):
                call()
        assert not fl.ones(shape).is_contiguous(memory_format=form)


def test_modules():
    layer = fl.nn.Sequential(fl.nn.Conv2d(3, 4, 3), fl.nn.BatchNorm2d(4))
    x = fl.rand(2, 3, 6, 6)
    want = layer(x)
    assert layer.to(memory_format=fl.channels_last)[0].weight.stride() == (27, 1, 9, 3)
    assert isinstance(layer[0].weight, fl.nn.Parameter)
    got = layer(x.to(memory_format=fl.channels_last))
    assert (got - want).abs().max() < 1e-5
