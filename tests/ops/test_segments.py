"""Reductions over segments against NumPy; exclusive or of bits."""

import numpy
import pytest

import flambeau as fl
from flambeau.tensor import grad

REDUCTIONS = {"sum": numpy.sum, "mean": numpy.mean, "prod": numpy.prod, "max": numpy.max, "min": numpy.min}


def segments(array, lengths, reduce, initial=None):
    """The reference: a loop over the segments of the first axis."""
    out, at = [], 0
    for length in lengths:
        part = array[at : at + length]
        at += length
        if initial is not None and reduce == "mean":
            out.append((part.sum(0) + initial) / length if length else numpy.full(array.shape[1:], initial))
        elif initial is not None:
            out.append(
                REDUCTIONS[reduce](numpy.concatenate([part, numpy.full((1, *array.shape[1:]), initial)]), 0)
            )
        elif length:
            out.append(REDUCTIONS[reduce](part, 0))
        else:
            empty = {"sum": 0, "mean": numpy.nan, "prod": 1, "max": -numpy.inf, "min": numpy.inf}[reduce]
            out.append(numpy.full(array.shape[1:], empty))
    return numpy.stack(out)


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_segments(reduce, initial):
    x = numpy.random.default_rng(1).normal(size=(7, 3))
    lengths = [2, 0, 4, 1]
    for array in (x, x[:, 0], x[:, :0]):
        got = fl.segment_reduce(fl.from_numpy(array), reduce, lengths=fl.tensor(lengths), initial=initial)
        numpy.testing.assert_allclose(got.numpy(), segments(array, lengths, reduce, initial), rtol=1e-12)
    offsets = fl.segment_reduce(fl.from_numpy(x), reduce, offsets=fl.tensor([0, 2, 2, 6, 7]), initial=initial)
    numpy.testing.assert_allclose(offsets.numpy(), segments(x, lengths, reduce, initial), rtol=1e-12)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_segments_of_a_later_axis(reduce):
    x = numpy.random.default_rng(2).normal(size=(2, 6, 3)).astype("float32")
    lengths = [[2, 4], [3, 3]]
    got = fl.segment_reduce(fl.from_numpy(x), reduce, lengths=fl.tensor(lengths), axis=1)
    want = numpy.stack([segments(x[i], lengths[i], reduce) for i in range(2)])
    numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_gradient_by_differences(reduce):
    x = fl.rand(5, 2, dtype=fl.float64, requires_grad=True)
    factor, direction, lengths = (
        fl.rand(3, 2, dtype=fl.float64),
        fl.randn(5, 2, dtype=fl.float64),
        fl.tensor([2, 1, 2]),
    )

    def value(at):
        return (fl.segment_reduce(at, reduce, lengths=lengths) * factor).sum()

    slope = (grad(value(x), x)[0] * direction).sum().item()
    step = 1e-6
    change = (value(x.detach() + step * direction) - value(x.detach() - step * direction)).item() / (2 * step)
    assert abs(slope - change) < 1e-7


def test_wrong_segments_are_refused():
    x = fl.rand(6, 2)
    for options, message in (
        ({"lengths": fl.tensor([2, 3])}, "sum to"),
        ({"lengths": fl.tensor([7, -1])}, "negative"),
        ({}, "must be"),
        ({"lengths": fl.tensor([[6]])}, "leading"),
        ({"indices": fl.tensor([0])}, "indices"),
    ):
        with pytest.raises(RuntimeError, match=message):
            fl.segment_reduce(x, "sum", **options)
    with pytest.raises(RuntimeError, match="reduce argument"):
        fl.segment_reduce(x, "median", lengths=fl.tensor([6]))
    with pytest.raises(NotImplementedError):
        fl.segment_reduce(x, "sum", lengths=fl.tensor([6.0]))


def test_hash_of_bits():
    x = numpy.random.default_rng(3).normal(size=(4, 5))
    for dtype in ("float64", "float32", "int32", "int8", "bool"):
        array = (x * 10).astype(dtype)
        bits = array.astype("float64" if "float" in dtype else "int64").view("uint64")
        t = fl.from_numpy(array)
        assert t.hash_tensor().item() == int(numpy.bitwise_xor.reduce(bits, None))
        assert (
            fl.hash_tensor(t, 1, keepdim=True).tolist()
            == numpy.bitwise_xor.reduce(bits, 1, keepdims=True).tolist()
        )
        assert fl.hash_tensor(t.t()[1:], (0, 1)).item() == int(numpy.bitwise_xor.reduce(bits[:, 1:], None))
    assert fl.hash_tensor(fl.tensor([1.0, 2.0])) != fl.hash_tensor(fl.tensor([1.0, 2.5]))
    with pytest.raises(RuntimeError):
        fl.hash_tensor(fl.tensor([]))
