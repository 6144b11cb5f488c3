"""gradcheck and gradgradcheck: right derivatives pass in every mode, wrong ones are caught and named."""

import numpy
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.autograd import Function, GradcheckError, gradcheck, gradgradcheck

F = nn.functional


def double(*shape, dtype=fl.float64, seed=0):
    rng = numpy.random.default_rng(seed)
    values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype is fl.complex128 else 0)
    return fl.tensor(values, dtype=dtype).requires_grad_(True)


def broken(name, derivative, forward=lambda x: x.exp()):
    """A Function with this backward formula."""
    def run_forward(ctx, x):
        ctx.save_for_backward(x)
        return forward(x)
    return type(name, (Function,), {"forward": staticmethod(run_forward),
                                    "backward": staticmethod(derivative)}).apply


# ---------------------------------------------------------------------------------- right derivatives
REAL = {"sin": fl.sin, "norm": lambda x: x.norm(), "softmax": lambda x: fl.softmax(x, -1),
        "cumsum": lambda x: x.cumsum(0),
        "two outputs": lambda x: (x.exp(), x.sum(0)), "a view": lambda x: x.t()[1:],
        "integers too": lambda x: x.max(1)}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", REAL)
def test_right_real_derivatives_pass(name, fast):
    x = double(2, 3)
    assert gradcheck(REAL[name], x, fast_mode=fast, check_forward_ad=True, check_grad_dtypes=True)
    assert gradgradcheck(REAL[name], (x,), fast_mode=fast)


def test_batched_and_forward_modes_pass():
    x, w = double(2, 3), double(3, 2, seed=1)
    both = dict(check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradcheck(lambda x, w: (fl.tanh(x @ w), x.exp()), (x, w), **both)
    assert gradgradcheck(lambda x, w: fl.tanh(x @ w), (x, w), check_fwd_over_rev=True,
                         check_batched_grad=True)


COMPLEX = {"square": lambda z: z * z, "exp": fl.exp, "abs": fl.abs, "conj": lambda z: z.conj() * 2j,
           "real": lambda z: z.real, "angle": fl.angle, "matmul": lambda z: z @ z.t()}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", COMPLEX)
def test_right_complex_derivatives_pass(name, fast):
    z = double(2, 2, dtype=fl.complex128)
    assert gradcheck(COMPLEX[name], z, fast_mode=fast, check_forward_ad=True)
    assert gradgradcheck(COMPLEX[name], z, fast_mode=fast)


def test_real_to_complex_and_arguments_that_are_not_tensors():
    assert gradcheck(fl.complex, (double(3), double(3, seed=1)))
    assert gradcheck(lambda x, power, other: x ** power + other, (double(3), 3, fl.ones(3, dtype=fl.float64)))
    assert gradcheck(lambda x: x.sum(), double(0, 3))
    assert gradgradcheck(fl.sin, double(3), grad_outputs=double(3, seed=2))
    assert gradgradcheck(fl.sin, double(2, 3), gen_non_contig_grad_outputs=True)


def test_strided_inputs_and_modules_pass():
    layer = nn.Linear(3, 2).double()
    assert gradcheck(layer, double(3, 4).t())
    assert gradcheck(lambda w: F.linear(fl.ones(2, 3, dtype=fl.float64), w), (layer.weight,))


def test_single_precision_is_warned_of():
    with pytest.warns(UserWarning, match="input 0 is .*float32"):
        gradcheck(fl.sin, fl.ones(2, requires_grad=True), raise_exception=False)


def test_inputs_stay_as_they_are():
    x = double(3)
    before, version = x.detach().clone(), x._version
    gradcheck(fl.sin, x)
    gradgradcheck(fl.sin, x)
    assert fl.equal(x, before) and x._version == version and x.grad is None


# ---------------------------------------------------------------------------------- wrong ones
WRONG = {"a factor": (broken("Factor", lambda ctx, g: g * ctx.saved_tensors[0].exp() * 1.1), "1.1 times"),
         "the sign": (broken("Sign", lambda ctx, g: -g * ctx.saved_tensors[0].exp()), "sign is wrong"),
         "nothing": (broken("Nothing", lambda ctx, g: g * 0), "is zero"),
         "a part is detached": (lambda x: x.detach() * x.exp(), "Jacobian mismatch"),
         "one element": (broken("One", lambda ctx, g: (g * ctx.saved_tensors[0].exp()).clamp(max=2.0)),
                         "1 of 9 entries")}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_derivatives_are_caught(name, fast):
    func, words = WRONG[name]
    x = fl.tensor([0.1, 0.2, 1.0], dtype=fl.float64, requires_grad=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input "
                       "0") as caught:
        gradcheck(func, x, fast_mode=fast)
    assert words in str(caught.value)
    assert gradcheck(func, x, fast_mode=fast, raise_exception=False) is False


def test_the_message_names_output_input_position_and_both_values():
    def func(x, y):
        wrong = broken("Place", lambda ctx, g: g * fl.tensor([[2.0, 2.0], [2.0, 5.0]], dtype=fl.float64),
                       lambda x: 2 * x)
        return x + y, wrong(y)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(func, (double(2, 2), double(2, 2, seed=1)))
    text = str(caught.value)
    assert "output 1 with respect to input 1 (backward mode)" in text
    assert "d output[1, 1] / d input[1, 1]" in text
    assert "numerical 2" in text and "analytical 5" in text and "1 of 16 entries" in text
    assert "test_gradcheck.py" in text


def test_a_wrong_complex_convention_is_caught():
    # conj forgotten
    holomorphic = broken("Holomorphic", lambda ctx, g: g * 2 * ctx.saved_tensors[0], lambda z: z * z)
    with pytest.raises(GradcheckError, match=r"\.imag"):
        gradcheck(holomorphic, double(2, dtype=fl.complex128))
    assert gradcheck(broken("Good", lambda ctx, g: g * (2 * ctx.saved_tensors[0]).conj(), lambda z: z * z),
                     double(2, dtype=fl.complex128))


def test_a_wrong_forward_derivative_is_caught():
    def func(x):
        return x.exp() if type(x) is fl.Tensor else x.exp() * 1.5 - 0.5 * x.exp().detach()
    for fast in (False, True):
        assert gradcheck(func, double(3), fast_mode=fast)
        with pytest.raises(GradcheckError, match=r"\(forward mode\)"):
            gradcheck(func, double(3), check_forward_ad=True, fast_mode=fast)


def test_random_functions_and_kinks_are_explained():
    with pytest.raises(GradcheckError, match="different outputs for the same inputs"):
        gradcheck(lambda x: F.dropout(x, 0.5), double(20))
    with pytest.raises(GradcheckError, match="kink"):
        gradcheck(lambda x: fl.relu(x) * 2, fl.tensor([0.0, 1.0], dtype=fl.float64, requires_grad=True))


def test_a_backward_pass_that_is_not_repeatable_is_caught():
    calls = []

    def unsteady(ctx, g):
        calls.append(1)
        return g * ctx.saved_tensors[0].exp() * (1 + 1e-9 * len(calls))
    func = broken("Unsteady", unsteady)
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(func, double(3))
    assert gradcheck(func, double(3), nondet_tol=1e-6, check_undefined_grad=False)


def test_a_backward_that_ignores_its_gradient_is_caught():
    constant = broken("Constant", lambda ctx, g: ctx.saved_tensors[0].exp())
    with pytest.raises(GradcheckError, match="not multiplied by grad_output"):
        gradcheck(constant, fl.tensor([0.5], dtype=fl.float64, requires_grad=True))


def test_gradients_of_another_dtype_are_caught():
    func = broken("Narrow", lambda ctx, g: (g * ctx.saved_tensors[0].exp()).float())
    with pytest.raises((GradcheckError, RuntimeError)):
        gradcheck(func, double(3), check_grad_dtypes=True)


def test_outputs_off_the_tape_must_be_constant():
    assert gradcheck(lambda x: fl.ones(3), double(3))
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, double(3))


def test_a_second_derivative_that_is_hidden_is_caught():
    def hidden(ctx, g):
        return g * ctx.saved_tensors[0].detach().exp()
    func = broken("Hidden", hidden)
    assert gradcheck(func, double(3))
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(func, double(3))


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(fl.sin, fl.ones(3, dtype=fl.float64))
    with pytest.raises(AssertionError, match="check_forward_ad"):
        gradcheck(fl.sin, double(3), check_backward_ad=False)
    with pytest.raises(AssertionError, match="check_batched_forward_grad"):
        gradcheck(fl.sin, double(3), check_batched_forward_grad=True)
    assert gradcheck(fl.sin, double(3), check_backward_ad=False, check_forward_ad=True)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_inputs(layout):
    dense = fl.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]], dtype=fl.float64)
    sparse = (dense.to_sparse() if layout == "sparse_coo" else dense.to_sparse_csr()).requires_grad_(True)
    assert gradcheck(lambda s: s.to_dense() * 2, sparse, masked=True)
    assert gradcheck(lambda s, x: s @ x, (sparse, double(3, 2)), masked=True)
    assert not gradcheck(lambda s: s.to_dense() * s.to_dense().detach(), sparse, masked=True,
                         raise_exception=False)


def test_the_facade_has_the_function_and_the_module_of_one_name():
    from flambeau import torch
    from flambeau.torch.autograd.gradcheck import gradgradcheck as from_module
    assert torch.autograd.gradcheck(fl.sin, double(3)) and from_module is gradgradcheck


def test_transforms_keep_no_operands():
    """What is compiled for a derivative holds none of the values that it was first made for."""
    def run():
        fl.func.jacrev(fl.erfc)(fl.randn(30))
        fl.func.hessian(lambda x: (fl.erfc(x) * x.sum()).sum())(fl.randn(5))
    with fl.memory.leak_check() as check:
        run()
    assert check.count == 0, check
