"""The tape as people use it: gradients, modes, hooks, in-place writes, and what happens to memory."""

import gc

import numpy
import pytest

import flambeau as fl
from flambeau.tensor import autograd


def leaf(*values):
    return fl.tensor(values if len(values) > 1 else values[0], dtype=fl.float64, requires_grad=True)


def memory(tensor):
    return tensor.data_ptr()


# ---------------------------------------------------------------------------------- backward and grad
def test_backward_accumulates():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    (3 * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_backward_of_more_than_one_element_needs_a_gradient():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * 2).backward()
    (x * 2).backward(fl.tensor([1.0, 10.0], dtype=fl.float64))
    assert x.grad.tolist() == [2.0, 20.0]
    with pytest.raises(RuntimeError, match="shape"):
        (x * 2).backward(fl.ones(3, dtype=fl.float64))


def test_backward_without_history_is_refused():
    with pytest.raises(RuntimeError, match="does not require grad"):
        fl.ones(()).backward()


def test_a_tensor_used_several_times():
    x = leaf(3.0)
    y = x * x
    (y * x + y + x).backward()
    assert x.grad.item() == 3 * 9 + 2 * 3 + 1


def test_broadcast_gradients_have_the_shape_of_their_operand():
    a, b = fl.ones(3, 1, requires_grad=True), fl.ones(4, requires_grad=True)
    c = fl.tensor(2.0, requires_grad=True)
    ((a + b) * c).sum().backward()
    assert a.grad.tolist() == [[8.0]] * 3
    assert b.grad.tolist() == [6.0] * 4
    assert c.grad.item() == 24.0 and c.grad.shape == ()


def test_grad_returns_and_leaves_fields_alone():
    x, w = leaf(2.0), leaf(5.0)
    gx, gw = fl.grad(x * x * w, (x, w))
    assert (gx.item(), gw.item()) == (20.0, 4.0)
    assert x.grad is None and w.grad is None


def test_grad_of_an_inner_tensor():
    x = leaf(2.0)
    y = x * 3
    gy, gx = fl.grad(y * y, (y, x))
    assert (gy.item(), gx.item()) == (12.0, 36.0)


def test_unused_inputs():
    x, w = leaf(2.0), leaf(5.0)
    with pytest.raises(RuntimeError, match="not have been used"):
        fl.grad(x * 2, (x, w))
    assert fl.grad(x * 2, (x, w), allow_unused=True)[1] is None
    assert fl.grad(x * 2, (x, w), materialize_grads=True)[1].item() == 0.0
    with pytest.raises(RuntimeError, match="does not require grad"):
        fl.grad(x * 2, fl.ones(1))


def test_backward_to_some_inputs_only():
    x, w = leaf(2.0), leaf(5.0)
    (x * w).backward(inputs=[x])
    assert x.grad.item() == 5.0 and w.grad is None


def test_several_roots():
    x = leaf(2.0)
    autograd.backward([x * 2, x * x])
    assert x.grad.item() == 6.0


def test_integer_results_carry_no_history():
    x = leaf(1.5, 2.5)
    assert not (x > 2).requires_grad and not x.long().requires_grad and not x.argmax().requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        fl.tensor([1, 2], requires_grad=True)


# ---------------------------------------------------------------------------------- higher derivatives
@pytest.mark.parametrize("function, derivatives", [
    (lambda x: x ** 4, lambda v: (4 * v ** 3, 12 * v ** 2, 24 * v)),
    (lambda x: x.sin(), lambda v: (numpy.cos(v), -numpy.sin(v), -numpy.cos(v))),
    (lambda x: x.exp() * x, lambda v: ((1 + v) * numpy.exp(v), (2 + v) * numpy.exp(v),
                                       (3 + v) * numpy.exp(v))),
    (lambda x: 1 / x, lambda v: (-1 / v ** 2, 2 / v ** 3, -6 / v ** 4)),
])
def test_three_derivatives(function, derivatives):
    values = numpy.array([0.5, 1.0, 2.0])
    x = fl.tensor(values, requires_grad=True)
    y = function(x).sum()
    for order, want in enumerate(derivatives(values), 1):
        y, = fl.grad(y.sum(), x, create_graph=order < 3)
        numpy.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-12, err_msg=f"derivative {order}")
    assert not y.requires_grad


def test_second_derivative_through_matmul_and_softmax():
    rng = numpy.random.default_rng(0)
    w = fl.tensor(rng.normal(size=(3, 4)), requires_grad=True)
    x, v = fl.tensor(rng.normal(size=(5, 3))), fl.tensor(rng.normal(size=(3, 4)))

    def slope(w):
        g, = fl.grad(((x @ w).softmax(1) ** 2).sum(), w, create_graph=True)
        return (g * v).sum()

    product, = fl.grad(slope(w), w)
    h = 1e-5
    for place in ((0, 0), (2, 3)):
        step = numpy.zeros((3, 4))
        step[place] = h
        up, down = (slope((w.detach() + s * fl.tensor(step)).requires_grad_(True)).item() for s in (1, -1))
        assert product[place].item() == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-9)


def test_backward_with_create_graph_leaves_a_differentiable_grad():
    x = leaf(2.0)
    (x * x * x).backward(create_graph=True)
    assert x.grad.requires_grad and x.grad.item() == 12.0
    second, = fl.grad(x.grad, x)
    assert second.item() == 12.0


def test_a_gradient_penalty():
    x, w = leaf(1.0, -2.0, 3.0), leaf(0.5, 0.25, -1.0)
    g, = fl.grad((x * w).tanh().sum(), x, create_graph=True)
    (g * g).sum().backward()
    s, v = x.detach().numpy(), w.detach().numpy()
    t = numpy.tanh(s * v)
    numpy.testing.assert_allclose(x.grad.numpy(), 2 * v * (1 - t ** 2) * -2 * t * (1 - t ** 2) * v ** 2,
                                  rtol=1e-12)


# ---------------------------------------------------------------------------------- modes
def test_no_grad_as_block_and_decorators():
    x = leaf(1.0)
    with fl.no_grad():
        assert not fl.is_grad_enabled() and not (x * 2).requires_grad
        with fl.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert fl.is_grad_enabled()

    @fl.no_grad()
    def called(t):
        return t * 2

    @fl.no_grad
    def bare(t):
        return t * 2

    assert not called(x).requires_grad and not bare(x).requires_grad and (x * 2).requires_grad
    assert called.__name__ == "called"


def test_modes_are_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), fl.no_grad():
        1 / 0
    assert fl.is_grad_enabled()


def test_inference_mode_and_set_grad_enabled():
    x = leaf(1.0)
    with fl.inference_mode():
        assert not (x * 2).requires_grad
    with fl.inference_mode(False):
        assert (x * 2).requires_grad
    with fl.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    fl.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    fl.set_grad_enabled(True)
    assert (x * 2).requires_grad


def test_modes_belong_to_their_thread():
    import threading
    seen = []
    with fl.no_grad():
        thread = threading.Thread(target=lambda: seen.append(fl.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


# ---------------------------------------------------------------------------------- detach, retain, leaves
def test_detach_shares_memory_and_stops_gradients():
    x = leaf(2.0, 3.0)
    y = (x * 2).detach()
    assert not y.requires_grad and y.is_leaf
    assert memory(x.detach()) == memory(x)
    (x * y).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_detach_in_place_and_requires_grad_flags():
    x = leaf(2.0)
    y = x * 2
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad_(False)
    y.detach_()
    assert y.is_leaf and not y.requires_grad
    y.requires_grad_()
    (y * 3).backward()
    assert y.grad.item() == 3.0 and x.grad is None


def test_retain_grad_keeps_inner_gradients():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    z = y * 1.0
    (z * z).backward()
    assert y.grad.item() == 12.0 and z.grad is None and x.grad.item() == 36.0
    with pytest.raises(RuntimeError):
        fl.ones(1).retain_grad()


def test_graph_is_freed_unless_retained():
    x = leaf(2.0)
    y = (x * x).exp()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == pytest.approx(2 * 4 * numpy.exp(4.0))
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_graph_without_saved_values_may_run_again():
    x = leaf(2.0)
    y = x + 1
    y.backward()
    y.backward()
    assert x.grad.item() == 2.0


# ---------------------------------------------------------------------------------- hooks
def test_hooks_see_and_replace_gradients():
    x = leaf(2.0)
    y = x * 3
    seen = []
    x_hook = x.register_hook(lambda g: seen.append(("x", g.item())))
    y.register_hook(lambda g: g * 10)
    (y * y).backward(retain_graph=True)
    assert seen == [("x", 360.0)] and x.grad.item() == 360.0
    x_hook.remove()
    (y * y).backward()
    assert len(seen) == 1


def test_hook_on_a_leaf_replaces_what_is_accumulated():
    x = leaf(2.0)
    with x.register_hook(lambda g: g * 0.5):
        (x * 4).backward()
    (x * 4).backward()
    assert x.grad.item() == 2.0 + 4.0


def test_post_accumulate_hook_runs_after_grad_has_grown():
    x = leaf(2.0)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.item()))
    (x * 4).backward()
    (x * 4).backward()
    assert seen == [4.0, 8.0]
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_grad_fn_names_the_op_and_leads_to_the_leaf():
    x = leaf(2.0)
    y = x.sin()
    assert y.grad_fn.name() == "SinBackward0"
    (end, _), = y.grad_fn.next_functions
    assert end.variable is x and x.grad_fn is None


# ------------------------------------------------------------------------------ gradients never share memory
def aliases(*tensors):
    return len({memory(t) for t in tensors}) != len(tensors)


def test_grads_of_two_leaves_do_not_share_memory():
    x, z, g = fl.ones(3, requires_grad=True), fl.ones(3, requires_grad=True), fl.ones(3)
    (x + z).backward(g)
    assert not aliases(x.grad, z.grad, g)
    x.grad.zero_()
    assert z.grad.tolist() == [1.0] * 3 and g.tolist() == [1.0] * 3


def test_grad_of_a_root_is_not_the_passed_gradient():
    x, g = fl.ones(3, requires_grad=True), fl.ones(3)
    x.backward(g)
    assert not aliases(x.grad, g)


@pytest.mark.parametrize("between", [lambda y: y, lambda y: y.view(3), lambda y: y + 0, lambda y: y[:]])
def test_retained_grads_do_not_share_memory(between):
    x = fl.ones(3, requires_grad=True)
    y = x + 0
    y.retain_grad()
    z = between(y) + 0
    z.retain_grad()
    g = fl.ones(3)
    z.backward(g)
    assert not aliases(x.grad, y.grad, z.grad, g)


def test_a_grad_that_a_hook_kept_is_not_written_over():
    x, kept = fl.ones(3, requires_grad=True), []
    handle = x.register_hook(lambda g: kept.append(g) and None)
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert kept[0].tolist() == [2.0] * 3 and x.grad.tolist() == [4.0] * 3


@pytest.mark.parametrize("function", [
    lambda x: x.t(), lambda x: x.reshape(-1), lambda x: x.expand(2, 2, 3), lambda x: x[0], lambda x: x[None],
    lambda x: x.sum(), lambda x: x.clone(), lambda x: x.float(),
])
def test_the_first_grad_is_dense_and_its_own(function):
    x = fl.ones(2, 3, dtype=fl.float32, requires_grad=True)
    function(x).sum().backward()
    first = x.grad
    assert first.is_contiguous() and first.shape == (2, 3) and first._base is None
    before = first.clone()
    first.mul_(2)
    assert (first == 2 * before).all()


# ---------------------------------------------------------------------------------- in-place writes
def test_writing_to_a_leaf_that_requires_grad_is_refused():
    x = fl.ones(3, requires_grad=True)
    for write in (lambda: x.mul_(2), lambda: x.zero_(), lambda: x[0].add_(1), lambda: x.view(-1).fill_(0),
                  lambda: x.copy_(fl.zeros(3)), lambda: x.__setitem__(0, 1.0), lambda: x.__iadd__(1)):
        with pytest.raises(RuntimeError, match="leaf"):
            write()
    assert x.tolist() == [1.0] * 3
    with fl.no_grad():
        x.mul_(2)
    x.detach().add_(1)
    x.data[0] = 0
    assert x.tolist() == [0.0, 3.0, 3.0]


def test_a_saved_value_that_was_written_over_is_an_error():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_saved_output_that_was_written_over_is_an_error():
    x = leaf(1.0, 2.0)
    y = x.exp()
    with fl.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_write_to_what_is_not_saved_is_no_error():
    x = leaf(1.0, 2.0)
    y = x + 1
    y.add_(1)
    y.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("write, gradient", [
    (lambda y: y.mul_(3), lambda x: 6 + 0 * x), (lambda y: y.mul_(y), lambda x: 8 * x),
    (lambda y: y.exp_(), lambda x: 2 * numpy.exp(2 * x)),
    (lambda y: y.div_(y + 1), lambda x: 2 / (2 * x + 1) ** 2),
    (lambda y: y.clamp_(0, 3), lambda x: 2.0 * (2 * x <= 3)), (lambda y: y.zero_(), lambda x: 0 * x),
    (lambda y: y.fill_(2), lambda x: 0 * x), (lambda y: y.copy_(y.detach()), lambda x: 0 * x),
    (lambda y: y.sub_(1).pow_(2), lambda x: 4 * (2 * x - 1)),
])
def test_in_place_history(write, gradient):
    values = numpy.array([0.5, 1.0, 2.0])
    x = fl.tensor(values, requires_grad=True)
    y = x * 2
    write(y)
    assert y.requires_grad and not y.is_leaf
    y.sum().backward()
    numpy.testing.assert_allclose(x.grad.numpy(), gradient(values), rtol=1e-12)


def test_in_place_gradient_of_the_other_operand():
    x, w = leaf(1.0, 2.0), leaf(3.0, 5.0)
    y = x * 2
    y *= w
    y += w
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 10.0] and w.grad.tolist() == [3.0, 5.0]


def test_a_plain_tensor_joins_the_tape_by_a_write():
    w, buffer = leaf(3.0, 5.0), fl.zeros(2, dtype=fl.float64)
    buffer += w * w
    assert buffer.requires_grad
    buffer.sum().backward()
    assert w.grad.tolist() == [6.0, 10.0]


def test_a_write_through_a_view_changes_the_history_of_its_base():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y[0].mul_(5)
    y[1:].add_(1)
    (y * y).sum().backward()
    assert x.grad.tolist() == [2 * 10 * 10.0, 2 * 2 * 5.0, 2 * 2 * 7.0]


def test_a_write_to_the_base_changes_the_history_of_its_views():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    y = x * 2
    view = y.view(2, 2).t()
    y.mul_(3)
    view[0].sum().backward()
    assert x.grad.tolist() == [6.0, 0.0, 6.0, 0.0]


def test_writes_through_two_views():
    x, w = leaf(1.0, 2.0, 3.0, 4.0), leaf(5.0, 7.0)
    y = (x * 1).view(2, 2)
    first, column = y[0], y[:, 1]
    first.mul_(w)
    column.mul_(w)
    numpy.testing.assert_allclose(y.detach().numpy(), [[5, 70], [3, 28]])
    y.sum().backward()
    assert x.grad.tolist() == [5.0, 35.0, 1.0, 7.0]
    assert w.grad.tolist() == [1 + 2 * 7.0, 2 * 5 + 4.0]


def test_assignment_to_an_index_is_recorded():
    w = leaf(2.0, 3.0)
    y = fl.zeros(3, 2, dtype=fl.float64)
    y[1] = w
    y[2, 0] = w[1] * 4
    (y * y).sum().backward()
    assert w.grad.tolist() == [4.0, 6.0 + 2 * 12 * 4]


def test_second_derivative_through_an_assignment():
    x = leaf(1.0, 2.0, 3.0)
    y = x ** 3
    y[0] = x[2] ** 2
    y[fl.tensor([1])] = (x[0] * x[1])[None]
    g, = fl.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [2.0, 1.0, 27.0 + 6.0]
    (g ** 2).sum().backward()
    assert x.grad.tolist() == [2 * 1.0, 2 * 2.0, 2 * 33 * (18 + 2.0)]


# ---------------------------------------------------------------------------------- length and memory
def live_bytes():
    gc.collect()
    return fl.memory.stats()["live_bytes"]


def test_a_chain_of_a_million_ops_backpropagates_and_frees():
    before = live_bytes()
    x = fl.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del x, y
    assert live_bytes() == before


def test_a_chain_is_freed_without_a_backward():
    before = live_bytes()
    x = fl.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(300_000):
        y = y.sin()
    assert live_bytes() > before
    del y, x
    assert live_bytes() == before


def test_memory_returns_after_a_step_and_after_errors():
    x = fl.ones(50, 50, requires_grad=True)
    before = live_bytes()

    def step(break_it=False):
        y = x * 2
        z = (y @ y).exp()
        if break_it:
            y.add_(1)
        z.sum().backward()

    step()
    x.grad = None
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inplace"):
            step(break_it=True)
    assert live_bytes() == before


def test_a_wide_graph():
    x = fl.tensor(1.0, requires_grad=True)
    total = fl.zeros(())
    for _ in range(20_000):
        total = total + x * 0.5
    total.backward()
    assert x.grad.item() == pytest.approx(10_000)


def test_inference_mode_says_that_it_is_on():
    def modes():
        return fl.is_inference_mode_enabled(), fl.is_grad_enabled()

    assert modes() == (False, True)
    with fl.inference_mode():
        with fl.inference_mode(False):
            assert modes() == (False, True)
        assert modes() == (True, False)
    for decorator, want in ((fl.inference_mode(), (True, False)), (fl.inference_mode, (True, False)),
                            (fl.inference_mode(mode=False), (False, True))):
        decorated = decorator(modes)
        assert decorated() == want and modes() == (False, True) and decorated.__name__ == "modes"
    with pytest.raises(KeyError), fl.inference_mode():
        raise KeyError
    assert modes() == (False, True)
