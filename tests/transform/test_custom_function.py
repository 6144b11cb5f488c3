"""Custom autograd Functions: inside transforms, with hidden intermediates, with the options of their context."""

import pytest

import flambeau as fl
from flambeau import func
from flambeau.autograd import Function, forward_ad, once_differentiable

X = fl.tensor([0.5, -1.0, 2.0], dtype=fl.float64)
V = fl.tensor([1.0, 0.5, -2.0], dtype=fl.float64)
M = fl.stack([X, V, X * V, X + 1])


class Cube(Function):
    """x ** 3 with a backward of half size of the truth's double: 6 x ** 2 / 2, so that one sees which rule ran."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x ** 3

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, = inputs
        ctx.save_for_backward(x, output)
        ctx.twice = x * 2

    @staticmethod
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        return grad * 3 * x * ctx.twice / 2


class Product(Function):
    """x * y and its sum over elements, with rules for everything."""

    calls = []

    @staticmethod
    def forward(x, y, scale):
        return x * y * scale, (x * y).sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, ctx.scale = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)

    @staticmethod
    def backward(ctx, grad, grad_sum):
        x, y = ctx.saved_tensors
        of_product = grad * ctx.scale + grad_sum
        return of_product * y, of_product * x, None

    @staticmethod
    def jvp(ctx, of_x, of_y, _):
        Product.calls.append("jvp")
        x, y = ctx.saved_tensors
        of_x, of_y = (fl.zeros_like(x) if t is None else t for t in (of_x, of_y))
        change = of_x * y + of_y * x
        return change * ctx.scale, change.sum()

    @staticmethod
    def vmap(info, in_dims, x, y, scale):
        Product.calls.append("vmap")
        x, y = (t if d is not None else t.expand(info.batch_size, *t.shape) for t, d in zip((x, y), in_dims))
        return (x * y * scale, (x * y).sum(-1)), (0, 0)


def close(a, b):
    assert tuple(a.shape) == tuple(b.shape) and fl.allclose(a, b, rtol=1e-12, atol=1e-12), (a, b)


def test_derivatives_of_every_order():
    close(func.grad(lambda x: Cube.apply(x).sum())(X), 3 * X ** 2)
    close(func.hessian(lambda x: Cube.apply(x).sum())(X), fl.diag(6 * X))
    close(func.jacrev(func.jacrev(lambda x: Cube.apply(x).sum()))(X), fl.diag(6 * X))
    close(func.grad(func.grad(func.grad(lambda x: Cube.apply(x))))(X[2]), fl.tensor(6.0, dtype=fl.float64))
    close(func.jvp(Cube.apply, (X,), (V,))[1], 3 * X ** 2 * V)
    close(func.jvp(lambda x: func.jvp(Cube.apply, (x,), (V,))[1], (X,), (V,))[1], 6 * X * V * V)
    leaf = X.clone().requires_grad_()
    func.grad(lambda x: Cube.apply(x).sum())(leaf).sum().backward()
    close(leaf.grad, 6 * X)


def test_batches():
    close(func.vmap(Cube.apply)(M), M ** 3)
    close(func.vmap(func.grad(lambda x: Cube.apply(x).sum()))(M), 3 * M ** 2)
    close(func.grad(lambda m: func.vmap(Cube.apply)(m).sum())(M), 3 * M ** 2)
    close(func.jacrev(Cube.apply)(X), fl.diag(3 * X ** 2))
    close(func.vmap(func.vmap(Cube.apply))(fl.stack([M, M * 2])), fl.stack([M, M * 2]) ** 3)
    close(func.vmap(func.hessian(lambda x: Cube.apply(x).sum()))(M), fl.stack([fl.diag(6 * r) for r in M]))
    leaf = M.clone().requires_grad_()
    func.vmap(Cube.apply)(leaf).sum().backward()
    close(leaf.grad, 3 * M ** 2)


def test_rules_of_the_user():
    Product.calls.clear()
    product, total = func.vmap(lambda x: Product.apply(x, V, 2.0))(M)
    close(product, M * V * 2)
    close(total, (M * V).sum(1))
    close(func.jvp(lambda x: Product.apply(x, V, 2.0), (X,), (V,))[1][0], V * V * 2)
    assert Product.calls == ["vmap", "jvp"]
    grads = func.grad(lambda x, y: sum(p.sum() for p in Product.apply(x, y, 2.0)), argnums=(0, 1))(X, V)
    close(grads[0], V * 3)
    close(grads[1], X * 3)
    close(func.grad(lambda m: func.vmap(lambda x: Product.apply(x, V, 2.0)[0])(m).sum())(M), (M * 0 + 1) * V * 2)


def test_shared_arguments_sum_their_gradients():
    class Scaled(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w):
            return x * w

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad * w, grad * x

    got = func.grad(lambda w: func.vmap(lambda x: Scaled.apply(x, w))(M).sin().sum())(V)
    close(got, func.grad(lambda w: (M * w).sin().sum())(V))
    close(func.vmap(func.grad(lambda w, x: Scaled.apply(x, w).sum()), (None, 0))(V, M), M)


def test_jvp_and_backward_share_the_context_of_an_old_style_forward():
    class Old(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.calls = getattr(ctx, "calls", 0) + 1
            ctx.save_for_backward(x)
            ctx.save_for_forward(x, x * 2)
            ctx.result = x * x
            return ctx.result

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, tangent):
            assert ctx.calls == 1
            del ctx.result
            return tangent * ctx.saved_tensors[1]

    x = X.clone().requires_grad_()
    with forward_ad.dual_level():
        y = Old.apply(forward_ad.make_dual(x, fl.ones_like(x) * 3))
        primal, tangent = forward_ad.unpack_dual(y)
    close(tangent, 6 * X)
    primal.sum().backward()
    close(x.grad, 2 * X)
    assert fl.autograd.gradcheck(Old.apply, (x,), check_forward_ad=True)


def test_clear_errors():
    class Old(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    close(func.grad(lambda x: Old.apply(x).sum())(X), 2 * X)
    with pytest.raises(RuntimeError, match="setup_context"):
        func.grad(func.grad(lambda x: Old.apply(x)))(X[0])
    with pytest.raises(RuntimeError, match="vmap"):
        func.vmap(Old.apply)(M)


# ------------------------------------------------------------------------------ what forward hides
def function(save, read, forward=lambda x: x.exp()):
    class Hiding(Function):
        @staticmethod
        def forward(ctx, x):
            inner = forward(x)
            save(ctx, x, inner)
            return inner * 2 if inner.dtype.is_floating_point else x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * read(ctx) * 2
    return Hiding


def second(kind):
    x = X.clone().requires_grad_()
    first, = fl.grad(kind.apply(x).sum(), x, create_graph=True)
    return fl.grad(first.sum(), x, allow_unused=True)[0]


@pytest.mark.parametrize("kind", [
    function(lambda ctx, x, e: ctx.save_for_backward(e), lambda ctx: ctx.saved_tensors[0]),
    function(lambda ctx, x, e: setattr(ctx, "kept", e), lambda ctx: ctx.kept),
    function(lambda ctx, x, e: ctx.save_for_backward(fl.from_numpy(e.detach().numpy() * 1.0)), lambda ctx: ctx.saved_tensors[0]),
])
def test_a_hidden_intermediate_is_refused_at_the_second_derivative(kind):
    x = X.clone().requires_grad_()
    kind.apply(x).sum().backward()
    close(x.grad, 2 * X.exp())                      # the first derivative is right
    with pytest.raises(RuntimeError, match="computed inside forward"):
        second(kind)


def test_saved_inputs_outputs_and_constants_are_not_refused():
    saved_input = function(lambda ctx, x, e: ctx.save_for_backward(x), lambda ctx: ctx.saved_tensors[0].exp())
    close(second(saved_input), 2 * X.exp())
    mask = function(lambda ctx, x, e: ctx.save_for_backward((fl.rand(x.shape) > 0.5).double(), x),
                    lambda ctx: ctx.saved_tensors[0] * ctx.saved_tensors[1], lambda x: x * x)
    assert second(mask) is not None
    steps = function(lambda ctx, x, e: ctx.save_for_backward((x > 0).double()), lambda ctx: ctx.saved_tensors[0])
    assert second(steps) is None                    # piecewise constant: no second derivative


def test_once_differentiable_raises_at_the_second():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x ** 2

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad * 2 * ctx.saved_tensors[0]

    x = X.clone().requires_grad_()
    Once.apply(x).sum().backward()
    close(x.grad, 2 * X)
    first, = fl.grad((Once.apply(x) * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_options_of_the_context():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(x, y):
            return x + y, (x > y).double(), x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, first, mask, second):
            seen.append((ctx.needs_input_grad, first is None, second is None))
            return (first if first is not None else 0) + (second if second is not None else 0) * 2, first

    x = X.clone().requires_grad_()
    total, mask, double = Two.apply(x, V)
    assert total.requires_grad and not mask.requires_grad
    total.sum().backward()
    assert seen == [((True, False), False, True)]
    close(func.grad(lambda x: Two.apply(x, V)[2].sum())(X), X * 0 + 2)
    assert seen[1][1:] == (True, False)


def test_a_dirty_argument_is_the_result():
    class AddOne(Function):
        @staticmethod
        def forward(x):
            return x.add_(1)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return grad * 10

    x = X.clone().requires_grad_()
    y = x * 2
    assert AddOne.apply(y) is y
    y.sum().backward()
    close(x.grad, X * 0 + 20)

    def inside(x):
        y = x * 2
        assert AddOne.apply(y) is y
        return y.sum()

    close(func.grad(inside)(X), X * 0 + 20)
