"""torch.library: ops of a program's own by decorator and by name, their derivatives and their shapes."""

import typing

import numpy
import pytest

from flambeau import torch
from flambeau.torch import library


@pytest.fixture
def sine():
    @library.custom_op("tests::sine", mutates_args=())
    def sine(x: torch.Tensor) -> torch.Tensor:
        """Through NumPy."""
        return torch.from_numpy(numpy.sin(x.numpy()))

    @sine.register_fake
    def _(x):
        return torch.empty_like(x)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    sine.register_autograd(lambda ctx, grad: grad * ctx.saved_tensors[0].cos(), setup_context=keep)
    return sine


def test_an_op_with_a_derivative(sine):
    x = torch.tensor([0.5, 1.0], requires_grad=True)
    out = sine(x)
    out.sum().backward()
    assert torch.allclose(out, x.sin()) and torch.allclose(x.grad, x.detach().cos())
    assert torch.equal(torch.ops.tests.sine(x), out) and torch.equal(torch.ops.tests.sine.default(x), out)
    assert sine.__name__ == "sine" and sine.__doc__ == "Through NumPy."
    assert sine(torch.empty(3, device="meta")).shape == (3,)


def test_several_results_defaults_and_writes():
    @library.custom_op("tests::two", mutates_args=())
    def two(x: torch.Tensor, y: typing.Optional[torch.Tensor] = None,
        n: int = 2) -> typing.Tuple[torch.Tensor, torch.Tensor]:
        return x * n, x * (n + 1)

    two.register_autograd(lambda ctx, a, b: (a * 2 + b * 3, None, None))
    x = torch.ones(2, requires_grad=True)
    sum(part.sum() for part in two(x)).backward()
    assert x.grad.tolist() == [5, 5]

    @library.custom_op("tests::shift_", mutates_args={"x"})
    def shift_(x: torch.Tensor, by: float, *, times: int = 1) -> None:
        x.add_(by * times)

    x = torch.zeros(2)
    assert shift_(x, 2.0, times=3) is None and x.tolist() == [6, 6]
    assert library.infer_schema(shift_.__wrapped__, mutates_args={"x"}) == (
        "(Tensor(a0!) x, float by, *, SymInt times=1) -> ()")


def test_without_a_derivative_a_backward_pass_is_refused():
    @library.custom_op("tests::plain", mutates_args=())
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    out = plain(torch.ones(1, requires_grad=True))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        out.sum().backward()
    assert plain(torch.ones(1)).item() == 2


def test_ops_by_name():
    with library.Library("tests_by_name", "DEF") as lib:
        lib.define("five(Tensor x) -> Tensor")
        lib.impl("five", lambda x: x * 5, "CPU")
        lib.define("both(Tensor x) -> Tensor")
        lib.impl("both", lambda x: x * x, "CompositeImplicitAutograd")
        library.register_fake("tests_by_name::five", torch.empty_like)
        library.register_autograd("tests_by_name::five", lambda ctx, grad: grad * 5)
        x = torch.full((1,), 3.0, requires_grad=True)
        ours = torch.ops.tests_by_name
        assert ours.five(torch.ones(1)).item() == 5 and ours.five(torch.ones(2, device="meta")).is_meta
        assert torch.autograd.grad(ours.five(x), x)[0].item() == 5
        assert torch.autograd.grad(ours.both(x), x)[0].item() == 6
    assert not hasattr(torch.ops.tests_by_name, "five")


def test_mistakes():
    for name in ("bare", "a:b", 3):
        with pytest.raises(ValueError, match="space::op"):
            library.define(name, "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="must have a type annotation"):
        library.custom_op("tests::untyped", lambda x: x, mutates_args=())
    with pytest.raises(RuntimeError, match="there is no op named 'tests::missing'"):
        library.register_fake("tests::missing", len)
    library.define("tests::empty", "(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="no function for the CPU"):
        torch.ops.tests.empty(torch.ones(1))
