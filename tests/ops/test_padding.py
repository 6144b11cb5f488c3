"""Padding against numpy.pad, and cutting by negative sizes."""

import numpy as np
import pytest

import flambeau as fl
from flambeau.ops.padding import pad

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sides", [(1, 2), (2, 1, 0, 3), (1, 1, 2, 0, 0, 1)])
def test_modes(mode, sides):
    shape = (2, 3, 4, 5, 4)[5 - len(sides) // 2 - 2:]
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    pairs = [(sides[i], sides[i + 1]) for i in range(0, len(sides), 2)][::-1]
    want = np.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, MODES[mode])
    assert np.array_equal(pad(fl.tensor(x), sides, mode).numpy(), want)


def test_negative_sizes_cut():
    x = fl.arange(5.0)
    assert pad(x, (-1, -2)).tolist() == [1.0, 2.0]
    assert pad(x, (-3, 2), value=9.0).tolist() == [3.0, 4.0, 9.0, 9.0]
    assert pad(x.reshape(1, 5), (-2, 1), "circular").tolist() == [[2.0, 3.0, 4.0, 2.0]]


def test_gradient_counts_how_often_an_element_is_read():
    x = fl.arange(4.0).reshape(1, 4).requires_grad_()
    pad(x, (2, 1), "reflect").sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0, 3.0, 1.0]]


def test_refusals():
    x = fl.ones(1, 2, 3)
    for sides, mode, kind in (((3, 0), "reflect", RuntimeError), ((4, 0), "circular", RuntimeError),
                              ((1,), "constant", RuntimeError), ((1, 1), "odd", NotImplementedError),
                              ((-2, -2), "constant", RuntimeError)):
        with pytest.raises(kind):
            pad(x, sides, mode)


def test_long_signals_mirrored():
    x = fl.rand(2, 3, 20000)
    for before, after in ((0, 0), (1, 0), (0, 3), (256, 256), (19999, 7), (5, -2)):
        want = np.pad(x.numpy(), ((0, 0), (0, 0), (before, max(after, 0))), "reflect")
        want = want[..., :want.shape[-1] + min(after, 0)]
        recorded = x.clone().requires_grad_()
        for given in (x, recorded):
            assert (pad(given, (before, after), "reflect").detach().numpy() == want).all()
