"""Differences, derivatives by differences and trapezoids against NumPy."""

import numpy
import pytest

import flambeau as fl


def table(*shape):
    return numpy.random.default_rng(3).uniform(-2, 2, shape)


def test_differences():
    array = table(4, 6)
    for n in (0, 1, 3):
        numpy.testing.assert_allclose(fl.diff(fl.tensor(array), n).numpy(), numpy.diff(array, n))
    joined = fl.diff(fl.tensor([1, 4, 9]), prepend=fl.tensor([0]), append=fl.tensor([16]))
    assert joined.tolist() == [1, 3, 5, 7]
    assert fl.tensor([True, False, False]).diff().tolist() == [True, False]
    assert fl.diff(fl.tensor([1, 2]), 5).shape == (0,)
    with pytest.raises(RuntimeError, match="no axis"):
        fl.diff(fl.tensor(1))


def test_trapezoids():
    y, x = table(3, 5), numpy.sort(table(5))
    for given in ({}, {"dx": 0.5}, {"x": x}):
        told = {k: fl.tensor(v) if k == "x" else v for k, v in given.items()}
        want = numpy.trapezoid(y, **given) if hasattr(numpy, "trapezoid") else numpy.trapz(y, **given)
        numpy.testing.assert_allclose(fl.trapezoid(fl.tensor(y), **told).numpy(), want)
        running = fl.cumulative_trapezoid(fl.tensor(y), **told)
        assert running.shape == (3, 4)
        numpy.testing.assert_allclose(running[:, -1].numpy(), want)
    assert fl.trapz(fl.tensor([1.0, 3.0])).item() == 2
    assert fl.trapz(fl.tensor([[1, 2, 4]]), dx=2).tolist() == [9] and fl.trapz(fl.tensor([3.0])).item() == 0
    assert fl.trapz(fl.zeros(3, 0)).tolist() == [0, 0, 0]
    y = fl.tensor(y, requires_grad=True)
    fl.trapz(y, dx=3).sum().backward()
    numpy.testing.assert_allclose(y.grad.numpy()[0], [1.5, 3, 3, 3, 1.5])


def test_derivatives_of_samples():
    array, places = table(5, 6), numpy.cumsum(abs(table(6)) + 0.1)
    for order in (1, 2):
        got = fl.gradient(fl.tensor(array), spacing=2.0, edge_order=order)
        for mine, numpys in zip(got, numpy.gradient(array, 2.0, edge_order=order)):
            numpy.testing.assert_allclose(mine.numpy(), numpys)
        got, = fl.gradient(fl.tensor(array), spacing=(fl.tensor(places),), dim=1, edge_order=order)
        numpy.testing.assert_allclose(got.numpy(), numpy.gradient(array, places, axis=1, edge_order=order))
    with pytest.raises(RuntimeError, match="edge_order"):
        fl.gradient(fl.ones(2), edge_order=2)
