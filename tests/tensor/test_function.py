"""autograd.Function: user-written derivatives."""

import pytest

import flambeau as fl
from flambeau.autograd import Function, once_differentiable


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * 3 * x ** 2


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class Split(Function):
    """Two outputs and an argument that is no tensor; context set up apart."""

    @staticmethod
    def forward(x, factor):
        return x * factor, x + factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, first, second):
        return first * ctx.factor + second, None


def test_first_and_second_derivative():
    x = fl.tensor([1.0, 2.0, -3.0], requires_grad=True)
    g, = fl.grad(Cube.apply(x).sum(), x, create_graph=True)
    assert g.tolist() == [3.0, 12.0, 27.0]
    assert fl.grad(g.sum(), x)[0].tolist() == [6.0, 12.0, -18.0]


def test_a_saved_output_is_differentiated_again():
    x = fl.tensor([0.0, 1.0], requires_grad=True)
    g, = fl.grad(Exp.apply(x).sum(), x, create_graph=True)
    assert fl.grad(g.sum(), x)[0].tolist() == pytest.approx([1.0, 2.718281828], rel=1e-6)


def test_several_outputs_and_missing_gradients():
    x = fl.tensor([1.0, 2.0], requires_grad=True)
    product, total = Split.apply(x, 5.0)
    total.sum().backward()                      # the other output's gradient is zeros
    assert x.grad.tolist() == [1.0, 1.0] and product.requires_grad


def test_names_and_flags():
    y = Cube.apply(fl.ones(2, requires_grad=True))
    assert y.grad_fn.name() == "CubeBackward" and not Cube.apply(fl.ones(2)).requires_grad
    with fl.no_grad():
        assert not Cube.apply(fl.ones(2, requires_grad=True)).requires_grad


def test_wrong_number_of_gradients():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError, match="wrong number of gradients"):
        Bad.apply(fl.ones(1, requires_grad=True), fl.ones(1)).backward()


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad * 2

    x = fl.ones(1, requires_grad=True)
    g, = fl.grad(Once.apply(x), x, create_graph=True)
    assert not g.requires_grad


def test_a_saved_tensor_written_over():
    x = fl.ones(2, requires_grad=True)
    hidden = x * 1
    y = Cube.apply(hidden)
    with fl.no_grad():
        hidden.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()
