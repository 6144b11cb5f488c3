"""`.data` of values inside transforms: the elements, outside of the transform's derivative."""

import pytest

import flambeau as fl


@pytest.mark.parametrize("read", [lambda x: x.data, lambda x: x.detach()])
def test_data_has_the_elements_and_no_gradient(read):
    seen = []

    def function(x):
        y = x * 2
        seen.append((y.dtype, tuple(y.shape), bool(read(y).norm() > 1e9)))
        return (y * read(y)).sum()

    x = fl.tensor([1.0, 2.0])
    value, gradient = fl.autograd.functional.vjp(function, x)
    assert value.item() == 20 and gradient.tolist() == [4, 8] and seen == [(fl.float32, (2,), False)]
    assert fl.func.grad(function)(x).tolist() == [4, 8]
    assert fl.func.jvp(function, (x,), (fl.ones(2),))[1].item() == 12
    assert fl.func.vmap(lambda row: read(row) + 1)(fl.zeros(2, 3)).tolist() == [[1.0] * 3] * 2
